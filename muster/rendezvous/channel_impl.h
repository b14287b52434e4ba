#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "muster/rendezvous/channel.h"
#include "muster/rendezvous/handshake.h"

namespace muster::rendezvous {

// The length that a sealed frame begins with: kLengthSize bytes.
inline size_t frame_size(std::string_view bytes) {
  size_t size = 0;
  for (size_t i = 0; i < kLengthSize; ++i) size |= size_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  return size;
}

inline Error peer_error(std::string message, std::string hint = {}) {
  return {ErrorKind::kPeer, std::move(message), std::move(hint)};
}

// Channel, with what only the door and the connector need to know of it.
//
//   client: kServerHello ──▶ kEntry ──▶ kOpen
//   server: kClientHello ──▶ kProof ──▶ kJob ──▶ kOpen          (and each of them ──▶ kClosed)
class ChannelImpl final : public Channel {
 public:
  // Takes the socket of somebody who speaks something else, and what was read of it.
  using Other = std::function<void(Fd socket, std::string_view first_bytes)>;

  enum class Side { kClient, kServer };
  // With `other`, on the server's side, a first byte that is not kFirstByte ends the channel without closed().
  ChannelImpl(net::EventLoop& loop, Fd socket, const net::Address& peer, const Options& options, Handlers handlers,
              Side side, Other other = {});
  ~ChannelImpl() override;
  ChannelImpl(const ChannelImpl&) = delete;
  ChannelImpl& operator=(const ChannelImpl&) = delete;

  void already_read(std::string_view bytes);
  // Reads what is there without waiting for the loop. The channel may be gone afterwards.
  void poke() {
    if (reading()) read_some();
  }
  // The client's hello was good; its proof, or the name of its job, is still to come.
  bool awaits_proof() const { return state_ == State::kProof || state_ == State::kJob; }
  // The server has our greeting, and may act upon it by now.
  bool has_greeted() const { return state_ == State::kEntry && greeting_; }
  // Why the handshake failed; kGood when it did not, or when the connection broke or timed out.
  Verdict verdict() const { return verdict_; }

  void send(std::string_view message) override;
  size_t unsent() const override { return early_size_ + out_.size() - out_sent_; }
  Purpose purpose() const override { return purpose_; }
  bool is_open() const override { return state_ == State::kOpen; }
  bool ended_orderly() const override { return ended_orderly_; }
  const net::Address& peer() const override { return peer_; }
  const net::Address& local() const override;
  const std::string& peer_version() const override { return peer_version_; }
  Fd share_socket() const override;
  void limit_silence(Duration longest) override;
  void pause(bool paused) override;
  void detach() override;
  void resume_on(net::EventLoop& loop, Handlers handlers) override;

 private:
  enum class State : uint8_t { kClientHello, kServerHello, kProof, kJob, kEntry, kOpen, kClosed };

  // Outlives the channel while a handler runs, and tells the caller of the handler whether the channel is still there
  // and still its own: false once destroyed, detached or given other handlers.
  struct Link {
    Handlers handlers;
    bool alive = true;
    bool scheduled = false;
  };

  void handle_io(uint32_t events);
  void read_some();
  void read_into_inbox(size_t unit);
  void consume(char* bytes, size_t size);
  void consume_inbox();
  std::optional<size_t> unit_size(std::string_view bytes) const;
  void handle_unit(char* unit, size_t size);
  void handle_client_hello(std::string_view frame);
  void handle_server_hello(std::string_view frame);
  void handle_proof(std::string_view frame);
  void handle_job(char* sealed, size_t size);
  void handle_entry(char* entry, size_t size);
  void handle_message(char* sealed, size_t size);
  void seal_early();
  void become_open();
  void hand_over(Fd socket, std::string_view bytes);

  bool reading() const;
  void watch();
  void update_interest();
  void keep_rest();
  void schedule();
  void run_scheduled();
  void flush();
  void flush_and_tell(bool was_told_unsent);
  void send_last(std::string_view frame);
  void fail(Error why);
  void fail_later(Error why);
  void fail_handshake(Verdict verdict, std::string_view peer_job = {});
  Error handshake_error(Verdict verdict, std::string_view peer_job) const;
  Error lost(int error) const;
  std::string name() const;

  net::EventLoop* loop_;  // none while detached
  Fd socket_;
  net::Address peer_;
  mutable net::Address local_;
  size_t max_message_;
  size_t max_unsent_;
  std::shared_ptr<Link> link_;
  Other other_;
  std::shared_ptr<const std::string> sealed_token_;
  std::function<std::string()> greeting_;
  std::string job_;                       // Token::job()
  std::unique_ptr<Handshake> handshake_;  // until it is done
  net::EventLoop::TimerId timer_ = 0;
  SecretStream in_stream_;
  SecretStream out_stream_;
  std::string peer_version_;

  std::vector<std::string> early_;  // messages sent before there was a key
  size_t early_size_ = 0;
  std::string out_;  // frames; the first out_sent_ bytes are sent
  size_t out_sent_ = 0;

  std::string inbox_;           // what was read and not yet handed on: part of a unit, or more when held_
  std::string_view rest_;       // while consume() runs: what it has not handed on
  std::optional<Error> error_;  // to be told from the loop

  uint32_t interest_ = 0;
  State state_;
  Purpose purpose_;
  Verdict verdict_ = Verdict::kGood;
  bool held_ = false;       // the inbox may have whole units that nobody wanted
  bool consuming_ = false;  // consume() runs
  bool paused_ = false;
  bool blocked_ = false;  // the socket takes no more for now
  bool write_failed_ = false;
  bool was_reset_ = false;  // or timed out, as a write was told; reading then finds what looks like a proper end
  bool ended_orderly_ = false;
};

}  // namespace muster::rendezvous
