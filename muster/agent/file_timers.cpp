#include "muster/agent/file_timers.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "muster/base/environment.h"
#include "muster/base/random.h"

namespace muster::agent {
namespace {

// A request larger than a pipe writes at once is no request.
constexpr size_t kLongestLine = PIPE_BUF;
// Further ahead than this nobody waits, and the clock's type could not hold it.
constexpr double kLongestWait = 1e8;

double unix_now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

template <typename T>
bool get_number(const nlohmann::json& object, const char* name, T& value) {
  auto found = object.find(name);
  if (found == object.end() || !found->is_number()) return false;
  double number = found->get<double>();
  if (!std::isfinite(number) || std::abs(number) > (std::is_same_v<T, int> ? INT_MAX : 1e18)) return false;
  value = static_cast<T>(number);
  return true;
}

}  // namespace

std::optional<TimerRequest> parse_timer_request(std::string_view line) {
  if (line.size() > kLongestLine) return std::nullopt;
  auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return std::nullopt;
  TimerRequest request;
  auto scope = json.find("scope_id");
  if (scope == json.end() || !scope->is_string()) return std::nullopt;
  request.scope = scope->get<std::string>();
  if (!get_number(json, "pid", request.pid) || !get_number(json, "expiration_time", request.expires) ||
      !get_number(json, "signal", request.signal) || request.pid <= 0)
    return std::nullopt;
  return request;
}

void TimerTable::apply(TimerRequest request) {
  std::pair key(request.pid, request.scope);
  if (request.expires < 0) {
    timers_.erase(key);
  } else {
    timers_.insert_or_assign(std::move(key), std::move(request));
  }
}

std::vector<TimerRequest> TimerTable::take_expired(double now) {
  std::vector<TimerRequest> expired;
  std::set<int> pids;
  for (const auto& [key, timer] : timers_) {
    if (timer.expires > now) continue;
    pids.insert(timer.pid);
    if (timer.signal > 0) expired.push_back(timer);
  }
  std::erase_if(timers_, [&](const auto& entry) { return pids.contains(entry.first.first); });
  std::stable_sort(expired.begin(), expired.end(), [](const auto& a, const auto& b) { return a.expires < b.expires; });
  std::set<int> taken;
  std::erase_if(expired, [&](const TimerRequest& timer) { return !taken.insert(timer.pid).second; });
  return expired;
}

std::optional<double> TimerTable::next_expiry() const {
  std::optional<double> next;
  for (const auto& [key, timer] : timers_) next = std::min(next.value_or(timer.expires), timer.expires);
  return next;
}

Result<std::unique_ptr<FileTimers>> FileTimers::open(net::EventLoop& loop, std::string path, OnExpired on_expired) {
  ::unlink(path.c_str());
  if (::mkfifo(path.c_str(), 0600) != 0)
    return system_error(errno, fmt::format("TORCHELASTIC_TIMER_FILE: cannot make the pipe {}", path));
  // For writing too: so there is always a writer, and no end of file between two workers.
  Fd pipe(::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (!pipe) return system_error(errno, fmt::format("TORCHELASTIC_TIMER_FILE: cannot open {}", path));
  return std::unique_ptr<FileTimers>(new FileTimers(loop, std::move(path), std::move(pipe), std::move(on_expired)));
}

FileTimers::FileTimers(net::EventLoop& loop, std::string path, Fd pipe, OnExpired on_expired)
    : loop_(loop), path_(std::move(path)), pipe_(std::move(pipe)), on_expired_(std::move(on_expired)) {
  loop_.watch(pipe_.get(), EPOLLIN, [this](uint32_t) { read(); });
}

Result<std::unique_ptr<FileTimers>> FileTimers::open_if_asked(net::EventLoop& loop, const Environment& environment,
                                                              OnExpired on_expired) {
  if (environment.get("TORCHELASTIC_ENABLE_FILE_TIMER") != "1") return std::unique_ptr<FileTimers>();
  return open(loop, environment.get("TORCHELASTIC_TIMER_FILE").value_or(default_timer_file()), std::move(on_expired));
}

FileTimers::~FileTimers() {
  loop_.cancel(timer_);
  loop_.unwatch(pipe_.get());
  ::unlink(path_.c_str());
}

void FileTimers::clear() {
  table_.clear();
  partial_.clear();
  loop_.cancel(timer_);
}

void FileTimers::read() {
  char buffer[4 * PIPE_BUF];
  ssize_t size = ::read(pipe_.get(), buffer, sizeof buffer);
  if (size <= 0) return;  // level-triggered: what is left comes again
  partial_.append(buffer, static_cast<size_t>(size));
  size_t begin = 0;
  for (size_t end; (end = partial_.find('\n', begin)) != std::string::npos; begin = end + 1)
    if (auto request = parse_timer_request(std::string_view(partial_).substr(begin, end - begin)))
      table_.apply(*std::move(request));
  partial_.erase(0, begin);
  if (partial_.size() > kLongestLine) partial_.clear();
  check();
}

void FileTimers::check() {
  loop_.cancel(timer_);
  for (const TimerRequest& expired : table_.take_expired(unix_now())) on_expired_(expired);
  auto next = table_.next_expiry();
  if (!next) return;
  double wait = std::clamp(*next - unix_now(), 0.0, kLongestWait);
  auto delay = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(wait));
  timer_ = loop_.call_after(delay + std::chrono::milliseconds(1), [this] { check(); });
}

std::string default_timer_file() { return fmt::format("{}/watchdog_timer_{}", temporary_directory(), random_uuid()); }

}  // namespace muster::agent
