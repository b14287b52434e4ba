#include "muster/rendezvous/munge.h"

#include <gmock/gmock.h>

#include "muster/rendezvous/test/munged.h"

namespace muster::rendezvous {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Munge, CarriesATokenToTheSameUserAgainAndAgain) {
  test::Munged munged('k');
  const Munge munge = munged.client();
  const job::Token token = job::Token::random();
  const std::string credential = *munge.seal(token, "job 1");
  EXPECT_LT(credential.size(), kLongestCredential);
  EXPECT_THAT(credential, Not(HasSubstr(token.hex())));
  for (int life = 0; life < 3; ++life) EXPECT_TRUE(*munge.unseal(credential, "job 1") == token) << life;
}

TEST(Munge, AnotherJobsIsNotTaken) {
  test::Munged munged('k');
  const Munge munge = munged.client();
  job::Token token = job::Token::random();
  token.set_job("Slurm job 41");
  const std::string credential = *munge.seal(token, "job 1");
  const Error error = munge.unseal(credential, "job 2").error();
  EXPECT_EQ(error.message, "belongs to another job of yours: Slurm job 41");
  EXPECT_EQ(error.kind, ErrorKind::kPeer);
}

TEST(Munge, AnotherKeyOpensNothing) {
  test::Munged here('k'), elsewhere('x');
  const std::string credential = *here.client().seal(job::Token::random(), "job");
  EXPECT_EQ(elsewhere.client().unseal(credential, "job").error().message, "munge: Invalid credential");
}

TEST(Munge, BytesOfAnybodyAreNoToken) {
  test::Munged munged('k');
  const Munge munge = munged.client();
  const std::string credential = *munge.seal(job::Token::random(), "job");
  for (const std::string& bytes : {std::string(), std::string("MUNGE:"), std::string(4096, 'A'), std::string("\0x", 2),
                                   credential.substr(0, credential.size() / 2)})
    EXPECT_FALSE(munge.unseal(bytes, "job").ok()) << bytes;
}

TEST(Munge, WhereThereIsNoDaemonItSaysSo) {
  auto munge = Munge::open("/nonexistent/socket");
  ASSERT_TRUE(munge.ok());
  EXPECT_THAT(munge->seal(job::Token::random(), "job").error().text(), HasSubstr("is munged running"));
}

}  // namespace
}  // namespace muster::rendezvous
