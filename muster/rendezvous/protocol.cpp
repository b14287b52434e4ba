#include "muster/rendezvous/protocol.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <type_traits>
#include <utility>

#include "muster/base/bytes.h"

namespace muster::rendezvous {
namespace {

constexpr int kAny = std::numeric_limits<int>::max();
constexpr int kMostWorkers = 65536;
constexpr int kLastSignal = 64;
constexpr int kLastPort = 65535;
// Times and durations stay far enough from the ends of their type for sums and differences of them.
constexpr int64_t kLongest = std::numeric_limits<int64_t>::max() / 4;

// Writer and Reader have the same members, so that one list of fields a message (below) serves both ways.
class Writer {
 public:
  void number(int value, int /*least*/, int /*most*/) { bytes_.u32(static_cast<uint32_t>(value)); }
  void id(NodeId value) { bytes_.u32(value); }
  void port(uint16_t value) { bytes_.u32(value); }
  void stream(uint8_t value) { bytes_.u8(value); }
  void sequence(uint64_t value) { bytes_.u64(value); }
  void time(int64_t value) { bytes_.i64(value); }
  void duration(Duration value) { bytes_.i64(std::clamp<int64_t>(value.count(), 0, kLongest)); }
  void boolean(bool value) { bytes_.boolean(value); }
  void text(const std::string& value) { bytes_.text(value); }
  void maybe(const std::optional<int>& value) {
    boolean(value.has_value());
    if (value) number(*value, 0, kAny);
  }
  void texts(const std::vector<std::string>& values) {
    bytes_.u32(static_cast<uint32_t>(values.size()));
    for (const std::string& value : values) text(value);
  }
  void numbers(const std::vector<int>& values) {
    bytes_.u32(static_cast<uint32_t>(values.size()));
    for (int value : values) number(value, 0, kAny);
  }

  void kind(size_t index) { bytes_.u8(static_cast<uint8_t>(index)); }
  std::string take() && { return std::move(bytes_).take(); }

 private:
  ByteWriter bytes_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  void number(int& value, int least, int most) {
    value = static_cast<int>(bytes_.u32());
    require(value >= least && value <= most);
  }
  void id(NodeId& value) { value = bytes_.u32(); }
  void port(uint16_t& value) {
    int wide = 0;
    number(wide, 0, kLastPort);
    value = static_cast<uint16_t>(wide);
  }
  void stream(uint8_t& value) {
    value = bytes_.u8();
    require(value <= Chunk::kEnd);
  }
  void sequence(uint64_t& value) { value = bytes_.u64(); }
  void time(int64_t& value) {
    value = bytes_.i64();
    require(value >= 0 && value <= kLongest);
  }
  void duration(Duration& value) {
    int64_t count = 0;
    time(count);
    value = Duration(count);
  }
  void boolean(bool& value) { value = bytes_.boolean(); }
  void text(std::string& value) { value = bytes_.text(); }
  void maybe(std::optional<int>& value) {
    value.reset();
    if (bytes_.boolean()) number(value.emplace(), 0, kAny);
  }
  void texts(std::vector<std::string>& values) {
    values.resize(count());
    for (std::string& value : values) text(value);
  }
  void numbers(std::vector<int>& values) {
    values.resize(count());
    for (int& value : values) number(value, 0, kAny);
  }

  size_t kind() { return bytes_.u8(); }
  bool done() const { return bytes_.done(); }

 private:
  void require(bool sane) {
    if (!sane) bytes_.fail();
  }
  size_t count() {
    size_t count = bytes_.count(4);  // a number, or the length of a text
    require(count <= kMostElements);
    return bytes_.ok() ? count : 0;
  }

  ByteReader bytes_;
};

// What each message has on the wire. Whoever changes one raises kProtocolVersion, and the number in the hellos of the
// fuzzers' corpora, which are refused otherwise.

template <typename A, typename M>
void fields(A& io, M& message) {
  using T = std::remove_const_t<M>;
  if constexpr (std::is_same_v<T, Join>) {
    io.text(message.host);
    io.number(message.workers, 1, kMostWorkers);
    io.text(message.role);
    io.maybe(message.rank);
    io.maybe(message.position);
    io.number(message.agent_pid, 0, kAny);
    io.texts(message.addresses);
    io.number(message.min_nodes, 0, kAny);
    io.number(message.max_nodes, 0, kAny);
    io.boolean(message.chose_addresses);
  } else if constexpr (std::is_same_v<T, StoreOpened>) {
    io.number(message.round, 0, kAny);
    io.port(message.port);
    io.text(message.error);
  } else if constexpr (std::is_same_v<T, RoundStarted>) {
    io.number(message.round, 0, kAny);
    io.numbers(message.pids);
  } else if constexpr (std::is_same_v<T, WorkerFailed>) {
    io.number(message.round, 0, kAny);
    io.number(message.rank, 0, kAny);
    io.text(message.what);
  } else if constexpr (std::is_same_v<T, RoundEnded>) {
    io.number(message.round, 0, kAny);
    io.boolean(message.succeeded);
    io.text(message.outcomes);
    io.text(message.start_error);
  } else if constexpr (std::is_same_v<T, StopRequest> || std::is_same_v<T, PassSignal>) {
    io.number(message.signal, 1, kLastSignal);
  } else if constexpr (std::is_same_v<T, Welcome>) {
    io.id(message.node);
    io.text(message.job);
    io.duration(message.lease);
    io.text(message.address);
  } else if constexpr (std::is_same_v<T, Refuse>) {
    io.text(message.reason);
    io.text(message.hint);
  } else if constexpr (std::is_same_v<T, OpenStore>) {
    io.number(message.round, 0, kAny);
    io.texts(message.members);
  } else if constexpr (std::is_same_v<T, StartRound>) {
    io.number(message.round.number, 0, kAny);
    io.number(message.round.restarts, 0, kAny);
    io.number(message.round.first_rank, 0, kAny);
    io.number(message.round.world_size, 1, kAny);
    io.number(message.round.group_rank, 0, kAny);
    io.number(message.round.group_world_size, 1, kAny);
    io.number(message.round.first_role_rank, 0, kAny);
    io.number(message.round.role_world_size, 1, kAny);
    io.texts(message.master_addresses);
    io.port(message.round.master_port);
    io.text(message.own_address);
  } else if constexpr (std::is_same_v<T, StopRound>) {
    io.number(message.round, 0, kAny);
    io.number(message.signal, 1, kLastSignal);
    io.duration(message.grace);
    io.text(message.reason);
  } else if constexpr (std::is_same_v<T, EndJob>) {
    io.number(message.exit_code, 0, 255);
    io.text(message.text);
    io.text(message.reason);
  } else if constexpr (std::is_same_v<T, Beat>) {
    io.id(message.node);
    io.sequence(message.sequence);
    io.time(message.sent);
    io.boolean(message.paused);
  } else if constexpr (std::is_same_v<T, Echo>) {
    io.sequence(message.sequence);
    io.time(message.sent);
    io.time(message.coordinator);
    io.boolean(message.stands);
  } else if constexpr (std::is_same_v<T, OutputHello> || std::is_same_v<T, Goodbye>) {
    io.id(message.node);
  } else if constexpr (std::is_same_v<T, Ping> || std::is_same_v<T, Pong>) {
    io.sequence(message.sequence);
  } else if constexpr (std::is_same_v<T, OutputTaken>) {
    io.sequence(message.chunks);
  } else {
    static_assert(std::is_same_v<T, Chunk>);
    io.stream(message.stream);
    io.text(message.bytes);
  }
}

constexpr auto kNames = std::to_array<std::string_view>(
    {"Join",   "StoreOpened", "RoundStarted", "WorkerFailed", "RoundEnded", "StopRequest", "Welcome",
     "Refuse", "OpenStore",   "StartRound",   "StopRound",    "PassSignal", "EndJob",      "Beat",
     "Echo",   "OutputHello", "Chunk",        "Ping",         "Pong",       "Goodbye",     "OutputTaken"});
static_assert(kNames.size() == std::variant_size_v<Message>);

template <size_t kIndex>
Message read(Reader& reader) {
  std::variant_alternative_t<kIndex, Message> message;
  fields(reader, message);
  return message;
}

template <size_t... kIndex>
Message read_kind(Reader& reader, size_t kind, std::index_sequence<kIndex...> /*kinds*/) {
  constexpr std::array kReaders = {&read<kIndex>...};
  return kReaders[kind](reader);
}

}  // namespace

std::string encode(const Message& message) {
  Writer writer;
  writer.kind(message.index());
  std::visit([&](const auto& alternative) { fields(writer, alternative); }, message);
  return std::move(writer).take();
}

Result<Message> decode(std::string_view bytes) {
  Reader reader(bytes);
  size_t kind = reader.kind();
  if (bytes.empty() || kind >= kNames.size())
    return Error{
        ErrorKind::kPeer, bytes.empty() ? "an empty message" : fmt::format("a message of unknown kind {}", kind), {}};
  Message message = read_kind(reader, kind, std::make_index_sequence<std::variant_size_v<Message>>());
  if (!reader.done())
    return Error{ErrorKind::kPeer, fmt::format("a {} message that is cut short or out of range", kNames[kind]), {}};
  return message;
}

}  // namespace muster::rendezvous
