"""Measures how many texts a GPU encodes in a second, with the shape of the bundled encoder (MiniLM, 6 layers, 384).

    python benchmarks/gpu_encoding.py [TOKENS]

The weights are random, because the time does not depend on them. Needs torch and transformers, and a CUDA device.
Tokenizing is not included.
"""

from __future__ import annotations

import sys
import time

import torch
from transformers import BertConfig, BertModel

BATCH, ROUNDS = 2048, 40


def main(tokens: int = 128) -> None:
    shape = BertConfig(hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536)
    model = BertModel(shape, add_pooling_layer=False).half().cuda().eval()
    ids = torch.randint(0, shape.vocab_size, (BATCH, tokens), device="cuda")
    mask = torch.ones_like(ids)
    with torch.inference_mode():
        for turn in range(ROUNDS + 5):
            if turn == 5:  # the first ones load kernels
                torch.cuda.synchronize()
                started = time.perf_counter()
            vectors = model(input_ids=ids, attention_mask=mask).last_hidden_state.mean(dim=1)
            torch.nn.functional.normalize(vectors, dim=1).cpu()
    rate = BATCH * ROUNDS / (time.perf_counter() - started)
    print(f"{torch.cuda.get_device_name(0)}, torch {torch.__version__}: {rate:,.0f} texts/s of {tokens} tokens, fp16")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
