"""The texts that a student learns from, with the vectors that it is to give, and random batches of them.

There are questions, colloquial questions, passages, sentences, and crops: random pieces of passages, some of them with half
of their words left out. A source has a weight of the square root of its size, so that a large one does not drown the
others. Labels are not used. The texts of a block have the same length, so that nothing is padded.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from flat import Batch, block_of
from tokens import Tokens, tokens_of

ASKED = {"questions": True, "colloquial": True, "crops": True, "passages": False, "sentences": False}
"""Which kinds of text the teachers read as questions."""
MOST = {"questions": 220_000, "colloquial": 160_000, "crops": 120_000, "passages": 230_000, "sentences": 200_000}
"""Texts of each kind that the teachers read."""
BLOCKS = {"questions": (2, 48), "colloquial": (2, 48), "crops": (1, 64), "passages": (6, 28), "sentences": (2, 64)}
"""The blocks of each kind in a batch, and the texts of a block; some 33,000 tokens in all."""
LONGEST = 254
CROP_TOKENS, CROPPED_WORDS = (4, 46), 0.3
SENTENCE_TOKENS = (4, 62)
ENDS = (1012, 1029, 999)
"""The tokens `.`, `?` and `!`."""


@dataclass(frozen=True)
class Texts:
    """Texts of one kind."""

    tokens: Tokens
    weights: np.ndarray
    positive: np.ndarray
    """For each question, its passage among `passages`, or -1."""


def read(file: Path) -> list[np.ndarray]:
    """Token ids, the lengths of the texts, their sources and, of questions, the passages, as `pack_text.py` wrote them."""
    with lzma.open(file) as data:
        return [np.load(data).astype(np.int64) for _ in range(4 if file.stem == "questions" else 3)]


def sentences(ids: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Start, length and passage of every sentence that is neither very short nor very long."""
    passage = np.repeat(np.arange(len(lengths)), lengths)
    last = np.isin(ids, ENDS)
    last[np.cumsum(lengths)[lengths > 0] - 1] = True
    end = np.flatnonzero(last) + 1
    start = np.concatenate([[0], end[:-1]])
    kept = (end - start >= SENTENCE_TOKENS[0]) & (end - start <= SENTENCE_TOKENS[1])
    return start[kept], (end - start)[kept], passage[start[kept]]


def crops(ids: np.ndarray, lengths: np.ndarray, number: int, continues: np.ndarray, dice: np.random.Generator) -> Tokens:
    """Random pieces of so many passages; some lose half of their words."""
    starts = np.cumsum(lengths) - lengths
    found = []
    for passage in dice.integers(0, len(lengths), number).tolist():
        length = min(int(dice.integers(*CROP_TOKENS)), int(lengths[passage]))
        first = int(starts[passage]) + int(dice.integers(0, lengths[passage] - length + 1))
        piece = ids[first : first + length]
        if dice.random() < CROPPED_WORDS:
            word = np.cumsum(~continues[piece])
            piece = piece[dice.random(length + 1)[word] < 0.5]
        found.append(piece)
    return tokens_of(np.concatenate(found), np.array([len(piece) for piece in found]), "cpu")


def weights_of(sources: np.ndarray) -> np.ndarray:
    """The weight of each text: the texts of a source together weigh the square root of their number."""
    return 1 / np.sqrt(np.maximum(np.bincount(sources), 1))[sources]


def texts_of(work: Path, device: str, dice: np.random.Generator, scale: float = 1.0) -> dict[str, Texts]:
    """Draws the texts that the teachers read. `scale`: of their number, for a test."""
    most = {kind: round(number * scale) for kind, number in MOST.items()}
    every: dict[str, Texts] = {}
    for kind in ("questions", "colloquial", "passages"):
        ids, lengths, sources, *positive = read(work / "text" / f"{kind}.xz")
        tokens = tokens_of(ids, lengths, "cpu")
        every[kind] = Texts(tokens, weights_of(sources), positive[0] - 1 if positive else np.full(len(lengths), -1))
    start, length, passage = sentences(ids, lengths)
    some = Tokens(tokens.flat, torch.from_numpy(start), torch.from_numpy(length))
    every["sentences"] = Texts(some, weights_of(sources[passage]), np.full(len(start), -1))
    pieces = crops(ids, lengths, most["crops"], continuations(work / "gte" / "tokenizer.json"), dice)
    every["crops"] = Texts(pieces, np.ones(len(pieces)), np.full(len(pieces), -1))
    drawn = {kind: _drawn(every[kind], most[kind], dice) for kind in ASKED}
    place = np.full(len(every["passages"].weights) + 1, -1)  # the last is for questions without a passage
    place[drawn["passages"]] = np.arange(len(drawn["passages"]))
    return {kind: _kept(every[kind], at, place, device) for kind, at in drawn.items()}


def _drawn(texts: Texts, most: int, dice: np.random.Generator) -> np.ndarray:
    """At most so many texts, without empty ones; the heavier, the likelier."""
    there = np.flatnonzero(texts.tokens.length.numpy() > 0)
    keys = dice.random(len(there)) ** (1 / texts.weights[there])
    return np.sort(there[np.argsort(-keys)[:most]])


def _kept(texts: Texts, at: np.ndarray, place: np.ndarray, device: str) -> Texts:
    """Some texts. Those of many weigh the same afterwards: the draw has weighed them."""
    rows = torch.from_numpy(at)
    parts = (texts.tokens.flat, texts.tokens.start[rows], texts.tokens.length[rows])
    weights = texts.weights[at] if len(at) == len(texts.weights) else np.ones(len(at))
    return Texts(Tokens(*(part.to(device) for part in parts)), weights, place[texts.positive[at]])


class Pool:
    """Texts of one kind and the vectors that are wanted of them, drawn at random by weight, in blocks of one length."""

    def __init__(self, texts: Texts, wanted: Tensor, blocks: tuple[int, int], dice: np.random.Generator) -> None:
        self.tokens, self.wanted, self.blocks, self.dice = texts.tokens, wanted, blocks, dice
        lengths = texts.tokens.length.clamp(max=LONGEST).cpu().numpy()
        self.order = np.argsort(lengths, kind="stable")
        self.lengths = lengths[self.order]
        self.heights = np.concatenate([[0.0], np.cumsum(texts.weights[self.order])])

    def draw(self) -> list[tuple[Tensor, Tensor]]:
        """Blocks of ids, and the vectors wanted."""
        number, rows = self.blocks
        found = []
        for height in (self.dice.random(number) * self.heights[-1]).tolist():
            length = int(self.lengths[min(np.searchsorted(self.heights, height, "right") - 1, len(self.lengths) - 1)])
            first, end = np.searchsorted(self.lengths, [length, length + 1])
            low, high = self.heights[first], self.heights[end]
            at = np.searchsorted(self.heights, low + self.dice.random(rows) * (high - low), "right") - 1
            texts = torch.from_numpy(self.order[at.clip(first, end - 1)]).to(self.wanted.device, non_blocking=True)
            found.append((block_of(self.tokens, texts, length), self.wanted[texts]))
        return found


def batches_of(
    texts: dict[str, Texts], wanted: dict[str, Tensor], dice: np.random.Generator
) -> Callable[[], tuple[Batch, Tensor]]:
    """A function that draws a batch and the vectors wanted."""
    pools = [Pool(texts[kind], wanted[kind], BLOCKS[kind], dice) for kind in texts]

    def draw() -> tuple[Batch, Tensor]:
        blocks = [block for pool in pools for block in pool.draw()]
        return Batch.of([ids for ids, _ in blocks]), torch.cat([vectors for _, vectors in blocks])

    return draw


def continuations(tokenizer: Path) -> np.ndarray:
    """For each token id, whether it continues a word."""
    vocabulary = json.loads(tokenizer.read_text(encoding="utf-8"))["model"]["vocab"]
    found = np.zeros(len(vocabulary), bool)
    found[[token_id for token, token_id in vocabulary.items() if token.startswith("##")]] = True
    return found
