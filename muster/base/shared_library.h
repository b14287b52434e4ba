#pragma once

#include <initializer_list>
#include <memory>
#include <string>

#include "muster/base/result.h"

namespace muster {

// A shared library that is opened at run time, so that one program serves machines with and without the library. It is
// closed with the last copy of this object: no function of it may be called afterwards. Errors are kNotFound.
class SharedLibrary {
 public:
  // Opens the first of `names` that the loader can load. The error has the loader's reason for each name.
  static Result<SharedLibrary> open(std::initializer_list<const char*> names);

  // The function of that name; null if the library does not have it. The caller must know its signature.
  template <typename Signature>
  Signature* function(const char* name) const {
    return reinterpret_cast<Signature*>(symbol(name));
  }

  // find("first", first, "second", second, …) sets each function pointer to the function of that name. The error names
  // the first function that the library does not have.
  template <typename Signature, typename... More>
  Result<void> find(const char* name, Signature*& pointer, More&&... more) const {
    pointer = function<Signature>(name);
    if (pointer == nullptr) return missing(name);
    if constexpr (sizeof...(more) > 0) return find(std::forward<More>(more)...);
    return {};
  }

 private:
  SharedLibrary(std::shared_ptr<void> handle, std::string name) : handle_(std::move(handle)), name_(std::move(name)) {}
  void* symbol(const char* name) const;
  Error missing(const char* name) const;

  std::shared_ptr<void> handle_;
  std::string name_;
};

}  // namespace muster
