"""Runs the program it is given as Python would, and fails when threads besides this one are still there at its end."""

import os
import runpy
import sys
import time

sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
deadline = time.monotonic() + 5  # one that was waited for can be listed a little longer; others stay
while len(os.listdir("/proc/self/task")) > 1:
    if time.monotonic() > deadline:
        names = [open(f"/proc/self/task/{task}/comm").read().strip() for task in os.listdir("/proc/self/task")]
        sys.exit(f"threads at the end: {names}")
    time.sleep(0.01)
