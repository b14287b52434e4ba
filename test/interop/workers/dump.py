"""Writes down what it was given (environment, arguments, interpreter, directory) and then does as argv says."""

import json
import os
import signal
import sys

rank, restart = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
seen = {
    "environment": dict(os.environ),
    "arguments": sys.argv[1:],
    "command": [sys.executable, *sys.orig_argv[1:]],
    "directory": os.getcwd(),
}
with open(f"{os.environ['DUMP_DIR']}/{rank}.{restart}.json", "w") as f:
    json.dump(seen, f)

# One write a line: under torchrun the workers share its stdout, and unbuffered print() writes text and end apart.
os.write(1, f"out {rank}\n".encode())
os.write(1, f"an error in out {rank}\n".encode())
os.write(2, f"err {rank}\n".encode())


def fails(rank_that_fails, how):
    if rank != int(rank_that_fails):
        signal.pause()  # until the launcher stops it
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
