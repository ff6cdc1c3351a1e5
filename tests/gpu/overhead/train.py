"""Trains a small GPT-2 of transformers, with random weights: some 450 launches a step. `compile`: by torch.compile.

Prints the time of a step."""
import sys
import time

import torch
from transformers import GPT2Config, GPT2LMHeadModel

from took import report

STEPS, WARM, BATCH, LENGTH, WORDS = 180, 20, 8, 256, 5000
span = torch.cuda.nvtx.range


def main():
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    config = GPT2Config(vocab_size=WORDS, n_positions=LENGTH, n_embd=384, n_layer=6, n_head=6,
                        bos_token_id=0, eos_token_id=0)
    model = GPT2LMHeadModel(config).cuda()
    forward = torch.compile(model) if "compile" in sys.argv else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    batches = torch.randint(0, WORDS, (STEPS, BATCH, LENGTH)).pin_memory()
    took = []
    for batch in batches:
        began = time.perf_counter()
        with span("step"):
            with span("data"):
                batch = batch.cuda(non_blocking=True)
            with span("forward"):
                loss = forward(input_ids=batch, labels=batch).loss
            with span("backward"):
                loss.backward()
            with span("optimizer"):
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
            with span("sync"):
                loss.item()
        took.append(time.perf_counter() - began)
    report(took[WARM:], "a step")


main()
