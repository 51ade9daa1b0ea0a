"""Queries on a small index, filters, analyzers, and the names of configurations."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from _target import LONGEST, Target, ensure, texts

from surefind import Access, KnowledgeBase
from surefind.base import spec
from surefind.base.errors import SurefindError
from surefind.engine.analyze import analyze
from surefind.lab.bench.names import find

PAGES = {
    "wire.md": (
        "---\nstatus: approved\nfee: 25\n---\n\n# Wires\n\nA wire costs 25 dollars abroad. Recall "
        "a wire within a day.\n"
    ),
    "vault.md": (
        "---\nacl: [hr]\ntags: [draft, x]\n---\n\n# Vault\n\nThe vault opens at nine. Dana Whitfield "
        "signs the CTR-204 form.\n"
    ),
    "note.md": "# 注意\n\n日本語の文章です。 Überweisung kostet 25 €. ﬁle ①②③.\n",
}
SETTINGS = (
    '[search]\npipeline = "words"\n[pipelines.words]\nretrieve = ["bm25", "tfidf"]\n'
    '[pipelines.graph]\nretrieve = ["ppr(seed=[bm25])", "entity_overlap"]\n'
)
QUERIES = [
    "what does a wire cost?",
    "CTR-204",
    '"vault opens"',
    "日本語の文章",
    "Überweisung 25 €",
    "1,234.56",
    "snake_case_name",
    "a.b.c/d-e",
    "Dana Whitfield",
    "wire AND (vault OR 25)",
]
TOKENS = [
    "_",
    "-",
    ".",
    "'",
    "1,",
    "a_",
    "A1",
    " ",
    "　",
    "の",
    "ن",
    "ก",
    "\u0301",
    "?",
    '"',
    "(",
    ")",
    "wire",
    "https://",
    "@",
    "%",
    "CTR-",
]
FILTERS = [
    "status=approved",
    "tags!=draft",
    "fee>=10",
    "fee<=1e999",
    "title=x,y",
    "status>=",
    "\0=\ud800",
    "fee>=nan",
    "a=",
    "status=" + "x," * 500,
]
NAMES = ["bm25", "words", "convex(α=0.3)", "bm25 + tfidf >> rrf(k=60)", "RRF", "hybrid, alpha=0.5", "graph", "dense"]


def targets(folder: Path) -> list[Target]:
    home = folder / "kb"
    kb = _knowledge_base(home)
    query = texts(QUERIES, TOKENS)
    pipelines = [
        None,
        "bm25",
        "tfidf",
        "bm25 + tfidf >> convex(alpha=0.3, missing=score)",
        *(["graph"] if _has_graph(kb) else []),
    ]

    def search(case: tuple[str, list[str], str | None, int, int]) -> None:
        text, where, pipeline, k, offset = case
        for groups in ((), ("hr",)):
            found = kb.search(text, Access.of(*groups, where=where), k, pipeline, offset)
            ensure(len(found.hits) <= k, "more hits than asked for")
            ensure(
                bool(groups) or all(hit.document != "vault.md" for hit in found.hits), "a restricted document was found"
            )

    def case(chance: random.Random) -> tuple[Any, ...]:
        where = chance.sample(FILTERS, chance.choice((0, 0, 1, 2)))
        return (
            query(chance)[: chance.choice((200, 10_000, LONGEST))],
            where,
            chance.choice(pipelines),
            chance.choice((1, 3, 50)),
            chance.choice((0, 0, 2, 900)),
        )

    analyzers = [spec.make("analyze", name) for name in spec.names("analyze")]

    def terms(text: str) -> None:
        for analyzer in analyzers:
            ensure(all(isinstance(term, str) and term for term in analyze(analyzer, text)), "a term is empty")

    return [
        Target("analyzer", 3, query, terms),
        Target("search", 3, case, search),
        Target(
            "name",
            0.6,
            texts(NAMES, ["(", ")", "+", ">>", "α", "alpha", "=", "@", " ", "bm25"]),
            lambda text: find(kb, text),
        ),
    ]


def _knowledge_base(home: Path) -> KnowledgeBase:
    docs = home / "docs"
    docs.mkdir(parents=True)
    for name, text in PAGES.items():
        (docs / name).write_text(text, encoding="utf-8")
    (home / "surefind.toml").write_text(SETTINGS, encoding="utf-8")
    kb = KnowledgeBase.open(home)
    kb.sync(docs)
    kb.search("wire", Access.public())
    return kb


def _has_graph(kb: KnowledgeBase) -> bool:
    try:
        kb.search("wire", Access.public(), pipeline="graph")
    except SurefindError:
        return False
    return True
