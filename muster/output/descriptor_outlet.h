#pragma once

#include <memory>

#include "muster/base/fd.h"
#include "muster/net/event_loop.h"
#include "muster/output/outlet.h"

namespace muster::output {

// A descriptor of this process as an outlet, written without ever blocking: a thread writes to a regular file, whose
// file system may not respond. A pipe or terminal is opened anew with O_NONBLOCK if that is possible, so that processes
// that share the descriptor are not affected; else it is polled and gets small writes.
class DescriptorOutlet final : public Outlet {
 public:
  // Does not own `fd`. SIGPIPE must be ignored.
  DescriptorOutlet(net::EventLoop& loop, int fd);
  ~DescriptorOutlet() override;
  DescriptorOutlet(const DescriptorOutlet&) = delete;
  DescriptorOutlet& operator=(const DescriptorOutlet&) = delete;

  ssize_t write(std::string_view bytes) override;
  void watch(bool wanted) override;
  bool closed() const override { return closed_; }
  bool is_terminal() const override { return terminal_; }
  int columns() const override;
  bool always_takes() const override { return access_ == Access::kDirect; }
  Duration patience() const override;
  pollfd to_poll() const override;
  size_t waiting() const override { return appender_ ? appender_->waiting() : 0; }
  bool idle() const override { return !appender_ || appender_->idle(); }
  std::optional<Appender::Failure> take_failure() override;
  std::string stuck_file(Duration lasting) const override;

 private:
  enum class Access {
    kDirect,       // /dev/null: a write does not wait; or a regular file when no thread can be started
    kFile,         // a regular file: a thread writes it
    kNonblocking,  // a pipe or terminal, opened anew
    kSocket,       // MSG_DONTWAIT
    kPolled,       // neither was possible: poll, then a write that fits
  };

  void start_appender();
  ssize_t append(std::string_view bytes);
  bool enlarge_pipe();

  net::EventLoop& loop_;
  int fd_;
  Fd own_;  // the same file, opened anew
  Access access_ = Access::kDirect;
  bool closed_ = false;
  bool terminal_ = false;
  bool pipe_ = false;
  bool enlarged_ = false;
  int watched_ = -1;
  std::unique_ptr<Appender> appender_;  // of a regular file, from its first byte on
};

}  // namespace muster::output
