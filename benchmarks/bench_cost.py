"""Times a benchmark: fifteen configurations against running their two retrievers once; a repeat; span measures.

    python benchmarks/bench_cost.py DOCS            e.g. a folder of Markdown with a few hundred files

1. known-item questions (350 per family) on a fresh knowledge base; BM25 and dense over all of them, once, uncached;
2. the fifteen configurations of the context-layer table, ranked and scored, uncached: ratio to 1;
3. the whole benchmark with intervals, tests, α sweep, latencies and the report, uncached: ratio to 1;
4. the same again from the cache: ratio to 3;
5. the eleven gold-span measures for all fifteen rankings.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from surefind import KnowledgeBase, Query
from surefind.bench.engine import OWNER, Bench
from surefind.bench.plan import Plan, parse_measures, preset
from surefind.bench.run import known_item_exam, run_bench
from surefind.bench.scoring import places_of
from surefind.measure.gains import Judge
from surefind.measure.names import SPAN_MEASURES
from surefind.types import Rankings


def forget_questions(kb: KnowledgeBase, texts: list[str]) -> None:
    """Removes the questions' vectors from the cache, so that they are embedded again."""
    import sqlite3

    from surefind.store.vectors import _key

    embedder = kb.services.embedder("minilm")
    with sqlite3.connect(kb.data / "cache" / "embeddings.db") as db:
        db.executemany("DELETE FROM arrays WHERE key = ?", [(_key(embedder.fingerprint, text),) for text in texts])
    embedder._last = None


def score(bench: Bench, plan: Plan, rankings: Sequence[Rankings], documents: Mapping[str, str]) -> None:
    """Computes every measure of the plan, including the gains; all contenders search the same view."""
    views = [bench.view(contender) for contender in plan.contenders]
    judge = Judge(plan.exam.queries, places_of(views[0].spans(), documents))
    bench._scores(plan, rankings, views, {id(views[0]): judge}, documents)


def main(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as home, KnowledgeBase.open(home) as kb:
        kb.sync(folder)
        exam = known_item_exam(kb, per_family=350)
        contenders, measures = preset("context-layer")
        plan = Plan(tuple(contenders), exam, parse_measures(measures))
        queries = [Query(query.text, query.id) for query in exam.queries]
        bench = Bench(kb, fresh=True)
        bench.build(plan)
        view = bench.view(plan.contenders[0])
        retrievers = {str(retriever): retriever for _, retriever in plan.retrievers().values()}
        view.ready(list(retrievers.values()))
        print(f"{len(exam.queries)} questions, {len(view)} passages")

        started = time.perf_counter()
        for retriever in retrievers.values():
            view.search(retriever, queries, 100, OWNER)
        once = time.perf_counter() - started
        forget_questions(kb, [query.text for query in queries])
        print(f"two retrievers once     {once:7.2f} s")

        documents = {document.id: document.text for document in kb.documents(OWNER)}
        started = time.perf_counter()
        found = {key: bench._retrieve(plan, *job, queries) for key, job in plan.retrievers().items()}
        rankings = [bench._finish(plan, contender, found, queries)[0] for contender in plan.contenders]
        score(bench, plan, rankings, documents)
        ranked = time.perf_counter() - started
        print(f"fifteen, ranked, scored {ranked:7.2f} s   {ranked / once:.2f}x the two retrievers")
        forget_questions(kb, [query.text for query in queries])

        started = time.perf_counter()
        run_bench(kb, plan, "benchmarks/bench_cost.py", fresh=True)
        first = time.perf_counter() - started
        print(f"with the whole report   {first:7.2f} s   {first / once:.2f}x the two retrievers")

        started = time.perf_counter()
        run_bench(kb, plan, "benchmarks/bench_cost.py")
        again = time.perf_counter() - started
        print(f"again, unchanged        {again:7.2f} s   {first / again:.0f}x faster")

        spans = Plan(plan.contenders, exam, parse_measures(SPAN_MEASURES))
        outcome = Bench(kb).run(spans)  # warm: rankings are cached, kernels compiled
        started = time.perf_counter()
        score(Bench(kb), outcome.plan, outcome.rankings, documents)
        print(f"eleven span measures    {time.perf_counter() - started:7.2f} s for {len(queries)} x 15")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
