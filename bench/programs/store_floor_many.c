// The least that one thread can do for several clients of PyTorch's store who `set` or meet at a barrier: it waits with
// epoll, receives, looks at a few bytes, and answers whom it must. Nothing is parsed or kept. Given a number, it pauses
// for so many microseconds before each wait, so that more has come. Prints its port, serves until it is killed.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "store_floor.h"

enum { kCheck = 5, kBarrier = 18, kEvents = 64 };
enum { kCheckSize = 1 + 8 + 8 + 6 };  // of one key of six bytes, as the first ten clients have: /key/0

static int waiting[1024];
static int64_t arrived;

static void barrier(int connection, const char* request, ssize_t size) {
  int64_t everybody;
  memcpy(&everybody, request + size - sizeof everybody, sizeof everybody);
  waiting[arrived++] = connection;
  if (arrived < everybody) return;
  for (int64_t i = 0; i < arrived; ++i) send(waiting[i], "", 1, MSG_NOSIGNAL);
  arrived = 0;
}

static void serve(int connection) {
  static char request[64 << 10];
  const ssize_t size = recv(connection, request, sizeof request, 0);
  if (size <= 0) {
    close(connection);
    return;
  }
  (void)answer_ping(connection, request, size);
  if (request[0] == kBarrier) barrier(connection, request, size);
  // A client ends its sets with a CHECK.
  const char* last = request + size - kCheckSize;
  if (last >= request && last[0] == kCheck && memcmp(last + kCheckSize - 6, "/key/", 5) == 0)
    send(connection, "", 1, MSG_NOSIGNAL);
}

int main(int argc, char** argv) {
  const struct timespec pause = {.tv_nsec = argc > 1 ? atol(argv[1]) * 1000 : 0};
  const int listener = open_listener();
  if (listener < 0) return 1;
  const int epoll = epoll_create1(0);
  struct epoll_event event = {.events = EPOLLIN, .data = {.fd = listener}};
  for (int fd = listener;; fd = accept(listener, NULL, NULL)) {
    if (fd < 0) return 1;
    event.data.fd = fd;
    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
    for (int came = 0; !came;) {
      struct epoll_event events[kEvents];
      if (pause.tv_nsec > 0) nanosleep(&pause, NULL);
      const int count = epoll_wait(epoll, events, kEvents, -1);
      for (int i = 0; i < count; ++i) {
        if (events[i].data.fd == listener)
          came = 1;
        else
          serve(events[i].data.fd);
      }
    }
  }
}
