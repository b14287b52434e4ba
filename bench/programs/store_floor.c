// The least that a server of PyTorch's store can do for `add`: a thread a connection that receives, looks at one byte and
// sends eight. Nothing is parsed or kept. Prints its port, serves until it is killed.
#include <netinet/in.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { kAdd = 4, kPing = 13, kValidateSize = 5, kNonceSize = 4 };

static void* serve(void* argument) {
  const int connection = (int)(intptr_t)argument;
  const char sum[8] = {0};
  char request[4096];
  for (ssize_t size; (size = recv(connection, request, sizeof request, 0)) > 0;) {
    // A client begins with VALIDATE and PING, in one packet or two.
    const char* ping = request[0] == 0 && size > kValidateSize ? request + kValidateSize : request;
    ssize_t sent = 1;
    if (*ping == kPing) sent = send(connection, ping + 1, kNonceSize, MSG_NOSIGNAL);
    if (request[0] == kAdd) sent = send(connection, sum, sizeof sum, MSG_NOSIGNAL);
    if (sent <= 0) break;
  }
  close(connection);
  return NULL;
}

int main(void) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t size = sizeof address;
  if (bind(listener, (struct sockaddr*)&address, size) != 0 || listen(listener, 1024) != 0) return 1;
  if (getsockname(listener, (struct sockaddr*)&address, &size) != 0) return 1;
  printf("%d\n", ntohs(address.sin_port));
  fflush(stdout);
  for (int connection; (connection = accept(listener, NULL, NULL)) >= 0;) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, serve, (void*)(intptr_t)connection) != 0) return 1;
    pthread_detach(thread);
  }
  return 1;
}
