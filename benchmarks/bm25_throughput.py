"""Compares our BM25 with bm25s (numba backend) and tantivy: 100,000 passages, top 100, queries per CPU-second of one
thread.

    python benchmarks/bm25_throughput.py data/train-pairs.jsonl.xz

There are three sets of queries: natural questions; function words (no engine drops stop words); frequent content words.
"search only" gives all three engines the same terms, made by our analyzer, so that they do the same work on the same
postings. "with analysis" starts from the query as text, and each engine analyses it in its own way. The top 100 are
also checked against the formula written out in float64.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import bm25s
import numpy as np
import Stemmer
import tantivy

from _shared import machine, medians, passages_and_questions
from surefind.base.types import EVERY, Query
from surefind.engine.analyze import analyze
from surefind.engine.analyze.english import English
from surefind.engine.retrieve._postings import Postings
from surefind.engine.retrieve.bm25 import BM25

PASSAGES, QUERIES, TOP, ROUNDS = 100_000, 2_000, 100, 5
Terms = list[list[str]]


def cpu(work: Callable[[], object]) -> float:
    before = time.process_time()
    work()
    return time.process_time() - before


def tantivy_index(texts: Sequence[str], tokenizer: str) -> tantivy.Index:
    schema = tantivy.SchemaBuilder().add_text_field("text", tokenizer_name=tokenizer, index_option="freq").build()
    index = tantivy.Index(schema)
    writer = index.writer(heap_size=1_000_000_000, num_threads=1)
    for text in texts:
        writer.add_document(tantivy.Document(text=text))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    return index


def tantivy_query(index: tantivy.Index, terms: Sequence[str]) -> tantivy.Query:
    should = tantivy.Occur.Should
    return tantivy.Query.boolean_query([(should, tantivy.Query.term_query(index.schema, "text", t)) for t in terms])


def bm25s_index(tokens: object) -> bm25s.BM25:
    index = bm25s.BM25(method="lucene", k1=1.5, b=0.75, backend="numba")
    index.index(tokens, show_progress=False)
    return index


def search_only(postings: Postings, peer: bm25s.BM25, tant: tantivy.Index, queries: Terms) -> dict[str, float]:
    """Queries per CPU-second on terms that are already analysed."""
    terms, offsets = postings.terms_of(queries)
    kept = [[peer.vocab_dict[t] for t in query if t in peer.vocab_dict] for query in queries]
    searcher, prepared = tant.searcher(), [tantivy_query(tant, query) for query in queries]

    def bm25s_search() -> None:
        peer.retrieve(kept, k=TOP, show_progress=False, n_threads=1)

    def tantivy_search() -> None:
        for query in prepared:
            searcher.search(query, TOP, count=False)

    work = {
        "surefind": lambda: cpu(lambda: postings.search_terms(BM25(), terms, offsets, TOP, EVERY)),
        "bm25s": lambda: cpu(bm25s_search),
        "tantivy": lambda: cpu(tantivy_search),
    }
    medians(work, 1)  # compiles the kernels
    return {name: len(queries) / seconds for name, seconds in medians(work, ROUNDS).items()}


def with_analysis(texts: Sequence[str], queries: Sequence[str]) -> tuple[dict[str, float], dict[str, float]]:
    """Queries per CPU-second and CPU-seconds of indexing, both from text, each engine with its own analyzer."""
    stemmer = Stemmer.Stemmer("english")
    built: dict[str, object] = {}

    def ours() -> None:
        built["surefind"] = Postings.build(texts, English())

    def theirs() -> None:
        tokens = bm25s.tokenize(texts, stopwords="en", stemmer=stemmer, show_progress=False)
        built["bm25s"] = bm25s_index(tokens)

    def tantivys() -> None:
        built["tantivy"] = tantivy_index(texts, "en_stem")

    builders = {"surefind": ours, "bm25s": theirs, "tantivy": tantivys}
    Postings.build(texts[:100], English())  # compiles the kernels
    seconds = medians({name: lambda build=build: cpu(build) for name, build in builders.items()}, 3)
    postings, peer, tant = built["surefind"], built["bm25s"], built["tantivy"]
    searcher = tant.searcher()

    def ask_bm25s() -> None:
        tokens = bm25s.tokenize(queries, stopwords="en", stemmer=stemmer, show_progress=False, return_ids=False)
        peer.retrieve(tokens, k=TOP, show_progress=False, n_threads=1)

    def ask_tantivy() -> None:
        for query in queries:
            searcher.search(tant.parse_query_lenient(query, ["text"])[0], TOP, count=False)

    def ask_surefind() -> None:
        postings.search(BM25(), [Query(query) for query in queries], TOP, EVERY)

    askers = {"surefind": ask_surefind, "bm25s": ask_bm25s, "tantivy": ask_tantivy}
    work = {name: lambda ask=ask: cpu(ask) for name, ask in askers.items()}
    medians(work, 1)
    return {name: len(queries) / taken for name, taken in medians(work, ROUNDS).items()}, seconds


def difference(postings: Postings, counts: list[Counter[str]], queries: Terms) -> float:
    """The greatest difference between our top scores and the formula in float64."""
    lengths = np.array([count.total() for count in counts])
    norm = 1.5 * (0.25 + 0.75 * lengths / lengths.mean())
    rankings = postings.search_terms(BM25(), *postings.terms_of(queries), TOP, EVERY)
    worst = 0.0
    for q, query in enumerate(queries):
        scores = np.zeros(len(counts))
        for term in query:
            tf = np.array([count.get(term, 0) for count in counts])
            df = np.count_nonzero(tf)
            scores += np.log1p((len(counts) - df + 0.5) / (df + 0.5)) * 2.5 * tf / (tf + norm)
        ordinals, found = rankings.row(q)
        best = np.sort(scores)[::-1][: len(found)]
        worst = max(worst, np.abs(found - best).max(initial=0), np.abs(found - scores[ordinals]).max(initial=0))
    return worst


def show(title: str, figures: dict[str, float]) -> None:
    ours = figures["surefind"]
    ratios = ", ".join(f"{ours / value:.2f}x {name}" for name, value in figures.items() if name != "surefind")
    print(f"{title:44}" + "".join(f"{name} {value:9,.1f}   " for name, value in figures.items()) + ratios, flush=True)


def main(data: Path) -> None:
    print(machine("surefind", "bm25s", "tantivy", "numba", "numpy"), flush=True)
    texts, questions = passages_and_questions(data, PASSAGES, QUERIES)
    chance = random.Random(2)
    for label, analyzer in (("content", English()), ("every word", English(stopwords=False))):
        documents = [analyze(analyzer, text) for text in texts]
        counts = [Counter(terms) for terms in documents]
        postings = Postings.build(texts, analyzer)
        frequent = sorted(postings.vocabulary, key=postings.document_frequency, reverse=True)
        peer, tant = bm25s_index(documents), tantivy_index([" ".join(d) for d in documents], "whitespace")
        sets: dict[str, Terms] = {}
        if label == "content":
            sets["natural questions"] = [analyze(analyzer, question) for question in questions]
            sets["frequent content words, 5 of the first 100"] = [chance.sample(frequent[:100], 5) for _ in questions]
        else:
            sentence = analyze(analyzer, "what is the difference between the use of a and the one that is in this")
            sets["function words, one sentence"] = [sentence] * 300
            sets["function words, 10 of the first 40"] = [chance.sample(frequent[:40], 10) for _ in range(500)]
            sets["natural questions, stop words kept"] = [analyze(analyzer, question) for question in questions]
        for name, queries in sets.items():
            show(name, search_only(postings, peer, tant, queries))
            print(f"    greatest difference from the formula: {difference(postings, counts, queries[:10]):.1e}")
        del documents, counts, postings, peer, tant
    speed, seconds = with_analysis(texts, questions)
    show("natural questions, with analysis", speed)
    show("indexing from text, CPU-seconds", seconds)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
