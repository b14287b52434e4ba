#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "muster/base/error.h"
#include "muster/store/wire.h"

namespace muster::store {

// Parses the stream in pieces and appends what was understood to a text, requests and the final fault alike. Views
// must lie inside the stream.
inline std::string understood(Dialect dialect, std::string_view front, std::string_view stream, size_t piece) {
  Parser parser(dialect);
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
        break;
      }
      if (status == Parser::Status::kAmbiguous) break;
      MUSTER_CHECK(parser.consumed() > 0 && parser.consumed() <= buffer.size());
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

// However the bytes are cut, the same is understood.
inline void fuzz_codec(Dialect dialect, std::string_view front, const uint8_t* data, size_t size) {
  std::string_view stream(reinterpret_cast<const char*>(data), size);
  std::string whole = understood(dialect, front, stream, std::max<size_t>(size, 1));
  MUSTER_CHECK(whole == understood(dialect, front, stream, 1));
  MUSTER_CHECK(whole == understood(dialect, front, stream, 7));
}

}  // namespace muster::store
