#include "muster/cluster/ssh/steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>

namespace muster::cluster::ssh {
namespace {

constexpr const char* kCache = ".cache/muster";

struct Next {
  Step step;
  std::optional<Step> success, failure;
};
constexpr std::array kNext = {
    Next{Step::kOwnProgram, std::nullopt, Step::kGuardCached},
    Next{Step::kGuardCached, Step::kCheckCached, Step::kMakeFolder},
    Next{Step::kCheckCached, Step::kCachedProgram, Step::kMakeFolder},
    Next{Step::kCachedProgram, std::nullopt, Step::kMakeFolder},
    Next{Step::kMakeFolder, Step::kGuardFolder, std::nullopt},
    Next{Step::kGuardFolder, Step::kSend, std::nullopt},
    Next{Step::kSend, Step::kCheck, Step::kRemove},
    Next{Step::kCheck, Step::kAllow, Step::kRemove},
    Next{Step::kAllow, Step::kMove, Step::kRemove},
    Next{Step::kMove, Step::kSentProgram, Step::kRemove},
    Next{Step::kSentProgram, std::nullopt, std::nullopt},
    Next{Step::kRemove, std::nullopt, std::nullopt},
};

const Next& next(Step step) { return *std::ranges::find(kNext, step, &Next::step); }

}  // namespace

bool is_agent(Step step) {
  return step == Step::kOwnProgram || step == Step::kCachedProgram || step == Step::kSentProgram;
}

bool is_attempt(Step step) { return is_agent(step) || step == Step::kGuardCached || step == Step::kCheckCached; }

bool is_check(Step step) { return step == Step::kCheck || step == Step::kCheckCached; }

Step first_step(const Options& options) {
  bool own = options.push != Options::Push::kAlways && is_plain_word(options.program);
  return own ? Step::kOwnProgram : Step::kGuardCached;
}

std::optional<Step> step_after_success(Step step) { return next(step).success; }

std::optional<Step> step_after_failure(Step step, Options::Push push) {
  const std::optional<Step> failure = next(step).failure;
  return failure == Step::kMakeFolder && push == Options::Push::kNever ? std::nullopt : failure;
}

bool is_plain_word(std::string_view word) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/+-";
  return !word.empty() && word.front() != '-' && word.find_first_not_of(kPlain) == std::string_view::npos;
}

std::string cached_program(const std::string& sha256) { return fmt::format("{}/{}/muster", kCache, sha256); }

std::vector<std::string> remote_command(Step step, const Names& names) {
  std::string cached = cached_program(names.sha256);
  std::string folder = fmt::format("{}/{}", kCache, names.sha256);
  std::string part = fmt::format("{}.{}.part", cached, names.part);
  switch (step) {
    case Step::kOwnProgram:
      return {names.program, "agent"};
    case Step::kCachedProgram:
    case Step::kSentProgram:
      return {cached, "agent"};
    // chmod fails unless the files are this user's.
    case Step::kGuardCached:
      return {"chmod", "700", kCache, folder, cached};
    case Step::kCheckCached:
      return {"sha256sum", cached};
    case Step::kMakeFolder:  // the mode is that of each directory named here and not there yet
      return {"mkdir", "-p", "-m", "700", ".cache", kCache, folder};
    case Step::kGuardFolder:
      return {"chmod", "700", kCache, folder};
    case Step::kSend:
      return {"dd", "of=" + part, "bs=65536"};
    case Step::kCheck:
      return {"sha256sum", part};
    case Step::kAllow:
      return {"chmod", "700", part};
    case Step::kMove:
      return {"mv", "-f", part, cached};
    case Step::kRemove:
      return {"rm", "-f", part};
  }
  return {};
}

std::vector<std::string> ssh_command(const Options& options, const Host& host,
                                     const std::vector<std::string>& remote_command) {
  auto timeout = std::max<int64_t>(1, std::chrono::ceil<std::chrono::seconds>(options.connect_timeout).count());
  std::vector<std::string> argv = {options.ssh};
  argv.insert(argv.end(), options.arguments.begin(), options.arguments.end());
  argv.emplace_back("-T");
  auto add = [&](std::string option) { argv.insert(argv.end(), {"-o", std::move(option)}); };
  for (const std::string& option : options.options) add(option);
  add("BatchMode=yes");
  add(fmt::format("ConnectTimeout={}", timeout));
  add("ControlMaster=no");         // one that is there is used; ours would take others with it when it ends
  add("ClearAllForwardings=yes");  // the user's own session may hold those ports
  add("ForwardAgent=no");          // an administrator of the host could use the user's keys
  add("RemoteCommand=none");
  argv.insert(argv.end(), {"--", host.name});
  argv.insert(argv.end(), remote_command.begin(), remote_command.end());
  return argv;
}

}  // namespace muster::cluster::ssh
