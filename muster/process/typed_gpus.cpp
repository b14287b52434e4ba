#include "muster/process/typed_gpus.h"

#include <algorithm>

#include "muster/base/strings.h"
#include "muster/process/gpus.h"

namespace muster::process {
namespace {

bool is_type(std::string_view name) {
  return !name.empty() && name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") ==
                              std::string_view::npos;
}

bool is_typed(std::string_view entry) {
  const size_t colon = entry.rfind(':');
  if (colon == std::string_view::npos) return false;
  const auto types = split(entry.substr(0, colon), ':');
  const bool plain = types.size() == 1 || (types.size() == 2 && types[0] == "gpu");
  return plain && std::all_of(types.begin(), types.end(), is_type);
}

}  // namespace

std::optional<int> parse_typed_gpus(std::string_view text) {
  const auto entries = split(text, ',');
  if (!std::all_of(entries.begin(), entries.end(), is_typed)) return std::nullopt;
  return parse_gpu_amount(text);
}

}  // namespace muster::process
