"""Builds postings by numpy alone, for few texts: loading the compiled kernels would take longer.

The functions are named as those of `_kernels`, take the same arguments and return the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def expand(tokens: Any, sizes: Any, firsts: Any, terms: Any) -> tuple[Any, Any]:
    counts = np.diff(firsts)[tokens]
    ends = np.cumsum(counts)
    at = np.repeat(firsts[tokens] - (ends - counts), counts) + np.arange(int(counts.sum()))
    bounds = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
    lengths = np.diff(np.concatenate([[0], ends])[bounds])
    return terms[at], lengths.astype(np.int32)


def count_postings(terms: Any, offsets: Any, n_terms: int) -> Any:
    chunks = max(1, len(offsets) - 1)
    return np.bincount(np.unique(_pairs(terms, offsets)) // chunks, minlength=n_terms).astype(np.int64)


def fill_postings(terms: Any, counts: Any, offsets: Any, starts: Any) -> tuple[Any, Any]:
    chunks = max(1, len(offsets) - 1)
    pairs, at = np.unique(_pairs(terms, offsets), return_inverse=True)
    tfs = np.minimum(np.bincount(at.reshape(-1), weights=counts, minlength=len(pairs)), 65535)
    return (pairs % chunks).astype(np.int32), tfs.astype(np.uint16)


def transpose(starts: Any, docs: Any, tfs: Any, kept: Any, n_docs: int) -> tuple[Any, Any, Any]:
    renumbered = kept[docs]
    alive = renumbered >= 0
    terms = np.repeat(np.arange(len(starts) - 1, dtype=np.int32), np.diff(starts))[alive]
    order = np.argsort(renumbered[alive], kind="stable")
    sizes = np.bincount(renumbered[alive], minlength=n_docs)
    offsets = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
    return offsets, terms[order], tfs[alive][order].astype(np.int32)


def greatest_tfs(docs: Any, tfs: Any, kind: Any, n_kinds: int) -> Any:
    greatest = np.zeros(n_kinds, np.int64)
    np.maximum.at(greatest, kind[docs], tfs.astype(np.int64))
    return greatest


def fill_shapes(docs: Any, tfs: Any, kind: Any, firsts: Any, shapes: Any) -> None:
    shapes[:] = firsts[kind[docs]] + tfs


def _pairs(terms: Any, offsets: Any) -> Any:
    """The term and the chunk of each occurrence as one number: the term first."""
    chunks = len(offsets) - 1
    return terms.astype(np.int64) * max(1, chunks) + np.repeat(np.arange(chunks), np.diff(offsets))
