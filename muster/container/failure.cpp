#include "muster/container/failure.h"

#include <fmt/format.h>

#include <array>

#include "muster/base/printable.h"
#include "muster/base/strings.h"

namespace muster::container {
namespace {

struct Known {
  std::string_view sign;  // in lower case
  std::string_view way_out;
};
constexpr std::string_view kNoNamespaces =
    "this machine may not let users make containers: ask for user namespaces (user.max_user_namespaces) and entries in "
    "/etc/subuid and /etc/subgid, or use another --container-runtime";
constexpr std::string_view kNoImage = "check the name, or fetch the image to every node first";
constexpr std::array<Known, 15> kKnown = {{
    {"cdi device", "describe the GPUs to podman once: nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"},
    {"nvidia-container-cli", "install NVIDIA's container toolkit on this node"},
    {"no space left", "make room, or let the runtime keep its files elsewhere"},
    {"manifest unknown", kNoImage},
    {"no such image", kNoImage},
    {"can't stat", kNoImage},
    {"unauthorized", "log in to the registry, or check the image's name"},
    {"no such host", "this node does not reach the registry: fetch the image to every node first"},
    {"dial tcp", "this node does not reach the registry: fetch the image to every node first"},
    {"can't mkdir", "make the directory in the image, or give the image a --container-name: then it is copied"},
    {"can't unshare", kNoNamespaces},
    {"newuidmap", kNoNamespaces},
    {"user namespace", kNoNamespaces},
    {"operation not permitted", kNoNamespaces},
    {"permission denied", "check that you may read it on every node"},
}};

}  // namespace

std::string last_words(std::string_view text) {
  constexpr size_t kLines = 3, kMost = 600;
  Words lines;
  for (std::string_view line : split(text, '\n'))
    if (std::string clean = printable(line); !trim(clean).empty()) lines.emplace_back(trim(clean));
  if (lines.size() > kLines) lines.erase(lines.begin(), lines.end() - kLines);
  std::string words = join(lines, "; ");
  // What a cut has left of a character is none.
  return words.size() <= kMost ? words : printable(std::string_view(words).substr(words.size() - kMost));
}

Error failure(const std::string& host, const std::string& what, std::string_view errors, const Words& command) {
  const std::string words = last_words(errors);
  Error error{ErrorKind::kUsage, fmt::format("{}: {}{}{}", host, what, words.empty() ? "" : ": ", words), {}};
  const std::string lower = lower_case(words);
  for (const Known& known : kKnown) {
    if (lower.find(known.sign) == std::string::npos) continue;
    error.hint = known.way_out;
    return error;
  }
  error.hint = "try it there: " + shell_quote(command);
  return error;
}

}  // namespace muster::container
