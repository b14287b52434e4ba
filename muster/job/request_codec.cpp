#include <fmt/format.h>

#include <concepts>
#include <limits>
#include <tuple>

#include "muster/base/bytes.h"
#include "muster/job/request.h"

namespace muster::job {
namespace {

template <typename T, typename U>
concept Is = std::same_as<std::remove_const_t<T>, U>;

// The parts of each struct, in the order of the bytes: the writer and the reader both go through these lists.
auto parts(Is<NodeRange> auto& v) { return std::tie(v.min, v.max, v.is_range); }
auto parts(Is<WorkerCount> auto& v) { return std::tie(v.what, v.number); }
auto parts(Is<StreamMasks> auto& v) { return std::tie(v.all, v.by_rank); }
auto parts(Is<StdinWish> auto& v) { return std::tie(v.kind, v.rank); }
auto parts(Is<NamedHost> auto& v) { return std::tie(v.name, v.workers); }
auto parts(Is<PortRange> auto& v) { return std::tie(v.first, v.last); }
auto parts(Is<RendezvousConf> auto& v) {
  return std::tie(v.timeout, v.join_timeout, v.last_call, v.keep_alive_interval, v.keep_alive_attempts, v.is_host,
                  v.file_store);
}
auto parts(Is<ContainerWish> auto& v) {
  return std::tie(v.image, v.name, v.runtime, v.directory, v.mounts, v.options, v.root, v.writable);
}
auto parts(Is<Request> auto& v) {
  return std::tie(v.flavor, v.dry_run, v.env_diff, v.log_threshold, v.words, v.module, v.no_python, v.run_path,
                  v.inject_local_rank, v.hosts_before_program, v.command_line, v.nproc, v.role, v.virtual_local_rank,
                  v.binding, v.nnodes, v.mode, v.hosts, v.hostfile, v.local_nodes, v.ssh, v.ssh_options, v.push,
                  v.join_timeout, v.lease, v.grow, v.ports, v.interface, v.standalone, v.backend,
                  v.endpoint, v.rdzv_id, v.conf, v.node_rank, v.master_addr, v.master_port, v.port_may_change,
                  v.local_addr, v.store, v.token_file, v.insecure, v.modules, v.conda, v.venv, v.prologues, v.env_files,
                  v.env, v.record, v.container, v.log_dir, v.redirects, v.tee, v.console_ranks, v.stdout_filters,
                  v.stderr_filters, v.prefix_template, v.label, v.progress_rank, v.stdin_wish, v.output_cap,
                  v.events_file, v.events_on_console, v.max_restarts, v.crash_loop, v.shutdown_timeout, v.signals, v.signals_text,
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

class Writer {
 public:
  void put(bool v) { out_.boolean(v); }
  void put(std::integral auto v) { out_.i64(static_cast<int64_t>(v)); }
  template <typename E>
  requires std::is_enum_v<E>
  void put(E v) { out_.u8(static_cast<uint8_t>(v)); }
  void put(Duration v) { out_.i64(v.count()); }
  void put(const std::string& v) { out_.text(v); }
  void put(const Environment& v) { put_all(v); }
  template <typename T>
  void put(const std::vector<T>& v) {
    put_all(v);
  }
  void put(const std::set<int>& v) { put_all(v); }
  void put(const std::map<int, int>& v) { put_all(v); }
  template <typename A, typename B>
  void put(const std::pair<A, B>& v) {
    put(v.first);
    put(v.second);
  }
  template <typename T>
  void put(const std::optional<T>& v) {
    put(v.has_value());
    if (v) put(*v);
  }
  template <typename T>
  void put(const Asked<T>& v) {
    put(v.origin);
    put(v.value);
  }
  void put(const auto& v) requires requires { parts(v); }
  {
    std::apply([this](const auto&... part) { (put(part), ...); }, parts(v));
  }
  void version(uint32_t v) { out_.u32(v); }
  std::string take() { return std::move(out_).take(); }

 private:
  void put_all(const auto& list) {
    out_.u32(static_cast<uint32_t>(list.size()));
    for (const auto& item : list) put(item);
  }
  ByteWriter out_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : in_(bytes) {}

  void get(bool& v) { v = in_.boolean(); }
  template <std::integral T>
  void get(T& v) {
    const int64_t read = in_.i64();
    v = static_cast<T>(read);
    if (static_cast<int64_t>(v) != read) in_.fail();
  }
  template <typename E>
  requires std::is_enum_v<E>
  void get(E& v) {
    const uint8_t read = in_.u8();
    if (read > static_cast<uint8_t>(last(E{}))) return in_.fail();
    v = static_cast<E>(read);
  }
  void get(Duration& v) { v = Duration(in_.i64()); }
  void get(std::string& v) { v = in_.text(); }
  void get(Environment& v) {
    for (size_t left = in_.count(1); left > 0 && in_.ok(); --left) {
      std::string name = in_.text();
      v.add(name, in_.text());
    }
  }
  template <typename T>
  void get(std::vector<T>& v) {
    for (size_t left = in_.count(1); left > 0 && in_.ok(); --left) get(v.emplace_back());
  }
  void get(std::set<int>& v) {
    std::vector<int> list;
    get(list);
    v.insert(list.begin(), list.end());
  }
  void get(std::map<int, int>& v) {
    std::vector<std::pair<int, int>> list;
    get(list);
    v.insert(list.begin(), list.end());
  }
  template <typename A, typename B>
  void get(std::pair<A, B>& v) {
    get(v.first);
    get(v.second);
  }
  template <typename T>
  void get(std::optional<T>& v) {
    v.reset();
    if (in_.boolean()) get(v.emplace());
  }
  template <typename T>
  void get(Asked<T>& v) {
    get(v.origin);
    get(v.value);
  }
  void get(auto& v) requires requires { parts(v); }
  {
    std::apply([this](auto&... part) { (get(part), ...); }, parts(v));
  }
  uint32_t version() { return in_.u32(); }
  bool done() const { return in_.done(); }

 private:
  ByteReader in_;
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
  Writer out;
  out.version(kRequestVersion);
  out.put(request);
  return out.take();
}

Result<Request> decode_request(std::string_view bytes) {
  Reader in(bytes);
  Request request;
  if (const uint32_t version = in.version(); version != kRequestVersion)
    return Error{
        ErrorKind::kPeer,
        fmt::format("the job's request is of version {}, and this muster reads version {}", version, kRequestVersion),
        {}};
  in.get(request);
  if (!in.done() || !makes_sense(request)) return Error{ErrorKind::kPeer, "the job's request is damaged", {}};
  return request;
}

}  // namespace muster::job
