#include "muster/rendezvous/words.h"

#include <gtest/gtest.h>

#include "muster/rendezvous/test/membership_job.h"

namespace muster::rendezvous {
namespace {

TEST(Words, WhyANodeIsLost) {
  using Cause = Loss::Cause;
  struct Case {
    Loss loss;
    const char* text;
  };
  const std::string detail = "connection closed by 10.0.0.2:4711";
  const Case cases[] = {
      {{.cause = Cause::kClosed, .host = "n2", .detail = detail}, "n2 is lost: connection closed by 10.0.0.2:4711"},
      {{.cause = Cause::kBroken, .host = "n2"}, "n2 is lost: its connection has ended"},
      {{.cause = Cause::kProtocol, .host = "n2"}, "n2 is lost: it broke the protocol"},
      {{.cause = Cause::kSilent, .host = "n2", .lasting = sec(10.5)}, "n2 is lost: no word for 10.5 s"},
      {{.cause = Cause::kNoAnswer, .host = "n2", .lasting = sec(3)},
       "n2 is lost: its agent has not answered for 3.0 s"},
      {{.cause = Cause::kNotKilled, .host = "n2"}, "n2 is lost: its workers were killed and have not ended"},
      {{.cause = Cause::kLeft, .host = "n2"}, "n2 is lost: everything of the job on it has ended"},
  };
  for (const Case& each : cases) EXPECT_EQ(loss_text(each.loss), each.text);
}

TEST(Words, TheTimeThatIsLeftIsNotPartOfTheReason) {
  Job job(Job::nodes(2, 4));
  const Decision early = job.next();
  EXPECT_EQ(reason_text(early, job.now), "0 of 4 nodes, 2 needed; waiting for more, 600 s left");
  job.pass(590.5);
  const Decision late = job.next();
  EXPECT_EQ(late.reason, early.reason);
  EXPECT_EQ(reason_text(late, job.now), "0 of 4 nodes, 2 needed; waiting for more, 9.5 s left");
}

TEST(Words, HowLongALeaseLasts) {
  Decision decision;
  decision.waiting = Waiting::kLease;
  decision.reason = "n3 is lost: closed by 10.0.0.9:99; its workers may run";
  decision.until = TimePoint() + sec(10);
  EXPECT_EQ(reason_text(decision, TimePoint() + sec(9.9)),
            "n3 is lost: closed by 10.0.0.9:99; its workers may run for 0.1 s more");
}

}  // namespace
}  // namespace muster::rendezvous
