#include "muster/cli/job_record.h"

#include <poll.h>

#include <filesystem>
#include <memory>

#include "muster/base/environment.h"
#include "muster/base/fd.h"
#include "muster/base/strings.h"
#include "muster/environment/record.h"
#include "muster/environment/secrets.h"

namespace muster::cli {
namespace {

constexpr auto kTime = std::chrono::seconds(120);  // for the whole record
constexpr size_t kFixedWords = 3;

// Each ended by NUL.
std::string encode(const std::vector<std::string>& words) {
  std::string bytes;
  for (const std::string& word : words) bytes.append(word).push_back('\0');
  return bytes;
}

Result<process::Child> start_recorder(const std::vector<std::string>& words, const Environment& environment) {
  std::error_code error;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe", error).string();
  MUSTER_TRY(Fd input, memory_file(encode(words)));
  return process::spawn({.program = program,
                         .argv = {program, std::string(kRecordWord)},
                         .environment = environment,
                         .stdin_fd = input.get()});
}

}  // namespace

std::function<void()> start_record(const plan::JobPlan& plan, const std::vector<std::string>& command_line) {
  if (plan.record.empty()) return nullptr;
  std::vector<std::string> words = {plan.record, plan.job().run_id, plan.job().host};
  for (std::string& word : environment::masked_words(command_line)) words.push_back(std::move(word));
  auto child = start_recorder(words, plan.job().environment);
  if (!child) {
    Log::to_stderr().warn("--record: {}", child.error().text());
    return nullptr;
  }
  auto recorder = std::make_shared<process::Child>(*std::move(child));
  return [recorder] {
    pollfd ended{recorder->pidfd.get(), POLLIN, 0};
    if (::poll(&ended, 1, Deadline::in(plan::kRecordPatience).poll_timeout()) == 0)
      Log::to_stderr().warn("--record: nothing is kept: it has taken too long");
  };
}

int record_command() {
  auto bytes = read_file("/proc/self/fd/0");
  std::vector<std::string> words;
  if (bytes)
    for (std::string_view word : split(*bytes, '\0')) words.emplace_back(word);
  if (words.size() <= kFixedWords + 1) return 2;
  words.pop_back();  // what follows the last NUL
  std::error_code error;
  environment::RecordRequest request{.directory = words[0],
                                     .job = words[1],
                                     .host = words[2],
                                     .words = {words.begin() + kFixedWords, words.end()},
                                     .working_directory = std::filesystem::current_path(error).string(),
                                     .environment = own_environment()};
  auto folder = environment::record(request, Deadline::in(kTime));
  if (folder) return 0;
  Log::to_stderr().warn("--record: nothing is kept: {}", folder.error().text());
  return kMusterFailed;
}

}  // namespace muster::cli
