#include "muster/cli/status_text.h"

#include <gmock/gmock.h>

namespace muster::cli {
namespace {

constexpr std::string_view kJob = R"({
  "job": "1b4e28ba-2fa1", "run_id": "mine", "pid": 4711, "mode": "fanout", "state": "running", "since": 1000.5,
  "round": 2, "restarts": 1, "max_restarts": 3, "message": "2 of 2 nodes",
  "nodes": [
    {"host": "n1", "state": "running", "address": "10.0.0.1", "agent_pid": 50, "group_rank": 0, "since": 1000,
     "workers": [{"rank": 0, "local_rank": 0, "pid": 61}, {"rank": 1, "local_rank": 1, "pid": 62}]},
    {"host": "a-longer-name", "state": "spare", "address": "10.0.0.2", "agent_pid": 70, "group_rank": null,
     "workers": [], "since": 1300}],
  "lost": ["n7: silent for 10.5 s"]})";

TEST(StatusText, ATableOfTheNodes) {
  EXPECT_EQ(status_text(kJob, 1500),
            "job 1b4e28ba-2fa1  running  round 2, 1 of 3 restarts  fanout, pid 4711  for 8 min\n"
            "  id mine\n"
            "  2 of 2 nodes\n"
            "  NODE  HOST           STATE    ADDRESS   RANKS  PIDS   AGENT  FOR\n"
            "  0     n1             running  10.0.0.1  0-1    61-62  50     8 min\n"
            "  -     a-longer-name  spare    10.0.0.2  -      -      70     3 min\n"
            "  lost: n7: silent for 10.5 s\n");
}

TEST(StatusText, WhatIsMissingIsNotInvented) {
  EXPECT_EQ(status_text(R"({"job": "x"})", 0), "job x  -  round 0, 0 of 0 restarts  -, pid 0  for -\n");
}

TEST(StatusText, JobsHaveNames) {
  auto names = job_names(kJob);
  ASSERT_TRUE(names);
  EXPECT_EQ(names->job, "1b4e28ba-2fa1");
  EXPECT_TRUE(is_named(*names, "1b4e"));
  EXPECT_TRUE(is_named(*names, "mine"));
  EXPECT_FALSE(is_named(*names, "min"));
  EXPECT_FALSE(is_named(*names, ""));
}

TEST(StatusText, WhatIsNoStatus) {
  for (std::string_view text : {"", "{", "[]", "{}", R"({"job": 7})", "\xff"}) EXPECT_FALSE(job_names(text)) << text;
}

TEST(StatusText, Json) { EXPECT_EQ(status_json({R"({"job":"x"})"}), "[\n  {\n    \"job\": \"x\"\n  }\n]\n"); }

}  // namespace
}  // namespace muster::cli
