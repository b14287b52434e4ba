#include <gtest/gtest.h>

#include "muster/plan/known.h"

namespace muster::plan {
namespace {

TEST(Words, Endpoints) {
  EXPECT_EQ(parse_endpoint("")->host, "localhost");
  EXPECT_EQ(parse_endpoint("")->port, -1);
  EXPECT_EQ(parse_endpoint(" h:1 ")->port, 1);
  EXPECT_EQ(parse_endpoint("[::1]:5")->host, "::1");
  EXPECT_EQ(parse_endpoint("[::1]")->host, "::1");
  EXPECT_EQ(parse_endpoint("[::1]")->port, -1);
  EXPECT_EQ(parse_endpoint("::1")->host, ":") << "as torchrun reads it";
  for (const char* bad : {":5", "h:", "h:x", "h:65536", "h:-1", "a b:1", "h/:1"})
    EXPECT_FALSE(parse_endpoint(bad)) << bad;
}

TEST(Words, ACommandWithArgumentsAsRsyncReadsIt) {
  using Words = std::vector<std::string>;
  EXPECT_EQ(*split_command("ssh"), Words({"ssh"}));
  EXPECT_EQ(*split_command("  ssh  -F config "), Words({"ssh", "-F", "config"}));
  EXPECT_EQ(*split_command("ssh -o 'ProxyCommand nc %h 22' -i \"my key\""),
            Words({"ssh", "-o", "ProxyCommand nc %h 22", "-i", "my key"}));
  EXPECT_EQ(*split_command("'/opt/my tools/ssh' -v"), Words({"/opt/my tools/ssh", "-v"}));
  EXPECT_EQ(*split_command("ssh -o x='it''s' \"\""), Words({"ssh", "-o", "x=it's", ""}));
  EXPECT_EQ(*split_command("ssh a\\ b"), Words({"ssh", "a\\", "b"})) << "no escapes";
  EXPECT_EQ(split_command("ssh -i 'my key").error().text(), "there is no second ' in ssh -i 'my key; close the quote");
  EXPECT_EQ(split_command(" ").error().text(), "it is empty; name a program, or leave it out");
}

}  // namespace
}  // namespace muster::plan
