"""Searches a question in each language that it may be in: which analyzers turn it into terms, and what is best of all.

A question is short, so its language is not always sure. It is searched once for each language that holds a twentieth of
the passages, and for its own; the best score of a passage counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any, NamedTuple, cast

import numpy as np

from surefind.base.protocols import Analyzer
from surefind.base.spec import make
from surefind.base.text.languages import language_of
from surefind.base.types import PAD, Query, Rankings, Wording
from surefind.engine.analyze.auto import Auto, counted
from surefind.engine.retrieve._counting import Saturation, TermStatistics


class Interpretation(NamedTuple):
    """One way to read queries."""

    analyzer: Analyzer
    queries: Sequence[Query]


_COMMON = 20
"""A question is searched in each language that one passage in so many is in."""


def interpretations(
    retriever: Saturation, queries: Sequence[Query], statistics: TermStatistics
) -> list[Interpretation]:
    """Returns the analyzers that turn queries into terms, each with the queries, empty where it is not for a query: the
    retriever's, or one for each language that a query may be in. Rare languages count for queries in them alone."""
    analyzer = cast(Analyzer, make("analyze", retriever.analyzer))
    if not isinstance(analyzer, Auto) or analyzer.languages or not statistics.languages:
        return [Interpretation(analyzer, queries)]
    counts = {"en": statistics.chunks - sum(statistics.languages.values()), **statistics.languages}
    common = [language for language, count in counts.items() if count * _COMMON >= statistics.chunks]
    asked = [Interpretation(Auto((language,)), queries) for language in common]
    own = [language_of(query.text) for query in queries] if len(common) < len(counts) else []
    for language in sorted({*own} & {*counts} - {*common}):
        there = [query if spoken == language else Query("") for query, spoken in zip(queries, own, strict=True)]
        asked.append(Interpretation(Auto((language,)), there))
    return asked


def best_of(rankings: Sequence[Rankings], k: int) -> Rankings:
    """Merges rankings of the same chunks: of each chunk its best score, the best k; equal scores in order of place."""
    if len(rankings) == 1:
        return rankings[0]
    ids = np.full((len(rankings[0]), k), PAD, np.int64)
    scores = np.full(ids.shape, -np.inf, np.float32)
    for row in range(len(ids)):
        parts = [ranking.row(row) for ranking in rankings]
        found, own = np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])
        order = np.lexsort((found, -own))
        first = np.sort(np.unique(found[order], return_index=True)[1])[:k]
        best = order[first]
        ids[row, : len(best)], scores[row, : len(best)] = found[best], own[best]
    return replace(rankings[0], ids=ids, scores=scores)


def best_wording(wordings: Sequence[Wording]) -> Wording:
    """Returns what is known of a query in the language in which most of its words are known."""
    return max(wordings, key=lambda wording: (wording.known, wording.best))


def languages_in(vocabularies: Sequence[Sequence[str]], df: Sequence[Any]) -> dict[str, int]:
    """How many chunks are in each language that has a mark. Marks come first in a vocabulary."""
    return {
        counted(term): int(counts[i])
        for vocabulary, counts in zip(vocabularies, df, strict=True)
        for i, term in enumerate(takewhile(counted, vocabulary))
        if counts[i]
    }
