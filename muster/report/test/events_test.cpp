#include "muster/report/events.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "muster/base/strings.h"
#include "muster/net/resolve.h"

namespace muster::report {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using namespace std::chrono_literals;

// A job whose events go into a file in a directory of its own; the console is /dev/null.
class EventsTest : public testing::Test {
 protected:
  EventsTest() {
    std::string pattern = testing::TempDir() + "events_XXXXXX";
    directory_ = ::mkdtemp(pattern.data());
    null_.reset(::open("/dev/null", O_WRONLY | O_CLOEXEC));
    job_.flavor = job::Flavor::kTorchrun;
    job_.run_id = "job7";
    job_.command.program = "/usr/bin/python3";
    job_.events_file = directory_ + "/events.jsonl";
  }
  ~EventsTest() override { std::filesystem::remove_all(directory_); }

  output::Console console() {
    return output::Console(loop_, {.colour = false,
                                   .torchrun_style = false,
                                   .threshold = LogLevel::kInfo,
                                   .stdout_fd = null_.get(),
                                   .stderr_fd = null_.get()});
  }
  std::vector<std::string> lines() {
    std::string text = *read_file(job_.events_file);
    EXPECT_TRUE(text.empty() || text.back() == '\n');
    std::vector<std::string> result;
    for (std::string_view line : split(text, '\n'))
      if (!line.empty()) result.emplace_back(line);
    return result;
  }

  net::EventLoop loop_;
  std::string directory_;
  Fd null_;
  job::JobSpec job_;
  job::Placement placement_{.rank = 1,
                            .local_rank = 1,
                            .world_size = 2,
                            .local_world_size = 2,
                            .group_rank = 0,
                            .group_world_size = 1,
                            .role_rank = 1,
                            .role_world_size = 2};
};

TEST_F(EventsTest, LooksLikeTorchruns) {
  output::Console console = this->console();
  auto events = Events::open(job_, console);
  ASSERT_TRUE(events) << events.error().message;
  events->rendezvous(1500us, 0);
  events->ranks_assigned(2ms, {});
  events->worker_started(placement_, 4711, 0);
  events->worker_ended(placement_, 4711, {7, 0}, "", 0, true);
  events->agent_ended("", 0);

  std::string host = json(net::fully_qualified_hostname(Deadline::in(net::kOwnNameTime))).dump();
  auto line = [&](const char* text) {
    std::string expected = text;
    expected.replace(expected.find("HOST"), 4, host);
    return expected;
  };
  EXPECT_THAT(
      lines(),
      testing::ElementsAre(
          line(R"({"name": "torchelastic.worker.status.RENDEZVOUS", "source": "AGENT", "timestamp": 0, "metadata": )"
               R"({"run_id": "job7", "global_rank": null, "group_rank": null, "worker_id": null, "role": "default", )"
               R"("hostname": HOST, "state": "RENDEZVOUS", "total_run_time": 0, "rdzv_backend": "c10d", )"
               R"("raw_error": null, "metadata": "{\"group_world_size\": null, \"entry_point\": \"python3\"}", )"
               R"("agent_restarts": 0, "duration_ms": 1.5}})"),
          line(R"({"name": "torchelastic.worker.status.ASSIGN_WORKER_RANKS", "source": "AGENT", "timestamp": 0, )"
               R"("metadata": {"run_id": "job7", "global_rank": null, "group_rank": null, "worker_id": null, )"
               R"("role": "default", "hostname": HOST, "state": "ASSIGN_WORKER_RANKS", "total_run_time": 0, )"
               R"("rdzv_backend": "c10d", "raw_error": null, "metadata": )"
               R"("{\"group_world_size\": null, \"entry_point\": \"python3\"}", "agent_restarts": 0, )"
               R"("duration_ms": 2.0}})"),
          line(R"({"name": "torchelastic.worker.status.START", "source": "WORKER", "timestamp": 0, "metadata": )"
               R"({"run_id": "job7", "global_rank": 1, "group_rank": 0, "worker_id": "4711", "role": "default", )"
               R"("hostname": HOST, "state": "START", "total_run_time": 0, "rdzv_backend": "c10d", )"
               R"("raw_error": null, "metadata": "{\"group_world_size\": 1, \"entry_point\": \"python3\", )"
               R"(\"local_rank\": [1], \"role_rank\": [1], \"role_world_size\": [2], \"exit_code\": [null], )"
               R"(\"worker_pid\": [null]}", "agent_restarts": 0, "duration_ms": null}})"),
          line(R"({"name": "torchelastic.worker.status.FAILED", "source": "WORKER", "timestamp": 0, "metadata": )"
               R"({"run_id": "job7", "global_rank": 1, "group_rank": 0, "worker_id": "4711", "role": "default", )"
               R"("hostname": HOST, "state": "FAILED", "total_run_time": 0, "rdzv_backend": "c10d", )"
               R"("raw_error": "{\"message\": \"<NONE>\", \"errorTraits\": {\"category\": )"
               R"(\"system_terminated_error\", \"retryability\": \"False\"}}", "metadata": )"
               R"("{\"group_world_size\": 1, \"entry_point\": \"python3\", \"local_rank\": [1], \"role_rank\": [1], )"
               R"(\"role_world_size\": [2], \"exit_code\": [7], \"worker_pid\": [4711]}", "agent_restarts": 0, )"
               R"("duration_ms": null}})"),
          line(R"({"name": "torchelastic.worker.status.SUCCEEDED", "source": "AGENT", "timestamp": 0, "metadata": )"
               R"({"run_id": "job7", "global_rank": null, "group_rank": 0, "worker_id": null, "role": "default", )"
               R"("hostname": HOST, "state": "SUCCEEDED", "total_run_time": 0, "rdzv_backend": "c10d", )"
               R"("raw_error": null, "metadata": "{\"group_world_size\": 1, \"entry_point\": \"python3\"}", )"
               R"("agent_restarts": 0, "duration_ms": null}})")));
}

TEST_F(EventsTest, StatesAndErrorsOfWorkers) {
  output::Console console = this->console();
  auto events = Events::open(job_, console);
  ASSERT_TRUE(events) << events.error().message;
  events->ranks_assigned(1ms, {});
  events->worker_ended(placement_, 1, {0, 0}, "", 2, false);
  events->worker_ended(placement_, 1, {0, 0}, "", 2, true);
  events->worker_ended(placement_, 1, {0, SIGKILL}, "", 2, true);
  events->worker_ended(placement_, 1, {1, 0}, "{\"message\":\"g\xc3\xbcn\"}", 2, true);
  events->worker_ended(placement_, 1, {1, 0}, "not JSON \xff", 2, true);
  events->agent_ended("Process 1 got signal: 15", 2);
  std::vector<std::string> states, errors;
  for (const std::string& line : lines()) {
    json metadata = json::parse(line)["metadata"];
    states.push_back(metadata["state"]);
    errors.push_back(metadata["raw_error"].is_null() ? "-" : metadata["raw_error"].get<std::string>());
    EXPECT_EQ(json::parse(line)["name"], "torchelastic.worker.status." + states.back());
  }
  EXPECT_THAT(states, testing::ElementsAre("ASSIGN_WORKER_RANKS", "SUCCEEDED", "TERMINATED", "FAILED", "FAILED",
                                           "FAILED", "FAILED"));
  EXPECT_THAT(errors, testing::ElementsAre("-", "-", "-", R"({"message": "<NONE>"})", R"({"message": "g\u00fcn"})",
                                           "not JSON \uFFFD", "Process 1 got signal: 15"));
}

TEST_F(EventsTest, AnAgentIsNumberedAmongTheOthersOnceItsRankIsKnown) {
  output::Console console = this->console();
  auto events = Events::open(job_, console);
  ASSERT_TRUE(events) << events.error().message;
  events->ranks_assigned(1ms, {.group_rank = 1, .group_world_size = 2});
  events->rendezvous(1ms, 1);
  events->ranks_assigned(1ms, {.restarts = 1, .group_rank = 2, .group_world_size = 3});
  events->agent_ended("", 1);
  std::vector<std::string> groups;
  for (const std::string& line : lines()) {
    json metadata = json::parse(line)["metadata"];
    json inner = json::parse(metadata["metadata"].get<std::string>());
    groups.push_back(metadata["group_rank"].dump() + " of " + inner["group_world_size"].dump());
  }
  EXPECT_THAT(groups, testing::ElementsAre("null of null", "1 of 2", "1 of 2", "2 of 3"));
}

TEST_F(EventsTest, TimesAreRealForMusterRun) {
  job_.flavor = job::Flavor::kMuster;
  output::Console console = this->console();
  auto events = Events::open(job_, console);
  ASSERT_TRUE(events) << events.error().message;
  events->rendezvous(1ms, 0);
  events->agent_ended("", 0);  // waits until the file is written
  EXPECT_GT(json::parse(lines().at(0))["timestamp"].get<int64_t>(), 1'700'000'000'000);
}

TEST_F(EventsTest, AnUnwritableFileIsAUsageError) {
  for (const std::string& path : {directory_ + "/no/such/file", directory_}) {
    job_.events_file = path;
    output::Console console = this->console();
    auto events = Events::open(job_, console);
    ASSERT_FALSE(events);
    EXPECT_EQ(events.error().kind, ErrorKind::kUsage);
    EXPECT_THAT(events.error().message, HasSubstr("--events " + path + " cannot be written"));
  }
}

TEST_F(EventsTest, AFifoNobodyReadsDoesNotHang) {
  job_.events_file = directory_ + "/fifo";
  ASSERT_EQ(::mkfifo(job_.events_file.c_str(), 0600), 0);
  output::Console console = this->console();
  EXPECT_FALSE(Events::open(job_, console));
}

TEST_F(EventsTest, AFullDiskIsSaidOnceAndEndsThem) {
  job_.events_file = "/dev/full";
  std::string said = directory_ + "/stderr";
  null_.reset(::open(said.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  output::Console console = this->console();
  auto events = Events::open(job_, console);
  ASSERT_TRUE(events) << events.error().message;
  events->rendezvous(1ms, 0);
  events->ranks_assigned(1ms, {});
  console.flush(Deadline::in(10s));
  EXPECT_EQ(*read_file(said),
            "muster: warning: --events /dev/full: write: No space left on device; no more events are written\n");
}

TEST_F(EventsTest, AReaderThatStoppedDelaysNothing) {
  const std::string path = directory_ + "/fifo";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_FALSE(EventsFile::open(path)) << "a FIFO without a reader";
  Fd reader(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  auto file = EventsFile::open(path);
  ASSERT_TRUE(file);
  std::vector<std::string> said;
  Log log([&](LogLevel, std::string_view text) { said.emplace_back(text); }, LogLevel::kInfo);
  const std::string line = std::string((1 << 18) - 1, 'x') + "\n";
  for (int i = 0; i < 6; ++i) file->write(line, log);  // the pipe has a part of the first one, three more wait
  file->finish(Deadline::in(0s), log);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0], "--events " + path + ": 6 events dropped: its reader is too slow");
  EXPECT_FALSE(*file);
}

}  // namespace
}  // namespace muster::report
