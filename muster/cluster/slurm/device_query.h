#pragma once

#include <functional>
#include <memory>
#include <string>

#include "muster/cluster/link.h"
#include "muster/cluster/slurm/step.h"

namespace muster::cluster::slurm {

// Asks scontrol what devices the job has on each of its nodes. Destroyed before the answer it asks no longer.
class DeviceQuery {
 public:
  // By the loop, in ten seconds at most: what was said by then may be nothing, or too much. May destroy the query.
  using Done = std::function<void(const Devices& devices)>;

  // `scontrol`: its path. An error when there is no job to ask about, or it cannot be started.
  static Result<std::unique_ptr<DeviceQuery>> start(net::EventLoop& loop, const std::string& scontrol,
                                                    const Environment& environment, Done done);
  ~DeviceQuery();
  DeviceQuery(const DeviceQuery&) = delete;
  DeviceQuery& operator=(const DeviceQuery&) = delete;

 private:
  DeviceQuery(net::EventLoop& loop, Done done) : loop_(loop), done_(std::move(done)) {}
  void finish();

  net::EventLoop& loop_;
  Done done_;
  std::string output_;
  net::EventLoop::TimerId timer_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // what is deferred may come after us
  std::shared_ptr<Link> link_;
};

}  // namespace muster::cluster::slurm
