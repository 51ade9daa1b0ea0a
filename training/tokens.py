"""Keeps texts as token ids in one flat array on the accelerator and builds padded batches there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ids import flat_ids

CLS, SEP, UNKNOWN = 101, 102, 100
QUERY_TOKENS, PAIR_TOKENS, TEXT_TOKENS = 64, 256, 256
MPNET_SHIFT = 4
MPNET = {"first": 0, "last": 2, "unknown": 3}


@dataclass
class Tokens:
    """Text i is `flat[start[i] : start[i] + length[i]]`, without special tokens."""

    flat: Tensor
    start: Tensor
    length: Tensor

    def __len__(self) -> int:
        return len(self.start)

    def cut(self, at: Tensor, most: int) -> tuple[Tensor, Tensor]:
        return self.start[at], self.length[at].clamp(max=most)


def tokens_of(flat: np.ndarray, lengths: np.ndarray, device: str) -> Tokens:
    lengths = lengths.astype(np.int64)
    start = np.cumsum(lengths) - lengths
    return Tokens(*(torch.from_numpy(a).to(device) for a in (flat.astype(np.int32), start, lengths)))


def joined_tokens(first: Tokens, second: Tokens) -> Tokens:
    return Tokens(
        torch.cat([first.flat, second.flat]),
        torch.cat([first.start, second.start + len(first.flat)]),
        torch.cat([first.length, second.length]),
    )


def tokenise(texts: Sequence[str], tokenizer_file: Path, device: str, most: int = TEXT_TOKENS) -> Tokens:
    return tokens_of(*flat_ids(texts, tokenizer_file, most), device)


def texts_batch(tokens: Tokens, at: Tensor, family: str, most: int = TEXT_TOKENS) -> tuple[Tensor, Tensor]:
    """Builds a batch of [CLS] text [SEP], padded to the longest text: ids and mask."""
    start, length = tokens.cut(at, most - 2)
    place = torch.arange(_even(int(length.max()) + 2), device=start.device)[None]
    inside = (place >= 1) & (place <= length[:, None])
    ids = tokens.flat[(start[:, None] + place - 1).clamp(0, len(tokens.flat) - 1)].long()
    ids = torch.where(inside, ids, torch.where(place == 0, CLS, SEP))
    mask = place < length[:, None] + 2
    return _in_family(ids, mask, family), mask


def pairs_batch(queries: Tokens, q: Tensor, passages: Tokens, p: Tensor, family: str) -> tuple[Tensor, Tensor, Tensor]:
    """Builds a batch of [CLS] query [SEP] passage [SEP], at most 256 tokens each: ids, mask, types. (MPNet has two
    [SEP] between query and passage.)"""
    q_start, q_length = queries.cut(q, QUERY_TOKENS)
    gap = 2 if family == "mpnet" else 1
    p_start, p_length = passages.cut(p, PAIR_TOKENS)
    p_length = torch.minimum(p_length, PAIR_TOKENS - 2 - gap - q_length)
    total = q_length + p_length + 2 + gap
    place = torch.arange(_even(int(total.max())), device=q.device)[None]
    begin = (q_length + 1 + gap)[:, None]
    in_query = (place >= 1) & (place <= q_length[:, None])
    in_passage = (place >= begin) & (place < begin + p_length[:, None])
    last = len(queries.flat) - 1, len(passages.flat) - 1
    ids = torch.where(in_query, queries.flat[(q_start[:, None] + place - 1).clamp(0, last[0])], SEP)
    ids = torch.where(in_passage, passages.flat[(p_start[:, None] + place - begin).clamp(0, last[1])], ids).long()
    ids = torch.where(place == 0, CLS, ids)
    mask = place < total[:, None]
    types = (mask & (place >= begin)).long()
    return _in_family(ids, mask, family), mask, types


def _even(length: int) -> int:
    """Rounds a length up to a multiple of eight, which the fast attention kernels need."""
    return -(-length // 8) * 8


def in_family(ids: Tensor, family: str) -> Tensor:
    """BERT's ids, or the ids of the same tokens in MPNet's vocabulary."""
    if family == "bert":
        return ids
    shifted = ids + MPNET_SHIFT
    for special, value in ((CLS, MPNET["first"]), (SEP, MPNET["last"]), (UNKNOWN, MPNET["unknown"])):
        shifted = torch.where(ids == special, value, shifted)
    return shifted


def _in_family(ids: Tensor, mask: Tensor, family: str) -> Tensor:
    return in_family(ids, family).masked_fill(~mask, 0 if family == "bert" else 1)
