// Lines a second through Output: 8 processes that write 100-byte lines as fast as they can, a reader that only counts.
// Beside it the same processes writing to the reader's pipe directly, and the parts alone.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "muster/output/digest.h"
#include "muster/output/line_splitter.h"
#include "muster/output/output.h"

namespace muster::output {
namespace {

constexpr int kWorkers = 8;
constexpr size_t kLineSize = 100;
constexpr size_t kBlockLines = 655;  // 64 KiB: what a buffered writer writes at once

double seconds_since(TimePoint start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

std::string make_block() {
  std::string line(kLineSize - 1, 'x');
  line += '\n';
  std::string block;
  for (size_t i = 0; i < kBlockLines; ++i) block += line;
  return block;
}

pid_t fork_writer(int fd, size_t blocks) {
  pid_t pid = ::fork();
  if (pid != 0) return pid;
  std::string block = make_block();
  for (size_t i = 0; i < blocks; ++i) {
    if (!write_all(fd, block.data(), block.size())) ::_exit(1);
  }
  ::_exit(0);
}

// Reads to the end.
pid_t fork_reader(int fd, int other_end) {
  pid_t pid = ::fork();
  if (pid != 0) return pid;
  ::close(other_end);
  std::vector<char> buffer(1 << 16);
  while (::read(fd, buffer.data(), buffer.size()) > 0) {
  }
  ::_exit(0);
}

// CPU seconds used so far, by us or by children that have been waited for: on a busy machine a better figure than time.
struct Cpu {
  double user, system;
};
Cpu cpu_of(int who) {
  rusage usage{};
  ::getrusage(who, &usage);
  auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return {seconds(usage.ru_utime), seconds(usage.ru_stime)};
}

class Meter {
 public:
  explicit Meter(const char* what) : what_(what) {}
  void report(double lines) const {
    double seconds = seconds_since(start_);
    auto ns = [&](double after, double before) { return (after - before) / lines * 1e9; };
    Cpu self = cpu_of(RUSAGE_SELF), others = cpu_of(RUSAGE_CHILDREN);
    fmt::print("{:34} {:6.2f} M lines/s {:6.0f} MB/s   ns a line: {:5.1f} user {:5.1f} system {:5.1f} others\n", what_,
               lines / seconds / 1e6, lines * static_cast<double>(kLineSize) / seconds / 1e6, ns(self.user, self_.user),
               ns(self.system, self_.system), ns(others.user + others.system, others_.user + others_.system));
  }

 private:
  const char* what_;
  TimePoint start_ = Clock::now();
  Cpu self_ = cpu_of(RUSAGE_SELF), others_ = cpu_of(RUSAGE_CHILDREN);
};

void bench_direct(size_t blocks) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) std::abort();
  Meter meter("8 writers, one pipe, one reader");
  pid_t reader = fork_reader(ends[0], ends[1]);
  std::vector<pid_t> writers;
  writers.reserve(kWorkers);
  for (int i = 0; i < kWorkers; ++i) writers.push_back(fork_writer(ends[1], blocks));
  ::close(ends[0]);
  ::close(ends[1]);
  for (pid_t pid : writers) ::waitpid(pid, nullptr, 0);
  ::waitpid(reader, nullptr, 0);
  meter.report(static_cast<double>(kWorkers * blocks * kBlockLines));
}

void bench_output(size_t blocks, bool files) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) std::abort();
  Meter meter(files ? "Output, with log files" : "Output");
  pid_t reader = fork_reader(ends[0], ends[1]);
  ::close(ends[0]);
  job::JobSpec job;
  job.workers = kWorkers;
  job.output.label = job::LabelKind::kRank;
  for (int i = 0; files && i < kWorkers; ++i) job.output.tee[i] = 3;
  auto layout = LogLayout::create(job);
  if (!layout || !layout->make_attempt(0, kWorkers)) std::abort();
  {
    net::EventLoop loop;
    Console console(loop, {.stdout_fd = ends[1]});
    Output output(loop, console, job, *layout);
    int left = 0;
    for (int i = 0; i < kWorkers; ++i) {
      job::Placement placement;
      placement.rank = placement.local_rank = i;
      auto stdio = output.open({}, placement);
      if (!stdio) std::abort();
      fork_writer(stdio->stdout_fd, blocks);
      output.child_started(i);
      ++left;
    }
    while (left > 0) {
      loop.run_until(Deadline::in(std::chrono::milliseconds(5)));
      while (left > 0 && ::waitpid(-1, nullptr, WNOHANG) > 0) --left;
    }
    for (int i = 0; i < kWorkers; ++i) output.drain(i);
    console.flush(Deadline::in(std::chrono::seconds(60)));
    if (output.dropped_lines() > 0) fmt::print("{} lines dropped\n", output.dropped_lines());
  }
  ::close(ends[1]);
  ::waitpid(reader, nullptr, 0);
  meter.report(static_cast<double>(kWorkers * blocks * kBlockLines));
  if (files) {
    [[maybe_unused]] int rc = std::system(("rm -rf " + layout->run_dir()).c_str());
  }
  layout->remove_if_temporary(false);
}

void bench_splitter(size_t blocks) {
  std::string block = make_block();
  LineSplitter splitter(StreamPlan::Style::kLines, "[3] ");
  std::string out;
  Meter meter("line splitter");
  for (size_t i = 0; i < blocks; ++i) {
    out.clear();
    splitter.feed(block, out);
  }
  meter.report(static_cast<double>(blocks * kBlockLines));
}

void bench_digest(size_t blocks) {
  std::string block = make_block();
  DigestBuilder builder;
  Meter meter("stderr digest");
  for (size_t i = 0; i < blocks; ++i) builder.feed(block, Clock::now());
  meter.report(static_cast<double>(blocks * kBlockLines));
}

}  // namespace
}  // namespace muster::output

int main(int argc, char** argv) {
  size_t blocks = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 500;
  for (int i = 0; i < 3; ++i) {
    muster::output::bench_direct(blocks);
    muster::output::bench_output(blocks, false);
    muster::output::bench_output(blocks, true);
  }
  muster::output::bench_splitter(blocks * 8);
  muster::output::bench_digest(blocks * 8);
}
