"""The text that a student learns from, and random batches of it. All batches have the same shape.

A batch has questions, colloquial questions, passages, sentences, and crops: random pieces of passages, some of them
with half of their words left out. A source has a weight of the square root of its size, so that a large one does not
drown the others. Labels are not used.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from flat import Batch, block_of
from tokens import CLS, SEP, Tokens, tokens_of

ROWS = {"questions": 96, "colloquial": 96, "sentences": 128, "passages": 160, "crops": 64}
"""Texts of each kind in a batch; about 37k tokens in all."""
SHORT = (16, 24, 32, 48, 64)
LONG = (32, 64, 96, 128, 160, 192, 224, 256)
CROP, CROP_TOKENS, CROPPED_WORDS = 48, (4, 46), 0.3
SENTENCE_TOKENS = (4, 62)
ENDS = (1012, 1029, 999)
"""The tokens `.`, `?` and `!`."""


def read(file: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Token ids, the lengths of the texts, and their sources, as `pack_text.py` wrote them."""
    with lzma.open(file) as data:
        ids, lengths, sources = (np.load(data) for _ in range(3))
    return ids, lengths.astype(np.int64), sources.astype(np.int64)


def sentences(ids: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Start, length and passage of every sentence that is neither very short nor very long."""
    passage = np.repeat(np.arange(len(lengths)), lengths)
    last = np.isin(ids, ENDS)
    last[np.cumsum(lengths)[lengths > 0] - 1] = True
    end = np.flatnonzero(last) + 1
    start = np.concatenate([[0], end[:-1]])
    kept = (end - start >= SENTENCE_TOKENS[0]) & (end - start <= SENTENCE_TOKENS[1])
    return start[kept], (end - start)[kept], passage[start[kept]]


def weights_of(sources: np.ndarray) -> np.ndarray:
    """The weight of each text: the texts of a source together weigh the square root of their number."""
    return 1 / np.sqrt(np.bincount(sources))[sources]


class Pool:
    """Texts of one kind, drawn at random by weight, in blocks of one padded length each."""

    def __init__(self, tokens: Tokens, weights: np.ndarray, edges: tuple[int, ...], rows: int) -> None:
        device = tokens.flat.device
        self.tokens = tokens
        number = np.searchsorted(np.array(edges) - 2, tokens.length.cpu().numpy()).clip(max=len(edges) - 1)
        shares = np.bincount(number, weights, minlength=len(edges))
        counts = np.maximum((shares / shares.sum() * rows / 4).round().astype(int) * 4, 0)
        self.blocks = []
        for edge, count, kind in zip(edges, counts.tolist(), range(len(edges)), strict=True):
            if count:
                texts = np.flatnonzero(number == kind)
                heights = torch.from_numpy(np.cumsum(weights[texts])).to(device)
                self.blocks.append((edge, count, torch.from_numpy(texts).to(device), heights))

    def draw(self) -> list[tuple[Tensor, Tensor]]:
        return [block_of(self.tokens, _drawn(texts, heights, rows), edge) for edge, rows, texts, heights in self.blocks]


class Crops:
    """Random pieces of passages."""

    def __init__(self, tokens: Tokens, weights: np.ndarray, continues: Tensor, rows: int) -> None:
        self.tokens, self.continues, self.rows = tokens, continues, rows
        self.texts = torch.arange(len(tokens), device=tokens.flat.device)
        self.heights = torch.from_numpy(np.cumsum(weights)).to(tokens.flat.device)

    def draw(self) -> list[tuple[Tensor, Tensor]]:
        at = _drawn(self.texts, self.heights, self.rows)
        device = at.device
        whole = self.tokens.length[at]
        length = torch.randint(*CROP_TOKENS, at.shape, device=device).minimum(whole)
        start = self.tokens.start[at] + (torch.rand(at.shape, device=device) * (whole - length + 1)).long()
        place = torch.arange(CROP - 2, device=device)[None]
        ids = self.tokens.flat[(start[:, None] + place).clamp(max=len(self.tokens.flat) - 1)].long()
        word = (~self.continues[ids]).long().cumsum(1).clamp(max=CROP - 3)
        stays = (torch.rand(ids.shape, device=device) < 0.5).gather(1, word)
        stays |= torch.rand(len(at), 1, device=device) >= CROPPED_WORDS
        kept = stays & (place < length[:, None])
        ids = ids.gather(1, torch.argsort((~kept).byte(), dim=1, stable=True))
        return [_closed(ids, kept.sum(1))]


def _closed(ids: Tensor, length: Tensor) -> tuple[Tensor, Tensor]:
    """Puts [CLS] before each text and [SEP] after it."""
    edge = torch.full_like(ids[:, :1], CLS)
    ids = torch.cat([edge, ids, edge], 1)
    place = torch.arange(ids.size(1), device=ids.device)[None]
    mask = place < length[:, None] + 2
    return torch.where(place == length[:, None] + 1, SEP, ids).masked_fill(~mask, 0), mask


def _drawn(texts: Tensor, heights: Tensor, rows: int) -> Tensor:
    at = torch.searchsorted(heights, torch.rand(rows, dtype=heights.dtype, device=heights.device) * heights[-1])
    return texts[at.clamp(max=len(texts) - 1)]


def batches_of(work: Path, device: str, scale: float = 1.0, most: int | None = None) -> Callable[[], Batch]:
    """A function that draws a batch. `scale`: of the number of texts; `most`: read only so many texts of a kind."""
    rows = {kind: max(4, round(count * scale)) for kind, count in ROWS.items()}
    pools: list[Pool | Crops] = []
    for kind in ("questions", "colloquial", "passages"):
        ids, lengths, sources = read(work / "text" / f"{kind}.xz")
        lengths, sources = lengths[:most], sources[:most]
        ids = ids[: lengths.sum()]
        tokens, weights = tokens_of(ids, lengths, device), weights_of(sources)
        pools.append(Pool(tokens, weights, LONG if kind == "passages" else SHORT, rows[kind]))
    start, length, passage = sentences(ids, lengths)
    some = Tokens(tokens.flat, torch.from_numpy(start).to(device), torch.from_numpy(length).to(device))
    pools.append(Pool(some, weights_of(sources[passage]), SHORT, rows["sentences"]))
    pools.append(Crops(tokens, weights, continuations(work / "gte" / "tokenizer.json", device), rows["crops"]))
    kind = torch.bfloat16 if device == "cuda" else torch.float32
    return lambda: Batch.of([block for pool in pools for block in pool.draw()], kind)


def continuations(tokenizer: Path, device: str) -> Tensor:
    """For each token id, whether it continues a word."""
    vocabulary = json.loads(tokenizer.read_text(encoding="utf-8"))["model"]["vocab"]
    found = torch.zeros(len(vocabulary), dtype=torch.bool)
    found[[token_id for token, token_id in vocabulary.items() if token.startswith("##")]] = True
    return found.to(device)
