"""Data-parallel training on all GPUs of a host, by `torchrun --nproc-per-node=2 ddp.py`: NCCL reduces the gradients.

NCCL wants a GPU for each rank. Where there is one GPU, each rank has a group of its own, of itself alone.
"""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main():
    devices = torch.cuda.device_count()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % devices)
    if devices > 1:
        dist.init_process_group("nccl")
        group = None
    else:
        dist.init_process_group("gloo")
        groups = [dist.new_group([rank], backend="nccl") for rank in range(dist.get_world_size())]
        group = groups[dist.get_rank()]
    torch.manual_seed(dist.get_rank())
    layers = nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 10)).cuda()
    model = DistributedDataParallel(layers, process_group=group)
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
