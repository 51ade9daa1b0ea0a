"""Answers without a language model: the bundled cross-encoder reads the sentences of the first hits, and the one that
answers the question best is quoted, word for word.

    candidates   the sentences of the first `HITS` hits, at most `SENTENCES`: those that share most with the query, and
                 those beside them; not the rest of a sentence that began before the hit
    score        the logit of the sentence below its headings + `_WORDS` · its share of the query's words
    quote        the best sentence, with the one before it if it points back ("It …", "This …") or is very short, and
                 with what follows a colon
    others       the best sentence of another hit, if its score is nearly as high

How sure the answer is depends on how sure the search is, on the logit of the sentence and on its lead over the others
(`confidence.builtin`, fitted by benchmarks/answers.py).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from surefind.base.types import Chunk, Floats, Hit
from surefind.engine.confidence.answering import builtin
from surefind.engine.rerank.cross_encoder import bundled_reader
from surefind.engine.search.hits import Sentence, sentences_by_words
from surefind.kb.answer.values import Cited

HITS = 3
SENTENCES = 30
_TOKENS = 96
"""Tokens of the question and a sentence that are read."""
_WORDS = 2.0
_MAX_QUOTES = 3
"""Quotes of an answer, at most: each from another hit."""
_NEARLY = 0.5
"""How much lower the score of a further quote may be."""
_POINTS_BACK = re.compile(r"(?:it|its|this|that|these|those|they|their|he|she|his|her|such|then|also|both)\b", re.I)
_FOLLOWS = 400
"""Characters after a colon that are quoted with it, at most."""
_SHORT_SENTENCE_CHARS = 25
"""Characters of a sentence that needs the one before it."""


@dataclass(frozen=True)
class Quoted:
    sentences: tuple[Cited, ...]
    signals: Floats
    """What its probability is computed from: how sure the search is, the logit, the lead."""

    @property
    def confidence(self) -> float:
        """The probability that the first sentence answers the question."""
        return float(builtin().quote(self.signals[None])[0]) if self.sentences else 0.0


@dataclass(frozen=True)
class _Read:
    """A sentence that was read."""

    hit: Hit
    sentence: Sentence
    logit: float
    score: float


def quote(query: str, hits: Sequence[Hit], confidence: float) -> Quoted:
    """Returns the sentences that answer a question, best first. `confidence` is that of the search. Raises a
    `SurefindError` if the reader is not installed."""
    candidates = _read(query, hits[:HITS])
    if not candidates:
        return Quoted((), np.zeros(3))
    best: dict[int, _Read] = {}
    for candidate in candidates:
        best.setdefault(candidate.hit.rank, candidate)
    near: dict[str, _Read] = {}
    for candidate in best.values():
        if candidate.score >= candidates[0].score - _NEARLY:
            near.setdefault(_shown(candidate), candidate)  # the same sentence in two hits is quoted once
    kept = list(near.items())[:_MAX_QUOTES]
    others = [candidate.score for candidate in candidates if _shown(candidate) != kept[0][0]]
    lead = candidates[0].score - others[0] if others else 0.0
    sure = float(np.clip(confidence, 0.001, 0.999))
    signals = np.array([np.log(sure / (1 - sure)), candidates[0].logit, lead])
    return Quoted(tuple(Cited(text, (candidate.hit.rank,)) for text, candidate in kept), signals)


def _read(query: str, hits: Sequence[Hit]) -> list[_Read]:
    """Reads the candidates; the best first."""
    near = sentences_by_words(query, [hit.text for hit in hits], SENTENCES)
    candidates = [sentence for sentence in near if not _is_rest(hits[sentence.text], sentence)]
    chunks = [
        Chunk("", 0, 0, hits[candidate.text].text[candidate.start : candidate.end], hits[candidate.text].headings)
        for candidate in candidates
    ]
    logits = bundled_reader(_TOKENS).score(query, chunks) if chunks else np.zeros(0)
    most = max((candidate.shared for candidate in candidates), default=0.0) or 1.0
    read = [
        _Read(hits[sentence.text], sentence, float(logit), float(logit) + _WORDS * sentence.shared / most)
        for sentence, logit in zip(candidates, logits, strict=True)
    ]
    return sorted(read, key=lambda candidate: -candidate.score)


def _is_rest(hit: Hit, sentence: Sentence) -> bool:
    """Whether it is the end of a sentence that began before the hit: passages overlap by words."""
    return hit.start > 0 and sentence.start == 0 and hit.text[:1].islower()


def _shown(candidate: _Read) -> str:
    at = candidate.sentence
    text = candidate.hit.text[at.start : at.end]
    points_back = _POINTS_BACK.match(text) or len(text) < _SHORT_SENTENCE_CHARS
    goes_on = text.endswith(":") and at.after - at.end <= _FOLLOWS
    return " ".join(
        candidate.hit.text[at.before if points_back else at.start : at.after if goes_on else at.end].split()
    )
