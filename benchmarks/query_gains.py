"""What cheap changes at query time add to the default hybrid, on real questions.

    python benchmarks/query_gains.py DATA WORK

Feedback from the first passages (vectors: Rocchio; words: RM3), headings as a weighted field of BM25 (BM25F), and a
weight of the vectors chosen for each query. Each has a few settings; the best on `CHOOSING` is used, and the other
collections judge. The bases are those of `training/pack_collections.py`. Vectors are made by the bundled encoder and
kept in WORK/vectors. nDCG@10 of documents, differences from `bm25 + dense >> convex(alpha=0.5, missing=score)` in
points, with 95% bootstrap intervals.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from _collecting import fewer, questions_of
from surefind.analyze.english import English
from surefind.bench.engine import OWNER
from surefind.exam.relocate import relocate
from surefind.kb import KnowledgeBase

sys.path.insert(0, str(Path(__file__).parents[1] / "training"))
from measures import interval, macro, minmax, ndcg

CHOOSING = ("covidqa-partial", "hotpotqa-sub", "policyqa", "squad2-dev-half")
JUDGES = ("sample", "scifact", "cranfield", "chunking-eval", "anthropic-codebase", "zoomcamp-faq")
MOST, DEPTH, K1, B = 500, 100, 1.5, 0.75
ALPHAS = (0.3, 0.4, 0.5, 0.6, 0.7)
Run = Callable[["Corpus"], np.ndarray]


@dataclass
class Words:
    """BM25 as matrices: the score of every passage is `query @ weights.T`."""

    counts: Any
    weights: Any
    lengths: np.ndarray

    @classmethod
    def of(cls, text: Any, context: Any, share: float) -> Words:
        """`share`: what a word of the context counts, if a word of the text counts 1."""
        counts = (text + share * context).tocsr() if share != 1 else (text + context).tocsr()
        lengths = np.asarray(counts.sum(1)).ravel()
        there = np.bincount(counts.indices, minlength=counts.shape[1])
        idf = np.log(1 + (counts.shape[0] - there + 0.5) / (there + 0.5))
        norm = K1 * (1 - B + B * lengths / lengths.mean())
        weights = counts.copy()
        rows = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
        weights.data = idf[counts.indices] * counts.data * (K1 + 1) / (counts.data + norm[rows])
        return cls(counts, weights, lengths)

    def scores(self, queries: Any) -> np.ndarray:
        return np.asarray((queries @ self.weights.T).todense())

    def with_feedback(self, queries: Any, documents: int, terms: int, own: float) -> Any:
        """RM3: the terms of the first passages, weighted by the passages' scores, mixed with the query."""
        scores = self.scores(queries)
        best = np.argsort(-scores, axis=1, kind="stable")[:, :documents]
        rows = []
        for row, first in enumerate(best):
            weight = scores[row, first] / max(scores[row, first].sum(), 1e-9)
            model = np.asarray((sparse.diags(weight / self.lengths[first]) @ self.counts[first]).sum(0)).ravel()
            kept = np.argsort(-model, kind="stable")[:terms]
            expanded = np.zeros_like(model)
            expanded[kept] = model[kept] / max(model[kept].sum(), 1e-9)
            plain = np.asarray(queries[row].todense()).ravel()
            rows.append(sparse.csr_matrix(own * plain / max(plain.sum(), 1e-9) + (1 - own) * expanded))
        return sparse.vstack(rows).tocsr()


@dataclass
class Corpus:
    name: str
    text: Any
    context: Any
    asked: Any
    passages: np.ndarray
    queries: np.ndarray
    document: np.ndarray
    gold: list[dict[int, float]]

    def ranked(self, close: np.ndarray, words: np.ndarray, alpha: float | np.ndarray) -> np.ndarray:
        """nDCG@10 of the hybrid: the first passages of each, all of them scored by both."""
        both = np.concatenate([_first(close), _first(np.where(words > 0, words, -np.inf))], axis=1)
        both.sort(axis=1)
        there = both >= 0
        there[:, 1:] &= both[:, 1:] != both[:, :-1]
        at = np.maximum(both, 0)
        one, other = (minmax(np.take_along_axis(s, at, 1), there) for s in (close, words))
        mixed = np.where(there, alpha * one + (1 - alpha) * other, -np.inf)
        order = np.argsort(-mixed, axis=1, kind="stable")
        passages = np.take_along_axis(np.where(there, both, -1), order, 1)
        return ndcg([list(dict.fromkeys(self.document[row[row >= 0]].tolist())) for row in passages], self.gold)

    @cached_property
    def close(self) -> np.ndarray:
        return np.asarray(self.queries @ self.passages.T)

    @cached_property
    def words(self) -> Words:
        return Words.of(self.text, self.context, 1.0)

    @cached_property
    def lexical(self) -> np.ndarray:
        """BM25's score of every passage for every question."""
        return self.words.scores(self.asked)


def _first(scores: np.ndarray) -> np.ndarray:
    order = np.argsort(-scores, axis=1, kind="stable")[:, :DEPTH]
    return np.where(np.isneginf(np.take_along_axis(scores, order, 1)), -1, order)


def base(corpus: Corpus) -> np.ndarray:
    return corpus.ranked(corpus.close, corpus.lexical, 0.5)


def rocchio(first: int, share: float) -> Run:
    def run(corpus: Corpus) -> np.ndarray:
        best = np.argsort(-corpus.close, axis=1, kind="stable")[:, :first]
        moved = (1 - share) * corpus.queries + share * corpus.passages[best].mean(1)
        close = moved / np.linalg.norm(moved, axis=1, keepdims=True) @ corpus.passages.T
        return corpus.ranked(close, corpus.lexical, 0.5)

    return run


def rocchio_of_hybrid(first: int, share: float) -> Run:
    """The feedback comes from the first passages of the hybrid, not of the vectors alone."""

    def run(corpus: Corpus) -> np.ndarray:
        words = corpus.lexical
        every = np.ones(words.shape, bool)
        fused = minmax(corpus.close, every) + minmax(words, every)
        best = np.argsort(-fused, axis=1, kind="stable")[:, :first]
        moved = (1 - share) * corpus.queries + share * corpus.passages[best].mean(1)
        close = moved / np.linalg.norm(moved, axis=1, keepdims=True) @ corpus.passages.T
        return corpus.ranked(close, words, 0.5)

    return run


def rm3(documents: int, terms: int, own: float) -> Run:
    def run(corpus: Corpus) -> np.ndarray:
        words = corpus.words
        expanded = words.with_feedback(corpus.asked, documents, terms, own)
        return corpus.ranked(corpus.close, words.scores(expanded), 0.5)

    return run


def bm25f(share: float) -> Run:
    return lambda corpus: corpus.ranked(
        corpus.close, Words.of(corpus.text, corpus.context, share).scores(corpus.asked), 0.5
    )


def features(corpus: Corpus, words: np.ndarray) -> np.ndarray:
    """What is known of a query before fusion: lengths, leads, agreement of the two lists."""
    columns = [np.asarray(corpus.asked.sum(1)).ravel(), np.asarray((corpus.asked > 0).sum(1)).ravel()]
    for scores in (corpus.close, words):
        ordered = -np.sort(-scores, axis=1)[:, :20]
        columns += [ordered[:, 0], ordered[:, 0] - ordered[:, 1], ordered[:, 0] - ordered[:, 9], ordered.std(1)]
    lists = [_first(corpus.close)[:, :10], _first(np.where(words > 0, words, -np.inf))[:, :10]]
    columns.append(np.array([len(set(a) & set(b)) for a, b in zip(*lists, strict=True)]))
    columns.append((lists[0][:, 0] == lists[1][:, 0]).astype(float))
    return np.stack([np.asarray(one, float) for one in columns], 1)


def by_query(corpora: list[Corpus], ridge: float = 30.0) -> dict[str, np.ndarray]:
    """For each α, a ridge regression of the gain over α = 0.5, learned on `CHOOSING`; the best α by it is used."""
    found = {}
    for corpus in corpora:
        words = corpus.lexical
        found[corpus.name] = (
            features(corpus, words),
            np.stack([corpus.ranked(corpus.close, words, alpha) for alpha in ALPHAS], 1),
        )
    x = np.concatenate([found[name][0] for name in CHOOSING if name in found])
    y = np.concatenate([found[name][1] for name in CHOOSING if name in found])
    y = y - y[:, [ALPHAS.index(0.5)]]
    mean, scale = x.mean(0), x.std(0) + 1e-9
    x = np.c_[(x - mean) / scale, np.ones(len(x))]
    weights = np.linalg.solve(x.T @ x + ridge * np.eye(x.shape[1]), x.T @ y)
    result = {}
    for name, (known, scores) in found.items():
        guess = np.c_[(known - mean) / scale, np.ones(len(known))] @ weights
        result[name] = scores[np.arange(len(scores)), guess.argmax(1)]
    return result


FAMILIES: dict[str, dict[str, Run]] = {
    "vector feedback (Rocchio)": {
        f"first {first}, {share}": rocchio(first, share) for first in (3, 5) for share in (0.1, 0.2, 0.3, 0.5)
    },
    "vector feedback from the hybrid": {
        f"first {first}, {share}": rocchio_of_hybrid(first, share) for first in (3, 5) for share in (0.1, 0.2, 0.3, 0.5)
    },
    "RM3": {
        f"{documents} passages, {terms} terms, own {own}": rm3(documents, terms, own)
        for documents, terms in ((5, 10), (10, 30))
        for own in (0.5, 0.7, 0.85)
    },
    "headings as a field (BM25F)": {f"weight {share}": bm25f(share) for share in (0.0, 0.5, 1.5, 2.0, 3.0, 5.0)},
}


def read(name: str, data: Path, work: Path) -> Corpus:
    with KnowledgeBase.open(work / "bases" / name) as kb:
        exam = fewer(questions_of(kb, name, data, work / "bases"), MOST)
        exam, _ = relocate(exam, {document.id: document.text for document in kb.documents(OWNER)})
        spans = kb.reader().view.spans()
        chunks = kb.reader().view.chunks(spans.ids.tolist(), OWNER)
    numbers = {document: number for number, document in enumerate(spans.names)}
    asked, gold = [], []
    for query in exam.queries:
        grades: dict[int, float] = {}
        for j in query.judgments:
            if j.grade > 0 and j.document in numbers:
                grades[numbers[j.document]] = max(grades.get(numbers[j.document], 0), j.grade)
        if grades:
            asked.append(query.text)
            gold.append(grades)
    analyzer, vocabulary = English(), {}  # type: ignore[var-annotated]

    def matrix(texts: list[str], tokens: Callable[[str], list[str]]) -> Any:
        rows = [[t for token in tokens(text) for t in analyzer.terms(token)] for text in texts]
        pairs = [(i, vocabulary.setdefault(term, len(vocabulary))) for i, row in enumerate(rows) for term in row]
        return pairs, len(rows)

    parts = [matrix([c.text for c in chunks], analyzer.tokens), matrix([c.context for c in chunks], analyzer.tokens),
             matrix(asked, analyzer.query_tokens)]  # fmt: skip
    text, context, questions = (
        sparse.csr_matrix((np.ones(len(pairs)), np.array(pairs, int).reshape(-1, 2).T), (rows, len(vocabulary)))
        for pairs, rows in parts
    )
    p, q = _vectors(work / "vectors" / f"{name}.npz", [c.searchable for c in chunks], asked)
    return Corpus(name, text, context, questions, p, q, spans.documents, gold)


def _vectors(kept: Path, passages: list[str], asked: list[str]) -> tuple[np.ndarray, np.ndarray]:
    if not kept.exists():
        from surefind_models import path

        from surefind.inference.encoder import OnnxEncoder

        encoder = OnnxEncoder(path("minilm"))
        kept.parent.mkdir(parents=True, exist_ok=True)
        np.savez(kept, p=encoder.embed(passages), q=encoder.embed(asked))
    found = np.load(kept)
    assert len(found["p"]) == len(passages) and len(found["q"]) == len(asked), kept
    return found["p"].astype(np.float32), found["q"].astype(np.float32)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("work", type=Path)
    given = parser.parse_args()
    corpora = [read(name, given.data, given.work) for name in (*CHOOSING, *JUDGES)]
    before = {corpus.name: base(corpus) for corpus in corpora}
    print(
        "the hybrid: " + ", ".join(f"{name} {scores.mean() * 100:.1f}" for name, scores in before.items()), flush=True
    )
    for family, settings in FAMILIES.items():
        table = {label: {c.name: run(c) - before[c.name] for c in corpora} for label, run in settings.items()}
        _show(family, table)
    _show("α by query", {"ridge": {name: scores - before[name] for name, scores in by_query(corpora).items()}})


def _show(family: str, table: dict[str, dict[str, np.ndarray]]) -> None:
    best = max(table, key=lambda label: np.mean([table[label][name].mean() for name in CHOOSING]))
    gains = table[best]
    mean, low, high = macro([gains[name] for name in JUDGES])
    chosen = np.mean([gains[name].mean() for name in CHOOSING]) * 100
    print(f"{family}: {best}: chosen at {chosen:+.2f}, judged {mean:+.2f} [{low:+.2f}, {high:+.2f}]")
    for name in JUDGES:
        one, low, high = interval(gains[name])
        print(f"    {name:20s} {one:+.2f} [{low:+.1f}, {high:+.1f}]", flush=True)


if __name__ == "__main__":
    main()
