"""A small regression with Accelerator(): every rank says how many there are, rank 0 the loss, which no number of ranks changes."""

import torch
import torch.distributed.nn  # noqa: F401  before there is a group: its functions keep one that they find
from accelerate import Accelerator


def train(accelerator):
    torch.manual_seed(0)
    inputs = torch.randn(64, 4)
    targets = inputs @ torch.tensor([[1.0], [-2.0], [3.0], [0.5]])
    model = torch.nn.Linear(4, 1)
    with torch.no_grad():
        model.weight.fill_(0.0)
        model.bias.fill_(0.0)
    model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
    # Equal shares, so that the mean of the ranks' gradients is the gradient of the whole.
    share = slice(accelerator.process_index, None, accelerator.num_processes)
    mine, wanted = inputs[share].to(accelerator.device), targets[share].to(accelerator.device)
    for _ in range(20):
        loss = torch.nn.functional.mse_loss(model(mine), wanted)
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()
    with torch.no_grad():
        final = accelerator.reduce(torch.nn.functional.mse_loss(model(mine), wanted), reduction="mean")
    print(f"rank {accelerator.process_index} of {accelerator.num_processes} {accelerator.distributed_type.value}", flush=True)
    if accelerator.is_main_process:
        print(f"loss {final.item():.6f}", flush=True)
    accelerator.free_memory()  # nothing holds the group any more when it is destroyed
    return final


accelerator = Accelerator()
final = train(accelerator)
accelerator.end_training()
