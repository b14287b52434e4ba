#include "muster/launcher/symmetric.h"

#include <gtest/gtest.h>

#include "muster/net/socket.h"

namespace muster::launcher {
namespace {

// A node that hosts, and whose ports are all taken.
Result<int> run_with_taken_ports(Symmetric::Hosts hosts) {
  auto first = net::listen_tcp({}), second = net::listen_tcp({});
  EXPECT_TRUE(first && second);
  Symmetric spec;
  spec.job.membership.emplace().token = job::Token::random();
  spec.hosts = hosts;
  spec.host = "127.0.0.1";
  spec.candidates = {first->port, second->port};
  return run_symmetric(std::move(spec));
}

TEST(Symmetric, ANodeThatMustHostFailsBeforeAnythingStartsIfNoPortIsFree) {
  auto code = run_with_taken_ports(Symmetric::Hosts::kYes);
  ASSERT_FALSE(code);
  EXPECT_EQ(code.error().kind, ErrorKind::kUsage);
  EXPECT_EQ(code.error().hint, "choose another one for all nodes, with --master-port or --rdzv-endpoint");
}

// Nobody answers there, so it is not this job's coordinator either.
TEST(Symmetric, ANodeThatGuessesSaysWhatTheOtherNodeWouldNeed) {
  auto code = run_with_taken_ports(Symmetric::Hosts::kGuess);
  ASSERT_FALSE(code);
  EXPECT_EQ(code.error().kind, ErrorKind::kUsage);
  EXPECT_TRUE(code.error().hint.ends_with("give both the same --rdzv-id")) << code.error().hint;
}

}  // namespace
}  // namespace muster::launcher
