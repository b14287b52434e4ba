#pragma once

#include <map>
#include <string>

#include "muster/base/fd.h"
#include "muster/base/log.h"
#include "muster/net/event_loop.h"

namespace muster::output {

// --stdin all: copies what arrives on our stdin to every worker, and its end. Read at the pace of the fastest worker;
// one that falls kBacklog behind the others has its stdin closed, which is said.
class StdinRelay {
 public:
  static constexpr size_t kBacklog = 8 << 20;

  // Does not own `source`, nor change its flags.
  StdinRelay(net::EventLoop& loop, Log& log, int source);
  ~StdinRelay();
  StdinRelay(const StdinRelay&) = delete;
  StdinRelay& operator=(const StdinRelay&) = delete;

  // The end a worker reads from; it gets what arrives from now on.
  Result<Fd> add(int rank);
  void remove(int rank);

 private:
  struct Reader {
    Fd pipe;
    std::string pending;
  };

  void open_source(int source);
  void read_source();
  void source_ended();
  void write_to(int rank);
  void close_reader(int rank);
  bool somebody_waits() const;
  void update_watch();

  net::EventLoop& loop_;
  Log& log_;
  int source_;
  Fd own_;  // the same file, opened anew without blocking
  enum class Kind { kFile, kPollable, kSocket } kind_ = Kind::kFile;
  bool ended_ = false;
  bool watching_ = false;
  std::map<int, Reader> readers_;  // by rank
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace muster::output
