"""Initialises a gloo group the way argv[1] says, uses it, and prints one line when every answer was right."""

import datetime
import os
import sys

import torch
import torch.distributed as dist

how = sys.argv[1]
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
patience = datetime.timedelta(seconds=60)
if how == "env":
    dist.init_process_group("gloo", timeout=patience)
else:
    endpoint = f"tcp://{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
    dist.init_process_group("gloo", init_method=endpoint, rank=rank, world_size=world, timeout=patience)
assert (dist.get_rank(), dist.get_world_size()) == (rank, world)

ones = torch.full((1000,), float(rank + 1))
dist.all_reduce(ones)
assert (ones == world * (world + 1) / 2).all(), ones

pair = dist.new_group([0, 1])
if rank < 2:
    value = torch.tensor([10.0 + rank])
    dist.all_reduce(value, group=pair)
    assert value.item() == 21.0, value
del pair  # what is still held is not ended with the others, and a thread of it could abort us on our way out

gathered = [None] * world
dist.all_gather_object(gathered, {"rank": rank, "text": "é" * rank})
assert [g["rank"] for g in gathered] == list(range(world)), gathered

# The store beside the group: a barrier of its own (add and wait), and the query for it where this torch has one.
store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), None, False, patience)
if store.add("arrived", 1) == world:
    store.set("all here", "yes")
store.wait(["all here"], patience)
assert store.get("all here") == b"yes"
if hasattr(store, "barrier"):
    store.barrier("b", world, patience)
dist.barrier()
print(f"rank {rank} of {world} is content")
dist.destroy_process_group()
