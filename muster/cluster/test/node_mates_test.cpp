#include "muster/cluster/slurm/node_mates.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "muster/base/environment.h"
#include "muster/base/random.h"
#include "muster/base/socket_directory.h"
#include "muster/process/cpus.h"

namespace muster::cluster::slurm {
namespace {

using namespace std::chrono_literals;

std::string fresh_name() { return "test-" + random_uuid(); }

std::string path_of(const std::string& name) { return *make_socket_directory() + "/" + name; }

// The exit code of a process that waits for the first task.
pid_t start_mate(const std::string& name, Duration patience = 30s) {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  auto code = wait_for_first_task(name, Deadline::in(patience));
  ::_exit(code ? *code : 200);
}

int exit_code_of(pid_t pid) {
  int status = 0;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(NodeMates, EndAsTheFirstDoes) {
  const std::string name = fresh_name();
  std::vector<pid_t> mates = {start_mate(name)};  // before there is a first one
  auto first = NodeMates::open(name, 3);
  ASSERT_TRUE(first) << first.error().text();
  mates.push_back(start_mate(name));
  mates.push_back(start_mate(name));
  first->tell(17, Deadline::in(30s));
  for (pid_t mate : mates) EXPECT_EQ(exit_code_of(mate), 17);
}

TEST(NodeMates, MeetInADirectoryWhosePathIsLongerThanASocketsMayBe) {
  const std::string top = ::testing::TempDir() + "muster-" + random_uuid(), runtime = top + "/" + std::string(120, 'x');
  ASSERT_EQ(::mkdir(top.c_str(), S_IRWXU), 0);
  ASSERT_EQ(::mkdir(runtime.c_str(), S_IRWXU), 0);
  const std::string before = environment_variable("XDG_RUNTIME_DIR").value_or("");
  ::setenv("XDG_RUNTIME_DIR", runtime.c_str(), 1);
  const std::string name = fresh_name();
  {
    auto first = NodeMates::open(name, 1);
    EXPECT_TRUE(first);
    EXPECT_EQ(::access((runtime + "/muster/" + name).c_str(), F_OK), 0);
    const pid_t mate = start_mate(name, first ? 30s : 0s);
    if (first) first->tell(17, Deadline::in(30s));
    EXPECT_EQ(exit_code_of(mate), 17);
  }
  EXPECT_EQ(::rmdir((runtime + "/muster").c_str()), 0) << "nothing is left in it";
  before.empty() ? ::unsetenv("XDG_RUNTIME_DIR") : ::setenv("XDG_RUNTIME_DIR", before.c_str(), 1);
  EXPECT_EQ(::rmdir(runtime.c_str()), 0);
  EXPECT_EQ(::rmdir(top.c_str()), 0);
}

TEST(NodeMates, AreToldThoughAllDescriptorsAreTaken) {
  const std::string name = fresh_name();
  auto first = NodeMates::open(name, 1);
  ASSERT_TRUE(first) << first.error().text();
  const pid_t mate = start_mate(name);
  ASSERT_TRUE(first->wait_for_one(Deadline::in(30s)));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few = before;
  few.rlim_cur = 64;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<Fd> taken;
  do taken.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  while (taken.back());
  first->tell(17, Deadline::in(30s));
  taken.clear();
  EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  *first = *NodeMates::open(fresh_name(), 1);  // so that the mate does not wait for ever
  EXPECT_EQ(exit_code_of(mate), 17);
}

TEST(NodeMates, AreNotTriedForEverWithoutAnyDescriptor) {
  const std::string name = fresh_name();
  const pid_t mate = start_mate(name);  // before there is a listener that it would keep open
  auto first = NodeMates::open(name, 1);
  ASSERT_TRUE(first) << first.error().text();
  ASSERT_TRUE(first->wait_for_one(Deadline::in(30s)));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = before;
  none.rlim_cur = 1;  // which poll() needs
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  first->tell(17, Deadline::in(10ms));  // ends
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  *first = *NodeMates::open(fresh_name(), 1);
  EXPECT_EQ(exit_code_of(mate), 200);
}

TEST(NodeMates, OneThatNeverComesIsNotWaitedForInVain) {
  auto first = NodeMates::open(fresh_name(), 1);
  ASSERT_TRUE(first);
  first->tell(0, Deadline::in(10ms));
}

TEST(NodeMates, WithoutAFirstOne) { EXPECT_EQ(exit_code_of(start_mate(fresh_name(), 10ms)), 200); }

TEST(NodeMates, AFirstOneThatDiesIsNoticed) {
  const std::string name = fresh_name();
  auto first = NodeMates::open(name, 1);
  ASSERT_TRUE(first);
  const pid_t mate = ::fork();
  if (mate == 0) {
    *first = *NodeMates::open(fresh_name(), 1);  // the parent's alone now
    auto code = wait_for_first_task(name, Deadline::in(30s));
    ::_exit(!code && code.error().message.ends_with("without telling its exit code") ? 42 : 1);
  }
  ASSERT_TRUE(first->wait_for_one(Deadline::in(30s)));
  *first = *NodeMates::open(fresh_name(), 1);
  EXPECT_EQ(exit_code_of(mate), 42);
}

TEST(NodeMates, TwoFirstOnesCannotBe) {
  const std::string name = fresh_name();
  auto first = NodeMates::open(name, 1), second = NodeMates::open(name, 1);
  ASSERT_TRUE(first);
  EXPECT_FALSE(second);
}

TEST(NodeMates, MeetWhereNoOtherUserCanCome) {
  const std::string name = fresh_name();
  struct stat status {};
  {
    auto first = NodeMates::open(name, 1);
    ASSERT_TRUE(first) << first.error().text();
    ASSERT_EQ(::stat(path_of(name).c_str(), &status), 0);
    EXPECT_TRUE(S_ISSOCK(status.st_mode));
    ASSERT_EQ(::stat(path_of("").c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777u, 0700u);
    EXPECT_EQ(status.st_uid, ::getuid());
  }
  EXPECT_NE(::stat(path_of(name).c_str(), &status), 0) << "nothing is left";
}

TEST(NodeMates, ASocketOfOneThatWasKilledIsInNobodysWay) {
  const std::string name = fresh_name();
  const pid_t killed = ::fork();
  if (killed == 0) {
    auto first = NodeMates::open(name, 1);
    ::_exit(first ? 0 : 1);  // without a destructor
  }
  EXPECT_EQ(exit_code_of(killed), 0);
  ASSERT_EQ(::access(path_of(name).c_str(), F_OK), 0);
  auto first = NodeMates::open(name, 1);
  ASSERT_TRUE(first) << first.error().text();
  const pid_t mate = start_mate(name);
  first->tell(17, Deadline::in(30s));
  EXPECT_EQ(exit_code_of(mate), 17);
}

TEST(NodeMates, CoresThatCannotBeHad) {
  EXPECT_EQ(about_cores({0, 1, 4}, {0, 1, 4}), std::nullopt);
  EXPECT_EQ(about_cores({0, 1}, {0, 1, 2}), std::nullopt);
  EXPECT_EQ(about_cores({0, 1, 2, 3}, {0, 1}),
            "the workers of this node share 2 of the 4 CPUs that the step has here: Slurm has bound them to tasks, and "
            "lets no task have those of the others; write srun --ntasks-per-node=1 --cpus-per-task=4");
}

TEST(NodeMates, TheFirstTakesTheCoresOfTheOthers) {
  const std::vector<int> all = process::affinity_cpus();
  ASSERT_TRUE(process::set_affinity({all[0]}));
  EXPECT_EQ(process::affinity_cpus(), std::vector<int>{all[0]});
  Surroundings here;
  EXPECT_EQ(take_cores_of_mates(here), std::nullopt);
  EXPECT_EQ(process::affinity_cpus(), std::vector<int>{all[0]}) << "nobody is bound";
  here.bound_cpus = all;
  EXPECT_EQ(take_cores_of_mates(here), std::nullopt);
  EXPECT_EQ(process::affinity_cpus(), all);
}

TEST(NodeMates, StepsHaveNamesOfTheirOwn) {
  Surroundings here;
  here.job_id = "12";
  here.step_id = "0";
  here.node_name = "n1";
  const std::string name = mates_name(here);
  here.step_id = "1";
  EXPECT_NE(mates_name(here), name);
  here.job_id = here.step_id = here.node_name = std::string(1000, 'x');
  EXPECT_LT(mates_name(here).size(), 60u);
}

}  // namespace
}  // namespace muster::cluster::slurm
