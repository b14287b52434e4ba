"""Trains a small classifier on two interleaved spirals, data-parallel. Nothing in it knows about its launcher:

    python ddp.py                                   # alone
    torchrun --nproc-per-node 2 ddp.py
    muster run --nproc-per-node 2 ddp.py
    muster run --hosts n1,n2 ddp.py --checkpoint /shared/ddp.pt
"""

import argparse
import math
import os
import sys
import time

import torch
import torch.distributed as dist

# Not used here, but PyTorch 2.13 loads it with its optimizers. Its functions have as a default the group they find then, and
# would keep it for ever: load it while there is none.
import torch.distributed.nn
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def spirals(points):
    """`points` on two arms that wind around each other, and the arm each is on."""
    generator = torch.Generator().manual_seed(0)
    arm = torch.arange(points) % 2
    angle = torch.rand(points, generator=generator).sqrt() * 2.5 * math.pi
    radius = angle / (2.5 * math.pi) + 0.02 * torch.randn(points, generator=generator)
    angle = angle + math.pi * arm
    return TensorDataset(torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1), arm)


def average(values, total, distributed):
    """The mean of each value over all ranks; `total` is the tensor to compute it in."""
    total.copy_(torch.tensor(values, dtype=torch.float64))
    if distributed:
        dist.all_reduce(total)
        total /= dist.get_world_size()
    return total.tolist()


def show_progress(epoch, step, steps):
    """A bar that the epoch's line then replaces; only where somebody watches."""
    if sys.stdout.isatty():
        filled = 24 * step // steps
        print(f"\r{epoch:5}  [{'#' * filled}{'.' * (24 - filled)}]", end="" if step < steps else "\r", flush=True)


def save(path, epoch, model, optimizer):
    """Whole or not at all: whoever reads it while it is written sees the one before."""
    torch.save({"epoch": epoch, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, path + ".new")
    os.replace(path + ".new", path)


def load(path, model, optimizer):
    """The number of epochs that are done; every worker reads the same file."""
    if not path or not os.path.exists(path):
        return 0
    state = torch.load(path)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return state["epoch"]


def train(options, rank, world, total):
    """All that holds on to the process group: none of it is left on return. `total` is a tensor for averages."""
    distributed = dist.is_initialized()
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2))
    if distributed:
        model = DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    done = load(options.checkpoint, model, optimizer)
    data = spirals(options.points)
    sampler = DistributedSampler(data, world, rank, seed=1)
    loader = DataLoader(data, options.batch, sampler=sampler)

    if rank == 0:
        print(f"{world} worker{'s' * (world > 1)}, {len(data)} points, {len(loader)} steps an epoch, torch {torch.__version__}")
        print("epoch      loss  accuracy    points/s")
    for epoch in range(done + 1, options.epochs + 1):
        sampler.set_epoch(epoch)
        started, losses, correct = time.monotonic(), 0.0, 0
        for step, (inputs, targets) in enumerate(loader, 1):
            if options.fail == epoch and rank == 1:
                raise ValueError(f"rank 1 was told to fail in epoch {epoch}")
            optimizer.zero_grad()
            outputs = model(inputs)
            loss = nn.functional.cross_entropy(outputs, targets)
            loss.backward()
            optimizer.step()
            losses += loss.item() * len(inputs)
            correct += (outputs.argmax(1) == targets).sum().item()
            if rank == 0:
                show_progress(epoch, step, len(loader))
        seen = len(sampler)
        loss, accuracy = average([losses / seen, correct / seen], total, distributed)
        if rank == 0:
            print(f"{epoch:5}  {loss:8.6f}  {accuracy:8.1%}  {len(data) / (time.monotonic() - started):10.0f}")
            if options.checkpoint:
                save(options.checkpoint, epoch, model, optimizer)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--points", type=int, default=8192)
    parser.add_argument("--batch", type=int, default=128, help="of each worker")
    parser.add_argument("--checkpoint", metavar="FILE", help="written after every epoch; go on from there if it exists")
    parser.add_argument("--fail", type=int, metavar="EPOCH", help="raise in rank 1 there, to see what that looks like")
    options = parser.parse_args()

    distributed = "RANK" in os.environ
    if distributed:
        dist.init_process_group("gloo")
    rank, world = (dist.get_rank(), dist.get_world_size()) if distributed else (0, 1)

    # It outlives the group: PyTorch 1.13 can hang at the end when the last tensor it reduced is already out of use.
    total = torch.zeros(2, dtype=torch.float64)
    train(options, rank, world, total)
    if distributed:
        # Nothing else holds the group any more, so this waits for its threads. One of them that still lets go of a tensor
        # while Python leaves would abort the worker: "terminate called without an active exception".
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
