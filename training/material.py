"""Code shared by all training steps: tokenised pairs, vectors and scores of many texts, a learning-rate schedule."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from colloquial import said
from pack_weights import read_packed
from pairs import HELD, MOST, Pairs, pairs_of
from tokens import QUERY_TOKENS, Tokens, joined_tokens, pairs_batch, texts_batch, tokenise
from transformer import Shape, Transformer, fitting, upstream_state

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SEED = 42
SPOKEN_WORDS = 24
"""Longer queries stay as they are written."""


def precision() -> torch.autocast:
    return torch.autocast(DEVICE, dtype=torch.bfloat16, enabled=DEVICE == "cuda")


@dataclass
class Material:
    pairs: Pairs
    passages: Tokens
    queries: Tokens
    spoken: Tokens
    """The queries as people would type them, by `colloquial.py`."""
    source: Tensor
    """The source of each query."""
    group: Tensor
    """The group of each passage."""
    positive: Tensor
    """The first positive of each query."""
    trained: Tensor
    """Numbers of the queries that may be used for training."""


def load_material(work: Path) -> Material:
    pairs = pairs_of(work)
    held = {pairs.sources.index(name) for name in HELD if name in pairs.sources}
    trained = [q for q, source in enumerate(pairs.query_source) if source not in held and pairs.positives[q]]
    tokenizer = work / "minilm" / "tokenizer.json"
    return Material(
        pairs,
        tokenise(pairs.passages, tokenizer, DEVICE),
        tokenise(pairs.queries, tokenizer, DEVICE, QUERY_TOKENS),
        tokenise(_spoken(pairs.queries), tokenizer, DEVICE, QUERY_TOKENS),
        torch.tensor(pairs.query_source, device=DEVICE),
        torch.tensor(pairs.groups, device=DEVICE),
        torch.tensor([p[0] if p else 0 for p in pairs.positives], device=DEVICE),
        torch.tensor(trained, device=DEVICE),
    )


def _spoken(queries: Sequence[str]) -> list[str]:
    dice = random.Random(SEED)
    return [said(query, dice) if len(query.split()) <= SPOKEN_WORDS else query for query in queries]


def half_spoken(material: Material) -> tuple[Tokens, Callable[[Tensor], Tensor]]:
    """Both forms of every query, and a function that takes numbers of queries and chooses a form of each at random."""
    both = joined_tokens(material.queries, material.spoken)
    return both, lambda at: at + len(material.queries) * torch.randint(2, at.shape, device=at.device)


def load_transformer(folder: Path, ranks: bool = False, dropout: float = 0.0) -> Transformer:
    """Reads an encoder; as a reranker if it `ranks`. Its head is random then, and a pooler that is missing changes
    nothing."""
    model = Transformer(Shape.read(folder / "config.json"), ranks, dropout=dropout)
    state = upstream_state(read_packed(folder))
    if ranks and "pooler.weight" not in state:
        state |= {"pooler.weight": torch.eye(model.shape.width), "pooler.bias": torch.zeros(model.shape.width)}
    missing = set(model.state_dict()) - set(state)
    assert missing == ({"head.weight", "head.bias"} if ranks else set()), missing
    model.load_state_dict({**model.state_dict(), **fitting(model, state)})
    return model.to(DEVICE)


def one_pass(material: Material, dice: np.random.Generator, most: int | None = None) -> np.ndarray:
    """The training queries in a new random order, limited by `MOST` per source, and by `most` per `doc-` source."""
    source = np.array(material.pairs.query_source)
    order = dice.permutation(material.trained.cpu().numpy())
    kept = []
    for number, name in enumerate(material.pairs.sources):
        share = most if most and name.startswith("doc-") else MOST.get(name, len(order))
        kept.append(order[source[order] == number][:share])
    return dice.permutation(np.concatenate(kept))


@torch.no_grad()
def vectors(model: Transformer, tokens: Tokens, most: int, batch: int = 1024) -> Tensor:
    """Unit vectors of all texts, in half precision. Embeds the longest first, so that batches have little padding."""
    model.eval()
    order = torch.argsort(tokens.length, descending=True)
    result = torch.empty(len(tokens), model.shape.width, dtype=torch.float16, device=DEVICE)
    with precision():
        for at in order.split(batch):
            ids, mask = texts_batch(tokens, at, model.shape.family, most)
            result[at] = model(ids, mask).half()
    return result


def pair_scores(model: Transformer, queries: Tokens, q: Tensor, passages: Tokens, p: Tensor, parts: int) -> Tensor:
    """Scores pairs in `parts` passes, grouped by length so that short pairs are not padded to the longest."""
    order = torch.argsort(passages.length[p] + queries.length[q])
    scores = [
        model(*pairs_batch(queries, q[at], passages, p[at], model.shape.family)).float().squeeze(-1)
        for at in order.chunk(parts)
    ]
    return torch.empty_like(scores[0].new_zeros(len(p))).scatter(0, order, torch.cat(scores))


class Clock:
    """A learning rate that follows the clock: it rises in the first 5% of the time, then falls along a cosine."""

    def __init__(self, seconds: float, rate: float) -> None:
        self.seconds, self.rate = seconds, rate
        self.started = time.perf_counter()
        self.steps = 0

    @property
    def part(self) -> float:
        return (time.perf_counter() - self.started) / self.seconds

    def set(self, optimizer: torch.optim.Optimizer) -> bool:
        """Sets the rate for the next step; False when the time is up."""
        part = self.part
        self.steps += 1
        scale = min(1.0, part / 0.05 + 0.02) * 0.5 * (1 + math.cos(math.pi * min(1.0, part)))
        for group in optimizer.param_groups:
            group["lr"] = self.rate * scale * group.get("share", 1.0)
        return part < 1


def optimizer_of(model: torch.nn.Module, rate: float, betas: tuple[float, float] = (0.9, 0.999)) -> torch.optim.AdamW:
    learned = [p for p in model.parameters() if p.requires_grad]
    decayed = [p for p in learned if p.dim() > 1]
    plain = [p for p in learned if p.dim() <= 1]
    groups = [{"params": decayed, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=rate, betas=betas, fused=DEVICE == "cuda")
