#include "muster/base/shared_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace muster {

Result<SharedLibrary> SharedLibrary::open(std::initializer_list<const char*> names) {
  std::string reasons;
  for (const char* name : names) {
    if (void* handle = ::dlopen(name, RTLD_NOW | RTLD_LOCAL)) return SharedLibrary({handle, ::dlclose}, name);
    reasons += fmt::format("{}{}", reasons.empty() ? "" : "; ", ::dlerror());
  }
  return Error{ErrorKind::kNotFound, fmt::format("cannot load {}", reasons), {}};
}

void* SharedLibrary::symbol(const char* name) const { return ::dlsym(handle_.get(), name); }

Error SharedLibrary::missing(const char* name) const {
  return {ErrorKind::kNotFound, fmt::format("{} does not have the function {}", name_, name), {}};
}

}  // namespace muster
