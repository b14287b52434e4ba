#include "muster/rendezvous/token.h"

#include <gtest/gtest.h>

#include <set>

namespace muster::rendezvous {
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

// Agents of one job may be of different builds: the derivation may not change by accident.
TEST(Token, DerivationIsPinned) {
  EXPECT_EQ(Token::derive("secret", "job").hex(), "820921a4eb7abf9b79921fc5d633d25e64619bf5038bf13108780e7f7ef28f53");
}

}  // namespace
}  // namespace muster::rendezvous
