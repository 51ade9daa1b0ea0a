"""Follow-up questions: "And for a whole group?" is searched with the question before it.

    leans      a question leans on the one before if it begins as one that goes on ("and", "what about"), has hardly a
               word of its own, or is short and has a pronoun that stands for something ("it", "they", "that one")
    searched   the question before, then the question itself
    favoured   the `DEPTH` first passages are ordered by  s + `BONUS` · (their document was cited before),
               where s is their score, scaled from 0 (the last of them) to 1 (the first)

A question that stands alone is searched as it is. Nothing is stored: whoever asks sends the history along.
docs/results/answers.md says what it gains.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from surefind.base.errors import QueryError
from surefind.base.types import History, Rankings, Turn
from surefind.engine.analyze.english import English
from surefind.engine.search.pipeline import Reading, Run

DEPTH = 50
"""Passages that are ordered again."""
BONUS = 0.3
MOST_TURNS = 20
"""Questions of a history, at most."""
MOST_CITED = 50
"""Documents that a question of it cites, at most."""
_CHARACTERS = 1_000
"""Characters of the question before that are searched."""
_HARDLY, _SHORT = 2, 6
"""Words that say something: of a question that leans, and of one that leans if it has a pronoun."""
_GOES_ON = re.compile(
    r"\s*(?:and|but|or|so|then|also|what about|how about|what if|same for|for)\b(?!\s+(?:example|instance))",
    re.IGNORECASE,
)
_STANDS_FOR = re.compile(
    r"\b(?:it|its|they|them|their|theirs|he|him|his|she|hers|those|these|"
    r"(?:this|that)(?=\s*(?:[?.,!;]|$|one\b|then\b|too\b|for\b|if\b|in\b|on\b|by\b|when\b|with\b|after|afterwards|again|"
    r"automatically|happen|work|mean|take|come|do\b|be\b|is\b|was\b|apply|also))|"
    r"the (?:other|others|same|latter|former|rest|second|first) ?(?:one|ones)?(?=\s*[?.,!]|\s*$)|"
    r"ones?(?=\s*[?.,!]|\s*$)|"
    r"there(?=\s*[?.,!]|\s*$)|instead|afterwards|otherwise)\b",
    re.IGNORECASE,
)
_ANALYZER = English()


@dataclass(frozen=True, slots=True)
class Asked:
    """What is searched for a question."""

    text: str
    favoured: frozenset[str] = frozenset()
    """Documents that count more."""


def checked(history: Sequence[Turn]) -> History:
    """Returns a history. Raises `QueryError` if it is too long."""
    if len(history) > MOST_TURNS:
        raise QueryError(f"The history has {len(history)} questions; send the last {MOST_TURNS} at most.")
    if any(len(turn.documents) > MOST_CITED for turn in history):
        raise QueryError(f"A question of the history cites more than {MOST_CITED} documents.")
    return tuple(history)


def asked(query: str, history: Sequence[Turn]) -> Asked:
    """Returns what to search for a question that follows others."""
    before = next((turn for turn in reversed(history) if turn.query.strip()), None)
    if before is None or not leans(query):
        return Asked(query)
    return Asked(f"{before.query.strip()[:_CHARACTERS]} {query.strip()}", frozenset(before.documents))


def leans(query: str) -> bool:
    """Whether a question needs the one before it."""
    if _GOES_ON.match(query):
        return True
    words = len({term for token in _ANALYZER.content_tokens(query) for term in _ANALYZER.terms(token)})
    return words <= _HARDLY or (words <= _SHORT and _STANDS_FOR.search(query) is not None)


def favouring(run: Run, reading: Reading, favoured: Collection[str]) -> Run:
    """Orders the first passages of a run of one query again, so that those of some documents come earlier."""
    last = run.rankings
    found, found_scores = last.row(0)
    ids, scores = found[:DEPTH], found_scores[:DEPTH]
    if not len(ids):
        return run
    documents = [passage.chunk.document for passage in reading.passages(ids.tolist())]
    low, high = float(scores.min()), float(scores.max())
    counted = (scores - low) / ((high - low) or 1.0) + BONUS * np.array([one in favoured for one in documents])
    order = np.lexsort((ids, -counted))
    ranked = Rankings(ids[order][None], counted[order][None], "history", last.signal)
    return replace(run, stages=(*run.stages, ("history", ranked)))
