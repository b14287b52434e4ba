#include "muster/process/own_environment.h"

#include <unistd.h>

#include <cstring>

namespace muster::process {

Environment own_environment() {
  Environment environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const char* text = *entry;
    const char* equals = std::strchr(text, '=');
    if (equals != nullptr) environment.emplace_back(std::string(text, equals), equals + 1);
  }
  return environment;
}

}  // namespace muster::process
