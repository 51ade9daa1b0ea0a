"""Every built-in stage keeps the contract of its kind, in its default form and in others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import real_files
from cases import each
from helpers import EXAMPLE
from surefind.base import spec
from surefind.base.types import Chunk, Document, Query
from surefind.engine.services import LocalServices
from surefind.engine.store.vectors import CachedEmbedder, VectorCache
from surefind.engine.write.layout import Layout
from surefind.testing import (
    DOCUMENTS,
    TEXTS,
    check_analyzer,
    check_chunker,
    check_declared,
    check_embedder,
    check_enricher,
    check_fuser,
    check_reader,
    check_reranker,
    check_retriever,
    check_stage,
    rankings_of,
)
from toy_stages import SharedWords, ToyEmbedder

VARIANTS = {
    "analyze": ["english(stem=false)", "english(stopwords=false, parts=false)"],
    "chunk": [
        "fixed(tokens=1, overlap=0)",
        "fixed(tokens=7, overlap=6)",
        "fixed(tokens=7, overlap=2, unit=words)",
        "hierarchical(parent=30, child=10, overlap=3)",
        "hierarchical(parent=2, child=1, overlap=0)",
        "semantic(threshold=50, buffer=0, max_tokens=40, min_tokens=0)",
        "semantic(threshold=50, buffer=2, max_tokens=120, min_tokens=0, windows=joined)",
        "sentence_window(window=0)",
        "markdown(tokens=1, min_tokens=0)",
        "markdown(tokens=20, min_tokens=20)",
        "markdown(tokens=20, min_tokens=0)",
    ],
    "retrieve": [
        "bm25(k1=0, b=0)",
        "bm25(k1=3, b=1, analyzer=plain)",
        "entity_overlap(window=0, least=1)",
        "ppr(seed=[dense])",
        "graph_local(hops=2, fan=null, pool=null, edges=stated)",
    ],
    "fuse": [
        "rrf(k=0)",
        "rrf(weights=[0, 2])",
        "convex(alpha=0)",
        "convex(alpha=1)",
        "rsf(weights=[1, 3])",
        "dbsn(weights=[1, 3])",
        "weighted(weights=[3, 1])",
        "weighted(weights=[3, 1], norm=floor)",
        "weighted(sparse=3, dense=1)",
    ],
}
SAMPLES: dict[str, str | Callable[[], bytes]] = {
    "corpus.jsonl": '{"_id": "1", "title": "Title", "text": "Text"}\n\n{"_id": "2", "text": "More"}\n',
    ".html": "<html><head><title>Title</title></head><body><h1>Head</h1><p>Text</p></body></html>",
    ".md": "---\ntags: [a]\n---\n# Head\r\n\r\nText\r\n",
    ".txt": "\ufeffText\r\nand more",
    ".csv": "name;fee\r\nwire;25\r\n",
    ".docx": lambda: real_files.docx(real_files.handbook),
    ".eml": lambda: real_files.mail("body\r\nmore", {"note.txt": b"attached"}),
    ".ipynb": lambda: real_files.notebook(),
    ".json": '[{"id": 1, "title": "One", "text": "a\\r\\nb"}, {"id": 1, "text": "same id"}]',
    ".pdf": lambda: real_files.pdf(real_files.policy),
    ".pptx": lambda: real_files.pptx(),
    ".py": "import os\r\n\r\ndef f():\r\n    pass\r\n",
    ".rst": real_files.RST,
    ".xlsx": lambda: real_files.xlsx({"Fees": [("service", "fee"), ("wire", 25)]}),
    ".zip": lambda: real_files.zipped({"a.md": "# A\r\n\r\ntext", "b/c.txt": "more"}),
}
CHUNKS = [Chunk(f"{i}.md", 0, len(text), text) for i, text in enumerate((*TEXTS, *TEXTS[:2], "cash cash the"))]
QUERIES = [Query("cash report"), Query("KubeAPIErrorBudgetBurn restart"), Query("the teller counts cash"), Query("7")]
GRAPH_CHUNKS = [
    Chunk(f"{i}.md", 0, len(text), text, title=title)
    for i, (title, text) in enumerate(
        [
            ("Filing", "A Currency Transaction Report (CTR) goes to the Treasury. Tellers at Oak Street file it."),
            ("Oak Street", "Oak Street is a branch. Dana Whitfield runs it with 7 tellers."),
            ("Dana Whitfield", "She came from the Treasury in 2019 and signs every CTR."),
            ("Runbook EOD-7", "Restart EOD-7 when Oak Street closes; see [filing](0.md)."),
            ("Treasury", "The Treasury reads each Currency Transaction Report within 15 days."),
            ("Holds", "Holds follow 31 CFR 1020.320(d). Dana Whitfield lifts them."),
            ("", "nothing is named here at all"),
            ("Oak Street", "In 2019 the Treasury asked Oak Street for one Currency Transaction Report."),
        ]
    )
]
GRAPH_QUERIES = [Query("Who at Oak Street signs the CTR?"), Query("Treasury 2019"), Query("dana whitfield"), Query("7")]


ASK_A_MODEL = {"llm_segments", "llm_context", "hyde", "multi_query"}
"""Stages that ask a language model: tests/test_llm_*.py check them with one on the loopback."""


def stages(kind: str) -> list[str]:
    return [*spec.names(kind), *VARIANTS.get(kind, [])]


@each(("kind", "text"), [(kind, text) for kind in spec.KINDS for text in stages(kind)])
def test_stage_is_a_value_with_a_spec(kind: str, text: str) -> None:
    check_stage(spec.make(kind, text))


@each(
    ("kind", "text"),
    [
        (kind, text)
        for kind in spec.KINDS
        for text in stages(kind)
        if not text.startswith("learned")  # tests/test_train_fusion.py has a trained one
    ],
)
def test_what_a_stage_declares_is_what_it_says(kind: str, text: str) -> None:
    check_declared(spec.make(kind, text), LocalServices())


def test_declared_protocols_are_found_where_they_are_meant() -> None:
    """A declaration that is lost would switch a feature off without a word."""
    made = {text: spec.make(kind, text) for kind, text in DECLARED}
    assert made["cross_encoder"].runs_here and made["slidegar"].reaches and made["agentic"].reaches
    assert made["ppr"].uses and made["graph_local"].uses and made["learned"].reads_queries
    assert made["hyde"].inner is not None and made["hyde"].stamp(LocalServices())
    assert made["learned"].replace(missing="score").missing == "score"
    assert type(made["learned"]).training_questions is not spec.Stage.training_questions
    assert made["pdf"].extra == "pdf" and not made["text"].needs
    assert made["markdown"].text_only and not made["semantic"].text_only


DECLARED = [
    ("rerank", "cross_encoder"),
    ("rerank", "slidegar"),
    ("rerank", "agentic"),
    ("retrieve", "ppr"),
    ("retrieve", "graph_local"),
    ("retrieve", "hyde"),
    ("fuse", "learned"),
    ("read", "pdf"),
    ("read", "text"),
    ("chunk", "markdown"),
    ("chunk", "semantic"),
]


@each("name", spec.names("read"))
def test_reader(name: str, tmp_path: Path) -> None:
    reader = spec.make("read", name)
    suffix = next(s for s in reader.suffixes if s in SAMPLES)
    good, bad = tmp_path / f"good-{suffix}", tmp_path / f"bad-{suffix}"
    sample = SAMPLES[suffix]
    content = sample if isinstance(sample, str) else sample()
    good.write_bytes(content.encode() if isinstance(content, str) else content)
    bad.write_bytes(b"\x80\x81 not text")
    check_reader(reader, good, bad)


@each("text", [text for text in stages("chunk") if text not in ASK_A_MODEL])
def test_chunker(text: str, tmp_path: Path) -> None:
    count = 1 if text.startswith("semantic") else 5  # it embeds every sentence, though each only once
    real = [Document(p.name, p.read_text(encoding="utf-8")) for p in sorted(EXAMPLE.glob("runbooks/*.md"))[:count]]
    check_chunker(spec.make("chunk", text), [*DOCUMENTS, *real], LocalServices(tmp_path))


@each("text", [text for text in stages("enrich") if text not in ASK_A_MODEL])
def test_enricher(text: str) -> None:
    document = DOCUMENTS[-1]
    chunks = Layout.parse("markdown(tokens=20, min_tokens=5)").cut(document, LocalServices())
    check_enricher(spec.make("enrich", text), document, chunks)


@each("text", stages("analyze"))
def test_analyzer(text: str) -> None:
    check_analyzer(spec.make("analyze", text))


ELSEWHERE = {"bedrock", "onnx", "openai", "sentence_transformers"}
"""Encoders that need a folder, a key or a service: tests/test_embed_*.py run them against real ones."""


@each("text", [text for text in stages("embed") if text not in ELSEWHERE])
def test_embedder(text: str) -> None:
    check_embedder(spec.make("embed", text))


def test_cached_embedder_keeps_the_contract_of_an_embedder(tmp_path: Path) -> None:
    cache = VectorCache(tmp_path / "vectors.db")
    check_embedder(CachedEmbedder(ToyEmbedder(), cache))
    cache.close()


COUNT_EVERYTHING = {"ppr"}
"""Walks from BM25's hits: how rare a word is depends on all passages, so only those from `dense` are exact here."""


@each("text", [text for text in stages("retrieve") if text not in ASK_A_MODEL | COUNT_EVERYTHING])
def test_retriever(text: str, tmp_path: Path) -> None:
    retriever = spec.make("retrieve", text)
    chunks, queries = (GRAPH_CHUNKS, GRAPH_QUERIES) if retriever.signal == "graph" else (CHUNKS, QUERIES)
    check_retriever(retriever, chunks, queries, LocalServices(), tmp_path)


LOOK_AT_QUERIES = {"learned", "llm_weights"}
"""Fusers that need a model: tests/test_train_fusion.py and tests/test_llm_retrieve.py run them."""


@each("text", [text for text in stages("fuse") if text not in LOOK_AT_QUERIES])
def test_fuser(text: str) -> None:
    check_fuser(spec.make("fuse", text))


NEED_A_MODEL = {"cross_encoder", "conditional", "hosted", "llm_listwise", "slidegar", "agentic"}
"""Rerankers that need a folder or a service: tests/test_rerank*.py and test_llm_rerank.py run them with one."""


WITHOUT_A_MODEL = [spec.make("rerank", text) for text in stages("rerank") if text not in NEED_A_MODEL]


@each("reranker", [*WITHOUT_A_MODEL, SharedWords()])
def test_reranker(reranker: object) -> None:
    class Passages:
        def __getitem__(self, ordinals: list[int]) -> list[Chunk]:
            return [CHUNKS[i] for i in ordinals]

    rows = [([5, 0, 3, 2], [9.0, 3.0, 2.0, 1.0]), ([4], [1.0]), ([], []), ([1, 2, 6], [3.0, 3.0, 3.0])]
    check_reranker(reranker, QUERIES, rankings_of(rows), Passages())
