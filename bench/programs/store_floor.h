// What the least of servers have in common.
#pragma once

#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>

enum { kPing = 13, kValidateSize = 5, kNonceSize = 4 };

// Listens on a free port of the loopback and prints it; negative: it cannot.
static inline int open_listener(void) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t size = sizeof address;
  if (bind(listener, (struct sockaddr*)&address, size) != 0 || listen(listener, 1024) != 0) return -1;
  if (getsockname(listener, (struct sockaddr*)&address, &size) != 0) return -1;
  printf("%d\n", ntohs(address.sin_port));
  fflush(stdout);
  return listener;
}

// A client begins with VALIDATE and PING, in one packet or two; the PING's nonce is sent back. What send() said, or 1.
static inline ssize_t answer_ping(int connection, const char* request, ssize_t size) {
  const char* ping = request[0] == 0 && size > kValidateSize ? request + kValidateSize : request;
  return *ping == kPing ? send(connection, ping + 1, kNonceSize, MSG_NOSIGNAL) : 1;
}
