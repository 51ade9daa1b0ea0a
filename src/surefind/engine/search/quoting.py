"""Reads the blocks of the first passages of a search: how sure the search is, and what an answer quotes, come from it.

    candidates   the blocks of the first `QUOTED` passages (`search.blocks`), at most `BLOCKS`: those that share most
                 with the query, and those near the part of the passage that was found
    score        the logit of the block below its headings + `_WORDS` · its share of the query's words
                 - `_RANK` · (the rank of its passage - 1)
    quote        the best block of a passage with the blocks beside it below the same heading, as many as fit into
                 `MOST` characters; the best sentence of the best block is marked
    answer       the best quote, and that of another passage, if its score is nearly as high

The reader is a bundled cross-encoder. docs/results/answers.md compares other ways to choose.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from surefind.base.types import Chunk, Quote
from surefind.engine.inference.cross_encoder import OnnxCrossEncoder
from surefind.engine.rerank.cross_encoder import bundled_reader
from surefind.engine.search.blocks import MOST, Quotable, blocks_of
from surefind.engine.search.hits import best_sentences, shares
from surefind.engine.store.backend import Passage

QUOTED = 3
BLOCKS = 16
_TOKENS = 160
"""Tokens of the question and a block that are read."""
_WORDS, _RANK = 1.0, 0.5
_NEAR, _LATER = 0.5, 0.15
"""What it is worth to be near what was found, and costs to be of a later hit, when candidates are chosen."""
_MAX_QUOTES = 2
"""Quotes of an answer, at most: each from another hit."""
_NEARLY = 0.5
"""How much lower the score of a further quote may be."""


def block_reader() -> OnnxCrossEncoder:
    """The bundled model that reads blocks. Raises `MissingPartError` if it is not installed."""
    return bundled_reader(_TOKENS)


@dataclass(frozen=True, slots=True)
class _Candidate:
    rank: int
    """The rank of its passage, from 1."""
    place: int
    """Its number among the blocks of the passage."""
    block: Quotable
    logit: float = 0.0
    score: float = 0.0


def quotes(query: str, passages: Sequence[Passage], reader: OnnxCrossEncoder | None) -> tuple[Quote, ...]:
    """Returns the best quote of each of the first passages that has one, in their order. Without a reader, blocks are
    judged by the words that they share with the query."""
    blocks = [blocks_of(passage.chunk.text, passage.chunk.start > 0) for passage in passages[:QUOTED]]
    best: dict[int, _Candidate] = {}
    for candidate in _read(query, passages, blocks, reader):
        known = best.get(candidate.rank)
        if known is None or candidate.score > known.score:
            best[candidate.rank] = candidate
    return tuple(_quote(query, best[rank], passages[rank - 1], blocks[rank - 1]) for rank in sorted(best))


def answering(made: Sequence[Quote]) -> list[Quote]:
    """Returns the quotes that answer: the best one, and another one that is nearly as good and says something else."""
    ranked = sorted(made, key=lambda quote: -quote.score)
    near: dict[str, Quote] = {}
    for quote in ranked:
        if quote.score >= ranked[0].score - _NEARLY:
            near.setdefault(quote.text[slice(*quote.mark)], quote)
    return list(near.values())[:_MAX_QUOTES]


def _read(
    query: str, passages: Sequence[Passage], blocks: Sequence[Sequence[Quotable]], reader: OnnxCrossEncoder | None
) -> list[_Candidate]:
    candidates = [
        _Candidate(rank, place, block) for rank, own in enumerate(blocks, 1) for place, block in enumerate(own)
    ]
    shared = np.array(shares(query, [candidate.block.read for candidate in candidates]))
    shared /= shared.max(initial=0.0) or 1.0
    worth = [share + _nearness(one, passages[one.rank - 1]) for share, one in zip(shared, candidates, strict=True)]
    kept = sorted(sorted(range(len(candidates)), key=lambda at: -worth[at])[:BLOCKS])
    chunks = [_chunk(candidates[at].block, passages[candidates[at].rank - 1]) for at in kept]
    logits = reader.score(query, chunks) if reader and chunks else np.zeros(len(chunks))
    return [
        replace(one, logit=logit, score=logit + _WORDS * float(shared[at]) - _RANK * (one.rank - 1))
        for at, logit in zip(kept, logits.tolist(), strict=True)
        if (one := candidates[at])
    ]


def _nearness(candidate: _Candidate, passage: Passage) -> float:
    chunk = passage.chunk
    first, last = passage.matched or (chunk.start, chunk.end)
    near = chunk.start + candidate.block.end > first and chunk.start + candidate.block.start < last
    return _NEAR * near - _LATER * (candidate.rank - 1)


def _chunk(block: Quotable, passage: Passage) -> Chunk:
    """What the reader reads of a block."""
    headings = dict.fromkeys((passage.title, *(block.headings or passage.chunk.headings)))
    return Chunk("", 0, 0, block.read, tuple(headings))


def _quote(query: str, best: _Candidate, passage: Passage, blocks: Sequence[Quotable]) -> Quote:
    """Quotes a block with those beside it below the same heading, as many as fit: first the one that it speaks of,
    then those after it."""
    first = last = best.place
    if best.block.points_back and first and _fit(blocks[first - 1 : last + 1]):
        first -= 1
    wider = True
    while wider:
        wider = False
        for a, b in ((first, last + 1), (first - 1, last)):
            if a >= 0 and b < len(blocks) and _fit(blocks[a : b + 1]):
                first, last, wider = a, b, True
                break
    kept = blocks[first : last + 1]
    text, mark = _text(query, kept, best.block)
    start = passage.chunk.start
    return Quote(best.rank, text, mark, (start + kept[0].start, start + kept[-1].end), best.logit, best.score)


def _fit(blocks: Sequence[Quotable]) -> bool:
    return blocks[0].headings == blocks[-1].headings and len(_joined(blocks)) <= MOST


def _lines(blocks: Sequence[Quotable]) -> list[tuple[str, Quotable | None]]:
    """The lines of a quote, each with its block; a lead is said once, and not at all if it was quoted before."""
    lines: list[tuple[str, Quotable | None]] = []
    lead = ""
    for block in blocks:
        if block.lead and block.lead != lead and not any(block.lead in line for line, _ in lines):
            lines.append((block.lead, None))
        lead = block.lead
        lines.append((block.line, block))
    return lines


def _joined(blocks: Sequence[Quotable]) -> str:
    return "\n".join(line for line, _ in _lines(blocks))


def _text(query: str, blocks: Sequence[Quotable], best: Quotable) -> tuple[str, tuple[int, int]]:
    """Returns the quote, and where the best sentence of the best block is in it."""
    text, mark = "", (0, 0)
    for line, block in _lines(blocks):
        text += "\n" if text else ""
        if block is best:
            start = len(text) + len(line) - len(block.text)
            (sentence,) = best_sentences(query, [block.text])
            first, last = sentence or (0, len(block.text))
            mark = start + first, start + last
        text += line
    return text, mark
