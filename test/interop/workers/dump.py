"""Writes down what it was given (environment, arguments, interpreter, directory) and then does as argv says."""

import json
import os
import signal
import sys
import time

rank, restart = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
seen = {
    "environment": dict(os.environ),
    "arguments": sys.argv[1:],
    "command": [sys.executable, *sys.orig_argv[1:]],
    "directory": os.getcwd(),
}
# One write a line: under torchrun the workers share its stdout, and unbuffered print() writes text and end apart.
os.write(1, f"out {rank}\n".encode())
os.write(1, f"an error in out {rank}\n".encode())
os.write(2, f"err {rank}\n".encode())


def got(signum, frame):
    os.write(1, f"rank {rank} got {signal.Signals(signum).name}\n".encode())
    sys.exit(0)


if "--wait" in sys.argv:
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
        signal.signal(signum, got)
if "--deaf" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def dump_file(of_rank):
    return f"{os.environ['DUMP_DIR']}/{of_rank}.{restart}.json"


# Written last and whole: once it is there, this rank has said and noted everything.
with open(dump_file(rank) + ".part", "w") as f:
    json.dump(seen, f)
os.rename(f.name, dump_file(rank))


def fails(rank_that_fails, how):
    if rank != int(rank_that_fails):
        signal.pause()  # until the launcher stops it
    while not all(os.path.exists(dump_file(r)) for r in range(int(os.environ["WORLD_SIZE"]))):
        time.sleep(0.01)
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "segv":
        os.kill(os.getpid(), signal.SIGSEGV)
    if how == "raise":
        raise ValueError("as it was told to")
    if how == "file":
        with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as f:
            extra = {"py_callstack": "Traceback\n  of two lines\n", "timestamp": "1700000000"}
            json.dump({"message": {"message": "ValueError: filed", "extraInfo": extra}}, f)
        sys.exit(5)
    sys.exit(int(how))


for argument in sys.argv[1:]:
    name, _, value = argument.partition("=")
    if name == "--fail":
        fails(*value.split(":"))
    if name == "--fail-first" and restart == 0:
        fails(*value.split(":"))
    while name in ("--wait", "--deaf"):
        signal.pause()
