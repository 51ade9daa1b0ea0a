"""The parts of the milvus backend that need no Milvus: weights of words, and paths that rules cover."""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from cases import each
from surefind.base import spec
from surefind.base.access import PathRule
from surefind.base.types import EVERY, Chunk, Query
from surefind.engine.services import LocalServices
from surefind.engine.store.backends.milvus.record import (
    DocumentFields,
    Expressions,
    Record,
    digest,
    index_spec_of,
    longs,
    remote_spec,
)
from surefind.engine.store.backends.milvus.words import Analysis, SetStatistics
from surefind.engine.store.versions import Member
from surefind.testing.retrievers import built

WORDS = "cash teller vault reports reporting loan branch audits night key the of and drawer coin note".split()
QUERY = "the cash report of night and night audits"


def texts(chance: random.Random, count: int, longest: int = 30) -> list[str]:
    return [" ".join(chance.choices(WORDS, k=chance.randrange(1, longest))) for _ in range(count)]


def exact(bm25: Any, passages: list[str]) -> np.ndarray[Any, Any]:
    """The scores of the local index."""
    index: Any = built(bm25, [Chunk(f"{i}", 0, len(text), text) for i, text in enumerate(passages)], None)  # type: ignore[arg-type]
    return np.array(index.score(bm25, [Query(QUERY)], np.arange(len(passages))[None], EVERY)[0])


def products(bm25: Any, words: SetStatistics, analysis: Analysis, passages: list[str]) -> np.ndarray[Any, Any]:
    asked = words.query(analysis.asked(QUERY))
    rows = [words.document(bm25, analysis.count(text)) for text in passages]
    return np.array([sum(weight * row.get(number, 0.0) for number, weight in asked.items()) for row in rows])


@each("text", ["bm25", "bm25(k1=0.9, b=0.4)", "bm25(k1=0)", "bm25(b=1)", "bm25(analyzer=plain)"])
def test_inner_product_is_our_bm25(text: str) -> None:
    bm25 = spec.make("retrieve", text)
    passages = texts(random.Random(1), 50)
    analysis = Analysis(bm25.analyzer)
    words = SetStatistics.of(passages, analysis)
    assert words.drift == 0
    assert np.allclose(products(bm25, words, analysis, passages), exact(bm25, passages), rtol=1e-5)


@each("seed", range(20))
def test_scores_after_changes_are_within_the_drift(seed: int) -> None:
    """The frequencies are exact after every change; the average length bounds what is left."""
    chance, bm25 = random.Random(seed), spec.make("retrieve", "bm25")
    passages = texts(chance, 40)
    analysis = Analysis(bm25.analyzer)
    words = SetStatistics.of(passages, analysis)
    for _ in range(3):
        added = texts(chance, 10, chance.choice([5, 60]))
        removed = [passages.pop(chance.randrange(len(passages))) for _ in range(8)]
        passages += added
        words = words.changed(added, removed, analysis)
    anew = SetStatistics.of(passages, analysis)
    assert (words.chunks, words.total) == (anew.chunks, anew.total)
    assert {t: words.frequency(t) for t in anew.vocabulary} == {t: anew.frequency(t) for t in anew.vocabulary}
    scores, true = products(bm25, words, analysis, passages), exact(bm25, passages)
    assert ((scores == 0) == (true == 0)).all()
    found = scores[true > 0] / true[true > 0]
    assert found.max() <= 1 + words.drift + 1e-5
    assert found.min() >= 1 / (1 + words.drift) - 1e-5
    assert words.drift > 0.001


def test_statistics_are_the_same_after_a_save(tmp_path: Path) -> None:
    words = SetStatistics.of(texts(random.Random(1), 20), Analysis("english"))
    none = np.zeros(0, np.int64)
    Record(3, "c", "a", longs([1, 2]), longs([3, 3]), none, words).save(tmp_path)
    again = Record.load(tmp_path)
    assert again.words is not None
    assert (again.words.vocabulary, again.words.average) == (words.vocabulary, words.average)
    assert again.expression == "first <= 3"


PATTERNS = ["hr/**", "hr/?", "hr/??*", "*/a", "**/a", "hr/*", "h?/b*", "**", "*", "hr", "hr/a/**", "?/??", "**/?"]
NAMES = ["a", "b", "hr", "hr2", "bb", "abc", "x.md"]


@each("pattern", PATTERNS)
def test_hashes_of_a_rule_cover_what_the_rule_covers(pattern: str) -> None:
    chance = random.Random(pattern)
    paths = ["/".join(chance.choices(NAMES, k=chance.randrange(1, 5))) for _ in range(200)]
    table: Any = SimpleNamespace(paths=paths[:100], names=paths[:100])
    rule = PathRule(pattern, ("hr",))
    covered = set(Expressions(table, [rule])._covered[rule])
    for path in paths[:100]:
        under = DocumentFields.of(Member(1, path, "", path, "{}", ())).under
        assert (not covered.isdisjoint(under)) == rule.covers(path), (pattern, path)


def test_folders_keep_the_expression_short() -> None:
    table: Any = SimpleNamespace(paths=[f"hr/{i}.md" for i in range(500)], names=[f"hr/{i}.md" for i in range(500)])
    rule = PathRule("hr/**", ("hr",))
    assert len(Expressions(table, [rule])._covered[rule]) == 1


def test_hashes_tell_parts_apart() -> None:
    assert digest("tag", "a", "bc") != digest("tag", "ab", "c")
    assert digest("tag", "a\0b") != digest("tag", "a", "b")
    assert 0 <= digest("x") < 2**63


def test_specs_name_what_a_collection_depends_on() -> None:
    one, other = (spec.make("retrieve", text) for text in ("bm25", "bm25(k1=0.9)"))
    assert one.index_spec(LocalServices()) == other.index_spec(LocalServices())
    assert remote_spec(one, LocalServices()) != remote_spec(other, LocalServices())
    assert index_spec_of(remote_spec(other, LocalServices())) == other.index_spec(LocalServices())
    assert index_spec_of("tfidf(ngrams=2)@1") == "tfidf(ngrams=2)@1"
