#include "muster/process/signals.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "helpers.h"

namespace muster::process {
namespace {

TEST(Signals, Names) {
  EXPECT_EQ(signal_name(SIGTERM), "SIGTERM");
  EXPECT_EQ(signal_name(SIGSEGV), "SIGSEGV");
  EXPECT_EQ(signal_name(SIGRTMIN), "SIGRTMIN");
  EXPECT_EQ(signal_name(SIGRTMIN + 2), "SIGRTMIN+2");
  EXPECT_EQ(signal_name(77), "signal 77");
  EXPECT_EQ(signal_name(0), "signal 0");
  EXPECT_EQ(signal_name(-3), "signal -3");
}

TEST(Signals, Parse) {
  for (const char* text : {"SIGTERM", "TERM", "sigterm", "Term", "15"}) EXPECT_EQ(parse_signal(text), 15) << text;
  EXPECT_EQ(parse_signal("SIGCLD"), SIGCHLD);
  EXPECT_EQ(parse_signal("RTMIN+2"), SIGRTMIN + 2);
  EXPECT_EQ(parse_signal("SIGRTMAX-1"), SIGRTMAX - 1);
  EXPECT_EQ(parse_signal("SIGRTMAX"), SIGRTMAX);
  for (const char* text : {"", "SIG", "SIGNONE", "0", "65", "-1", "15 ", "RTMIN+99", "RTMIN-1", "RTMAX+1", "RTMIN+"}) {
    EXPECT_EQ(parse_signal(text), std::nullopt) << text;
  }
}

TEST(Signals, EveryNameReadsBack) {
  for (int number = 1; number <= SIGRTMAX; ++number) {
    if (number > 31 && number < SIGRTMIN) continue;  // glibc's own
    EXPECT_EQ(parse_signal(signal_name(number)), number);
  }
}

TEST(SignalQueue, TellsASendersPid) {
  auto queue = SignalQueue::open({SIGUSR1, SIGUSR2});
  ASSERT_TRUE(queue.ok());
  EXPECT_FALSE(queue->next());
  kill(getpid(), SIGUSR1);
  pollfd entry{queue->fd(), POLLIN, 0};
  ASSERT_EQ(poll(&entry, 1, 10'000), 1);
  auto received = queue->next();
  ASSERT_TRUE(received);
  EXPECT_EQ(received->signal, SIGUSR1);
  EXPECT_EQ(received->sender, getpid());
  EXPECT_TRUE(received->from_process);
  EXPECT_FALSE(queue->next());
}

TEST(SignalQueue, TellsTheKernelsSignals) {
  auto queue = SignalQueue::open({SIGCHLD});
  ASSERT_TRUE(queue.ok());
  auto child = spawn(test::shell("exit 0"));
  ASSERT_TRUE(child.ok());
  pollfd entry{queue->fd(), POLLIN, 0};
  ASSERT_EQ(poll(&entry, 1, 10'000), 1);
  auto received = queue->next();
  ASSERT_TRUE(received);
  EXPECT_EQ(received->signal, SIGCHLD);
  EXPECT_FALSE(received->from_process);
  EXPECT_TRUE(test::await_exit(*child));
}

TEST(SignalQueue, RefusesWhatIsNoSignal) { EXPECT_FALSE(SignalQueue::open({1000}).ok()); }

}  // namespace

}  // namespace muster::process
