"""A worker that communicates all the time, by gloo: it notices at once that a peer has died, and fails.

It tells the benchmark as node_worker.c does, in one write to the FIFO $BENCH_FIFO: "start" before it imports anything that
takes long, "joined" when it has met all others.
"""

import os
import time


def tell(what):
    rank, restarts = os.environ["RANK"], os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    text = f"{what} {rank} {os.getpid()} {os.getppid()} {restarts} {time.monotonic_ns()}\n"
    os.write(fifo, text.encode())


fifo = os.open(os.environ["BENCH_FIFO"], os.O_WRONLY | os.O_NONBLOCK)
tell("start")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

torch.set_num_threads(1)
dist.init_process_group("gloo")
tell("joined")
while True:
    dist.all_reduce(torch.ones(1))
    time.sleep(0.01)
