#include "muster/store/wire.h"

#include <fmt/format.h>

#include <array>
#include <bit>

#include "muster/base/error.h"

namespace muster::store {
namespace {

static_assert(std::endian::native == std::endian::little, "the protocol is the memory of a little-endian machine");

constexpr std::array<std::string_view, kOpCount> kNames = {
    "VALIDATE",   "SET",        "COMPARE_SET", "GET",       "ADD",       "CHECK",     "WAIT",
    "GETNUMKEYS", "WATCH_KEY",  "DELETE_KEY",  "APPEND",    "MULTI_GET", "MULTI_SET", "CANCEL_WAIT",
    "PING",       "QUEUE_PUSH", "QUEUE_POP",   "QUEUE_LEN", "LIST_KEYS", "BARRIER"};

// The tables, in code order.
constexpr std::array kShared = {Op::kSet, Op::kCompareSet, Op::kGet, Op::kAdd, Op::kCheck, Op::kWait, Op::kNumKeys};
constexpr std::array kTorch113Tail = {Op::kWatchKey, Op::kDeleteKey};
constexpr std::array kTorch21Tail = {Op::kDeleteKey, Op::kAppend, Op::kMultiGet, Op::kMultiSet, Op::kCancelWait};
constexpr std::array kModernTail = {Op::kPing,     Op::kQueuePush, Op::kQueuePop,
                                    Op::kQueueLen, Op::kListKeys,  Op::kBarrier};

constexpr uint8_t kCodeSeven = 7;
constexpr uint8_t kCodeEight = 8;
constexpr uint8_t kLastTorch21Code = kShared.size() + kTorch21Tail.size() - 1;

// -1: no such code.
using CodeTable = std::array<int8_t, 256>;

template <typename... Parts>
constexpr CodeTable make_table(const Parts&... parts) {
  CodeTable table{};
  table.fill(-1);
  size_t code = 0;
  (([&] {
     for (Op op : parts) table[code++] = static_cast<int8_t>(op);
   }()),
   ...);
  return table;
}

constexpr CodeTable kLegacyTable = make_table(kShared);
constexpr CodeTable kTorch113Table = make_table(kShared, kTorch113Tail);
constexpr CodeTable kTorch21Table = make_table(kShared, kTorch21Tail);
constexpr CodeTable kModernTable = make_table(std::array{Op::kValidate}, kShared, kTorch21Tail, kModernTail);

const CodeTable& table_of(Dialect dialect) {
  switch (dialect) {
    case Dialect::kModern:
      return kModernTable;
    case Dialect::kTorch113:
      return kTorch113Table;
    case Dialect::kTorch21:
      return kTorch21Table;
    case Dialect::kUnknown:
    case Dialect::kLegacy:
      break;
  }
  return kLegacyTable;
}

template <typename T>
T load(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <typename T>
void put(std::string& out, T value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out.append(bytes, sizeof value);
}

uint64_t limit_of(Fault::Kind kind) { return kind == Fault::Kind::kKeyTooLong ? Limits::kKey : Limits::kValue; }

}  // namespace

std::string_view name(Op op) { return kNames[static_cast<size_t>(op)]; }

std::optional<Op> op_of(Dialect dialect, uint8_t code) {
  int8_t op = table_of(dialect)[code];
  if (op < 0) return std::nullopt;
  return static_cast<Op>(op);
}

std::optional<uint8_t> code_of(Dialect dialect, Op op) {
  const CodeTable& table = table_of(dialect);
  for (size_t code = 0; code < kOpCount; ++code)
    if (table[code] == static_cast<int8_t>(op)) return static_cast<uint8_t>(code);
  return std::nullopt;
}

std::string describe(const Fault& fault) {
  switch (fault.kind) {
    case Fault::Kind::kUnknownCode:
      return fmt::format("its {} 0x{:02x} is not a query code", fault.first ? "first byte" : "byte", fault.stated);
    case Fault::Kind::kSecondValidate:
      return "it sent VALIDATE a second time";
    case Fault::Kind::kKeyTooLong:
      return fmt::format("key of {} bytes, the limit is {}", fault.stated, fault.limit);
    case Fault::Kind::kValueTooLong:
      return fmt::format("value of {} bytes, the limit is {}", fault.stated, fault.limit);
    case Fault::Kind::kListTooLong:
      return fmt::format("list of {} keys, the limit is {}", fault.stated, fault.limit);
    case Fault::Kind::kRequestTooLong:
      return fmt::format("request of {} bytes or more, the limit is {}", fault.stated, fault.limit);
  }
  return {};
}

Parser::Status Parser::bad(Fault::Kind kind, uint64_t stated, uint64_t limit) {
  fault_ = {kind, !any_request_, stated, limit};
  return Status::kBad;
}

Parser::Parser(Dialect dialect, uint64_t max_request) : max_request_(max_request), dialect_(dialect) {
  MUSTER_CHECK(dialect != Dialect::kModern);
}

void Parser::assume(Dialect dialect) {
  MUSTER_CHECK(dialect_ == Dialect::kLegacy && (dialect == Dialect::kTorch113 || dialect == Dialect::kTorch21));
  dialect_ = dialect;
  at_ = 0;
  needed_ = 1;
  have_op_ = false;
}

Parser::Status Parser::next(std::string_view bytes, Request& request) {
  if (!have_op_) {
    at_ = 0;
    if (auto status = choose_op(bytes)) return *status;
    have_op_ = true;
    list_at_ = 0;
  }
  switch (fields(bytes, request)) {
    case Step::kNeedMore:
      return Status::kNeedMore;
    case Step::kBad:
      return Status::kBad;
    case Step::kDone:
      break;
  }
  request.op = op_;
  have_op_ = false;
  any_request_ = true;
  needed_ = 1;
  return Status::kRequest;
}

// Sets at_ and op_, or says why it cannot.
std::optional<Parser::Status> Parser::choose_op(std::string_view bytes) {
  needed_ = 1;
  if (bytes.empty()) return Status::kNeedMore;
  if (dialect_ == Dialect::kUnknown)
    if (auto status = choose_dialect(bytes)) return status;
  auto code = static_cast<uint8_t>(bytes[0]);
  if (dialect_ == Dialect::kLegacy && code >= kCodeSeven)
    if (auto status = resolve_legacy(bytes, code)) return status;
  auto op = op_of(dialect_, code);
  if (!op) return bad(Fault::Kind::kUnknownCode, code);
  if (*op == Op::kValidate && any_request_) return bad(Fault::Kind::kSecondValidate, 0);
  op_ = *op;
  at_ = 1;
  return std::nullopt;
}

std::optional<Parser::Status> Parser::choose_dialect(std::string_view bytes) {
  if (bytes[0] != 0) {
    dialect_ = Dialect::kLegacy;
    return std::nullopt;
  }
  char magic[sizeof kMagic];
  std::memcpy(magic, &kMagic, sizeof magic);
  std::string_view rest = bytes.substr(1, sizeof magic);
  if (rest != std::string_view(magic, rest.size())) {
    dialect_ = Dialect::kLegacy;
    return std::nullopt;
  }
  if (rest.size() < sizeof magic) {
    needed_ = 1 + sizeof magic;
    return Status::kNeedMore;
  }
  dialect_ = Dialect::kModern;
  return std::nullopt;
}

// Codes from 7 on of a connection that is 1.13 or 2.1. Returns nothing when the dialect is now known.
std::optional<Parser::Status> Parser::resolve_legacy(std::string_view bytes, uint8_t code) {
  if (code > kLastTorch21Code) return bad(Fault::Kind::kUnknownCode, code);
  if (code > kCodeEight || (code == kCodeSeven && any_request_)) {
    dialect_ = Dialect::kTorch21;
    return std::nullopt;
  }
  at_ = 1;
  std::string_view key;
  Step step = string(bytes, Fault::Kind::kKeyTooLong, key);
  if (step == Step::kNeedMore) return Status::kNeedMore;
  if (step == Step::kBad) return Status::kBad;
  if (code == kCodeEight && bytes.size() > at_) {
    dialect_ = Dialect::kTorch21;
    return std::nullopt;
  }
  needed_ = at_ + 1;
  return Status::kAmbiguous;
}

Parser::Step Parser::fixed(std::string_view bytes, void* into, size_t size) {
  if (bytes.size() - at_ < size) {
    needed_ = at_ + size;
    return Step::kNeedMore;
  }
  std::memcpy(into, bytes.data() + at_, size);
  at_ += size;
  return Step::kDone;
}

Parser::Step Parser::string(std::string_view bytes, Fault::Kind kind, std::string_view& into) {
  size_t have = bytes.size() - at_;
  if (have < sizeof(uint64_t)) {
    needed_ = at_ + sizeof(uint64_t);
    return Step::kNeedMore;
  }
  auto length = load<uint64_t>(bytes.data() + at_);
  if (length > limit_of(kind)) [[unlikely]] {
    bad(kind, length, limit_of(kind));
    return Step::kBad;
  }
  const uint64_t end = at_ + sizeof(uint64_t) + length;
  if (end > max_request_) [[unlikely]] {
    bad(Fault::Kind::kRequestTooLong, end, max_request_);
    return Step::kBad;
  }
  if (have - sizeof(uint64_t) < length) {
    needed_ = end;
    return Step::kNeedMore;
  }
  into = bytes.substr(at_ + sizeof(uint64_t), length);
  at_ = end;
  return Step::kDone;
}

// Resumes where it stopped: at_ is behind the last whole string.
Parser::Step Parser::strings(std::string_view bytes, bool pairs, StringList& into) {
  if (list_at_ == 0) {
    uint64_t count = 0;
    if (Step step = fixed(bytes, &count, sizeof count); step != Step::kDone) return step;
    if (count > Limits::kList) {
      bad(Fault::Kind::kListTooLong, count, Limits::kList);
      return Step::kBad;
    }
    list_size_ = list_left_ = pairs ? 2 * count : count;
    list_at_ = at_;
  }
  for (; list_left_ > 0; --list_left_) {
    bool value = pairs && list_left_ % 2 == 1;
    std::string_view item;
    Step step = string(bytes, value ? Fault::Kind::kValueTooLong : Fault::Kind::kKeyTooLong, item);
    if (step != Step::kDone) return step;
  }
  into = StringList(list_size_, bytes.substr(list_at_, at_ - list_at_));
  return Step::kDone;
}

// All fields of op_. A request without a list is short to check, so it starts over when more bytes have come.
Parser::Step Parser::fields(std::string_view bytes, Request& request) {
  auto key = [&] { return string(bytes, Fault::Kind::kKeyTooLong, request.key); };
  auto value = [&](std::string_view& into) { return string(bytes, Fault::Kind::kValueTooLong, into); };
  auto number = [&] { return fixed(bytes, &request.number, sizeof request.number); };
  if (list_at_ == 0) at_ = 1;
  Step step = Step::kDone;
  switch (op_) {
    case Op::kNumKeys:
    case Op::kCancelWait:
    case Op::kListKeys:
      return step;
    case Op::kValidate:
    case Op::kPing: {
      uint32_t word = 0;
      step = fixed(bytes, &word, sizeof word);
      request.number = word;
      return step;
    }
    case Op::kGet:
    case Op::kWatchKey:
    case Op::kDeleteKey:
    case Op::kQueuePop:
    case Op::kQueueLen:
      return key();
    case Op::kSet:
    case Op::kAppend:
    case Op::kQueuePush:
      if ((step = key()) == Step::kDone) step = value(request.value);
      return step;
    case Op::kCompareSet:
      if ((step = key()) == Step::kDone && (step = value(request.value)) == Step::kDone) step = value(request.desired);
      return step;
    case Op::kAdd:
    case Op::kBarrier:
      if ((step = key()) == Step::kDone) step = number();
      return step;
    case Op::kCheck:
    case Op::kWait:
    case Op::kMultiGet:
      return strings(bytes, false, request.list);
    case Op::kMultiSet:
      return strings(bytes, true, request.list);
  }
  return step;
}

void put_u8(std::string& out, uint8_t value) { out.push_back(static_cast<char>(value)); }
void put_u32(std::string& out, uint32_t value) { put(out, value); }
void put_u64(std::string& out, uint64_t value) { put(out, value); }
void put_i64(std::string& out, int64_t value) { put(out, value); }

void put_string(std::string& out, std::string_view value) {
  put_u64(out, value.size());
  out.append(value);
}

void put_code(std::string& out, Dialect dialect, Op op) {
  auto code = code_of(dialect, op);
  MUSTER_CHECK(code.has_value());
  put_u8(out, *code);
}

void put_validate(std::string& out) {
  put_code(out, Dialect::kModern, Op::kValidate);
  put_u32(out, kMagic);
}

}  // namespace muster::store
