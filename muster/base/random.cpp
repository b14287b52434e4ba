#include "muster/base/random.h"

#include <fmt/format.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <random>

#include "muster/base/clock.h"

namespace muster {

void fill_random(std::span<unsigned char> bytes) {
  if (::getrandom(bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size())) return;
  std::seed_seq seed{static_cast<int64_t>(Clock::now().time_since_epoch().count()), static_cast<int64_t>(::getpid())};
  std::mt19937 generator(seed);
  std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<unsigned char>(generator()); });
}

std::string random_uuid() {
  unsigned char bytes[16];
  fill_random(bytes);
  bytes[6] = static_cast<unsigned char>((bytes[6] & 0x0f) | 0x40);  // version 4
  bytes[8] = static_cast<unsigned char>((bytes[8] & 0x3f) | 0x80);  // RFC 4122
  std::string text;
  for (size_t i = 0; i < sizeof bytes; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", bytes[i]);
  }
  return text;
}

std::string random_job_id() {
  unsigned char bytes[8];
  fill_random(bytes);
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

}  // namespace muster
