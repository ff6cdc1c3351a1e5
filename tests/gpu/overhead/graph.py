"""Makes words in a captured CUDA graph: one replay and one copy back a word. Prints the time of a word."""
import time

import torch

from decoder import LONGEST, Decoder
from took import report

REQUESTS, STEPS, WARM = 8, 2_000, 200
span = torch.cuda.nvtx.range


@torch.inference_mode()
def main():
    decoder = Decoder(REQUESTS)
    slots = torch.arange(REQUESTS, device="cuda")
    words, lengths = torch.zeros_like(slots), torch.full_like(slots, 64)
    for _ in range(3):
        decoder.step(slots, words, lengths)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        words.copy_(decoder.step(slots, words, lengths))
        lengths.copy_((lengths + 1) % (LONGEST - 1))
    took = []
    for _ in range(STEPS):
        began = time.perf_counter()
        with span("word"):
            graph.replay()
            words.tolist()
        took.append(time.perf_counter() - began)
    report(took[WARM:], "a word")


main()
