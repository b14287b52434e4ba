#pragma once

#include <string>
#include <vector>

#include "muster/rendezvous/membership.h"
#include "muster/rendezvous/words.h"

namespace muster::rendezvous {

using Kind = Decision::Kind;

inline Duration sec(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

// A job whose clock a test sets, with the coordinator's loop around decide().
struct Job {
  explicit Job(MembershipOptions with) : options(std::move(with)) { state.began = now; }
  static MembershipOptions nodes(int min, int max) {
    MembershipOptions options;
    options.min_nodes = min;
    options.max_nodes = max;
    return options;
  }

  NodeId joins(const std::string& host, std::optional<int> position = {}, std::optional<int> rank = {}) {
    Join join;
    join.host = host;
    join.position = position;
    join.rank = rank;
    return node_joined(now, state, join);
  }
  // Time passes, and everybody is heard.
  void pass(double seconds) {
    now += sec(seconds);
    for (auto& [id, node] : state.nodes) node.heard = now;
  }
  Decision next() const { return decide(now, state, options); }
  // Carries out what is decided until it waits or ends; what that was, one word each.
  std::string settle() {
    std::string done;
    while (true) {
      last = next();
      switch (last.kind) {
        case Kind::kWait:
          return done;
        case Kind::kOpenRound:
          done += "open ";
          round_opened(state, last.members);
          round_running(state);
          break;
        case Kind::kStopRound:
          done += "stop ";
          round_stopping(now, state, last.reason, last.counts_as_restart);
          break;
        case Kind::kJudge:
          done += "judge ";
          judged(state, failure);
          break;
        case Kind::kDropNode:
          done += "drop ";
          node_gone(now, state, options, last.node, LinkEnd::kSilent, last.loss);
          break;
        case Kind::kEndJob:
          job_ended(state, last);
          return done.append(job::ending_name(last.ending));
      }
      reasons.push_back(last.reason);
    }
  }
  void fails(NodeId node) { worker_failed(state, node, state.round); }
  void ends(NodeId node, bool succeeded) { round_ended(state, node, state.round, succeeded); }
  void all_end(bool succeeded = false) {
    for (NodeId node : state.members) ends(node, succeeded);
  }
  // Agent and warden are killed: both connections end.
  void closes(NodeId node) {
    heartbeat_ended(now, state, node, LinkEnd::kClosed);
    node_gone(now, state, options, node, LinkEnd::kClosed, {.detail = "closed by 10.0.0.9:99"});
  }

  MembershipOptions options;
  State state;
  TimePoint now = TimePoint{} + std::chrono::hours(1);
  Decision last;
  std::vector<std::string> reasons;  // of what settle() carried out
  Failure failure = {.rank = 3,
                     .host = "n2",
                     .fingerprint = "exit 7",
                     .after = sec(60),
                     .text = "rank 3 on n2: exit code 7",
                     .exit_code = 7,
                     .can_restart = true};
};

}  // namespace muster::rendezvous
