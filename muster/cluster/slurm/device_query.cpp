#include "muster/cluster/slurm/device_query.h"

#include <algorithm>

namespace muster::cluster::slurm {
namespace {

constexpr Duration kAnswerTime = std::chrono::seconds(10);
constexpr size_t kMostBytes = 4 << 20;  // what is said of 10,000 unlike nodes

}  // namespace

Result<std::unique_ptr<DeviceQuery>> DeviceQuery::start(net::EventLoop& loop, const std::string& scontrol,
                                                        const Environment& environment, Done done) {
  const std::string* job = environment.find("SLURM_JOB_ID");
  if (job == nullptr) return Error{ErrorKind::kUsage, "no SLURM_JOB_ID", {}};
  std::unique_ptr<DeviceQuery> query(new DeviceQuery(loop, std::move(done)));
  DeviceQuery* self = query.get();
  MUSTER_TRY(
      query->link_,
      Link::open(loop,
                 {.program = scontrol, .argv = {"scontrol", "show", "job", "-d", *job}, .environment = environment},
                 Link::Kill::kGroup,
                 {.output =
                      [self](std::string_view bytes) {
                        if (self->output_.size() <= kMostBytes) self->output_ += bytes;
                      },
                  .said = {},
                  .ended = [self](const process::ExitStatus&) { self->finish(); }}));
  query->link_->close_input();
  query->timer_ = loop.call_after(kAnswerTime, [self] {
    self->link_->close();
    self->finish();
  });
  return query;
}

DeviceQuery::~DeviceQuery() { loop_.cancel(timer_); }

void DeviceQuery::finish() {
  loop_.cancel(timer_);
  loop_.defer([this, alive = std::weak_ptr(alive_)] {
    if (alive.expired()) return;
    const Done done = std::move(done_);
    // Of too much only the beginning is known.
    done(output_.size() <= kMostBytes ? parse_devices(output_) : Devices());
  });
}

}  // namespace muster::cluster::slurm
