#include "muster/environment/record.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "muster/base/environment.h"
#include "muster/base/fd.h"
#include "muster/base/strings.h"
#include "muster/environment/fingerprint.h"
#include "muster/environment/secrets.h"
#include "muster/process/command.h"
#include "muster/process/python.h"

namespace muster::environment {
namespace {

constexpr int kMostFolders = 10000;  // of one id

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::localtime_r(&now, &parts);
  char text[64];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S%z", &parts)};
}

// qstat breaks its lines anywhere, in the middle of a name too.
std::string masked_lines_of_qstat(std::string_view text) {
  constexpr std::string_view kBreak = "\n\t";
  std::string joined;
  for (size_t at = text.find(kBreak); at != std::string_view::npos; at = text.find(kBreak)) {
    joined += text.substr(0, at);
    text.remove_prefix(at + kBreak.size());
  }
  return masked_assignments(joined.append(text));
}

class Recorder {
 public:
  Recorder(const RecordRequest& request, std::string folder, Deadline deadline)
      : request_(request), folder_(std::move(folder)), deadline_(deadline) {}

  Result<void> write_everything() {
    MUSTER_TRY_VOID(write("command.txt", command_text()));
    MUSTER_TRY_VOID(write("environment.txt", environment_text()));
    const nlohmann::json versions = take_versions(request_.environment, deadline_);
    MUSTER_TRY_VOID(write("versions.json", versions.dump(2) + "\n"));
    ask_git();
    ask_packages();
    ask("nvidia-smi.txt", {"nvidia-smi"});
    ask_scheduler();
    return write("record.json", index_.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  }

 private:
  Result<void> write(const std::string& name, const std::string& text) {
    MUSTER_TRY_VOID(write_whole_file(folder_ + "/" + name, text));
    index_["files"].push_back(name);
    return {};
  }

  std::string command_text() {
    index_["job"] = request_.job;
    index_["host"] = request_.host;
    index_["directory"] = request_.working_directory;
    index_["time"] = now_text();
    index_["command"] = request_.words;
    return shell_quote(request_.words) + "\n";
  }

  std::string environment_text() const {
    std::map sorted(request_.environment.begin(), request_.environment.end());
    std::string text;
    for (const auto& [name, value] : sorted) text += fmt::format("{}={}\n", name, shell_quote(masked(name, value)));
    return text;
  }

  // True: it said something, which is in the file now, masked as its kind needs it.
  bool ask(const std::string& file, std::vector<std::string> command,
           std::string (*mask)(std::string_view) = masked_text) {
    const std::string name = command[0];
    auto said = process::run_command(std::move(command), request_.environment, deadline_);
    std::string problem;
    if (!said) {
      problem = said.error().message;
    } else if (!said->status.success()) {
      problem = fmt::format("{}: {} ({})", name, process::last_line(said->errors), said->status.text());
    } else if (auto written = write(file, mask(said->output)); !written) {
      problem = written.error().message;
    }
    if (!problem.empty()) index_["missing"][file] = problem;
    return problem.empty();
  }

  void ask_git() {
    if (!ask("git.txt", {"git", "log", "-1", "--format=commit %H%nbranch %D%nauthor %an%ndate %ad%n%n%s"})) {
      for (const char* other : {"git-status.txt", "git.diff"}) index_["missing"][other] = index_["missing"]["git.txt"];
      return;
    }
    ask("git-status.txt", {"git", "status", "--porcelain", "--branch"});
    ask("git.diff", {"git", "--no-pager", "diff", "--no-color", "--no-ext-diff", "HEAD"});
  }

  void ask_packages() {
    auto getenv = [this](const std::string& name) { return request_.environment.get(name); };
    if (auto python = process::find_python(getenv)) {
      ask("pip-freeze.txt", {*python, "-m", "pip", "freeze", "--disable-pip-version-check"});
    } else {
      index_["missing"]["pip-freeze.txt"] = python.error().message;
    }
    const auto prefix = request_.environment.get("CONDA_PREFIX");
    if (prefix) {
      ask("conda-list.txt",
          {request_.environment.get("CONDA_EXE").value_or("conda"), "list", "--prefix", *prefix, "--export"});
    } else {
      index_["missing"]["conda-list.txt"] = "no conda environment is active (CONDA_PREFIX is not set)";
    }
  }

  void ask_scheduler() {
    if (auto job = request_.environment.get("SLURM_JOB_ID")) {
      ask("scheduler.txt", {"scontrol", "show", "job", "-d", *job}, masked_assignments);
    } else if (auto id = request_.environment.get("PBS_JOBID")) {
      ask("scheduler.txt", {"qstat", "-f", *id}, masked_lines_of_qstat);
    } else {
      index_["missing"]["scheduler.txt"] = "no job of Slurm or PBS (neither SLURM_JOB_ID nor PBS_JOBID is set)";
    }
  }

  const RecordRequest& request_;
  const std::string folder_;
  const Deadline deadline_;
  nlohmann::ordered_json index_;
};

// A new one in `directory`, which is made where it is missing.
Result<std::string> make_folder(const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return Error{ErrorKind::kSystem, fmt::format("{}: {}", directory, error.message()), {}};
  std::string folder = directory + "/.record-XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) return system_error(errno, directory);
  return folder;
}

// Under the first name that nobody has: a folder is never replaced.
Result<std::string> publish(const std::string& from, const std::string& wanted) {
  for (int i = 1; i <= kMostFolders; ++i) {
    const std::string to = i == 1 ? wanted : fmt::format("{}-{}", wanted, i);
    if (::access(to.c_str(), F_OK) == 0) continue;
    if (::rename(from.c_str(), to.c_str()) == 0) return to;
    if (errno != ENOTEMPTY && errno != EEXIST) return system_error(errno, to);
  }
  return Error{ErrorKind::kSystem, fmt::format("{} and all further names are taken", wanted), {}};
}

}  // namespace

std::string folder_name(std::string_view job) {
  std::string name(job.substr(0, 128));
  for (char& c : name)
    if (c == '/' || static_cast<unsigned char>(c) <= ' ') c = '_';
  if (name.empty() || name[0] == '.') name.insert(0, "_");
  return name;
}

Result<void> check_record_directory(const std::string& directory) {
  auto folder = make_folder(directory);
  if (!folder)
    return Error{ErrorKind::kUsage, folder.error().message, "name a directory that you may write to on that node"};
  ::rmdir(folder->c_str());
  return {};
}

Result<std::string> record(const RecordRequest& request, Deadline deadline) {
  MUSTER_TRY(const std::string temporary, make_folder(request.directory));
  const std::string wanted = request.directory + "/" + folder_name(request.job);
  auto written = Recorder(request, temporary, deadline).write_everything();
  auto published = written ? publish(temporary, wanted) : Result<std::string>(written.error());
  std::error_code error;
  if (!published) std::filesystem::remove_all(temporary, error);
  return published;
}

}  // namespace muster::environment
