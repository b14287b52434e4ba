// The nodes that come to the coordinator, until they are members.
#include "muster/rendezvous/coordinator_impl.h"

namespace muster::rendezvous {
namespace {

// From the end of the handshake to the first message that says who it is.
constexpr auto kIntroduction = std::chrono::seconds(5);
constexpr size_t kLongestName = 1024;  // of a host

}  // namespace

void Coordinator::Impl::arrived(std::unique_ptr<Channel> channel) {
  if (channel->purpose() == Purpose::kHeartbeat) {
    channel->detach();
    return new_hearts_.push_back(std::move(channel));
  }
  if (channel->purpose() == Purpose::kOutput) {
    if (serve_output_) serve_output_(std::move(channel));
    return;
  }
  guests_.emplace_front().channel = std::move(channel);
  const GuestId guest = guests_.begin();
  guest->patience = loop_.call_after(kIntroduction, [this, guest] { leave(guest); });
  guest->channel->resume_on(loop_, {.opened = {},
                                    .received = [this, guest](std::string_view bytes) { introduced(guest, bytes); },
                                    .closed = [this, guest](const Error&) { leave(guest); },
                                    .drained = {}});
}

void Coordinator::Impl::leave(GuestId guest) {
  loop_.cancel(guest->patience);
  guests_.erase(guest);
  deserted_soon();
}

void Coordinator::Impl::introduced(GuestId guest, std::string_view bytes) {
  if (guest->answered) return leave(guest);
  if (guest->channel->purpose() == Purpose::kDescription) return describe(guest, bytes);
  auto message = decode(bytes);
  if (!message) return leave(guest);
  const auto* join_message = std::get_if<Join>(&*message);
  if (join_message != nullptr && guest->channel->purpose() == Purpose::kControl) return join(guest, *join_message);
  leave(guest);
}

// It hangs up when it is a member. Until then, however long its set-up takes, the end of this connection tells it that
// nobody waits for it.
void Coordinator::Impl::describe(GuestId guest, std::string_view name) {
  if (name.size() > kLongestName || engine_.is_over()) return leave(guest);
  guest->answered = true;
  const std::string description = client_.describe(std::string(name));
  guest->channel->send(description);
  if (!description.empty()) loop_.cancel(std::exchange(guest->patience, 0));
}

// The job is over.
void Coordinator::Impl::dismiss_guests() {
  for (auto guest = guests_.begin(); guest != guests_.end();) {
    const GuestId each = guest++;
    if (each->answered)
      leave(each);
    else if (each->waits)
      answer_last(each, farewell_);
  }
}

// It closes when it has read that, or is left after a while.
void Coordinator::Impl::answer_last(GuestId guest, const std::string& encoded) {
  guest->channel->send(encoded);
  guest->answered = true;
  guest->waits.reset();
  loop_.cancel(guest->patience);
  guest->patience = loop_.call_after(kIntroduction, [this, guest] { leave(guest); });
}

void Coordinator::Impl::join(GuestId guest, const Join& join) {
  if (engine_.is_over()) return answer_last(guest, farewell_);
  if (auto reason = refusal(Clock::now(), state(), membership(), join)) {
    auto earlier = earlier_life(state(), join);
    if (earlier && !guest->waits) return wait_for_earlier_life(guest, join, *earlier);
    client_.refused(join.host, *reason);
    return answer_last(guest, encode(Refuse{*reason, {}}));
  }
  std::unique_ptr<Channel> channel = std::move(guest->channel);
  loop_.cancel(guest->patience);
  guests_.erase(guest);
  admit(std::move(channel), join);
}

// A machine that has booted again answers for its earlier life at once, with a reset; an agent that lives, with a Pong.
// Without an answer it is lost at lease + margin after the Ping; until then, or the end of the job, the guest waits.
void Coordinator::Impl::wait_for_earlier_life(GuestId guest, const Join& join, NodeId earlier) {
  guest->waits = join;
  guest_waits_ = true;
  if (!state().nodes.at(earlier).unanswered) ping(earlier);
  loop_.cancel(std::exchange(guest->patience, 0));
}

void Coordinator::Impl::earlier_life_known(NodeId node) {
  if (!std::exchange(guest_waits_, false)) return;
  std::vector<GuestId> waiting;
  for (GuestId guest = guests_.begin(); guest != guests_.end(); ++guest) {
    if (!guest->waits) continue;
    if (earlier_life(state(), *guest->waits).value_or(node) == node)
      waiting.push_back(guest);
    else
      guest_waits_ = true;
  }
  for (GuestId guest : waiting) join(guest, Join(*guest->waits));
}

}  // namespace muster::rendezvous
