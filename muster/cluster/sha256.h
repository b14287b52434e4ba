#pragma once

#include <string>

#include "muster/base/result.h"

namespace muster::cluster {

struct FileSum {
  size_t size = 0;
  std::string hex;  // as sha256sum prints it
};
// Reads the whole file: some ms for a program of a few MB.
Result<FileSum> sha256_of_file(const std::string& path);

}  // namespace muster::cluster
