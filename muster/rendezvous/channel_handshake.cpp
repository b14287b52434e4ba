// The frames of a connection: how long each is, and those of the handshake.
#include <fmt/format.h>

#include "muster/base/version.h"
#include "muster/rendezvous/channel_impl.h"

namespace muster::rendezvous {
namespace {

// A frame with its length, as far as these bytes tell. Nothing: it cannot be one of at most `most` bytes.
std::optional<size_t> sealed_size(std::string_view bytes, size_t most) {
  if (bytes.size() < kLengthSize) return kLengthSize;
  const size_t size = frame_size(bytes);
  if (size < kSealSize || size - kSealSize > most) return std::nullopt;
  return kLengthSize + size;
}

// What the server answers to a proof. A length of 0: a wrong token.
constexpr size_t kRefusedEntrySize = kEntryHeaderSize + kLengthSize;

std::optional<size_t> entry_size(std::string_view bytes) {
  if (bytes.size() < kRefusedEntrySize) return kRefusedEntrySize;
  bytes.remove_prefix(kEntryHeaderSize);
  if (frame_size(bytes) == 0) return kRefusedEntrySize;
  const auto size = sealed_size(bytes, job::Token::kLongestJob + 1);
  return size ? std::optional(kEntryHeaderSize + *size) : std::nullopt;
}

}  // namespace

// How long the unit at the beginning of these bytes is, as far as they tell. Nothing: they are none.
std::optional<size_t> ChannelImpl::unit_size(std::string_view bytes) const {
  switch (state_) {
    case State::kClientHello:
      return Handshake::begins_client_hello(bytes) ? std::optional(kClientHelloSize) : std::nullopt;
    case State::kServerHello:
      return Handshake::begins_server_hello(bytes) ? std::optional(kServerHelloSize) : std::nullopt;
    case State::kProof:
      return kProofSize;
    case State::kEntry:
      return entry_size(bytes);
    case State::kJob:
      return sealed_size(bytes, job::Token::kLongestJob);
    default:
      return sealed_size(bytes, max_message_);
  }
}

void ChannelImpl::handle_unit(char* unit, size_t size) {
  switch (state_) {
    case State::kClientHello:
      return handle_client_hello({unit, size});
    case State::kServerHello:
      return handle_server_hello({unit, size});
    case State::kProof:
      return handle_proof({unit, size});
    case State::kJob:
      return handle_job(unit + kLengthSize, size - kLengthSize);
    case State::kEntry:
      return handle_entry(unit, size);
    default:
      return handle_message(unit + kLengthSize, size - kLengthSize);
  }
}

void ChannelImpl::handle_client_hello(std::string_view frame) {
  std::string answer;
  Verdict verdict = handshake_->called(frame, answer);
  if (verdict == Verdict::kAsksToken) answer = sealed_answer(sealed_token_ ? *sealed_token_ : "");
  if (verdict == Verdict::kOtherVersion || verdict == Verdict::kAsksToken) send_last(answer);
  if (verdict != Verdict::kGood) return fail_handshake(verdict);
  purpose_ = handshake_->purpose();
  state_ = State::kProof;
  out_ = std::move(answer);
  flush();
}

void ChannelImpl::handle_server_hello(std::string_view frame) {
  std::string proof;
  Verdict verdict = handshake_->answered(frame, out_stream_, proof);
  if (verdict != Verdict::kGood) return fail_handshake(verdict);
  state_ = State::kEntry;
  out_ += proof;
  out_stream_.seal(job_, out_);
  if (greeting_) out_stream_.seal(greeting_(), out_);
  seal_early();
  flush();
}

void ChannelImpl::handle_entry(char* entry, size_t size) {
  if (size == kRefusedEntrySize) return fail_handshake(Verdict::kWrongToken);
  handshake_->enter({entry, kEntryHeaderSize}, in_stream_);
  std::optional<std::string_view> message = in_stream_.open(entry + kRefusedEntrySize, size - kRefusedEntrySize);
  if (!message) return fail_handshake(Verdict::kWrongToken);
  if (!message->empty()) return fail_handshake(Verdict::kAnotherJob, message->substr(1));
  become_open();
}

void ChannelImpl::handle_proof(std::string_view frame) {
  std::string entry_header;
  Verdict verdict = handshake_->proven(frame, in_stream_, out_stream_, entry_header);
  if (verdict == Verdict::kWrongToken) send_last(std::string(kRefusedEntrySize, '\0'));
  if (verdict != Verdict::kGood) return fail_handshake(verdict);
  state_ = State::kJob;
  out_ += entry_header;  // goes with the entry
}

void ChannelImpl::handle_job(char* sealed, size_t size) {
  std::optional<std::string_view> job = in_stream_.open(sealed, size);
  if (!job) return fail_handshake(Verdict::kNotMuster);
  if (!job::Token::same_job(job_, *job)) {
    out_stream_.seal("!" + job_, out_);  // never empty
    send_last(out_);
    return fail_handshake(Verdict::kAnotherJob, *job);
  }
  out_stream_.seal({}, out_);
  become_open();
}

void ChannelImpl::become_open() {
  state_ = State::kOpen;
  peer_version_ = handshake_->peer_version();
  handshake_.reset();
  other_ = nullptr;
  loop_->cancel(timer_);
  size_t handshake_size = unsent() - early_size_;
  seal_early();
  std::shared_ptr<Link> link = link_;
  if (link->handlers.opened) link->handlers.opened();
  if (!link->alive) return;
  flush_and_tell(unsent() > handshake_size);  // only now: what the handler has sent goes with the handshake
}

void ChannelImpl::seal_early() {
  for (const std::string& message : early_) out_stream_.seal(message, out_);
  early_ = {};
  early_size_ = 0;
}

void ChannelImpl::fail_handshake(Verdict verdict, std::string_view peer_job) {
  verdict_ = verdict;
  fail(handshake_error(verdict, peer_job));
}

Error ChannelImpl::handshake_error(Verdict verdict, std::string_view peer_job) const {
  const bool server = state_ == State::kClientHello || awaits_proof();
  std::string who = server && peer_.length > 0 ? peer_.host() : name();  // a client's port says nothing
  switch (verdict) {
    case Verdict::kOtherVersion:
      return peer_error(
          fmt::format("{} speaks muster {} (protocol {}), this is muster {} (protocol {})", who,
                      handshake_->peer_version(), handshake_->peer_protocol(), version(), kProtocolVersion),
          "use the same muster on every node");
    case Verdict::kAsksToken:
      return peer_error(fmt::format("{} asked for the sealed token", who));
    case Verdict::kWrongToken:
      return peer_error(
          fmt::format("{} belongs to another job or another user (its token differs)", who),
          "give all nodes of a job the same --rdzv-id and the same secret: MUSTER_TOKEN, --token-file or "
          "your key (a container without your home directory makes a key of its own: let MUSTER_TOKEN in, "
          "as with enroot start --env MUSTER_TOKEN)");
    case Verdict::kAnotherJob: {
      Error error = job::another_job(who + " ", peer_job, job_);
      if (server) error.hint.clear();  // for the node that came: nothing is wrong with this one
      return error;
    }
    default:
      return peer_error(fmt::format("{} does not speak muster's protocol", who),
                        server ? "" : "is it the coordinator's port?");
  }
}

}  // namespace muster::rendezvous
