#include "muster/report/outcome_codec.h"

#include <gtest/gtest.h>

#include <csignal>

#include "muster/report/test/outcomes.h"

namespace muster::report {
namespace {

std::vector<WorkerOutcome> some_outcomes() {
  auto all = outcomes({Worker(0, exited(7), 2).raised(1.5, "ValueError: bad batch").filed(1, "it broke"),
                       Worker(1, killed(SIGTERM), 2.5).stopped(2).wrote("bye\n").oom(process::OomVerdict::kPossibly),
                       Worker(2, killed(SIGUSR1), 2).passed_on()});
  all[0].stdout_log = "/logs/0.out";
  return all;
}

TEST(OutcomeCodec, NothingIsLostOnTheWay) {
  auto sent = some_outcomes();
  auto received = decode_outcomes(encode_outcomes(sent), Duration(0));
  ASSERT_TRUE(received.ok()) << received.error().text();
  ASSERT_EQ(received->size(), sent.size());
  // What the report shows of them is the same.
  Report before, after;
  before.workers = sent;
  after.workers = *received;
  before.verdict = judge(before.workers);
  after.verdict = judge(after.workers);
  EXPECT_EQ(to_json(before), to_json(after));
  EXPECT_EQ(received->at(1).stop_requested, sent[1].stop_requested);
  EXPECT_EQ(received->at(0).output.first_error_time, sent[0].output.first_error_time);
}

TEST(OutcomeCodec, TimesAreOursAfterwards) {
  auto sent = some_outcomes();
  const Duration ahead = std::chrono::hours(3);  // the sender's clock
  auto received = decode_outcomes(encode_outcomes(sent), ahead);
  ASSERT_TRUE(received.ok());
  EXPECT_EQ(received->at(0).started, sent[0].started - ahead);
  EXPECT_EQ(received->at(0).ended, sent[0].ended - ahead);
  EXPECT_EQ(*received->at(1).stop_requested, *sent[1].stop_requested - ahead);
  EXPECT_EQ(received->at(0).ended_at, sent[0].ended_at);  // the wall clock's, for people
}

TEST(OutcomeCodec, AnImpossibleTimeInAnErrorFileIsNone) {
  auto sent = some_outcomes();
  for (int64_t timestamp : {INT64_MIN, int64_t{-1}, INT64_MAX}) {
    sent[0].error_file->timestamp = timestamp;
    auto received = decode_outcomes(encode_outcomes(sent), Duration(0));
    ASSERT_TRUE(received.ok()) << timestamp;
    EXPECT_EQ(received->at(0).error_file->timestamp, std::nullopt);
  }
}

TEST(OutcomeCodec, EveryPrefixIsRefused) {
  const std::string whole = encode_outcomes(some_outcomes());
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_FALSE(decode_outcomes(std::string_view(whole).substr(0, size), Duration(0)).ok()) << size;
  EXPECT_FALSE(decode_outcomes(whole + "x", Duration(0)).ok());
}

}  // namespace
}  // namespace muster::report
