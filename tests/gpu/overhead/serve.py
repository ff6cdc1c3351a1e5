"""A server with continuous batching: 32 requests in flight, with prompts and answers of different lengths. A request
that ends makes room for the next one, in the same step. Measured is the inverse of the throughput."""
import random

import torch

from decoder import WORDS, Decoder
from took import measure

IN_FLIGHT, PART = 32, 8
span = torch.cuda.nvtx.range


@torch.inference_mode()
def main():
    choose = random.Random(0)
    decoder = Decoder(IN_FLIGHT)
    prompts = [torch.randint(0, WORDS, (choose.randint(16, 192),)).pin_memory() for _ in range(256)]
    active, free = [], list(range(IN_FLIGHT))

    def step():
        """One word more for all. Returns how many requests ended."""
        nonlocal active
        with span("admit"):
            while free:
                words, left = choose.choice(prompts), choose.randint(16, 96)
                slot = free.pop()
                with span("prefill"):
                    word = decoder.prefill(slot, words.cuda(non_blocking=True))
                active.append([slot, word.item(), len(words), left])
        with span("decode"):
            batch = torch.tensor([request[:3] for request in active]).T.contiguous().pin_memory()
            slots, words, lengths = batch.cuda(non_blocking=True)
            words = decoder.step(slots, words, lengths)
        with span("sample"):
            for request, word in zip(active, words.tolist()):
                request[1:] = [word, request[2] + 1, request[3] - 1]
        with span("release"):
            over = [request for request in active if request[3] == 0]
            active = [request for request in active if request[3] > 0]
            free.extend(request[0] for request in over)
        return len(over)

    ended = 0

    def part():
        nonlocal ended
        while ended < PART:
            ended += step()
        ended -= PART

    measure(part, 16, f"{PART} requests")


main()
