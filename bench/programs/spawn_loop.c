// The floor of every launcher: start N copies of a program with posix_spawn and wait for them.
// usage: spawn_loop [-s] N program [argument …]     -s: each in a session of its own, as launchers need it
#define _GNU_SOURCE
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

extern char** environ;

int main(int argc, char** argv) {
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  if (argc > 1 && strcmp(argv[1], "-s") == 0) {
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
    --argc, ++argv;
  }
  if (argc < 3) {
    fprintf(stderr, "usage: spawn_loop [-s] N program [argument ...]\n");
    return 2;
  }
  const int count = atoi(argv[1]);
  for (int i = 0; i < count; ++i) {
    pid_t pid;
    const int error = posix_spawnp(&pid, argv[2], NULL, &attributes, argv + 2, environ);
    if (error != 0) {
      fprintf(stderr, "%s: %s\n", argv[2], strerror(error));
      return 1;
    }
  }
  int failed = 0;
  for (int i = 0; i < count; ++i) {
    int status;
    if (wait(&status) < 0 || status != 0) failed = 1;
  }
  return failed;
}
