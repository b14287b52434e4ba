#pragma once

#include <array>
#include <string>
#include <string_view>

#include "muster/base/result.h"

namespace muster::rendezvous {

// What the members of one job have and nobody else: 256 bits. Never sent, never in an argument, a log, or an
// environment; wiped when destroyed. Copies are allowed, since warden, agent and launcher each keep one.
class Token {
 public:
  static constexpr size_t kSize = 32;

  Token() = default;  // all zero: nobody's yet
  ~Token();
  Token(const Token&) = default;
  Token& operator=(const Token&) = default;

  static Token random();
  // 64 hexadecimal digits, as hex() writes them; surrounding white space is ignored.
  static Result<Token> parse(std::string_view text);
  static Token of_bytes(const unsigned char* bytes);  // kSize of them
  // For one job from a secret that many jobs share (the user's key file, MUSTER_TOKEN of any length):
  // HKDF-like keyed hash of `job`, which names scheduler, job, step and rendezvous id.
  static Token derive(std::string_view secret, std::string_view job);

  std::string hex() const;
  const unsigned char* data() const { return bytes_.data(); }
  bool operator==(const Token& other) const;  // in constant time

 private:
  std::array<unsigned char, kSize> bytes_{};
};

}  // namespace muster::rendezvous
