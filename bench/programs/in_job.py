#!/usr/bin/python3 -I
"""In a batch job: runs the commands that come on the first fifo, a line of JSON each, and answers with seconds and exit
code on the second. Ends when the first is closed."""

import json
import subprocess
import sys
import time

with open(sys.argv[1]) as requests, open(sys.argv[2], "w") as answers:
    for line in requests:
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        began = time.perf_counter()
        code = subprocess.call(json.loads(line), **quiet)
        print(json.dumps([time.perf_counter() - began, code]), file=answers, flush=True)
