"""Turns texts into streams of term numbers, for indexes of words."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Sequence
from itertools import count
from typing import Any

import numpy as np

from surefind.protocols import Analyzer, Progress
from surefind.types import IntArray

_EVERY = 2000
"""Texts between two reports of progress."""


def compiled() -> Any:
    """The compiled kernels. They take half a second to load, which a single search can do without."""
    from surefind.retrieve import _kernels

    return _kernels


class Terms:
    """Assigns numbers to terms. Each distinct token is analysed once."""

    def __init__(self, analyzer: Analyzer, vocabulary: Sequence[str]) -> None:
        self._analyzer = analyzer
        self.known = {term: i for i, term in enumerate(vocabulary)}

    def of(self, texts: Sequence[str], progress: Progress | None) -> tuple[IntArray, IntArray]:
        """All terms of all texts in one stream, and how many belong to each text."""
        seen: defaultdict[str, int] = defaultdict(count().__next__)
        number = seen.__getitem__
        parts: list[IntArray] = []
        for i, text in enumerate(texts):
            tokens = self._analyzer.tokens(text)
            parts.append(np.fromiter(map(number, tokens), np.int32, len(tokens)))
            if progress and i % _EVERY == 0:
                progress(i, len(texts))
        known = self.known
        terms = array("i")
        firsts = np.zeros(len(seen) + 1, np.int64)
        for i, token in enumerate(seen, 1):
            terms.extend([known.setdefault(term, len(known)) for term in self._analyzer.terms(token)])
            firsts[i] = len(terms)
        stream = np.concatenate(parts) if parts else np.zeros(0, np.int32)
        sizes = np.array([len(part) for part in parts], np.int32)
        stream, lengths = compiled().expand(stream, sizes, firsts, np.array(terms, dtype=np.int32))
        return stream, lengths
