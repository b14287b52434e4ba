#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "muster/base/error.h"
#include "muster/store/wire.h"

namespace muster::store {

// What a request may have beyond the limit of its strings: a code, a length or count, a number.
constexpr uint64_t kFixedFields = 17;

// Parses the stream in pieces and appends what was understood to a text, requests and the final fault alike. Views
// must lie inside the stream.
inline std::string understood(Dialect dialect, std::string_view front, std::string_view stream, size_t piece,
                              uint64_t max_request = Limits::kRequest) {
  Parser parser(dialect, max_request);
  std::string all;
  std::string buffer(front);
  bool first = true;
  while (first || !stream.empty()) {
    first = false;
    std::string_view next = stream.substr(0, piece);
    stream.remove_prefix(next.size());
    buffer += next;
    while (true) {
      Request request;
      Parser::Status status = parser.next(buffer, request);
      if (status == Parser::Status::kBad) return all + describe(parser.fault());
      if (status == Parser::Status::kNeedMore) {
        MUSTER_CHECK(parser.needed() > buffer.size());
        MUSTER_CHECK(parser.needed() <= max_request + kFixedFields);
        break;
      }
      if (status == Parser::Status::kAmbiguous) break;
      MUSTER_CHECK(parser.consumed() > 0 && parser.consumed() <= buffer.size());
      MUSTER_CHECK(parser.consumed() <= max_request + kFixedFields);
      all +=
          fmt::format("{} {} {} {} {}", name(request.op), request.key, request.value, request.desired, request.number);
      uint64_t items = 0;
      for (std::string_view item : request.list) {
        all += item;
        ++items;
      }
      MUSTER_CHECK(items == request.list.size());
      buffer.erase(0, parser.consumed());
    }
  }
  return all;
}

// However the bytes are cut, the same is understood; with a small limit of a request's size too.
inline void fuzz_codec(Dialect dialect, std::string_view front, const uint8_t* data, size_t size) {
  std::string_view stream(reinterpret_cast<const char*>(data), size);
  std::string whole = understood(dialect, front, stream, std::max<size_t>(size, 1));
  MUSTER_CHECK(whole == understood(dialect, front, stream, 1));
  MUSTER_CHECK(whole == understood(dialect, front, stream, 7));
  constexpr uint64_t kSmall = 60;
  const std::string limited = understood(dialect, front, stream, std::max<size_t>(size, 1), kSmall);
  MUSTER_CHECK(limited == understood(dialect, front, stream, 1, kSmall));
}

}  // namespace muster::store
