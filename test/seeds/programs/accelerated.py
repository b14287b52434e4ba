"""The same with Hugging Face's Accelerator."""

import os
import socket

import torch
import torch.distributed.nn  # before there is a group: examples/ddp.py says why
from accelerate import Accelerator


def train(accelerator):
    torch.manual_seed(1)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inputs = torch.randn(64, 4, generator=torch.Generator().manual_seed(accelerator.process_index))
    model, optimizer = accelerator.prepare(model, optimizer)
    for _ in range(20):
        optimizer.zero_grad()
        loss = (model(inputs) - inputs.sum(1, keepdim=True)).square().mean()
        accelerator.backward(loss)
        optimizer.step()
    total = accelerator.reduce(loss.detach(), "mean")
    assert 0 < total < 1, total
    accelerator.free_memory()  # nothing holds the group any more when it is destroyed


def main():
    accelerator = Accelerator(cpu=True)
    train(accelerator)
    names = ("LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK")
    places = [os.environ.get(name, "0") for name in names]
    numbers = [str(accelerator.process_index), str(accelerator.num_processes)]
    words = ["worker", *numbers, *places, socket.gethostname(), os.environ["MASTER_ADDR"]]
    os.write(1, f"{' '.join(words)}\n".encode())
    accelerator.end_training()


main()
