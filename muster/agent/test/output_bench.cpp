// Lines a second through Output: 8 processes that write 100-byte lines as fast as they can, a reader that only counts.
// Beside it the same processes writing to the reader's pipe directly, and the parts alone.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "muster/agent/output.h"
#include "muster/agent/output/digest.h"
#include "muster/agent/output/line_splitter.h"

namespace muster::agent {
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

void report(const char* what, double lines, double seconds) {
  fmt::print("{:44} {:8.2f} M lines/s  {:7.0f} MB/s\n", what, lines / seconds / 1e6,
             lines * static_cast<double>(kLineSize) / seconds / 1e6);
}

void bench_direct(size_t blocks) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) std::abort();
  TimePoint start = Clock::now();
  pid_t reader = fork_reader(ends[0], ends[1]);
  std::vector<pid_t> writers;
  for (int i = 0; i < kWorkers; ++i) writers.push_back(fork_writer(ends[1], blocks));
  ::close(ends[0]);
  ::close(ends[1]);
  for (pid_t pid : writers) ::waitpid(pid, nullptr, 0);
  ::waitpid(reader, nullptr, 0);
  report("8 writers, one pipe, one reader", static_cast<double>(kWorkers * blocks * kBlockLines), seconds_since(start));
}

void bench_output(size_t blocks, bool files) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) std::abort();
  TimePoint start = Clock::now();
  pid_t reader = fork_reader(ends[0], ends[1]);
  ::close(ends[0]);
  JobSpec job;
  job.workers = kWorkers;
  job.output.label = LabelKind::kRank;
  for (int i = 0; files && i < kWorkers; ++i) job.output.tee[i] = 3;
  auto layout = LogLayout::create(job);
  if (!layout || !layout->make_attempt(0, kWorkers)) std::abort();
  {
    net::EventLoop loop;
    Console console(loop, {.stdout_fd = ends[1]});
    Output output(loop, console, job, *layout);
    int left = 0;
    for (int i = 0; i < kWorkers; ++i) {
      Placement placement;
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
  report(files ? "Output, with log files" : "Output", static_cast<double>(kWorkers * blocks * kBlockLines),
         seconds_since(start));
  if (files) {
    [[maybe_unused]] int rc = std::system(("rm -rf " + layout->run_dir()).c_str());
  }
  layout->remove_if_temporary(false);
}

void bench_splitter(size_t blocks) {
  std::string block = make_block();
  LineSplitter splitter(StreamPlan::Style::kLines, "[3] ");
  std::string out;
  TimePoint start = Clock::now();
  for (size_t i = 0; i < blocks; ++i) {
    out.clear();
    splitter.feed(block, out);
  }
  report("line splitter", static_cast<double>(blocks * kBlockLines), seconds_since(start));
}

void bench_digest(size_t blocks) {
  std::string block = make_block();
  DigestBuilder builder;
  TimePoint start = Clock::now();
  for (size_t i = 0; i < blocks; ++i) builder.feed(block, start);
  report("stderr digest", static_cast<double>(blocks * kBlockLines), seconds_since(start));
}

}  // namespace
}  // namespace muster::agent

int main(int argc, char** argv) {
  size_t blocks = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 500;
  for (int i = 0; i < 3; ++i) {
    muster::agent::bench_direct(blocks);
    muster::agent::bench_output(blocks, false);
    muster::agent::bench_output(blocks, true);
  }
  muster::agent::bench_splitter(blocks * 8);
  muster::agent::bench_digest(blocks * 8);
}
