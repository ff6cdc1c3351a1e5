"""Trains a small GPT-2 of transformers, with random weights: some 450 launches a step. `compile`: by torch.compile."""
import sys

import torch
from transformers import GPT2Config, GPT2LMHeadModel

from took import measure

BATCH, LENGTH, WORDS = 8, 256, 5000
span = torch.cuda.nvtx.range


def main():
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    config = GPT2Config(vocab_size=WORDS, n_positions=LENGTH, n_embd=384, n_layer=6, n_head=6,
                        bos_token_id=0, eos_token_id=0)
    model = GPT2LMHeadModel(config).cuda()
    forward = torch.compile(model) if "compile" in sys.argv else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    words = torch.randint(0, WORDS, (BATCH, LENGTH)).pin_memory()

    def step():
        with span("step"):
            with span("data"):
                batch = words.cuda(non_blocking=True)
            with span("forward"):
                loss = forward(input_ids=batch, labels=batch).loss
            with span("backward"):
                loss.backward()
            with span("optimizer"):
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
            with span("sync"):
                loss.item()

    measure(step, 120, "a step")


main()
