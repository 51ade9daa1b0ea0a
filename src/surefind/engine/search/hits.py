"""Turns the ranking of a run into hits: passages with their text, their location and their rank in each stage.

`Extent` says how much text a hit has:

    parent      the passage that the layout returns; for most layouts it is larger than the one that was searched
    passage     the passage that was searched and found
    window=N    that passage with its N neighbours before and after it in the document

`max_chars` then cuts the text around the best sentence. That is the one that shares most with the query, for people and
programs to read first:

    score(s) = Σ idf(t) / (1 + 0.375 · (|s| / mean |s| - 1))      over the terms t of the query that the sentence has

idf counts the sentences of all hits, so that a word of every sentence weighs little. No index is read.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

from surefind.base.errors import UsageError
from surefind.base.text.languages import STEMMERS, language_of
from surefind.base.text.words import sentence_spans
from surefind.base.types import Hit, Rankings, StageScore
from surefind.engine.analyze.auto import Auto
from surefind.engine.search.pipeline import Reading, Run
from surefind.engine.store.backend import Passage

MAX_AROUND = 50
"""The most neighbours of a window."""
_MIN_CHARS, _MAX_CHARS = 50, 1_000_000
_WORD = 40
"""Characters searched for a space at which to cut."""


@dataclass(frozen=True, slots=True)
class Extent:
    around: int | None = None
    """Neighbours on either side of the found passage; None for the passage that the layout returns."""
    max_chars: int | None = None

    @classmethod
    def parse(cls, text: str = "parent", max_chars: int | None = None) -> Extent:
        """Reads the text form: `parent`, `passage` or `window=N`."""
        if max_chars is not None and not _MIN_CHARS <= max_chars <= _MAX_CHARS:
            raise UsageError(f"max_chars must be from {_MIN_CHARS} to {_MAX_CHARS:,}, not {max_chars}.")
        if text in ("parent", "passage"):
            return cls(None if text == "parent" else 0, max_chars)
        name, _, number = text.partition("=")
        if name == "window" and number.isascii() and number.isdigit() and int(number[:9]) <= MAX_AROUND:
            return cls(int(number), max_chars)
        raise UsageError(
            f"Cannot read the size of the text {text!r}. Write parent, passage, or window=N with N up to {MAX_AROUND}."
        )

    def cut(self, hit: Hit) -> Hit:
        """Cuts the text of a hit to `max_chars`, around its best sentence or, without one, around what was found."""
        most = self.max_chars
        if most is None or len(hit.text) <= most:
            return hit
        first, last = hit.sentence or hit.matched or (hit.start, hit.start)
        at, end = window(hit.text, first - hit.start, last - hit.start, most)
        text = hit.text[at:end]
        return replace(hit, start=hit.start + at, end=hit.start + end, text=text, lines=_lines(hit, at, end))


def window(text: str, first: int, last: int, most: int) -> tuple[int, int]:
    """Returns where to cut a text to `most` characters around those from `first` to `last`: between words."""
    if len(text) <= most:
        return 0, len(text)
    spare = max(0, most - (last - first))
    at = _word_start(text, max(0, min(first - spare // 3, len(text) - most)))
    return at, _word_end(text, min(at + most, len(text)))


def _word_start(text: str, at: int) -> int:
    """Returns the start of the next word, if there is one near."""
    space = text.find(" ", at, at + _WORD) if at and not text[at - 1].isspace() else -1
    return space + 1 if space >= 0 else at


def _word_end(text: str, at: int) -> int:
    """Returns the end of the last whole word, if there is one near."""
    space = text.rfind(" ", max(0, at - _WORD), at) if at < len(text) and not text[at].isspace() else -1
    return space if space >= 0 else at


def _lines(hit: Hit, start: int, end: int) -> tuple[int, int] | None:
    if hit.lines is None:
        return None
    first = hit.lines[0] + hit.text.count("\n", 0, start)
    return first, first + hit.text.count("\n", start, end - 1)


_BREAK = re.compile(r"\n(?:[ \t]*\n|(?=[ \t]*(?:[-*+#|>]|\d{1,4}[.)])\s*\S))")
"""Where a sentence ends in Markdown without a stop: before a blank line, a list item, a heading or a table row."""
_ENGLISH = Auto()
_LENGTH = 0.375
"""How much a long sentence loses against a short one."""
_MIN_LETTERS, _ENDING = 3, 2
"""A word has at least the first `_MIN_LETTERS` letters of its stem, and all of the stem but `_ENDING` letters."""

_MAX_REMEMBERED_CHARS = 5_000
"""Characters of a text whose sentences are remembered; with 2,000 texts at most 10 MB, of wide characters 40."""


def best_sentences(query: str, texts: Sequence[str]) -> list[tuple[int, int] | None]:
    """Returns the span of the best sentence of each text; None for a text that has no term of the query."""
    best: list[tuple[int, int] | None] = []
    for cut, scores in zip(*_scored(query, texts), strict=True):
        at = max(range(len(scores)), key=scores.__getitem__, default=0)
        best.append(cut[at] if scores and scores[at] > 0 else None)
    return best


def shares(query: str, texts: Sequence[str]) -> list[float]:
    """Returns what the best sentence of each text shares with the query."""
    return [max(row, default=0.0) for row in _scored(query, texts)[1]]


def _scored(query: str, texts: Sequence[str]) -> tuple[list[tuple[tuple[int, int], ...]], list[list[float]]]:
    """Returns the sentences of each text, and what each of them shares with the query."""
    analyzer = _analyzer_of(texts)
    wanted = {term for token in analyzer.query_tokens(query) for term in analyzer.terms(token)}
    spans = [_spans(text) for text in texts]
    if not wanted:
        return spans, [[0.0] * len(cut) for cut in spans]
    roots = [term[: max(_MIN_LETTERS, len(term) - _ENDING)] for term in wanted]
    shared = [_shared(text, cut, wanted, roots, analyzer) for text, cut in zip(texts, spans, strict=True)]
    counts = Counter(term for row in shared for terms in row for term in terms)
    n = sum(map(len, spans))
    mean = sum(end - start for cut in spans for start, end in cut) / max(1, n)
    idf = {term: math.log1p((n - count + 0.5) / (count + 0.5)) for term, count in counts.items()}
    return spans, [
        [
            sum(map(idf.__getitem__, terms)) / (1 + _LENGTH * ((end - start) / mean - 1)) if terms else 0.0
            for terms, (start, end) in zip(row, cut, strict=True)
        ]
        for cut, row in zip(spans, shared, strict=True)
    ]


def _analyzer_of(texts: Sequence[str]) -> Auto:
    """The analyzer of texts that were found together: in the language of the first, because most searches find one."""
    language = language_of(texts[0]) if texts else ""
    return Auto((language,)) if language in STEMMERS else _ENGLISH


def _shared(
    text: str, cut: Sequence[tuple[int, int]], wanted: set[str], roots: Sequence[str], analyzer: Auto
) -> list[set[str]]:
    """Returns the wanted terms of each sentence of a text. Most sentences have none, and cost only a search for the
    letters."""
    rows: list[set[str]] = []
    for start, end in cut:
        sentence = text[start:end]
        if not _has(sentence, roots):
            rows.append(set())
            continue
        tokens = dict.fromkeys(analyzer.tokens(sentence))
        near = [token for token in tokens if not wanted.isdisjoint(_terms(analyzer, token)) and _has(token, roots)]
        rows.append(wanted.intersection(term for token in near for term in _terms(analyzer, token)))
    return rows


def _has(text: str, roots: Sequence[str]) -> bool:
    """Returns whether a text may have a wanted term. Letters other than ASCII may have been folded in the terms."""
    if not text.isascii():
        return True
    return any(map(text.lower().__contains__, roots))


@lru_cache(maxsize=20_000)
def _terms(analyzer: Auto, token: str) -> tuple[str, ...]:
    """The terms of a token. The words of an answer are those of other answers."""
    return analyzer.terms(token)


def _spans(text: str) -> tuple[tuple[int, int], ...]:
    """The sentences of a text, without the white space around them. A passage that was found is found again, so its
    sentences are remembered; a whole document would take too much memory."""
    return _remembered_spans(text) if len(text) <= _MAX_REMEMBERED_CHARS else tuple(_found_spans(text))


@lru_cache(maxsize=2_000)
def _remembered_spans(text: str) -> tuple[tuple[int, int], ...]:
    return tuple(_found_spans(text))


def _found_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yields the sentences of a text. A heading is none."""
    starts = [0, *(match.end() for match in _BREAK.finditer(text)), len(text)]
    for start, end in pairwise(starts):
        for first, last in sentence_spans(text, start, end):
            inner = text[first:last].lstrip()
            left, bare = last - len(inner), inner.rstrip()
            if bare and not bare.startswith("#"):
                yield left, left + len(bare)


PARENT = Extent()


def hits_of(
    query: str, run: Run, reading: Reading, k: int, offset: int = 0, extent: Extent = PARENT
) -> tuple[Hit, ...]:
    """Returns the k hits after the first `offset` of a run of one query, with their rank and score in every stage."""
    ids, scores = (values[offset : offset + k].tolist() for values in run.rankings.row(0))
    stages = [(name, _Ranks(rankings)) for name, rankings in run.stages]
    passages = reading.passages(ids, extent.around)
    hits = []
    for rank, (chunk_id, score, passage, sentence) in enumerate(
        zip(ids, scores, passages, _sentences(query, passages), strict=True), offset + 1
    ):
        ranked = {name: there for name, ranks in stages if (there := ranks.of(chunk_id)) is not None}
        hits.append(extent.cut(_hit(rank, score, chunk_id, passage, ranked, sentence)))
    return tuple(hits)


def passage_hit(reading: Reading, chunk_id: int, extent: Extent, query: str = "") -> Hit:
    """Returns the passage with an id as a hit of rank 0, without scores."""
    (passage,) = reading.passages([chunk_id], extent.around)
    return extent.cut(_hit(0, 0.0, chunk_id, passage, {}, *_sentences(query, [passage])))


def _sentences(query: str, passages: Sequence[Passage]) -> list[tuple[int, int] | None]:
    """Returns the span of the best sentence of each passage, from the part that was found."""
    spans = [passage.matched or (passage.chunk.start, passage.chunk.end) for passage in passages]
    texts = [
        passage.chunk.text[start - passage.chunk.start : end - passage.chunk.start]
        for passage, (start, end) in zip(passages, spans, strict=True)
    ]
    sentences = best_sentences(query, texts)
    return [best and (start + best[0], start + best[1]) for (start, _), best in zip(spans, sentences, strict=True)]


def _hit(
    rank: int,
    score: float,
    chunk_id: int,
    passage: Passage,
    stages: dict[str, StageScore],
    sentence: tuple[int, int] | None,
) -> Hit:
    chunk = passage.chunk
    return Hit(
        rank,
        score,
        chunk.document,
        id_text(chunk_id),
        passage.title,
        chunk.headings,
        chunk.start,
        chunk.end,
        chunk.text,
        passage.metadata,
        stages,
        passage.location,
        passage.matched,
        sentence,
        passage.source,
        passage.path,
        passage.lines,
        passage.version,
    )


def id_text(chunk_id: int) -> str:
    """Returns the text form of a passage's id: 16 hexadecimal digits."""
    return f"{chunk_id:016x}"


class _Ranks:
    """The rank and score that a stage gave each of its candidates."""

    def __init__(self, rankings: Rankings) -> None:
        ids, self._scores = rankings.row(0)
        self._ranks = {chunk_id: rank for rank, chunk_id in enumerate(ids.tolist())}

    def of(self, chunk_id: int) -> StageScore | None:
        rank = self._ranks.get(chunk_id)
        return None if rank is None else StageScore(rank + 1, float(self._scores[rank]))
