"""PyTorch's own store server (libuv), alone in its process. Prints its port, serves until it is killed."""

import signal
from datetime import timedelta

import torch.distributed as dist

store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, use_libuv=True, timeout=timedelta(seconds=60))
print(store.port, flush=True)
signal.pause()
