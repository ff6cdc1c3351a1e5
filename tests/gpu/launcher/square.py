"""`torch.square` of 10,000 x 10,000 numbers, and with `profile` as argument torch.profiler's own table of it."""

import sys

import torch


def main():
    numbers = torch.randn(10_000, 10_000, device="cuda")
    torch.cuda.synchronize()
    if sys.argv[1:] == ["profile"]:
        from torch.profiler import ProfilerActivity, profile

        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
            torch.square(numbers)
            torch.cuda.synchronize()
        print(profiler.key_averages().table(sort_by="cuda_time_total", row_limit=10))
    else:
        with torch.autograd.profiler.emit_nvtx(record_shapes=True):
            torch.square(numbers)
            torch.cuda.synchronize()


main()
