// Writes N lines of 100 bytes (newline included) to stdout, as fast as the other end takes them.
// usage: write_lines N [LINES_A_WRITE]; by default as many as fit into a pipe
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kLine = 100, kLinesAWrite = 640 };  // just under 64 KiB: what a pipe holds

int main(int argc, char** argv) {
  static char buffer[kLine * kLinesAWrite];
  memset(buffer, '.', sizeof buffer);
  for (int i = 0; i < kLinesAWrite; ++i) {
    char* line = buffer + (size_t)i * kLine;
    line[snprintf(line, kLine, "line %d of this buffer ", i)] = '.';
    line[kLine - 1] = '\n';
  }
  const size_t most = argc > 2 ? strtoul(argv[2], NULL, 10) * kLine : sizeof buffer;
  if (most == 0 || most > sizeof buffer) return 2;
  size_t left = argc > 1 ? strtoul(argv[1], NULL, 10) * kLine : 0;
  while (left > 0) {
    size_t size = left < most ? left : most;
    for (const char* at = buffer; size > 0;) {
      const ssize_t done = write(1, at, size);
      if (done < 0) return 1;
      at += done;
      size -= (size_t)done;
      left -= (size_t)done;
    }
  }
  return 0;
}
