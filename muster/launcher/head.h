#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "muster/job/spec.h"
#include "muster/launcher/host_note.h"
#include "muster/output/console.h"
#include "muster/rendezvous/coordinator.h"
#include "muster/report/events.h"
#include "muster/report/report.h"

namespace muster::launcher {

// What people see of a job: which nodes it waits for, which are lost, what a new round is for, which worker is to blame in
// the end. Runs beside the engine: in the launcher, on the node that hosts the coordinator, or, without a lease, in the
// agent of a job on one machine, whose texts name no node.
class Head : public rendezvous::CoordinatorClient {
 public:
  Head(output::Console& console, const job::JobSpec& job, const rendezvous::MembershipOptions& membership);

  // --events: those of all nodes go there. Emptied at once.
  Result<void> open_events(const std::string& path);
  // What is done about a host that has not joined, and why its last attempt failed: as HostNote.
  void set_progress(int position, const cluster::Progress& progress) { notes_[position].progress(progress); }
  void set_failure(int position, const cluster::StartFailure& failure, int attempts) {
    notes_[position].failure(failure, attempts);
  }
  // Shows, or says, whom we wait for; call it now and then while there is time to wait.
  void show_waiting(const rendezvous::State& state, TimePoint now);
  void hide_waiting();
  // The same in words.
  std::string waiting_for(const rendezvous::State& state) const;

  bool over() const { return ending_.has_value(); }
  int exit_code() const;
  // The report on this process's own console; call it when nothing else will be said.
  void publish();
  void write_report();  // --report
  // Both, for a job on one machine. An error that kept a round from starting is the agent's to tell.
  void conclude_alone();
  void finish_events();  // --events: no more come
  // What a node has sent of its output. It is taken in any case. False: no more for now, until the console has room.
  bool output(const std::string& host, const rendezvous::Chunk& chunk);
  TimePoint last_output() const { return last_output_; }
  // Why a host that wanted to join may not; empty: it was not refused.
  std::string refusal_of(const std::string& host) const;
  // What is waited for, or was done last.
  std::string last_reason() const;

  void joined(const rendezvous::Node& node) override;
  void gone(const rendezvous::Node& node, const rendezvous::Loss& loss) override;
  void changed(const rendezvous::State& state, const rendezvous::Decision& decision) override;
  void round_started(const rendezvous::State& state) override;
  void worker_failed(const rendezvous::Node& node, const rendezvous::WorkerFailed& failed) override;
  void refused(const std::string& who, const std::string& why) override;
  rendezvous::Failure judge(int round, const std::vector<rendezvous::NodeOutcomes>& outcomes) override;
  std::string ended(const rendezvous::Decision& decision,
                    const std::vector<rendezvous::NodeOutcomes>& outcomes) override;
  std::string describe(const std::string& name) override { return on_describe ? on_describe(name) : std::string(); }

  // Set by whoever runs it.
  std::function<void(const rendezvous::Node&)> on_joined;
  std::function<void(const rendezvous::Node&, const rendezvous::Loss&)> on_gone;
  std::function<void()> on_ended;
  std::function<void(const std::string& host, const std::string& bytes)> on_stdout;  // instead of the console
  std::function<std::string(const std::string& name)> on_describe;

 private:
  void take(const std::vector<rendezvous::NodeOutcomes>& nodes);
  void ask_scheduler(Duration longest);
  report::Report make_report() const;
  std::vector<std::string> missing_nodes(size_t refusals_told) const;
  std::string cause_of_restart(const rendezvous::State& state) const;
  void show_progress(const std::string& host, const std::string& text);
  bool torchrun() const { return job_.flavor != job::Flavor::kMuster; }
  bool alone() const { return membership_.lease == Duration::zero(); }
  // "rank 3 on n2"
  std::string name_of(const report::WorkerOutcome& worker) const;

  output::Console& console_;
  const job::JobSpec& job_;
  const rendezvous::MembershipOptions& membership_;
  std::map<int, HostNote> notes_;                // by position
  std::set<int> hopeless_;                       // positions: why is part of the reason that the job ends with
  bool timed_out_ = true;                        // else it ended because too few could come
  std::map<std::string, std::string> refusals_;  // by name or address
  rendezvous::Decision decision_;                // the last one
  std::string said_waiting_;
  bool live_line_ = false;
  std::string progress_of_;  // the host whose worker's progress is shown
  int round_ = -1, restarts_ = 0;
  std::vector<rendezvous::Loss> lost_;  // of the last round
  std::optional<int> signal_;
  std::string signalled_host_;
  std::string stop_cause_;  // what the scheduler says of that signal; empty if it says nothing

  int judged_round_ = -1;
  std::vector<report::WorkerOutcome> outcomes_;  // of that round
  report::Verdict verdict_;
  std::string start_error_;
  std::optional<rendezvous::Decision> ending_;
  TimePoint last_output_ = Clock::now();
  report::EventsFile events_;
  std::map<std::string, char> writers_;  // whose unfinished line the console shows: by host and stream
};

// "3 of 4 nodes · waiting for n17 (ssh: connection refused, attempt 3) · 12 s". `notes` by position. Pure.
std::string waiting_line(const rendezvous::State& state, const rendezvous::MembershipOptions& membership,
                         const std::map<int, std::string>& notes);

}  // namespace muster::launcher
