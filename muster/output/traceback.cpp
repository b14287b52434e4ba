#include "muster/output/traceback.h"

#include "muster/base/strings.h"

namespace muster::output {

std::string_view bare_line(std::string_view line) {
  constexpr std::string_view kPrefix = "[rank";
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (!line.starts_with(kPrefix)) return line;
  const size_t end = line.find_first_not_of("0123456789", kPrefix.size());
  if (end == std::string_view::npos || end == kPrefix.size() || line.substr(end, 2) != "]:") return line;
  line.remove_prefix(end + 2);
  if (line.starts_with(' ')) line.remove_prefix(1);
  return line;
}

bool is_traceback(std::string_view line) { return line.starts_with("Traceback (most recent call last):"); }

bool is_group_traceback(std::string_view line) {
  return line.starts_with("  + Exception Group Traceback (most recent call last):");
}

bool is_frame_line(std::string_view line) { return line.empty() || line[0] == ' ' || line[0] == '\t'; }

bool is_chain_line(std::string_view line) {
  line = trim(line);
  return line == "During handling of the above exception, another exception occurred:" ||
         line == "The above exception was the direct cause of the following exception:";
}

}  // namespace muster::output
