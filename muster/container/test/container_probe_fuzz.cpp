#include <cstdint>
#include <cstdlib>

#include "muster/base/strings.h"
#include "muster/container/commands.h"
#include "muster/container/failure.h"
#include "muster/container/inside.h"

// What a program inside an image prints, and what a runtime complains of: names that go on to a command line are plain,
// an error is one line of bounded length.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster::container;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Probe probe = read_probe(text);
  if (probe.python.find('\n') != std::string::npos) abort();
  for (const std::string& name : probe.variables)
    if (!is_plain_name(name)) abort();
  const std::string message = failure("n1", "podman cannot run workers in image", text, {"podman", "run"}).text();
  if (message.size() > 2000 || message.find('\n') != std::string::npos) abort();
  muster::process::CommandOutput answer;
  answer.output = answer.errors = std::string(text);
  for (Kind kind : {Kind::kEnroot, Kind::kPodman})
    if (const std::string path = read_storage(kind, answer); !path.empty() && path[0] != '/') abort();
  for (std::string_view line : muster::split(text, '\n')) (void)parse_mount(line, "/home/a");
  return 0;
}
