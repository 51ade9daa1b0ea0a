"""Measures isolation = "statistics": whether scores reveal words of restricted documents, and what isolation costs.

    python benchmarks/isolation.py [--chunks 50000]

The oracle: a caller who may read half of the chunks knows the collection as it was before one restricted chunk was
added, guesses a word of that chunk, and looks whether the score of a public chunk with this word has changed.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from surefind import spec
from surefind.abilities import StatisticalIndex
from surefind.store.backends.isolated import Isolated
from surefind.types import Chunk, Mask, Query

WORDS_PER_CHUNK = 120
VOCABULARY = 60_000
SEARCHES = 300
GUESSES = 22


def main() -> None:
    size = int(sys.argv[sys.argv.index("--chunks") + 1]) if "--chunks" in sys.argv else 50_000
    chance = np.random.default_rng(7)
    texts = [" ".join(f"w{i}" for i in row) for row in _words(chance, size)]
    kept = np.arange(size) % 2 == 0
    for name in ("bm25", "tfidf", "sparse"):
        _report(name, texts, Mask(kept), chance)


def _words(chance: np.random.Generator, size: int) -> np.ndarray:
    """Word numbers with the frequencies of natural text (Zipf)."""
    weights = 1 / np.arange(1, VOCABULARY + 1)
    return chance.choice(VOCABULARY, (size, WORDS_PER_CHUNK), p=weights / weights.sum())


def _report(name: str, texts: list[str], mask: Mask, chance: np.random.Generator) -> None:
    retriever = spec.make("retrieve", name)
    index = _built(retriever, texts)
    queries = [Query(" ".join(f"w{i}" for i in row)) for row in _words(chance, SEARCHES)[:, :6]]
    isolated = Isolated(index)
    index.search(retriever, queries[:1], 10, mask)
    first = _seconds(lambda: isolated.search(retriever, queries[:1], 10, mask))
    plain, alone = (_median(one, retriever, queries, mask) for one in (index, isolated))
    right = _guessed(retriever, texts[:2000], chance)
    print(
        f"{name:<7} p50 {plain * 1e3:.2f} ms, isolated {alone * 1e3:.2f} ms; first search of a mask {first:.2f} s; "
        f"oracle right: {right[0]} of {GUESSES}, isolated {right[1]} of {GUESSES}"
    )


def _median(index, retriever, queries: list[Query], mask: Mask) -> float:  # type: ignore[no-untyped-def]
    return float(np.median([_seconds(lambda q=q: index.search(retriever, [q], 10, mask)) for q in queries]))


def _guessed(retriever, texts: list[str], chance: np.random.Generator) -> list[int]:  # type: ignore[no-untyped-def]
    """How often the oracle is right, without and with isolation. Half of the guessed words are in the added chunk."""
    words = [f"w{i}" for i in chance.choice(np.arange(500, 3000), GUESSES, replace=False)]
    public = [*texts, *(f"{word} w10 w20" for word in words)]  # each word has a public chunk
    before, after = (
        _built(retriever, [*public, " ".join(f"z{i}" for i in range(len(words[::2])))]),
        _built(retriever, [*public, " ".join(words[::2])]),
    )
    mask = Mask(np.arange(len(public) + 1) < len(public))
    right = []
    for wrap in (lambda index: index, Isolated):
        old, new = (wrap(index) for index in (before, after))
        changed = [_scores(old, retriever, word, mask) != _scores(new, retriever, word, mask) for word in words]
        right.append(sum(found == (i % 2 == 0) for i, found in enumerate(changed)))
    return right


def _scores(index, retriever, word: str, mask: Mask) -> list[float]:  # type: ignore[no-untyped-def]
    """The scores of the ten best chunks, as a caller sees them."""
    found = index.search(retriever, [Query(f"{word} w10")], 10, mask)
    return [round(float(score), 6) for score in found.scores[0]]


def _built(retriever, texts: list[str]) -> StatisticalIndex:  # type: ignore[no-untyped-def]
    from surefind.services import LocalServices

    chunks = [Chunk(str(i), 0, len(text), text) for i, text in enumerate(texts)]
    return retriever.build(chunks, LocalServices())  # type: ignore[no-any-return]


def _seconds(work) -> float:  # type: ignore[no-untyped-def]
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
