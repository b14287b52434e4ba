#include "muster/cli/suggestions.h"

#include <gtest/gtest.h>

#include "muster/base/strings.h"

namespace muster::cli {
namespace {

std::string resembled(std::string_view name) {
  std::vector<std::string> names;
  for (const Option* option : resembled_options(Verb::kRun, name)) names.emplace_back(option->name);
  return muster::join(names, " ");
}

TEST(Suggestions, TyposOfOptions) {
  constexpr std::pair<std::string_view, std::string_view> kTypos[] = {
      {"nporc-per-node", "nproc-per-node"},
      {"nproc-per-nod3", "nproc-per-node"},
      {"nporc", "nproc-per-node"},
      {"nprocs", "nproc-per-node"},
      {"nnode2", "nnodes"},
      {"nodes", "nnodes"},
      {"hsots", "hosts"},
      {"host-file", "hostfile"},
      {"logdir", "log-dir"},
      {"log-dri", "log-dir"},
      {"max-restart-s", "max-restarts"},
      {"restarts", "max-restarts"},
      {"restart", "max-restarts"},
      {"stnadalone", "standalone"},
      {"teee", "tee"},
      {"lable", "label"},
      {"reprot", "report"},
      {"containr", "container"},
      {"timeout", "shutdown-timeout join-timeout"},
      {"numa", "numa-binding"},
      {"conf", "rdzv-conf"},
  };
  for (const auto& [typed, meant] : kTypos) EXPECT_EQ(resembled(typed), meant) << typed;
}

TEST(Suggestions, OtherWordsResembleNothing) {
  for (std::string_view typed : {"time", "seed", "mem", "cpus", "config", "lr", "epochs", "batch-size", "debug", "data",
                                 "exclude", "frobnicate", "steps", "dataset", "resume", "save-dir", "x", ""})
    EXPECT_EQ(resembled(typed), "") << typed;
}

TEST(Suggestions, NamesOfOtherLaunchers) {
  EXPECT_EQ(known_elsewhere("-n2"), Opt::kNprocPerNode);
  EXPECT_EQ(known_elsewhere("-H"), Opt::kHosts);
  EXPECT_EQ(known_elsewhere("--name"), Opt::kRdzvId);
  EXPECT_EQ(known_elsewhere("--job_name"), Opt::kRdzvId);
  EXPECT_EQ(known_elsewhere("--stdout"), Opt::kLogDir);
  EXPECT_EQ(known_elsewhere("--nnodes"), std::nullopt);
}

TEST(Suggestions, Verbs) {
  constexpr std::pair<std::string_view, std::string_view> kWords[] = {
      {"runn", "did you mean 'muster run'?"},
      {"rnu", "did you mean 'muster run'?"},
      {"lanch", "did you mean 'muster launch'?"},
      {"sttaus", "did you mean 'muster status'?"},
      {"start", "did you mean 'muster run'?"},
      {"ps", "did you mean 'muster status'?"},
      {"list", "did you mean 'muster status'?"},
      {"stop", "to stop a job press Ctrl-C, or send SIGTERM to the muster that started it"},
      {"kill", "to stop a job press Ctrl-C, or send SIGTERM to the muster that started it"},
      {"frobnicate", "muster --help lists the verbs"},
  };
  for (const auto& [word, hint] : kWords) EXPECT_EQ(hint_for_verb(word, "muster"), hint) << word;
}

}  // namespace
}  // namespace muster::cli
