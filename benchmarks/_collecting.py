"""The collections that `exam_validity.py` judges recommendations on, and the scores of every configuration on them.

A collection of fewer than `FEWEST_DOCUMENTS` documents is cut into sections first: to find one of 16 long articles is
so easy that all configurations score alike. The sections that contain a gold span are the gold documents then.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from surefind.base.access import Access
from surefind.base.protocols import Retriever
from surefind.base.types import Query, Rankings
from surefind.doors.cli.demo import sample_folder, sample_questions
from surefind.engine.search.pipeline import Pipeline, StageHooks, Work
from surefind.kb import KnowledgeBase
from surefind.kb.settings.template import BASES, LINKED, RERANKED
from surefind.lab.bench.engine import OWNER, Bench
from surefind.lab.bench.plan import Contender, Plan
from surefind.lab.bench.presets import PRESETS
from surefind.lab.exam.formats.collections import read_beir
from surefind.lab.exam.formats.library import Library
from surefind.lab.exam.formats.table import read_table
from surefind.lab.exam.known_item import generate
from surefind.lab.exam.model import Exam
from surefind.lab.measure.ranks import ndcg, parse_measure

_GRAPH = PRESETS["graph"].contenders
MEASURE = parse_measure("nDCG@10")
DEFAULT = "bm25 + dense >> convex(alpha=0.5, missing=score)"
CONFIGURATIONS = {
    **PRESETS["context-layer"].contenders,
    "hybrid": DEFAULT,
    "hybrid α=0.3": "bm25 + dense >> convex(alpha=0.3, missing=score)",
    "hybrid α=0.4": "bm25 + dense >> convex(alpha=0.4, missing=score)",
    "hybrid α=0.6": "bm25 + dense >> convex(alpha=0.6, missing=score)",
    "hybrid α=0.7": "bm25 + dense >> convex(alpha=0.7, missing=score)",
    "TM2C2 α=0.5": "bm25 + dense >> tm2c2(alpha=0.5)",
    "Champion + TF-IDF": "dense + tfidf >> rrf(k=60)",
    "Champion + sparse": "dense + sparse >> rrf(k=60)",
    "DBSN": "bm25 + dense >> dbsn",
    "graph": _GRAPH["graph"],
    "BM25 + dense + graph": _GRAPH["BM25 + dense + graph"],
}
"""Retrievers and fusions."""
PAIR = BASES["pair"]
_OTHER = "bm25 + dense(model=arctic) >> convex(alpha={}, missing=score)"
ENCODERS = {
    "arctic, vectors": "dense(model=arctic)",
    **{f"arctic α={share}": _OTHER.format(share) for share in (0.3, 0.4, 0.5, 0.6, 0.7)},
    "pair": PAIR,
    "pair 0.5, 0.25, 0.25": PAIR.replace("[0.4, 0.3, 0.3]", "[0.5, 0.25, 0.25]"),
    "pair 0.3, 0.35, 0.35": PAIR.replace("[0.4, 0.3, 0.3]", "[0.3, 0.35, 0.35]"),
    "pair 0.4, 0.2, 0.4": PAIR.replace("[0.4, 0.3, 0.3]", "[0.4, 0.2, 0.4]"),
    "pair + walks": "bm25 + dense + dense(model=arctic) + ppr >> weighted(weights=[2, 1.5, 1.5, 5], missing=score)",
    "pair + few walks": "bm25 + dense + dense(model=arctic) + ppr >> weighted(weights=[2, 1.5, 1.5, 2], missing=score)",
}
"""What the second encoder does: in place of the first, beside it, and with random walks. Made with walks at the share
of the preset `graph`, and at less."""
COLLECTED = {**CONFIGURATIONS, **{name: text for name, text in _GRAPH.items() if name != "no graph"}, **ENCODERS}
"""With the graph alone and random walks, which gain much on questions that need two documents."""
SCORER = "pair, arctic only scores"
"""`pair` whose second encoder scores the candidates of words and the first encoder, and returns none of its own."""
REREAD = {
    "hybrid": DEFAULT,
    "pair": PAIR,
    "careful": f"{PAIR} >> {RERANKED['careful']}",
    "thorough": f"{LINKED} >> {RERANKED['thorough']}",
    "thorough without walks": f"{PAIR} >> {RERANKED['thorough']}",
    "hybrid + small": f"{DEFAULT} >> {RERANKED['careful']}",
    "hybrid + small, large": f"{DEFAULT} >> {RERANKED['thorough']}",
}
"""The pipelines that a knowledge base has by name, and what rereads hits without the second encoder."""
MOST_REREAD = 300
"""Questions of a collection that `REREAD` is asked."""
MOST = 500
"""Questions of a collection that are scored; more are sampled down, the same each time."""
FEWEST_DOCUMENTS = 50
SEED = 7
LEFT_OUT = frozenset({"policyqa"})
"""Its questions ask about one of many companies and do not say which, so all configurations score alike."""
OTHER_LANGUAGES = frozenset({"xquad-de", "xquad-es", "xquad-zh"})
ALONE = frozenset({"names", "texts", "reread", "judged"})
"""What a collection's file has beside the scores of `COLLECTED`."""
_SECTION = 1500
"""Characters of a section, at least; it ends with a sentence."""


def collect(data: Path, work: Path, only: Sequence[str] = ()) -> None:
    """Writes WORK/NAME.npz for each collection: nDCG@10 by (question, configuration) for real questions and for each
    family of known-item questions, and the same for `REREAD`; `judged` is the share of judged documents
    in the first ten of `REREAD`, and `texts` are the real questions."""
    for name in only or collections(data):
        target = work / f"{name}.npz"
        if target.exists():
            continue
        folder = work / name
        folder.mkdir(parents=True, exist_ok=True)
        with KnowledgeBase.open(folder) as kb:
            real = questions_of(kb, name, data, work)
            written = generate(kb.documents(Access.owner()))
            asked = fewer(real, MOST)
            scores = {"real": np.hstack([scores_of(kb, asked, COLLECTED), only_scored(kb, asked)])}
            few = fewer(real, MOST_REREAD)
            reread = Bench(kb).score(Plan(contenders(REREAD), few, (MEASURE,)))
            scores["reread"] = reread.scores[str(MEASURE)].astype(np.float32)
            scores["judged"] = np.stack(
                [1 - own.unjudged(ranks, 10) for own, ranks in zip(reread.judges, reread.rankings, strict=True)], axis=1
            )
            for family in sorted({query.family for query in written.queries}):
                part = tuple(query for query in written.queries if query.family == family)
                exam = replace(written, name=f"known-item-{family}", queries=part)
                scores[family] = scores_of(kb, exam, COLLECTED)
        texts = np.array([query.text for query in asked.queries])
        np.savez_compressed(target, names=np.array([*COLLECTED, SCORER]), texts=texts, **scores)
        sizes = {key: len(value) for key, value in scores.items()}
        print(json.dumps({"collection": name, **sizes}), flush=True)


def collections(data: Path) -> list[str]:
    return ["sample", *sorted(path.parent.name for path in data.glob("*/queries.jsonl"))]


def questions_of(kb: KnowledgeBase, name: str, data: Path, work: Path) -> Exam:
    """Syncs a collection, or the sample, and returns its real questions."""
    if name == "sample":
        kb.sync(sample_folder())
        return read_table(sample_questions(), Library(kb.documents(Access.owner())))
    corpus, questions = _parted(data / name, work / "corpora" / name, work / "questions" / name)
    kb.sync(corpus)
    return read_beir(questions, Library(kb.documents(Access.owner())))


def fewer(exam: Exam, most: int) -> Exam:
    if len(exam.queries) <= most:
        return exam
    chosen = sorted(np.random.default_rng(SEED).choice(len(exam.queries), most, replace=False))
    return replace(exam, queries=tuple(exam.queries[i] for i in chosen))


def contenders(configurations: Mapping[str, str]) -> tuple[Contender, ...]:
    return tuple(Contender(name, Pipeline.parse(text)) for name, text in configurations.items())


def scores_of(kb: KnowledgeBase, exam: Exam, configurations: Mapping[str, str]) -> np.ndarray:
    return Bench(kb).score(Plan(contenders(configurations), exam, (MEASURE,))).scores[str(MEASURE)].astype(np.float32)


class _OnlyScores(StageHooks):
    """The retriever of the second encoder returns nothing; the fuser asks it for scores."""

    def retrieve(self, retriever: Retriever, depth: int, work: Work) -> Rankings:
        found = work()
        if "arctic" not in str(retriever):
            return found
        return replace(found, ids=found.ids[:, :0], scores=found.scores[:, :0])


def only_scored(kb: KnowledgeBase, exam: Exam) -> np.ndarray:
    """nDCG@10 of `SCORER`, as a column."""
    scored = Bench(kb).score(Plan(contenders({"pair": PAIR}), exam, (MEASURE,)))
    queries = [Query(query.text, query.id) for query in scored.plan.exam.queries]
    ranking = Pipeline.parse(PAIR).rank(queries, 10, kb.reader().reading(OWNER), _OnlyScores())
    found = ndcg(scored.judges[0].gains(ranking, MEASURE.level), MEASURE.k)
    return np.asarray(found, np.float32)[:, None]


def _parted(source: Path, corpus: Path, questions: Path) -> tuple[Path, Path]:
    """Returns a folder with the documents alone and one with the questions. Few long documents become sections."""
    corpus.mkdir(parents=True, exist_ok=True)
    documents = _rows(source / "corpus.jsonl")
    if len(documents) >= FEWEST_DOCUMENTS:
        shutil.copy(source / "corpus.jsonl", corpus)
        return corpus, source
    sections = {row["_id"]: list(_sections(row["text"])) for row in documents}
    cut = [
        {"_id": f"{row['_id']}-{start}", "title": row.get("title", ""), "text": row["text"][start:end]}
        for row in documents
        for start, end in sections[row["_id"]]
    ]
    gold = sorted(
        {
            (span["query-id"], f"{span['corpus-id']}-{start}")
            for span in _rows(source / "spans.jsonl")
            for start, end in sections[span["corpus-id"]]
            if span["start"] < end and span["end"] > start
        }
    )
    (questions / "qrels").mkdir(parents=True, exist_ok=True)
    _write(corpus / "corpus.jsonl", cut)
    shutil.copy(source / "queries.jsonl", questions)
    lines = ["query-id\tcorpus-id\tscore", *(f"{query}\t{document}\t1" for query, document in gold)]
    (questions / "qrels" / "test.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return corpus, questions


def _sections(text: str) -> Iterator[tuple[int, int]]:
    """The extents of sections of whole sentences."""
    start = 0
    for sentence in re.finditer(r"\n\s*\n|(?<=[.!?])\s|\Z", text):
        end = sentence.end()
        if end - start >= _SECTION or end == len(text):
            if text[start:end].strip():
                yield start, end
            start = end


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
