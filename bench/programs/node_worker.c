// A worker that tells the benchmark, in one write to the FIFO $BENCH_FIFO, when it starts and when SIGTERM reaches it:
//   start|term RANK PID PARENT RESTARTS NANOSECONDS      (CLOCK_MONOTONIC)
// usage: node_worker [chat|burn|idle]: workers of a node but its first do not tell; they write lines as fast as they
// can to stdout or to nowhere, or sleep. On the first $BENCH_QUIET_NODES nodes they sleep whatever is asked.
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { kLine = 100, kLinesAWrite = 40 };

static const char* variable(const char* name) {
  const char* value = getenv(name);
  return value == NULL ? "0" : value;
}

static void tell(int fifo, const char* what) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  char text[128];
  const int size = snprintf(text, sizeof text, "%s %s %d %d %s %lld\n", what, variable("RANK"), (int)getpid(),
                            (int)getppid(), variable("TORCHELASTIC_RESTART_COUNT"),
                            (long long)time.tv_sec * 1000000000LL + time.tv_nsec);
  if (write(fifo, text, (size_t)size) != size) _exit(1);
}

static void write_lines(int fd) {
  static char buffer[kLine * kLinesAWrite];
  memset(buffer, '.', sizeof buffer);
  for (int i = 1; i <= kLinesAWrite; ++i) buffer[i * kLine - 1] = '\n';
  while (write(fd, buffer, sizeof buffer) > 0) continue;
}

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(variable("LOCAL_RANK"), "0") != 0) {
    const int quiet = atoi(variable("GROUP_RANK")) < atoi(variable("BENCH_QUIET_NODES"));
    if (quiet || strcmp(argv[1], "idle") == 0) pause();
    write_lines(strcmp(argv[1], "chat") == 0 ? 1 : open("/dev/null", O_WRONLY));
    return 1;
  }
  // A launcher that was killed may have left us behind, or start us when nobody listens any more.
  const int fifo = open(variable("BENCH_FIFO"), O_WRONLY | O_NONBLOCK);
  if (fifo < 0) return 1;
  sigset_t awaited;
  sigemptyset(&awaited);
  sigaddset(&awaited, SIGTERM);
  sigprocmask(SIG_BLOCK, &awaited, NULL);
  tell(fifo, "start");
  const struct timespec longest = {120, 0};
  if (sigtimedwait(&awaited, NULL, &longest) == SIGTERM) tell(fifo, "term");
  return 1;
}
