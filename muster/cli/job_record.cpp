#include "muster/cli/job_record.h"

#include <poll.h>

#include <filesystem>
#include <memory>

#include "muster/base/strings.h"
#include "muster/environment/record.h"
#include "muster/environment/secrets.h"
#include "muster/process/own_environment.h"

namespace muster::cli {
namespace {

constexpr auto kTime = std::chrono::seconds(120);     // for the whole record
constexpr auto kPatience = std::chrono::seconds(10);  // of a job that is over
constexpr size_t kFixedWords = 3;

}  // namespace

std::function<void()> start_record(const JobPlan& plan, const std::string& typed,
                                   const std::vector<std::string>& arguments) {
  if (plan.record.empty()) return nullptr;
  std::error_code error;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe", error).string();
  process::SpawnSpec spec{.program = program,
                          .argv = {program, std::string(kRecordWord), plan.record, plan.job.run_id, plan.job.host},
                          .environment = plan.job.environment};
  for (std::string_view word : split(typed, ' ')) spec.argv.emplace_back(word);
  // Masked here: a command line can be read by everybody on the machine.
  for (std::string& word : environment::masked_words(arguments)) spec.argv.push_back(std::move(word));
  auto child = process::spawn(spec);
  if (!child) {
    Log::to_stderr().warn("--record: {}", child.error().text());
    return nullptr;
  }
  auto recorder = std::make_shared<process::Child>(*std::move(child));
  return [recorder] {
    pollfd ended{recorder->pidfd.get(), POLLIN, 0};
    (void)::poll(&ended, 1, Deadline::in(kPatience).poll_timeout());
  };
}

int record_command(const std::vector<std::string>& words) {
  if (words.size() <= kFixedWords) return 2;
  std::error_code error;
  environment::RecordRequest request{.directory = words[0],
                                     .job = words[1],
                                     .host = words[2],
                                     .words = {words.begin() + kFixedWords, words.end()},
                                     .working_directory = std::filesystem::current_path(error).string(),
                                     .environment = process::own_environment()};
  auto folder = environment::record(request, Deadline::in(kTime));
  if (folder) return 0;
  Log::to_stderr().warn("--record: nothing is kept: {}", folder.error().text());
  return kMusterFailed;
}

}  // namespace muster::cli
