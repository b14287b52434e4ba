#include "muster/job/token.h"

#include <gtest/gtest.h>

#include <set>

namespace muster::job {
namespace {

TEST(Token, TheEmptyOneIsZero) {
  EXPECT_EQ(Token().hex(), std::string(64, '0'));
  EXPECT_FALSE(Token::random() == Token());
}

TEST(Token, RandomOnesDiffer) {
  std::set<std::string> seen;
  for (int i = 0; i < 100; ++i) seen.insert(Token::random().hex());
  EXPECT_EQ(seen.size(), 100);
}

TEST(Token, IsReadAsItIsWritten) {
  Token token = Token::random();
  auto read = Token::parse(" \t" + token.hex() + "\n");
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(*read, token);
  EXPECT_FALSE(*read == Token());
}

TEST(Token, AnythingElseIsRefusedAndNotRepeated) {
  std::string good = Token::random().hex();
  for (const std::string& text : {std::string(), good.substr(1), good + "0", good + "00", "x" + good.substr(1),
                                  good.substr(0, 32) + " " + good.substr(32), good.substr(0, 63) + "g"}) {
    auto read = Token::parse(text);
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().kind, ErrorKind::kUsage);
    EXPECT_EQ(read.error().text().find(good.substr(1, 30)), std::string::npos);
  }
}

TEST(Token, DerivedDependsOnSecretAndJobAlone) {
  Token token = Token::derive("key", "slurm/1/0");
  EXPECT_EQ(token, Token::derive("key", "slurm/1/0"));
  EXPECT_FALSE(token == Token::derive("key", "slurm/1/1"));
  EXPECT_FALSE(token == Token::derive("kez", "slurm/1/0"));
  EXPECT_FALSE(Token::derive("ab", "c") == Token::derive("a", "bc"));
  EXPECT_FALSE(Token::derive("", "") == Token());
  EXPECT_FALSE(Token::derive(std::string(100, 'x'), "") == Token::derive(std::string(101, 'x'), ""));
}

TEST(Token, WordsAreMadeCostlyToGuess) {
  auto of = [](std::string_view secret, std::string_view job) { return *Token::derive_from_words(secret, job); };
  const Token token = of("hunter2", "29500\nnone");
  EXPECT_EQ(token, of("hunter2", "29500\nnone"));
  EXPECT_FALSE(token == of("hunter2", "29501\nnone"));
  EXPECT_FALSE(token == of("hunter3", "29500\nnone"));
  EXPECT_FALSE(token == Token::derive("hunter2", "29500\nnone")) << "one fast hash";
  const std::string random = Token::random().hex();
  EXPECT_EQ(of(random, "job"), Token::derive(random, "job")) << "no need to";
}

TEST(Token, JobsOfOneNameAreOneJob) {
  EXPECT_TRUE(Token::same_job("Slurm job 1", "Slurm job 1"));
  EXPECT_FALSE(Token::same_job("Slurm job 1", "Slurm job 2"));
  EXPECT_FALSE(Token::same_job("Slurm job 1", ""));
  EXPECT_TRUE(Token::same_job("", ""));
  EXPECT_TRUE(Token::same_job("Slurm job 1", Token::kAnyJob));
  EXPECT_TRUE(Token::same_job(Token::kAnyJob, ""));
}

// Agents of one job may be of different builds: the derivation may not change by accident.
TEST(Token, DerivationIsPinned) {
  EXPECT_EQ(Token::derive("secret", "job").hex(), "820921a4eb7abf9b79921fc5d633d25e64619bf5038bf13108780e7f7ef28f53");
  EXPECT_EQ(Token::derive_from_words("secret", "job")->hex(),
            "3b52df0843df81efe98371faa6ce5ddb05f6b15f31848da31e1e8d2fbdbc6ee0");
}

}  // namespace
}  // namespace muster::job
