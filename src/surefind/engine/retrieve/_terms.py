"""Turns texts into streams of term numbers, for indexes of words."""

from __future__ import annotations

import itertools
from array import array
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from surefind.base.protocols import Analyzer, Progress
from surefind.base.types import IntArray
from surefind.engine.retrieve import _plain_postings
from surefind.engine.retrieve._plain import suffices

_REPORT_EVERY = 2000
"""Texts between two reports of progress."""


def compiled() -> Any:
    """The compiled kernels. They take half a second to load, which a single search can do without."""
    from surefind.engine.retrieve import _kernels

    return _kernels


def building(size: int) -> Any:
    """The functions that build an index with so many words or postings: the compiled kernels, or the same functions by
    numpy where loading the kernels would take longer than the work."""
    return _plain_postings if suffices(size, 1, "_kernels") else compiled()


class Terms:
    """Assigns numbers to terms. Each distinct token is analysed once."""

    def __init__(self, analyzer: Analyzer, vocabulary: Sequence[str]) -> None:
        self._analyzer = analyzer
        self.known = {term: i for i, term in enumerate(vocabulary)}

    def of(self, texts: Iterable[str], count: int, progress: Progress | None) -> tuple[IntArray, IntArray]:
        """All terms of `count` texts in one stream, and how many belong to each text. The texts are read one by one, so
        they need not be in memory together."""
        seen: defaultdict[str, int] = defaultdict(itertools.count().__next__)
        number = seen.__getitem__
        tokens = array("i")
        sizes = np.zeros(count, np.int32)
        for i, text in enumerate(texts):
            tokens_of = self._analyzer.tokens(text)
            tokens.extend(map(number, tokens_of))
            sizes[i] = len(tokens_of)
            if progress and i % _REPORT_EVERY == 0:
                progress(i, count)
        known = self.known
        terms = array("i")
        firsts = np.zeros(len(seen) + 1, np.int64)
        for i, token in enumerate(seen, 1):
            terms.extend([known.setdefault(term, len(known)) for term in self._analyzer.terms(token)])
            firsts[i] = len(terms)
        stream = np.frombuffer(tokens, np.int32) if tokens else np.zeros(0, np.int32)
        stream, lengths = building(len(stream)).expand(stream, sizes, firsts, np.array(terms, dtype=np.int32))
        return stream, lengths
