#include <fmt/format.h>

#include <concepts>
#include <limits>
#include <tuple>

#include "muster/base/bytes.h"
#include "muster/job/request.h"

namespace muster::job {
namespace {

// The parts of each struct, in the order of the bytes.
auto parts(NodeRange& v) { return std::tie(v.min, v.max, v.is_range); }
auto parts(WorkerCount& v) { return std::tie(v.what, v.number); }
auto parts(StreamMasks& v) { return std::tie(v.all, v.by_rank); }
auto parts(StdinWish& v) { return std::tie(v.kind, v.rank); }
auto parts(NamedHost& v) { return std::tie(v.name, v.workers); }
auto parts(PortRange& v) { return std::tie(v.first, v.last); }
auto parts(RendezvousConf& v) {
  return std::tie(v.timeout, v.join_timeout, v.last_call, v.keep_alive_interval, v.keep_alive_attempts, v.is_host,
                  v.file_store);
}
auto parts(ContainerWish& v) {
  return std::tie(v.image, v.name, v.runtime, v.directory, v.mounts, v.options, v.root, v.writable);
}
auto parts(Request& v) {
  return std::tie(v.flavor, v.dry_run, v.env_diff, v.log_threshold, v.words, v.module, v.no_python, v.run_path,
                  v.inject_local_rank, v.hosts_before_program, v.command_line, v.nproc, v.role, v.virtual_local_rank,
                  v.binding, v.nnodes, v.mode, v.hosts, v.hostfile, v.local_nodes, v.ssh, v.ssh_options, v.push,
                  v.join_timeout, v.lease, v.grow, v.ports, v.interface, v.standalone, v.backend, v.endpoint, v.rdzv_id,
                  v.conf, v.node_rank, v.master_addr, v.master_port, v.port_may_change, v.local_addr, v.store,
                  v.token_file, v.insecure, v.modules, v.conda, v.venv, v.prologues, v.env_files, v.env, v.record,
                  v.container, v.log_dir, v.redirects, v.tee, v.console_ranks, v.stdout_filters, v.stderr_filters,
                  v.prefix_template, v.label, v.progress_rank, v.stdin_wish, v.output_cap, v.events_file,
                  v.events_on_console, v.max_restarts, v.crash_loop, v.shutdown_timeout, v.signals, v.signals_text,
                  v.keep_children, v.report, v.worker_variables, v.processes, v.ranked, v.accelerate);
}

// The largest value of each enum.
constexpr Flavor last(Flavor) { return Flavor::kLaunch; }
constexpr LogLevel last(LogLevel) { return LogLevel::kError; }
constexpr Origin last(Origin) { return Origin::kOption; }
constexpr Countable last(Countable) { return Countable::kAuto; }
constexpr process::Binding last(process::Binding) { return process::Binding::kCoreComplex; }
constexpr Mode last(Mode) { return Mode::kLocal; }
constexpr PushBinary last(PushBinary) { return PushBinary::kNever; }
constexpr Growth last(Growth) { return Growth::kNever; }
constexpr Backend last(Backend) { return Backend::kC10d; }
constexpr StoreHost last(StoreHost) { return StoreHost::kWorker; }
constexpr LabelKind last(LabelKind) { return LabelKind::kHostRank; }
constexpr StdinWish::Kind last(StdinWish::Kind) { return StdinWish::Kind::kRank; }

// Writes or reads, part by part.
class Archive {
 public:
  Archive() = default;
  explicit Archive(std::string_view bytes) : in_(bytes) {}

  void pass(bool& v) {
    if (in_)
      v = in_->boolean();
    else
      out_.boolean(v);
  }
  template <std::integral T>
  void pass(T& v) {
    if (!in_) return out_.i64(static_cast<int64_t>(v));
    const int64_t read = in_->i64();
    v = static_cast<T>(read);
    if (static_cast<int64_t>(v) != read) in_->fail();
  }
  template <typename E>
  requires std::is_enum_v<E>
  void pass(E& v) {
    if (!in_) return out_.u8(static_cast<uint8_t>(v));
    const uint8_t read = in_->u8();
    if (read > static_cast<uint8_t>(last(E{}))) return in_->fail();
    v = static_cast<E>(read);
  }
  void pass(Duration& v) {
    int64_t count = v.count();
    pass(count);
    v = Duration(count);
  }
  void pass(std::string& v) {
    if (in_)
      v = in_->text();
    else
      out_.text(v);
  }
  template <typename T>
  void pass(std::vector<T>& v) {
    if (!in_) out_.u32(static_cast<uint32_t>(v.size()));
    for (T& item : v) pass(item);
    for (size_t left = in_ ? in_->count(1) : 0; left > 0 && in_->ok(); --left) pass(v.emplace_back());
  }
  void pass(Environment& v) {
    std::vector<Environment::Variable> list(v.begin(), v.end());
    pass(list);
    v = Environment();
    for (const Environment::Variable& variable : list) v.add(variable);
  }
  void pass(std::set<int>& v) {
    std::vector<int> list(v.begin(), v.end());
    pass(list);
    v = {list.begin(), list.end()};
  }
  void pass(std::map<int, int>& v) {
    std::vector<std::pair<int, int>> list(v.begin(), v.end());
    pass(list);
    v = {list.begin(), list.end()};
  }
  template <typename A, typename B>
  void pass(std::pair<A, B>& v) {
    pass(v.first);
    pass(v.second);
  }
  template <typename T>
  void pass(std::optional<T>& v) {
    bool has = v.has_value();
    pass(has);
    if (has && !v) v.emplace();
    if (!has) v.reset();
    if (v) pass(*v);
  }
  template <typename T>
  void pass(Asked<T>& v) {
    pass(v.origin);
    pass(v.value);
  }
  void pass(auto& v) requires requires { parts(v); }
  {
    std::apply([this](auto&... part) { (this->pass(part), ...); }, parts(v));
  }

  bool done() const { return in_->done(); }
  std::string take() { return std::move(out_).take(); }

 private:
  ByteWriter out_;
  std::optional<ByteReader> in_;  // none: it writes
};

// What the planner relies on.
bool makes_sense(const Request& r) {
  constexpr Duration kLongest = std::chrono::hours(24 * 3660);
  const auto is_time = [&](Duration time) { return time >= Duration(0) && time <= kLongest; };
  return (r.env_diff || !r.words.empty()) && r.nnodes->min >= 1 && r.nnodes->min <= r.nnodes->max &&
         r.nproc->number >= 1 && (!r.processes || *r.processes >= 1) && r.ports.first <= r.ports.last &&
         (!*r.master_port || (**r.master_port >= 0 && **r.master_port <= UINT16_MAX)) &&
         (!r.local_nodes.given() || *r.local_nodes >= 1) && is_time(*r.join_timeout) && is_time(*r.lease) &&
         is_time(r.shutdown_timeout);
}

}  // namespace

std::string encode(const Request& request) {
  Archive archive;
  uint32_t version = kRequestVersion;
  archive.pass(version);
  Request copy = request;
  archive.pass(copy);
  return archive.take();
}

Result<Request> decode_request(std::string_view bytes) {
  Archive archive(bytes);
  uint32_t version = 0;
  archive.pass(version);
  if (version != kRequestVersion)
    return Error{
        ErrorKind::kPeer,
        fmt::format("the job's request is of version {}, and this muster reads version {}", version, kRequestVersion),
        {}};
  Request request;
  archive.pass(request);
  if (!archive.done() || !makes_sense(request)) return Error{ErrorKind::kPeer, "the job's request is damaged", {}};
  return request;
}

}  // namespace muster::job
