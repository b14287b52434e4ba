#include "muster/environment/record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>

#include "muster/base/fd.h"

namespace muster::environment {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class Record : public ::testing::Test {
 protected:
  Record() {
    char name[] = "/tmp/muster-record-XXXXXX";
    directory_ = ::mkdtemp(name);
    std::filesystem::create_directory(directory_ + "/bin");
    request_.directory = directory_ + "/kept/here";
    request_.job = "job/1";
    request_.host = "n1";
    request_.words = {"muster", "run", "a b"};
    request_.environment = {{"PATH", directory_ + "/bin"}, {"HF_TOKEN", "hush"}, {"A", "x y"}};
  }
  ~Record() override { std::filesystem::remove_all(directory_); }

  void program(const std::string& name, const std::string& body) {
    const std::string path = directory_ + "/bin/" + name;
    ASSERT_TRUE(write_whole_file(path, "#!/bin/sh\n" + body + "\n"));
    ASSERT_EQ(::chmod(path.c_str(), 0755), 0);
  }
  std::string text(const std::string& folder, const std::string& file) {
    auto content = read_file(folder + "/" + file);
    return content ? *content : "missing";
  }

  std::string directory_;
  RecordRequest request_;
};

TEST_F(Record, KeepsWhatThereIs) {
  program("git", "case $1 in log) echo commit 123;; status) echo '## main';; *) echo '-url http://u:p@h/';; esac");
  program("python", "case \"$*\" in '-m pip freeze'*) echo numpy==1.0;; *) echo 3.9.1;; esac");
  program("conda", "echo \"conda $*\"");
  program("scontrol", "echo JobId=$4");
  program("nvidia-smi", "echo GPU 0: H200");
  request_.environment.add("CONDA_PREFIX", "/envs/x");
  request_.environment.add("SLURM_JOB_ID", "12");
  auto folder = record(request_, Deadline::in(std::chrono::seconds(60)));
  ASSERT_TRUE(folder) << folder.error().text();
  EXPECT_EQ(*folder, directory_ + "/kept/here/job_1");
  EXPECT_EQ(text(*folder, "command.txt"), "muster run 'a b'\n");
  EXPECT_THAT(text(*folder, "environment.txt"), HasSubstr("A='x y'\n"));
  EXPECT_THAT(text(*folder, "environment.txt"), Not(HasSubstr("hush")));
  EXPECT_EQ(text(*folder, "git.txt"), "commit 123\n");
  EXPECT_EQ(text(*folder, "git.diff"), "-url http://u:***@h/\n");
  EXPECT_EQ(text(*folder, "pip-freeze.txt"), "numpy==1.0\n");
  EXPECT_EQ(text(*folder, "conda-list.txt"), "conda list --prefix /envs/x --export\n");
  EXPECT_EQ(text(*folder, "scheduler.txt"), "JobId=12\n");
  EXPECT_THAT(text(*folder, "versions.json"), HasSubstr("3.9.1"));
  EXPECT_EQ(text(*folder, "nvidia-smi.txt"), "GPU 0: H200\n");
  EXPECT_THAT(text(*folder, "record.json"), Not(HasSubstr("\"missing\"")));
}

TEST_F(Record, AsksPbsOfItsJob) {
  program("qstat", "echo \"Job Id: $2\"; echo \"    of $1\"");
  request_.environment.add("PBS_JOBID", "7.ctl");
  auto folder = record(request_, Deadline::in(std::chrono::seconds(60)));
  ASSERT_TRUE(folder) << folder.error().text();
  EXPECT_EQ(text(*folder, "scheduler.txt"), "Job Id: 7.ctl\n    of -f\n");
}

TEST_F(Record, ASchedulersWordsHideSecretsToo) {
  program("scontrol", "echo JobId=1 Comment=A_KEY=hush");
  request_.environment.add("SLURM_JOB_ID", "12");
  request_.environment.add("SLURM_EXPORT_ENV", "ALL,WANDB_API_KEY=hush");
  auto slurm = record(request_, Deadline::in(std::chrono::seconds(60)));
  ASSERT_TRUE(slurm) << slurm.error().text();
  EXPECT_EQ(text(*slurm, "scheduler.txt"), "JobId=1 Comment=A_KEY=***\n");
  EXPECT_THAT(text(*slurm, "environment.txt"), HasSubstr("WANDB_API_KEY=***"));
  program("qstat", R"(printf '    Variable_List = A=b,WANDB_AP\n\tI_KEY=hu\n\tsh,B=c\n')");
  request_.environment.erase("SLURM_JOB_ID");
  request_.environment.add("PBS_JOBID", "12.n1");
  auto pbs = record(request_, Deadline::in(std::chrono::seconds(60)));
  ASSERT_TRUE(pbs) << pbs.error().text();
  EXPECT_EQ(text(*pbs, "scheduler.txt"), "    Variable_List = A=b,WANDB_API_KEY=***,B=c\n");
}

TEST_F(Record, SaysWhyAFileIsMissing) {
  auto folder = record(request_, Deadline::in(std::chrono::seconds(60)));
  ASSERT_TRUE(folder) << folder.error().text();
  const std::string index = text(*folder, "record.json");
  for (const char* file :
       {"git.txt", "git-status.txt", "git.diff", "pip-freeze.txt", "conda-list.txt", "nvidia-smi.txt", "scheduler.txt"})
    EXPECT_THAT(index, HasSubstr(std::string("\"") + file + "\": \"")) << file;
}

TEST_F(Record, ReplacesNothing) {
  auto first = record(request_, Deadline::in(std::chrono::seconds(60)));
  auto second = record(request_, Deadline::in(std::chrono::seconds(60)));
  ASSERT_TRUE(first && second);
  EXPECT_EQ(*second, *first + "-2");
}

TEST_F(Record, APlaceThatCannotBeWrittenIsNamed) {
  request_.directory = "/proc/nowhere";
  auto folder = record(request_, Deadline::in(std::chrono::seconds(60)));
  ASSERT_FALSE(folder);
  EXPECT_THAT(folder.error().message, HasSubstr("/proc/nowhere"));
}

TEST_F(Record, APlaceIsTriedBeforehand) {
  EXPECT_TRUE(check_record_directory(request_.directory));
  EXPECT_TRUE(std::filesystem::is_empty(request_.directory));
  program("file", "");
  for (const std::string& bad : {std::string("/proc/nowhere"), directory_ + "/bin/file", directory_ + "/bin/file/x"}) {
    auto checked = check_record_directory(bad);
    ASSERT_FALSE(checked) << bad;
    EXPECT_EQ(checked.error().kind, ErrorKind::kUsage);
    EXPECT_THAT(checked.error().message, HasSubstr(bad));
  }
}

TEST_F(Record, AProgramThatHangsCostsItsFileAlone) {
  program("python", "exec /bin/sleep 1000");
  auto folder = record(request_, Deadline::in(std::chrono::milliseconds(500)));
  ASSERT_TRUE(folder) << folder.error().text();
  EXPECT_EQ(text(*folder, "pip-freeze.txt"), "missing");
  EXPECT_THAT(text(*folder, "record.json"), HasSubstr("/python did not answer in time"));
  EXPECT_THAT(text(*folder, "environment.txt"), HasSubstr("A='x y'\n"));
}

TEST(FolderName, IsOneForAnyId) {
  EXPECT_EQ(folder_name("a/../b c"), "a_.._b_c");
  EXPECT_EQ(folder_name(".."), "_..");
  EXPECT_EQ(folder_name(""), "_");
}

}  // namespace
}  // namespace muster::environment
