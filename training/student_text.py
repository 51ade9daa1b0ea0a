"""The texts that a student learns from, and random batches of them.

There are questions, colloquial questions, crops and passages. Crops are random pieces of passages, some of them with
half of their words left out; they are read as questions. A source has a weight of the square root of its size, so that
a large one does not drown the others. Labels are not used. The texts of a block have the same length, so that nothing
is padded.
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

ASKED = {"questions": True, "colloquial": True, "crops": True, "passages": False}
"""Which kinds of text the teachers read as questions."""
MOST = {"questions": 220_000, "colloquial": 160_000, "crops": 100_000, "passages": 260_000}
"""Texts of each kind that the teachers read."""
BLOCKS = {"questions": (3, 24), "colloquial": (1, 24), "crops": (1, 24)}
"""The blocks of each kind of question in a batch, and the questions of a block."""
NEAR, FAR = (1, 5), (2, 100)
"""Passages of a question in a batch: so many of its nearest 5, and so many of its nearest 100."""
AT_ONCE = 32
"""Passages of a block, of nearly the same length; the longer ones are cut."""
LONGEST = 254
CROP_TOKENS, CROPPED_WORDS = (4, 46), 0.3


@dataclass(frozen=True)
class Texts:
    """Texts of one kind."""

    tokens: Tokens
    weights: np.ndarray


def read(file: Path) -> list[np.ndarray]:
    """Token ids, the lengths of the texts and their sources, as `pack_text.py` wrote them."""
    with lzma.open(file) as data:
        return [np.load(data).astype(np.int64) for _ in range(3)]


def crops(
    ids: np.ndarray, lengths: np.ndarray, number: int, continues: np.ndarray, dice: np.random.Generator
) -> Tokens:
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
        ids, lengths, sources = read(work / "text" / f"{kind}.xz")
        every[kind] = Texts(tokens_of(ids, lengths, "cpu"), weights_of(sources))
    pieces = crops(ids, lengths, most["crops"], continuations(work / "gte" / "tokenizer.json"), dice)
    every["crops"] = Texts(pieces, np.ones(len(pieces)))
    return {kind: _some(every[kind], most[kind], device, dice) for kind in ASKED}


def _some(texts: Texts, most: int, device: str, dice: np.random.Generator) -> Texts:
    """At most so many texts, without empty ones; the heavier, the likelier, and all weigh the same afterwards."""
    there = np.flatnonzero(texts.tokens.length.numpy() > 0)
    weights = texts.weights[there]
    if len(there) > most:
        there = np.sort(there[np.argsort(-(dice.random(len(there)) ** (1 / weights)))[:most]])
        weights = np.ones(most)
    rows = torch.from_numpy(there)
    parts = (texts.tokens.flat, texts.tokens.start[rows], texts.tokens.length[rows])
    return Texts(Tokens(*(part.to(device) for part in parts)), weights)


class Pool:
    """Questions of one kind, drawn at random by weight, in blocks of one length."""

    def __init__(self, texts: Texts, blocks: tuple[int, int], dice: np.random.Generator) -> None:
        self.blocks, self.dice = blocks, dice
        lengths = texts.tokens.length.clamp(max=LONGEST).cpu().numpy()
        self.order = np.argsort(lengths, kind="stable")
        self.lengths = lengths[self.order]
        self.heights = np.concatenate([[0.0], np.cumsum(texts.weights[self.order])])

    def draw(self) -> list[tuple[np.ndarray, int]]:
        """The questions of each block, and their length."""
        number, rows = self.blocks
        found = []
        for height in (self.dice.random(number) * self.heights[-1]).tolist():
            length = int(self.lengths[min(np.searchsorted(self.heights, height, "right") - 1, len(self.lengths) - 1)])
            first, end = np.searchsorted(self.lengths, [length, length + 1])
            low, high = self.heights[first], self.heights[end]
            at = np.searchsorted(self.heights, low + self.dice.random(rows) * (high - low), "right") - 1
            found.append((self.order[at.clip(first, end - 1)], length))
        return found


@dataclass(frozen=True)
class Drawn:
    """A batch: questions first, then passages."""

    batch: Batch
    questions: list[tuple[str, Tensor]]
    """The kind and the numbers of the questions of each block."""
    passages: Tensor
    """The numbers of the passages."""


def batches_of(texts: dict[str, Texts], near: dict[str, Tensor], dice: np.random.Generator) -> Callable[[], Drawn]:
    """A function that draws a batch. `near`: the numbers of the nearest passages of each question, by kind."""
    pools = {kind: Pool(texts[kind], blocks, dice) for kind, blocks in BLOCKS.items()}
    passages = texts["passages"].tokens
    lengths = passages.length.clamp(max=LONGEST).cpu().numpy()
    here = {kind: rows.cpu().numpy() for kind, rows in near.items()}
    device = passages.flat.device

    def draw() -> Drawn:
        blocks, questions, wanted = [], [], []
        for kind, pool in pools.items():
            for at, length in pool.draw():
                rows = torch.from_numpy(at).to(device, non_blocking=True)
                blocks.append(block_of(texts[kind].tokens, rows, length))
                questions.append((kind, rows))
                for some, depth in (NEAR, FAR):
                    column = dice.integers(0, min(depth, here[kind].shape[1]), (len(at), some))
                    wanted.append(here[kind][at[:, None], column].reshape(-1))
        numbers = np.unique(np.concatenate(wanted))
        numbers = numbers[np.argsort(lengths[numbers], kind="stable")]
        for at in np.array_split(numbers, -(-len(numbers) // AT_ONCE)):
            rows = torch.from_numpy(at).to(device, non_blocking=True)
            blocks.append(block_of(passages, rows, int(lengths[at].min())))
        return Drawn(Batch.of(blocks), questions, torch.from_numpy(numbers).to(device))

    return draw


def continuations(tokenizer: Path) -> np.ndarray:
    """For each token id, whether it continues a word."""
    vocabulary = json.loads(tokenizer.read_text(encoding="utf-8"))["model"]["vocab"]
    found = np.zeros(len(vocabulary), bool)
    found[[token_id for token, token_id in vocabulary.items() if token.startswith("##")]] = True
    return found
