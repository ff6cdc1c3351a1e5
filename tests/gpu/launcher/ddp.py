"""Data-parallel training on all GPUs of a host, by `torchrun --nproc-per-node=2 ddp.py`: NCCL reduces the gradients."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    torch.manual_seed(dist.get_rank())
    model = DistributedDataParallel(nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 10)).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(20):
        with torch.cuda.nvtx.range("step"):
            with torch.cuda.nvtx.range("forward"):
                loss = model(torch.randn(256, 1024, device="cuda")).square().mean()
            with torch.cuda.nvtx.range("backward"):
                loss.backward()
            with torch.cuda.nvtx.range("optimizer"):
                optimizer.step()
                optimizer.zero_grad()
    torch.cuda.synchronize()
    if dist.get_rank() == 0:
        print(f"{dist.get_world_size()} ranks, loss {loss.item():.3f}")
    dist.destroy_process_group()


main()
