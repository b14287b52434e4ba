#include "muster/environment/secrets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::environment {
namespace {

using ::testing::ElementsAre;

TEST(Secrets, NamesThatSaySo) {
  for (const char* name : {"WANDB_API_KEY", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "DB_PASSWORD", "MYSQL_PASS", "GH_PAT",
                           "GOOGLE_APPLICATION_CREDENTIALS", "PBS_JOBCOOKIE", "apikey", "HTTP_AUTH", "--hub-token"})
    EXPECT_TRUE(is_secret_name(name)) << name;
  for (const char* name : {"PATH", "PWD", "OLDPWD", "TOKENIZERS_PARALLELISM", "KEYBOARD", "AUTHOR", "SSH_AUTH_SOCK",
                           "MONITOR", "NCCL_DEBUG", "COMPASS", "XAUTHORITY"})
    EXPECT_FALSE(is_secret_name(name)) << name;
}

TEST(Secrets, ValuesThatShowIt) {
  EXPECT_EQ(masked("WANDB_API_KEY", "abc"), "***");
  EXPECT_EQ(masked("WANDB_API_KEY", ""), "");
  EXPECT_EQ(masked("DATABASE", "postgres://me:hush@db:5432/x?y=1"), "postgres://me:***@db:5432/x?y=1");
  EXPECT_EQ(masked("PROXY", "http://proxy:3128"), "http://proxy:3128");
  EXPECT_EQ(masked("URL", "ssh://git@host/x"), "ssh://git@host/x");
  EXPECT_EQ(masked("TWO", "a://u:p@h,b://v:q@i"), "a://u:***@h,b://v:***@i");
  EXPECT_EQ(masked("X", "hf_abcdefghijklmnopqrstuvw"), "***");
  EXPECT_EQ(masked("X", "run of hf_x"), "run of hf_x");
  EXPECT_EQ(masked("CERT", "-----BEGIN PRIVATE"), "***");
}

TEST(Secrets, VariablesThatNameOthers) {
  EXPECT_EQ(masked("SLURM_EXPORT_ENV", "ALL,WANDB_API_KEY=0123456789abcdef,A=b"), "ALL,WANDB_API_KEY=***,A=b");
  EXPECT_EQ(masked("X", "A=1;HF_TOKEN=x;B=2"), "A=1;HF_TOKEN=***;B=2");
  EXPECT_EQ(masked("X", "--api-key=x --lr=3"), "--api-key=*** --lr=3");
  EXPECT_EQ(masked("X", "--env=A_KEY=x"), "--env=A_KEY=***");
  EXPECT_EQ(masked("X", "A_KEY=,B=2"), "A_KEY=,B=2");
  EXPECT_EQ(masked("X", "ALL,A_KEY,B"), "ALL,A_KEY,B");
  EXPECT_EQ(masked("X", "url=http://u:p@h/,a=b=c"), "url=http://u:***@h/,a=b=c");
}

TEST(Secrets, WhatASchedulerPrints) {
  EXPECT_EQ(masked_assignments("   JobId=1 A_KEY=x y, z\n   Name=n\n"), "   JobId=1 A_KEY=***\n   Name=n\n");
  EXPECT_EQ(masked_assignments("    Variable_List = A=b,PASS=x\\,y=z,HOME=/h\n    etime = Mon\n"),
            "    Variable_List = A=b,PASS=***,HOME=/h\n    etime = Mon\n");
  EXPECT_EQ(masked_assignments("    List = A_KEY=two\nlines\n    etime = Mon\n"),
            "    List = A_KEY=***\n    etime = Mon\n");
  EXPECT_EQ(masked_assignments("    Submit_arguments = -- p --api-key x --lr 1 --token --v --password y\n"),
            "    Submit_arguments = -- p --api-key *** --lr 1 --token --v --password ***\n");
}

TEST(Secrets, CommandLines) {
  EXPECT_THAT(masked_words({"muster", "run", "--env", "HF_TOKEN=x", "--env=A_KEY=y", "train.py", "--token=z",
                            "--api-key", "w", "--lr", "0.1", "--key", "--other", "http://u:p@h/"}),
              ElementsAre("muster", "run", "--env", "HF_TOKEN=***", "--env=A_KEY=***", "train.py", "--token=***",
                          "--api-key", "***", "--lr", "0.1", "--key", "--other", "http://u:***@h/"));
}

TEST(Secrets, ThirdOfThreeAssignments) {
  EXPECT_THAT(masked_words({"--prologue", "export A=1 B=2; export API_KEY=x C=3", "--conf=a=b=c=d", "EMPTY_TOKEN="}),
              ElementsAre("--prologue", "export A=1 B=2; export API_KEY=***", "--conf=a=b=c=d", "EMPTY_TOKEN="));
}

}  // namespace
}  // namespace muster::environment
