// The least that a server of PyTorch's store can do for `add`: a thread a connection that receives, looks at one byte and
// sends eight. Nothing is parsed or kept. Prints its port, serves until it is killed.
#include <pthread.h>
#include <stdint.h>
#include <unistd.h>

#include "store_floor.h"

enum { kAdd = 4 };

static void* serve(void* argument) {
  const int connection = (int)(intptr_t)argument;
  const char sum[8] = {0};
  char request[4096];
  for (ssize_t size; (size = recv(connection, request, sizeof request, 0)) > 0;) {
    ssize_t sent = answer_ping(connection, request, size);
    if (request[0] == kAdd) sent = send(connection, sum, sizeof sum, MSG_NOSIGNAL);
    if (sent <= 0) break;
  }
  close(connection);
  return NULL;
}

int main(void) {
  const int listener = open_listener();
  if (listener < 0) return 1;
  for (int connection; (connection = accept(listener, NULL, NULL)) >= 0;) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, serve, (void*)(intptr_t)connection) != 0) return 1;
    pthread_detach(thread);
  }
  return 1;
}
