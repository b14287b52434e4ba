"""Every round writes to the store and, but for the last, fails in rank 1. No round may see what an earlier one wrote."""

import datetime
import os

import torch
import torch.distributed as dist

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
round_ = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
last = int(os.environ["TORCHELASTIC_MAX_RESTARTS"])
patience = datetime.timedelta(seconds=30)

# The group's own keys are the ones of pytorch#135712: a fast rank read its peer's address of the round before.
dist.init_process_group("gloo", timeout=patience)
total = torch.tensor([1.0])
dist.all_reduce(total)
assert total.item() == world

store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), None, False, patience)
left_over = store.add("written", 0)
dist.barrier()
store.add("written", 1)
dist.barrier()
assert store.add("written", 0) == world
print(f"round {round_} rank {rank} saw {left_over}", flush=True)
dist.barrier()  # both have said it before one fails
if round_ < last and rank == 1:
    os._exit(3)
dist.barrier()
dist.destroy_process_group()
