#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "muster/base/strings.h"
#include "muster/cli/commands.h"
#include "muster/process/signals.h"
#include "muster/store/server.h"

namespace muster::cli {
namespace {

LogLevel threshold(const Parsed& parsed) {
  return parsed.flag(Opt::kVerbose) ? LogLevel::kDebug
         : parsed.flag(Opt::kQuiet) ? LogLevel::kWarning
                                    : LogLevel::kInfo;
}

// Each client needs one descriptor, so raise the limit as far as possible.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

Result<void> serve(uint16_t port, bool loopback_only, Log& log) {
  net::EventLoop loop;
  MUSTER_TRY(process::SignalQueue signals, process::SignalQueue::open({SIGTERM, SIGINT, SIGHUP}));
  store::Server server(loop, log);
  MUSTER_TRY_VOID(server.listen(port, loopback_only));
  loop.watch(signals.fd(), EPOLLIN, [&](uint32_t) {
    if (auto received = signals.next()) log.info("{}: ending", process::signal_name(received->signal));
    loop.stop();
  });
  log.info("store listening on port {}{}", server.port(), loopback_only ? " of this machine" : "");
  // If the store chose the port, the caller reads it from stdout.
  if (port == 0) print(fmt::format("{}\n", server.port()));
  loop.run();
  loop.unwatch(signals.fd());
  return {};
}

}  // namespace

int store_command(const Parsed& parsed) {
  Log log = Log::to_stderr(threshold(parsed));
  auto port = parse_int(parsed.text(Opt::kPort));
  if (!port || *port < 0 || *port > 65535) {
    log.error("--port: {} is out of range; write 0 to 65535", parsed.text(Opt::kPort));
    return 2;
  }
  raise_descriptor_limit();
  auto served = serve(static_cast<uint16_t>(*port), parsed.text(Opt::kHost) == "loopback", log);
  if (served) return 0;
  log.error("{}", served.error().text());
  return exit_code(served.error());
}

}  // namespace muster::cli
