"""k does not change the ranking: the first 3 of 20 are the hits of 3, and `offset` pages through one list."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import Home
from surefind import Access, KnowledgeBase
from surefind.base import spec

WORDS = "cash card wire hold branch teller vault key report deposit fee limit audit queue ledger coin note safe".split()
SETTINGS = """
[index]
chunk = "hierarchical(parent=40, child=8, overlap=2)"
enrich = ["headings"]
[search]
pipeline = "words"
[pipelines.words]
retrieve = ["bm25"]
"""
FUSERS = [
    "rrf(k=60)",
    "rrf(k=0)",
    "convex(alpha=0.5)",
    "convex(alpha=0.5, missing=score)",
    "tm2c2(alpha=0.4)",
    "rsf",
    "dbsf",
    "dbsn",
    "combsum",
    "combmnz",
    "weighted(weights=[2, 1])",
]
PIPELINES = [
    "bm25",
    "dense(model=toy)",
    "tfidf(ngrams=2)",
    "sparse(weight=0.5)",
    "ppr(seed=[bm25])",
    "entity_overlap(window=0, least=1)",
    *(f"bm25 + dense(model=toy) @{depth} >> {fuser}" for fuser in FUSERS for depth in (3, 100)),
    "bm25 + dense(model=toy) + tfidf(ngrams=1) @5 >> rrf(k=60)",
    "bm25 @5 >> shared_words",
    "bm25 + dense(model=toy) @4 >> convex(alpha=0.5) >> shared_words",
    "bm25 >> failing",
    'bm25 >> conditional(stage="shared_words", when=margin, below=0.9)',
    'bm25 + dense(model=toy) @9 >> rrf(k=60) >> conditional(stage="shared_words", when=agreement, below=0.5)',
]
QUERIES = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)
FUSED_BY_MODELS = {"learned", "llm_weights"}
"""They need a trained model or a language model: tests/test_train_fusion.py and tests/test_llm_retrieve.py."""

pytestmark = pytest.mark.usefixtures("toys")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Documents of very different lengths, so that some passages hold many of the best candidates."""
    home = Home(tmp_path_factory.mktemp("k"), SETTINGS)
    chance = random.Random(7)
    for i in range(40):
        sentences = [" ".join(chance.choices(WORDS, k=chance.randint(3, 9))) for _ in range(chance.choice([1, 3, 30]))]
        home.write(f"docs/{i}.md", f"# {chance.choice(WORDS)} Street {i}\n\n" + ".\n\n".join(sentences))
    home.sync("docs")
    return home.folder


@pytest.fixture
def kb(folder: Path) -> Iterator[KnowledgeBase]:
    with KnowledgeBase.open(folder) as kb:
        yield kb


def hits(kb: KnowledgeBase, query: str, pipeline: str, k: int, offset: int = 0) -> list[tuple[int, str, int, float]]:
    found = kb.search(
        query, Access.owner(), k, pipeline=f"{pipeline} " if "(" not in pipeline else pipeline, offset=offset
    )
    return [(hit.rank, hit.document, hit.start, hit.score) for hit in found.hits]


def test_every_fuser_is_asked() -> None:
    asked = {fuser.partition("(")[0] for fuser in FUSERS}
    assert asked | FUSED_BY_MODELS == set(spec.names("fuse"))


@pytest.mark.hypothesis
@pytest.mark.parametrize("pipeline", PIPELINES)
def test_a_smaller_k_gives_the_head_and_offset_pages_through_the_same_list(kb: KnowledgeBase, pipeline: str) -> None:
    named = pipeline if any(mark in pipeline for mark in "(+>@") else f"{pipeline} @100"
    kb.build(named)

    @settings(max_examples=settings.default.max_examples // 6)  # for each of many pipelines
    @given(QUERIES, st.integers(1, 60), st.integers(0, 30))
    def check(query: str, k: int, offset: int) -> None:
        whole = hits(kb, query, named, 100)
        assert hits(kb, query, named, k) == whole[:k]
        assert hits(kb, query, named, k, offset) == whole[offset : offset + k]
        assert [score for *_, score in whole] == sorted((score for *_, score in whole), reverse=True)
        assert len({(document, start) for _, document, start, _ in whole}) == len(whole)

    check()


def test_as_many_are_found_as_there_are(kb: KnowledgeBase) -> None:
    """Dense retrieval finds every passage, however shallow the pipeline: a search goes deeper until it has enough."""
    kb.build("dense(model=toy) @2")
    spans = kb.reader().view.spans()
    there = len(set(zip(spans.documents.tolist(), spans.starts.tolist(), strict=True)))
    assert len(hits(kb, "cash", "dense(model=toy) @2", 1000)) == there
