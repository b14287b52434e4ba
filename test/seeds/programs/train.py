"""A model of one layer, trained data-parallel by however many workers there are; takes the arguments of every seed."""

import os
import socket
import sys

import torch
import torch.distributed as dist
import torch.distributed.nn  # before there is a group: examples/ddp.py says why
from torch.nn.parallel import DistributedDataParallel


def train(rank):
    torch.manual_seed(1)
    model = torch.nn.Linear(4, 1)
    if dist.is_initialized():
        model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inputs = torch.randn(64, 4, generator=torch.Generator().manual_seed(rank))
    for _ in range(20):
        optimizer.zero_grad()
        loss = (model(inputs) - inputs.sum(1, keepdim=True)).square().mean()
        loss.backward()
        optimizer.step()
    return loss.detach()


def main():
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
    rank, world = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
    loss = train(rank)
    if dist.is_initialized():
        dist.all_reduce(loss)
    assert 0 < loss / world < 1, loss
    names = ("LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK")
    places = [os.environ.get(name, "0") for name in names]
    words = ["worker", str(rank), str(world), *places, socket.gethostname(), os.environ.get("MASTER_ADDR", "-"), *sys.argv[1:]]
    os.write(1, f"{' '.join(words)}\n".encode())  # at once: others may write to the same file
    if dist.is_initialized():
        dist.destroy_process_group()


main()
