#include "muster/process/signals.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>

#include "muster/base/strings.h"

namespace muster::process {
namespace {

constexpr int kHighestSignal = 64;  // _NSIG - 1 on every Linux but MIPS

struct Alias {
  std::string_view name;
  int number;
};
// Second names that kill(1) and Python know and sigabbrev_np() does not give.
constexpr Alias kAliases[] = {{"IOT", SIGIOT}, {"CLD", SIGCHLD}, {"POLL", SIGPOLL}, {"IO", SIGIO}};

// "RTMIN", "RTMIN+2", "RTMAX-1"
std::optional<int> parse_realtime(std::string_view name) {
  bool from_min = name.starts_with("RTMIN");
  if (!from_min && !name.starts_with("RTMAX")) return std::nullopt;
  int base = from_min ? SIGRTMIN : SIGRTMAX;
  std::string_view rest = name.substr(5);
  if (rest.empty()) return base;
  if (rest[0] != (from_min ? '+' : '-')) return std::nullopt;
  auto offset = parse_int(rest.substr(1));
  if (!offset || *offset < 0 || *offset > SIGRTMAX - SIGRTMIN) return std::nullopt;
  return from_min ? base + static_cast<int>(*offset) : base - static_cast<int>(*offset);
}

}  // namespace

std::string signal_name(int number) {
  if (number > 0) {
    if (const char* name = sigabbrev_np(number)) return fmt::format("SIG{}", name);
    if (number == SIGRTMIN) return "SIGRTMIN";
    if (number > SIGRTMIN && number <= SIGRTMAX) return fmt::format("SIGRTMIN+{}", number - SIGRTMIN);
  }
  return fmt::format("signal {}", number);
}

std::optional<int> parse_signal(std::string_view text) {
  if (auto number = parse_int(text)) {
    if (*number < 1 || *number > kHighestSignal) return std::nullopt;
    return static_cast<int>(*number);
  }
  const std::string upper = upper_case(text);
  std::string_view name = upper;
  if (name.starts_with("SIG")) name.remove_prefix(3);
  for (int number = 1; number <= kHighestSignal; ++number) {
    const char* known = sigabbrev_np(number);
    if (known != nullptr && name == known) return number;
  }
  for (const Alias& alias : kAliases) {
    if (name == alias.name) return alias.number;
  }
  return parse_realtime(name);
}

Result<SignalQueue> SignalQueue::open(const std::vector<int>& signals) {
  sigset_t set;
  sigemptyset(&set);
  for (int number : signals) {
    if (sigaddset(&set, number) != 0) return system_error(errno, fmt::format("signal {}", number));
  }
  Fd fd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd) return system_error(errno, "signalfd");
  if (int error = pthread_sigmask(SIG_BLOCK, &set, nullptr)) return system_error(error, "pthread_sigmask");
  return SignalQueue(std::move(fd));
}

std::optional<Received> SignalQueue::next() {
  signalfd_siginfo info;
  ssize_t size;
  do {
    size = read(fd_.get(), &info, sizeof info);
  } while (size < 0 && errno == EINTR);
  if (size != sizeof info) return std::nullopt;
  // Codes of kill(), sigqueue() and tgkill() are zero or negative, the kernel's own are positive.
  bool from_process = info.ssi_code <= 0;
  return Received{static_cast<int>(info.ssi_signo), static_cast<int>(info.ssi_pid), from_process};
}

}  // namespace muster::process
