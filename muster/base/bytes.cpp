#include "muster/base/bytes.h"

namespace muster {

void ByteWriter::text(std::string_view value) {
  u32(static_cast<uint32_t>(value.size()));
  bytes_.append(value);
}

void ByteWriter::append(uint64_t value, int size) {
  for (int i = 0; i < size; ++i) bytes_.push_back(static_cast<char>(value >> (8 * i)));
}

uint64_t ByteReader::number(size_t size) {
  if (rest_.size() < size) ok_ = false;
  if (!ok_) return 0;
  uint64_t value = 0;
  for (size_t i = 0; i < size; ++i) value |= uint64_t{static_cast<unsigned char>(rest_[i])} << (8 * i);
  rest_.remove_prefix(size);
  return value;
}

bool ByteReader::boolean() {
  uint8_t value = u8();
  if (value > 1) ok_ = false;
  return value == 1;
}

std::string_view ByteReader::view() {
  size_t size = u32();
  if (rest_.size() < size) ok_ = false;
  if (!ok_) return {};
  std::string_view value = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return value;
}

size_t ByteReader::count(size_t least_size) {
  size_t count = u32();
  if (least_size > 0 && count > rest_.size() / least_size) ok_ = false;
  return ok_ ? count : 0;
}

}  // namespace muster
