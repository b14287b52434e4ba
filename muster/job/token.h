#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "muster/base/result.h"

namespace muster::job {

// What the members of one job have and no other process: 256 bits. Never sent, never in an argument, a log, or an
// environment; wiped when destroyed. Copies are allowed, since warden, agent and launcher each keep one.
//
// It also says which job it is for. Two jobs of one user may have the same secret (same key, port and id); the handshake
// compares their names and refuses a node of another job, in words of its own.
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
  // For one job from a random secret that many jobs share (the user's key file): HKDF-like keyed hash of `job`, which
  // says where and under which id its nodes meet.
  static Token derive(std::string_view secret, std::string_view job);
  // The same from a secret that people choose (MUSTER_TOKEN, --token-file): each guess costs what this call does, some
  // 80 ms and 64 MiB (Argon2id). A text of 64 hexadecimal digits was not chosen by people, and costs nothing. An error:
  // the memory is not there.
  static Result<Token> derive_from_words(std::string_view secret, std::string_view job);

  // A job of several schedulers' jobs, or of machines of which some have no scheduler: its user has given them one secret.
  static constexpr std::string_view kAnyJob = "*";
  static constexpr size_t kLongestJob = 256;
  // The scheduler's: "Slurm job 41 step 0"; empty: there is no scheduler, or the secret belongs to one job alone.
  const std::string& job() const { return job_; }
  void set_job(std::string job);  // cut after kLongestJob bytes
  // Whether nodes of two such names may be in one job. Pure.
  static bool same_job(std::string_view one, std::string_view other);

  std::string hex() const;
  const unsigned char* data() const { return bytes_.data(); }
  bool operator==(const Token& other) const;  // of the secret, in constant time

 private:
  std::array<unsigned char, kSize> bytes_{};
  std::string job_;
};

// The refusal of a node that has the same secret and is of another job: "n1:29400 belongs to another job of yours: …".
// `who`, with its space, may be empty; `ours` is nothing if the caller does not know.
Error another_job(std::string_view who, std::string_view theirs, std::optional<std::string_view> ours = std::nullopt);

}  // namespace muster::job
