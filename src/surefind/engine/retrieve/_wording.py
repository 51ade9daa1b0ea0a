"""What an index of words knows about a query: `Wording`."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from surefind.base.abilities import query_tokens
from surefind.base.spec import make
from surefind.base.types import Query, Wording
from surefind.engine.retrieve._counting import Saturation


class Words(NamedTuple):
    """What an index knows about its words."""

    terms_of: Callable[[str], tuple[str, ...]]
    """Returns the terms of a token."""
    occurs: Callable[[str], bool]
    """Whether a chunk that the caller may see has a term."""
    weight: Callable[[str], float]
    """Returns the weight of a term that occurs."""
    chunks: int


def wording_of(retriever: Saturation, query: Query, words: Words) -> Wording:
    """The best score is that of an endless passage of these words, in which each gains idf · (k1 + 1). A term that only
    withheld chunks have counts as one that no chunk has, or else the score would show that they have it."""
    tokens = query_tokens(make("analyze", retriever.analyzer), query.text)
    unknown = float(np.log1p((words.chunks + 0.5) / 0.5))
    weights: dict[str, float] = {}
    count = known = 0
    for terms in filter(None, map(words.terms_of, tokens)):  # stop words have none
        weights_of = {term: words.weight(term) for term in terms if words.occurs(term)}
        weights |= weights_of or dict.fromkeys(terms[:1], unknown)
        count, known = count + 1, known + bool(weights_of)
    return Wording((retriever.k1 + 1) * sum(weights.values()), count, known, weights, retriever.analyzer)
