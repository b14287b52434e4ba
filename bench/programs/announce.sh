#!/bin/sh
# Says its pid in one write, then waits to be killed.
echo "$$" > "$BENCH_FIFO"
exec sleep 60
