"""A server with continuous batching: 32 requests in flight, with prompts and answers of different lengths. A request
that ends makes room for the next one, in the same step.

Prints the time per request, the inverse of the throughput."""
import random
import time

import torch

from decoder import WORDS, Decoder
from took import report

IN_FLIGHT, PARTS, PART = 32, 12, 32
span = torch.cuda.nvtx.range


@torch.inference_mode()
def main():
    choose = random.Random(0)
    decoder = Decoder(IN_FLIGHT)
    prompt = lambda: torch.randint(0, WORDS, (choose.randint(16, 192),)).pin_memory()
    waiting = [(prompt(), choose.randint(16, 96)) for _ in range((PARTS + 2) * PART)]
    active, free, ended, times = [], list(range(IN_FLIGHT)), 0, [time.perf_counter()]
    while len(times) <= PARTS + 1 and waiting:
        with span("admit"):
            while free and waiting:
                words, left = waiting.pop()
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
            free += [request[0] for request in over]
            ended += len(over)
            while ended >= PART * len(times):
                times.append(time.perf_counter())
    report([(end - begin) / PART for begin, end in zip(times[1:], times[2:])], "a request")


main()
