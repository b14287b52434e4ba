#include "muster/cluster/sha256.h"

#include <fcntl.h>
#include <sodium.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "muster/base/fd.h"

namespace muster::cluster {

Result<FileSum> sha256_of_file(const std::string& path) {
  Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return system_error(errno, "cannot read " + path);
  crypto_hash_sha256_state state;
  crypto_hash_sha256_init(&state);
  FileSum sum;
  std::array<unsigned char, 64 << 10> buffer;
  for (;;) {
    ssize_t size = read(file.get(), buffer.data(), buffer.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return system_error(errno, "cannot read " + path);
    if (size == 0) break;
    crypto_hash_sha256_update(&state, buffer.data(), static_cast<size_t>(size));
    sum.size += static_cast<size_t>(size);
  }
  std::array<unsigned char, crypto_hash_sha256_BYTES> hash;
  crypto_hash_sha256_final(&state, hash.data());
  std::array<char, 2 * hash.size() + 1> hex;
  sodium_bin2hex(hex.data(), hex.size(), hash.data(), hash.size());
  sum.hex = hex.data();
  return sum;
}

}  // namespace muster::cluster
