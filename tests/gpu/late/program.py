"""Ranks of which one is late, with the truth: `torchrun --nproc-per-node=2 program.py KIND`.

KIND says what is planted in the last rank, for each step: `host` 15 ms of code in `prepare`, `work` more GPU work in
`compute`, `sleep` 15 ms in `load` before a step of DDP, `turns` the same as `host` in each rank in turn, `none`
nothing.

NCCL wants a GPU for each rank. Where there are fewer, ranks of one GPU claim to be on different hosts, so that NCCL
goes through sockets: then the GPU runs one rank at a time, and times are not those of a cluster.
"""

import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

KIND = sys.argv[1]
STEPS = 60
RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
if RANKS > torch.cuda.device_count():
    os.environ.update(NCCL_HOSTID=f"rank{RANK}", NCCL_SOCKET_IFNAME="lo", NCCL_IB_DISABLE="1")


def spin(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


class Range:
    def __init__(self, name):
        self.name = name

    def __enter__(self):
        torch.cuda.nvtx.range_push(self.name)

    def __exit__(self, *_):
        torch.cuda.nvtx.range_pop()


def is_late(step):
    return RANK == (step % RANKS if KIND == "turns" else RANKS - 1)


def plain():
    weight = torch.randn(4096, 4096, device="cuda")
    batch = torch.randn(1024, 4096, device="cuda")
    for step in range(STEPS):
        with Range("step"):
            with Range("prepare"):
                spin(0.015 if KIND in ("host", "turns") and is_late(step) else 0.001)
            with Range("compute"):
                for _ in range(20 if KIND == "work" and is_late(step) else 2):
                    result = batch @ weight
            with Range("reduce"):
                dist.all_reduce(result)
                torch.cuda.synchronize()


def ddp():
    layers = torch.nn.Sequential(*[torch.nn.Linear(2048, 2048) for _ in range(8)]).cuda()
    model = DistributedDataParallel(layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(STEPS):
        with Range("step"):
            with Range("load"):
                time.sleep(0.015 if is_late(step) else 0.001)
            with Range("forward"):
                loss = model(torch.randn(256, 2048, device="cuda")).square().mean()
            with Range("backward"):
                loss.backward()
            with Range("optimizer"):
                optimizer.step()
                optimizer.zero_grad()
                loss.item()


torch.cuda.set_device(RANK % torch.cuda.device_count())
dist.init_process_group("nccl")
ddp() if KIND == "sleep" else plain()
dist.destroy_process_group()
