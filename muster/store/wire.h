#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

// Codec of PyTorch's TCPStore protocol, every dialect from 1.13 to 2.15. No I/O.
//
// A request is one code byte and the fields of its operation; a reply is bare fields. Integers are little-endian, a
// string is a u64 length and its bytes, a list is a u64 count and its strings.
//
// **Dialects.** The code numbers changed twice, and a client does not say which table it uses:
//
//   code     0    1    2    3    4      5     6         7          8           9          10         11
//   1.13     SET  CAS  GET  ADD  CHECK  WAIT  NUM_KEYS  WATCH_KEY  DELETE_KEY  -          -          -
//   2.1      SET  CAS  GET  ADD  CHECK  WAIT  NUM_KEYS  DELETE_KEY APPEND      MULTI_GET  MULTI_SET  CANCEL_WAIT
//   modern   VALIDATE SET …: everything one higher than in 2.1, then 13 PING, 14-16 QUEUE_*, 17 LIST_KEYS, 18 BARRIER
//
// * A modern client (2.2 or later) opens with VALIDATE: 00 CE F7 85 3C. Read as a SET of the older tables these bytes
//   state a key of more than 0x3C85F7CE bytes, far beyond the limit, so the first five bytes always decide.
// * 1.13 (to 2.0) and 2.1 share 0 to 6. Code 9, 10 or 11 proves 2.1. A 1.13 client sends 7 only on a second connection
//   that carries nothing else, so a 7 after any other request proves 2.1 too.
// * The rest is ambiguous, and the parser says so instead of guessing (Status::kAmbiguous; the caller decides with
// other
//   evidence, then calls assume()):
//     7 as the very first request: WATCH_KEY of 1.13, or DELETE_KEY from a 2.1 client that did nothing before;
//     8, a whole key, and nothing after it: DELETE_KEY of 1.13, whose client now waits for the answer, or an APPEND
//     of 2.1 that was cut exactly there. One more byte proves APPEND.
namespace muster::store {

enum class Dialect : uint8_t {
  kUnknown,   // no byte seen yet
  kLegacy,    // 1.13 or 2.1: nothing has told them apart so far
  kTorch113,  // 1.13 and 2.0
  kTorch21,
  kModern,  // 2.2 and later: one table that only grows
};

enum class Op : uint8_t {
  kValidate,
  kSet,
  kCompareSet,
  kGet,
  kAdd,
  kCheck,
  kWait,
  kNumKeys,
  kWatchKey,
  kDeleteKey,
  kAppend,
  kMultiGet,
  kMultiSet,
  kCancelWait,
  kPing,
  kQueuePush,
  kQueuePop,
  kQueueLen,
  kListKeys,
  kBarrier,
};
constexpr size_t kOpCount = 20;

// "SET", "COMPARE_SET" …
std::string_view name(Op op);

// The operation of a code, and back. A legacy dialect that is not yet identified has only codes 0 to 6.
std::optional<Op> op_of(Dialect dialect, uint8_t code);
std::optional<uint8_t> code_of(Dialect dialect, Op op);

constexpr uint32_t kMagic = 0x3C85F7CE;

// Checked against the *stated* length, before the data arrives. An equal length is allowed.
struct Limits {
  static constexpr uint64_t kKey = 8192;
  static constexpr uint64_t kValue = 8 << 20;
  static constexpr uint64_t kList = 131072;
  // For all strings and lengths of a request together, which matters for lists. A single value is far below.
  static constexpr uint64_t kRequest = 64 << 20;
};

// Consecutive strings as they arrived; all lengths have been checked. Views into the caller's buffer.
class StringList {
 public:
  StringList() = default;
  StringList(uint64_t size, std::string_view raw) : size_(size), raw_(raw) {}

  class Iterator {
   public:
    explicit Iterator(const char* at) : at_(at) {}
    std::string_view operator*() const { return {at_ + sizeof(uint64_t), length()}; }
    Iterator& operator++() {
      at_ += sizeof(uint64_t) + length();
      return *this;
    }
    bool operator==(const Iterator&) const = default;

   private:
    uint64_t length() const {
      uint64_t length;
      std::memcpy(&length, at_, sizeof length);
      return length;
    }
    const char* at_;
  };

  uint64_t size() const { return size_; }
  Iterator begin() const { return Iterator(raw_.data()); }
  Iterator end() const { return Iterator(raw_.data() + raw_.size()); }

 private:
  uint64_t size_ = 0;
  std::string_view raw_;
};

struct Request {
  Op op = Op::kValidate;
  std::string_view key;
  std::string_view value;    // COMPARE_SET: what is expected
  std::string_view desired;  // COMPARE_SET only
  int64_t number = 0;        // ADD: delta; BARRIER: world size; PING: nonce
  StringList list;           // MULTI_SET: key, value, key, value …
};

// Why a message is refused.
struct Fault {
  enum class Kind : uint8_t {
    kUnknownCode,
    kSecondValidate,
    kKeyTooLong,
    kValueTooLong,
    kListTooLong,
    kRequestTooLong
  };
  Kind kind = Kind::kUnknownCode;
  bool first = false;   // kUnknownCode: it was the first byte of the connection
  uint64_t stated = 0;  // the code, length or count
  uint64_t limit = 0;   // that `stated` is above
};
// "key of 9000 bytes, the limit is 8192"
std::string describe(const Fault& fault);

// Finds the requests in the bytes of one connection. Remembers its position inside an incomplete request, so that it
// checks each byte once. Holds no bytes itself and allocates nothing.
class Parser {
 public:
  enum class Status : uint8_t {
    kRequest,    // `request` is filled, consumed() bytes belong to it; its views point into `bytes`
    kNeedMore,   // call again when there are at least needed() bytes
    kAmbiguous,  // see above; call assume(), then next() with the same bytes. More bytes may resolve it as well
    kBad,        // see fault(); nothing after it makes sense
  };

  // kTorch113 and kTorch21 are accepted as known; a modern connection proves itself by VALIDATE. A request of more than
  // `max_request` bytes is refused before the string that exceeds the limit has come.
  explicit Parser(Dialect dialect = Dialect::kUnknown, uint64_t max_request = Limits::kRequest);

  // `bytes` starts where the last request ended (the first call: at the connection's first byte).
  Status next(std::string_view bytes, Request& request);

  size_t consumed() const { return at_; }
  size_t needed() const { return needed_; }
  const Fault& fault() const { return fault_; }
  Dialect dialect() const { return dialect_; }
  // For a kLegacy connection only: kTorch113 or kTorch21.
  void assume(Dialect dialect);

 private:
  enum class Step : uint8_t { kDone, kNeedMore, kBad };

  std::optional<Status> choose_dialect(std::string_view bytes);
  std::optional<Status> choose_op(std::string_view bytes);
  std::optional<Status> resolve_legacy(std::string_view bytes, uint8_t code);
  Step fixed(std::string_view bytes, void* into, size_t size);
  Step string(std::string_view bytes, Fault::Kind kind, std::string_view& into);
  Step strings(std::string_view bytes, bool pairs, StringList& into);
  Step fields(std::string_view bytes, Request& request);
  Status bad(Fault::Kind kind, uint64_t stated, uint64_t limit = 0);

  uint64_t max_request_;
  Fault fault_;
  size_t at_ = 0;           // bytes of the current request that have been checked
  size_t needed_ = 1;       // bytes without which next() cannot get further
  uint64_t list_left_ = 0;  // strings of the current list that have not been checked
  uint64_t list_size_ = 0;
  size_t list_at_ = 0;  // where the current list's strings begin; 0: count not read yet
  Dialect dialect_;
  Op op_ = Op::kValidate;
  bool have_op_ = false;
  bool any_request_ = false;
};

// Encoders, for both sides.
void put_u8(std::string& out, uint8_t value);
void put_u32(std::string& out, uint32_t value);
void put_u64(std::string& out, uint64_t value);
void put_i64(std::string& out, int64_t value);
void put_string(std::string& out, std::string_view value);  // also `bytes`
void put_code(std::string& out, Dialect dialect, Op op);    // op must exist in the dialect
void put_validate(std::string& out);                        // the five bytes a modern connection opens with

// One-byte replies.
constexpr uint8_t kStopWaiting = 0;
constexpr uint8_t kWaitCanceled = 1;
constexpr uint8_t kReady = 0;
constexpr uint8_t kNotReady = 1;
constexpr uint8_t kWatchRegistered = 3;  // 1.13

// First byte of an event on a 1.13 connection that watches keys; then key, old value, new value.
enum class Change : uint8_t { kUpdated = 0, kCreated = 1, kDeleted = 2 };

}  // namespace muster::store
