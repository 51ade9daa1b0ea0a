"""Converts pairs and their negatives to rows of tokens, for an encoder or a reranker."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from pathlib import Path
from typing import Any

from surefind.base.types import Chunk
from surefind.engine.inference.pairs import PairTokenizer, title_of
from surefind.lab.train.job import TrainingJob
from surefind.lab.train.learning import TokenRows
from surefind.lab.train.pairs import Pair


def examples_of(
    pairs: Sequence[Pair],
    negatives: Sequence[Sequence[int]],
    chunks: Sequence[Chunk],
    job: TrainingJob,
    start: Path,
    margins: Sequence[tuple[float, ...]] = (),
) -> list[TokenRows]:
    """One training example for each pair; `negatives` are places in `chunks`."""
    rows = list(zip(pairs, negatives, strict=True))
    if job.kind == "reranker":
        tokenizer = PairTokenizer(start / "tokenizer.json", job.max_tokens)

        def pair(query: Any, title: str, text: str) -> tuple[list[int], list[int]]:
            made = tokenizer.pair(query, title, text)
            return made.ids, made.type_ids

        examples = []
        for one, others in rows:
            query = tokenizer.query(one.query)
            listed = [pair(query, one.title, one.text)]
            listed += [pair(query, title_of(c), c.text) for c in (chunks[o] for o in others)]
            if one.negative:
                listed[1] = pair(query, "", one.negative)
            examples.append(TokenRows(tuple(listed)))
        return examples

    from tokenizers import Tokenizer

    plain = Tokenizer.from_file(str(start / "tokenizer.json"))
    plain.enable_truncation(job.max_tokens)
    plain.no_padding()

    def text(text_given: str) -> tuple[list[int], list[int]]:
        ids = plain.encode(text_given).ids
        return ids, [0] * len(ids)

    rest = margins or repeat(())
    return [
        TokenRows(tuple(map(text, texts)), own)
        for texts, own in zip(texts_of(pairs, negatives, chunks), rest, strict=False)
    ]


def texts_of(
    pairs: Sequence[Pair], negatives: Sequence[Sequence[int]], chunks: Sequence[Chunk]
) -> list[tuple[str, ...]]:
    """The texts that an encoder learns from: each question, its passage and its negatives."""

    def negatives_of(pair: Pair, others: Sequence[int]) -> list[str]:
        texts = [chunks[o].searchable for o in others]
        return [pair.negative, *texts[1:]] if pair.negative else texts

    return [
        (pair.query, pair.passage, *negatives_of(pair, others)) for pair, others in zip(pairs, negatives, strict=True)
    ]
