"""Presets of `surefind bench`: each repeats the table of a study.

Their figures stand in the reports of the studies (`surefind study`); a comment says what the study found.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Preset:
    contenders: Mapping[str, str]
    """The pipelines by the names of their rows."""
    measures: tuple[str, ...]
    layouts: Mapping[str, str] = field(default_factory=dict)
    """The layouts that are compared, by name; given pipelines then replace those of the preset."""


_THREE = "dense + sparse + entity_overlap"
_HYBRID = "bm25 + dense >> convex(alpha=0.5, missing=score)"
_FIXED = [(700, 10), (700, 20), (1000, 10), (1000, 20), (1300, 10), (1300, 20)]
_SEMANTIC = [(80, 0, 800), (80, 1, 800), (80, 0, 1000), (80, 1, 1000), (90, 0, 1200), (90, 1, 1200)]
_HIERARCHICAL = [
    (2000, 500, 50),
    (2000, 500, 100),
    (2000, 800, 50),
    (2000, 800, 100),
    (3000, 1000, 50),
    (3000, 1000, 100),
]

PRESETS: dict[str, Preset] = {}

PRESETS["context-layer"] = Preset(
    contenders={
        "BM25": "bm25",
        "Vector": "dense",
        "RRF k=10": "bm25 + dense >> rrf(k=10)",
        "RRF k=20": "bm25 + dense >> rrf(k=20)",
        "RRF k=60": "bm25 + dense >> rrf(k=60)",
        "RRF k=60 (vector 2:1)": "bm25 + dense >> rrf(k=60, weights=[1, 2])",
        "RRF k=60 (BM25 2:1)": "bm25 + dense >> rrf(k=60, weights=[2, 1])",
        "Convex α=0.1": "bm25 + dense >> convex(alpha=0.1)",
        "Convex α=0.2": "bm25 + dense >> convex(alpha=0.2)",
        "Convex α=0.3": "bm25 + dense >> convex(alpha=0.3)",
        "Convex α=0.5": "bm25 + dense >> convex(alpha=0.5)",
        "Convex α=0.7": "bm25 + dense >> convex(alpha=0.7)",
        "RSF": "bm25 + dense >> rsf",
        "DBSF": "bm25 + dense >> dbsf",
        "CombMNZ": "bm25 + dense >> combmnz",
    },
    measures=("nDCG@10", "R@5", "R@10", "RR@10", "P@5"),
)
"""Fifteen configurations of BM25, vectors and five fusions on known-item questions.
After the company-context-layer study (1,706 questions over the manuals of a credit union). The study announces a
table of fifteen configurations and does not print it. Its text names four of the rows: BM25, vectors alone (0.038
nDCG@10), the RRF then in production (k = 60, vectors counted twice: 0.082) and convex fusion with α = 0.3
(0.729). The other rows are ours. RSF of two retrievers is convex fusion with α = 0.5, so the two share a row.
`surefind study context-layer` shows the study's figures beside yours. The study's DBSN is the sum of z-scores
(`dbsn`); the row here is `dbsf`, which limits them."""

PRESETS["cascade"] = Preset(
    contenders={
        "Dense only": "dense",
        "Bi-modal": "dense + sparse >> rrf(k=60)",
        "Tri-modal": f"{_THREE} >> rrf(k=60)",
        "Tri-modal, static weights": f"{_THREE} >> weighted(weights=[0.5, 0.35, 0.15])",
        "Tri-modal + CE": f"{_THREE} >> rrf(k=60) >> cross_encoder(blend=1.0)",
        "Tri-modal + CE, blended": f"{_THREE} >> rrf(k=60) >> cross_encoder(blend=0.5)",
        "Hybrid": _HYBRID,
        "Hybrid + CE, blended": f"{_HYBRID} >> cross_encoder(blend=0.5)",
    },
    measures=("nDCG@10", "RR@10", "AP@10", "R@10", "P@10"),
)
"""Adds one retriever after the other, then a cross-encoder on top.
The ablation of the cascade study (Tables A and II): dense, dense + sparse, all three by reciprocal rank fusion,
and a cross-encoder on top. In the study, the cross-encoder more than recovered what fusion had lost against dense
retrieval on NFCorpus (nDCG@10 0.398 against 0.354) and on SciFact (0.721 against 0.700), but not on FiQA (0.360
against 0.385), and on SciFact it stayed below dense + sparse (0.745). The study reranks the first 100; here it is
the first 20, which the bundled cross-encoder reads in under a second. The preset adds the study's static weights,
the cross-encoder blended with the ranking before it, and a hybrid that needs no graph. The study's last stage
calls a language model: add it with `--pipeline "… >> llm_listwise(top=10, keep=5)"`."""

PRESETS["champion"] = Preset(
    contenders={
        "Champion (dense)": "dense",
        "Champion + BM25": "dense + bm25 >> rrf(k=60)",
        "Champion + TF-IDF": "dense + tfidf >> rrf(k=60)",
        "Champion + sparse": "dense + sparse >> rrf(k=60)",
    },
    measures=("nDCG@10", "nDCG@50", "R@10", "R@50"),
)
"""One retriever, alone and in reciprocal rank fusion with each of the others.
The table of the support-chatbot study. Its champion was the embedding model with the best R@50 alone; a second
retriever raised R@10 by up to 3.8 points, but BM25 lowered it on all four data sets. Here the champion is the
bundled encoder."""

PRESETS["chunking"] = Preset(
    contenders={"hybrid": "bm25 + dense >> convex(alpha=0.5, missing=score)"},
    measures=("T1EM", "T1C", "T1O", "MRR", "SpanR@5", "SpanP@5", "IoU@5"),
    layouts={
        **{f"fixed-{w}-{o}": f"fixed(tokens={w}, overlap={w * o // 100})" for w, o in _FIXED},
        **{f"semantic-{p}-{b}-{m}": f"semantic(threshold={p}, buffer={b}, max_tokens={m})" for p, b, m in _SEMANTIC},
        **{
            f"hierarchical-{p}-{c}-{o}": f"hierarchical(parent={p}, child={c}, overlap={o})"
            for p, c, o in _HIERARCHICAL
        },
        "fixed-700-20 + headings": "fixed(tokens=700, overlap=140) + headings",
        "markdown-250 + headings": "markdown(tokens=250, min_tokens=50) + headings",
        "sentence_window-3 + headings": "sentence_window(window=3) + headings",
        "hierarchical-700-250-0 + headings": "hierarchical(parent=700, child=250, overlap=0) + headings",
        "hierarchical-1500-200-0 + headings": "hierarchical(parent=1500, child=200, overlap=0) + headings",
        "hierarchical-1500-250-0 + headings": "hierarchical(parent=1500, child=250, overlap=0) + headings",
        "hierarchical-1500-250-0 + neighbors": "hierarchical(parent=1500, child=250, overlap=0) + neighbors",
        "whole": "whole",
    },
)
"""Compares layouts on questions with gold passages.
The grid of the agentic-knowledge-base study (2025, section 4.2: six settings each of fixed, semantic and
hierarchical; hierarchical was first in its Table 1), and layouts that we would choose ourselves, all with the
default pipeline. With `--pipeline`, every layout is run with those pipelines instead."""

PRESETS["fusion"] = Preset(
    contenders={
        "α=0": "bm25 + dense >> tm2c2(alpha=0.0)",
        "α=0.3": "bm25 + dense >> tm2c2(alpha=0.3)",
        "α=0.5": "bm25 + dense >> tm2c2(alpha=0.5)",
        "α=0.7": "bm25 + dense >> tm2c2(alpha=0.7)",
        "α=1": "bm25 + dense >> tm2c2(alpha=1.0)",
    },
    measures=("nDCG@10", "T1EM", "T1C", "T1O", "MRR"),
)
"""Fixed weights of BM25 and vectors (`tm2c2`), from BM25 alone (α = 0) to vectors alone (α = 1).
The static rows of Table 4 of the agentic-knowledge-base study. Of these, BM25 alone (α = 0) was best on questions
about one file, of one hop (T1EM 0.573) and of two (0.552, against 0.544 for α = 0.3); on two hops over two files
α = 0.5 was best (0.435, against 0.402 for BM25 alone). For its learned rows, train models for these two
retrievers (`surefind train fusion --model ridge | xgboost | mlp …`); on the exam that a model was trained on, all
configurations are measured on the held-out half. The oracles are printed below the table and shown in the report
(`bench.sweep`)."""

PRESETS["graph"] = Preset(
    contenders={
        "no graph": "dense",
        "graph": "graph_local(hops=2)",
        "entity overlap": "entity_overlap",
        "walks": "ppr",
        "BM25 + dense": "bm25 + dense >> weighted(weights=[1, 1], missing=score)",
        "BM25 + dense + graph": "bm25 + dense + graph_local(hops=2) >> weighted(weights=[1, 1, 1], missing=score)",
        "BM25 + dense + walks": "bm25 + dense + ppr >> weighted(weights=[1, 1, 2], missing=score)",
    },
    measures=("T1EM", "T5EM", "T1C", "MC", "MRR", "T1O", "BO"),
    layouts={
        "hierarchical": "hierarchical(parent=2000, child=500, overlap=50)",
        "context": "hierarchical(parent=2000, child=500, overlap=50) + headings",
    },
)
"""Retrieval with and without the graph, alone and fused, on passages with and without context.
The comparison of the agentic-knowledge-base study (Figure 4 and Table 3): no graph, graph + hierarchical, graph +
context. In the study the graph raised T5EM but halved T1EM, so it was left out. Here the context is the headings
above a passage, which cost nothing. The preset adds random walks that also start from the nearest passages
(`ppr`), the cascade study's `entity_overlap`, and fusions with BM25 and vectors. The report says whether the
graph improves results."""
