"""Why a hit was found, in words."""

from __future__ import annotations

from cases import each
from surefind.base.types import Hit, StageScore
from surefind.doors.words import ordinal, why
from surefind.engine.search.pipeline import Pipeline


def hit(**ranks: int) -> Hit:
    stages = {name.replace("_2", ":2"): StageScore(rank, 1.0) for name, rank in ranks.items()}
    return Hit(1, 1.0, "a.md", "0" * 16, "A", (), 0, 1, "x", {}, stages)


@each(
    ("pipeline", "ranks", "says"),
    [
        ("bm25 + dense >> convex", {"bm25": 2, "dense": 1, "convex": 1}, "Second by words, first by meaning."),
        ("bm25 + dense >> rrf", {"dense": 12, "rrf": 9}, "12th by meaning; not found by words."),
        (
            "bm25 + dense >> rrf >> cross_encoder",
            {"bm25": 3, "dense": 2, "rrf": 2, "cross_encoder": 1},
            "Third by words, second by meaning; first after a model had read the passages.",
        ),
        ("bm25 + tfidf >> rrf", {"bm25": 1, "tfidf": 4}, "First by words (bm25), fourth by words (tfidf)."),
        ("bm25", {}, ""),
    ],
)
def test_ranks_become_words(pipeline: str, ranks: dict[str, int], says: str) -> None:
    assert why(hit(**ranks), Pipeline.parse(pipeline)) == says


def test_ordinals() -> None:
    assert [ordinal(n) for n in (1, 10, 11, 12, 21, 22, 103, 111)] == [
        "first", "tenth", "11th", "12th", "21st", "22nd", "103rd", "111th",
    ]  # fmt: skip
