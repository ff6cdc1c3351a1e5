"""Makes words in a captured CUDA graph: one replay and one copy back a word."""
import torch

from decoder import LONGEST, Decoder
from took import measure

REQUESTS = 8
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

    def step():
        with span("word"):
            graph.replay()
            words.tolist()

    # A graph must not be made before it is measured: a profiler that starts later may record it otherwise.
    measure(step, 2_000, "a word", in_windows=False)


main()
