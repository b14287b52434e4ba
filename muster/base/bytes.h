#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace muster {

// Builds a message: integers little-endian, text as a 32-bit length and its bytes.
class ByteWriter {
 public:
  void u8(uint8_t value) { bytes_.push_back(static_cast<char>(value)); }
  void u32(uint32_t value) { append(value, 4); }
  void u64(uint64_t value) { append(value, 8); }
  void i64(int64_t value) { u64(static_cast<uint64_t>(value)); }
  void boolean(bool value) { u8(value ? 1 : 0); }
  void text(std::string_view value);

  std::string take() && { return std::move(bytes_); }
  const std::string& bytes() const { return bytes_; }

 private:
  void append(uint64_t value, int size);
  std::string bytes_;
};

// Reads such a message, which is not trusted. If a value is missing, too long or out of range, ok() becomes false and
// stays so, and every value read after that is zero or empty. Check ok() and done() once, at the end.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : rest_(bytes) {}

  uint8_t u8() { return static_cast<uint8_t>(number(1)); }
  uint32_t u32() { return static_cast<uint32_t>(number(4)); }
  uint64_t u64() { return number(8); }
  int64_t i64() { return static_cast<int64_t>(u64()); }
  bool boolean();
  std::string text() { return std::string(view()); }
  std::string_view view();  // into the message
  // The number of elements that follow. An error if the rest cannot hold so many, at `least_size` bytes each.
  size_t count(size_t least_size);

  void fail() { ok_ = false; }
  bool ok() const { return ok_; }
  bool done() const { return ok_ && rest_.empty(); }  // everything was read, and nothing was missing

 private:
  uint64_t number(size_t size);
  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace muster
