"""Meets all other ranks in PyTorch's own TCPStore, as the environment names it, and prints one line."""

import datetime
import os

from torch.distributed import TCPStore

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
patience = datetime.timedelta(seconds=60)
hosts = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True" and rank == 0
store = TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), None, hosts, patience)
store.set(f"name/{rank}", f"{os.uname().nodename}:{rank}")
names = [store.get(f"name/{r}").decode() for r in range(world)]
if store.add("done", 1) == world:
    store.set("all done", "yes")
store.wait(["all done"], patience)
print(f"rank {rank} met {' '.join(names)}", flush=True)
