#include "muster/cluster/description.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/base/bytes.h"
#include "muster/base/strings.h"
#include "muster/base/version.h"

namespace muster::cluster {
namespace {

constexpr std::string_view kMagic = "musterDS";
constexpr size_t kMaxSize = 16 << 20;
constexpr size_t kMaxBeforeGreeting = 64 << 10;
static_assert(kDescriptionHead == kMagic.size() + 2 * sizeof(uint32_t));

Error bad(std::string what) { return {ErrorKind::kPeer, std::move(what), {}}; }

void write_list(ByteWriter& out, const std::vector<std::string>& list) {
  out.u32(static_cast<uint32_t>(list.size()));
  for (const std::string& item : list) out.text(item);
}

std::vector<std::string> read_list(ByteReader& in) {
  std::vector<std::string> list(in.count(sizeof(uint32_t)));
  for (std::string& item : list) item = in.text();
  return list;
}

int read_int(ByteReader& in) {
  int64_t value = in.i64();
  if (value != static_cast<int>(value)) in.fail();
  return static_cast<int>(value);
}

}  // namespace

std::string encode(const Description& description) {
  ByteWriter body;
  body.text(description.muster_version);
  body.text(description.token);
  write_list(body, description.endpoints);
  body.text(description.host);
  body.i64(description.position);
  body.boolean(description.workers.has_value());
  body.i64(description.workers.value_or(0));
  body.text(description.request);
  body.text(description.run_id);
  body.u32(static_cast<uint32_t>(description.environment.size()));
  for (const auto& [name, value] : description.environment) {
    body.text(name);
    body.text(value);
  }
  body.boolean(description.script.has_value());
  body.text(description.script.value_or(""));
  body.text(description.directory);
  for (int columns : description.columns) body.i64(columns);

  ByteWriter head;
  for (char c : kMagic) head.u8(static_cast<uint8_t>(c));
  head.u32(kDescriptionVersion);
  head.u32(static_cast<uint32_t>(body.bytes().size()));
  return std::move(head).take() + body.bytes();
}

Result<size_t> description_size(std::string_view head) {
  if (head.size() < kDescriptionHead || !head.starts_with(kMagic)) {
    return bad("this is not a description of a job: `muster agent` is started by `muster run`, not by hand");
  }
  ByteReader in(head.substr(kMagic.size(), kDescriptionHead - kMagic.size()));
  uint32_t version = in.u32();
  if (version != kDescriptionVersion) {
    return bad(fmt::format("the description of the job is of version {}, this is muster {}, which reads version {}",
                           version, muster::version(), kDescriptionVersion));
  }
  size_t size = kDescriptionHead + in.u32();
  if (size > kMaxSize) return bad(fmt::format("the description of the job has {} bytes, more than it may", size));
  return size;
}

Result<Description> decode_description(std::string_view whole) {
  MUSTER_TRY(size_t size, description_size(whole));
  ByteReader in(whole.substr(kDescriptionHead));
  Description description;
  description.muster_version = in.text();
  description.token = in.text();
  description.endpoints = read_list(in);
  description.host = in.text();
  description.position = read_int(in);
  bool has_workers = in.boolean();
  if (int workers = read_int(in); has_workers) description.workers = workers;
  description.request = in.text();
  description.run_id = in.text();
  for (size_t left = in.count(2 * sizeof(uint32_t)); left > 0; --left) {
    std::string name = in.text();
    description.environment.add(name, in.text());
  }
  bool has_script = in.boolean();
  if (std::string script = in.text(); has_script) description.script = std::move(script);
  description.directory = in.text();
  for (int& columns : description.columns) columns = read_int(in);
  if (size != whole.size() || !in.done()) return bad("the description of the job is damaged");
  return description;
}

std::string agent_greeting() { return fmt::format("{} {} {}\n", kGreetingWord, version(), kDescriptionVersion); }

GreetingReader::State GreetingReader::add(std::string_view bytes) {
  for (; state_ == State::kWaiting && !bytes.empty();) {
    size_t end = bytes.find('\n');
    std::string_view part = bytes.substr(0, std::min(end, kMaxBeforeGreeting));
    seen_ += part.size() + 1;
    line_ += part;
    if (end != std::string_view::npos) take_line(std::exchange(line_, {}));
    if (state_ == State::kWaiting && seen_ > kMaxBeforeGreeting) state_ = State::kNone;
    bytes.remove_prefix(std::min(end, bytes.size() - 1) + 1);
  }
  return state_;
}

void GreetingReader::take_line(std::string_view line) {
  if (!line.starts_with(kGreetingWord) || line.substr(kGreetingWord.size(), 1) != " ") return;
  if (line == trim(agent_greeting())) {
    state_ = State::kGood;
    return;
  }
  line = trim(line.substr(kGreetingWord.size()));
  state_ = State::kOther;
  other_ = line.substr(0, line.find(' '));
}

}  // namespace muster::cluster
