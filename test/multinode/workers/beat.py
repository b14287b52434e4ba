"""A worker that writes down that it is alive, and does what a test tells it.     usage: beat.py DIR

Meets its peers in the round's store, then every 50 ms appends a line to DIR/<host>.<pid>.beat:

    round rank world_size restarts local_rank host pid monotonic_time

All nodes of a lab have one clock. A file DIR/do.<rank>, or DIR/do.all, has what to do: "exit CODE", "raise TEXT", "kill
SIGNAL", "print TEXT", "complain TEXT" (on stderr), "ignore SIGNAL", "mourn TEXT" (raise it when told to stop, as a
library does whose peer is gone); the former is taken away by the one who does it.
"""

import os
import signal
import sys
import time

from store_client import Store

PERIOD_S = 0.05


def environ(name, fallback="0"):
    return os.environ.get(name, fallback)


def obey(directory, rank):
    for name in (f"do.{rank}", "do.all"):
        path = os.path.join(directory, name)
        try:
            with open(path) as f:
                what, _, argument = f.read().strip().partition(" ")
            if name != "do.all":
                os.unlink(path)
        except FileNotFoundError:
            continue
        if what == "exit":
            sys.exit(int(argument))
        elif what == "raise":
            raise RuntimeError(argument)
        elif what == "kill":
            os.kill(os.getpid(), signal.Signals[argument])
        elif what == "print":
            print(argument, flush=True)
        elif what == "complain":
            print(argument, file=sys.stderr, flush=True)
        elif what == "ignore":
            signal.signal(signal.Signals[argument], signal.SIG_IGN)
            print(f"rank {rank} ignores {argument}", flush=True)
        elif what == "mourn":
            signal.signal(signal.SIGTERM, lambda *_: mourn(argument))
            print(f"rank {rank} would mourn", flush=True)


def mourn(text):
    raise ConnectionResetError(text)


def main():
    directory = sys.argv[1]
    rank, world, restarts = environ("RANK"), environ("WORLD_SIZE"), environ("TORCHELASTIC_RESTART_COUNT")
    this_round = environ("MUSTER_ROUND", restarts)
    store = Store()
    store.set(f"pid/{rank}", os.getpid())
    if "MUSTER_ROUND" in os.environ:  # each of its rounds has a store of its own
        assert store.add("lives", 1) <= int(world), "the store has keys of an earlier round"
    store.barrier(f"start/{restarts}", int(world))  # a launcher that keeps one store gives each round its own keys
    host = environ("MUSTER_HOST", os.uname().nodename)
    words = [this_round, rank, world, restarts, environ("LOCAL_RANK"), host, str(os.getpid())]
    # Pids repeat from node to node, and a host's name may be shared by simulated nodes.
    path = os.path.join(directory, f"{host}.{this_round}.{rank}.{os.getpid()}.beat")
    out = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    while True:
        os.write(out, f"{' '.join(words)} {time.monotonic():.4f}\n".encode())
        obey(directory, rank)
        time.sleep(PERIOD_S)


main()
