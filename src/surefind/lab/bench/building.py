"""Builds the report of a benchmark (`report`) from the outcome of a run.

Says whether the graph is worth its cost on this corpus.

Compares the best configuration with the graph to the best one without it that has the same rerankers. Both are picked
after looking at the results, so significance comes from the comparison of all pairs.

Says what a language model gains on this exam, and what it costs.

Compares the best configuration that calls a language model to the best one that calls none. Whether a significant gain
is worth its price is for the user to decide. Without a significant gain, the model is not worth its price.

The α sweep: fuses a lexical and a dense ranking with every weight, and computes two oracles.

The fusion is `convex`, or `tm2c2` if the contenders use that one only. The oracles use the answers: the closed-form α*
of each question (`measure.lss`), and the best α of the sweep for each question, which no prediction of α can beat.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

import numpy as np

from surefind import __version__
from surefind.base.types import Floats, Rankings
from surefind.engine.fuse.convex import Convex
from surefind.engine.fuse.support.predictors import blend
from surefind.engine.fuse.tm2c2 import TM2C2
from surefind.engine.retrieve.ppr import PPR
from surefind.engine.search.pipeline import Pipeline, fold
from surefind.lab.bench.engine import Outcome
from surefind.lab.bench.latency import Timing
from surefind.lab.bench.plan import Contender, about_left_out, short
from surefind.lab.bench.recommendation import DefaultRow, decide, recommend
from surefind.lab.bench.report import (
    AlphaSweep,
    BenchReport,
    CorpusFacts,
    ExamFacts,
    Means,
    ModelCheck,
    QuotedChunk,
    QuotedGold,
    ReportRow,
    RerankChange,
    RowComparison,
    SampledQuestion,
    SweepPoint,
    TrainedFusion,
    environment,
)
from surefind.lab.bench.reranking import Movement, step_problems
from surefind.lab.exam.model import clusters_of, held_out
from surefind.lab.exam.overlap import BANDS, band, leakage
from surefind.lab.measure.lss import Labeller
from surefind.lab.measure.ranks import MEASURES
from surefind.lab.measure.statistics import Clusters, Comparison, Interval, bootstrap, compare_all, letters

ALPHAS = tuple(i / 10 for i in range(11))
PAIR = ["dense", "sparse"]


def alpha_sweep(outcome: Outcome, documents: Mapping[str, str]) -> AlphaSweep | None:
    """The primary measure for α from 0 (lexical only) to 1 (dense only).

    None if layouts are compared, if the primary measure is a gold-span measure, or if a lexical or a dense ranking is
    missing.
    """
    plan = outcome.plan
    path = None if plan.compares_layouts or plan.primary.of_spans else _joined(outcome)
    if path is None:
        return None
    rankings = [outcome.retrieved["", str(retriever), path.depth] for retriever in path.retrieve]
    used = [contender.pipeline.fuse for contender in plan.contenders if replace(contender.pipeline, fuse=None) == path]
    study = any(isinstance(fuse, TM2C2) for fuse in used) and not any(isinstance(fuse, Convex) for fuse in used)
    fusers: list[TM2C2 | Convex] = [TM2C2(alpha) if study else Convex(alpha) for alpha in ALPHAS]
    scored = {c.pipeline: outcome.scores[str(plan.primary)][:, i] for i, c in enumerate(plan.contenders)}
    columns = []
    for fuser in fusers:
        known = scored.get(replace(path, fuse=fuser))
        columns.append(_score(outcome, fuser.fuse(rankings, _width(rankings))) if known is None else known)
    table = np.stack(columns, axis=1)
    clusters = clusters_of(plan.exam.queries)
    families = [query.family for query in plan.exam.queries]
    masks = {name: np.array([f == name for f in families]) for name in sorted(set(families))}
    points = tuple(
        SweepPoint(
            alpha=alpha,
            mean=interval.mean,
            low=interval.low,
            high=interval.high,
            families={name: float(table[mask, i].mean()) for name, mask in masks.items()},
        )
        for i, (alpha, interval) in enumerate(zip(ALPHAS, bootstrap(table, clusters=clusters), strict=True))
    )
    oracles = np.stack([_with_alpha_star(outcome, rankings, documents), table.max(axis=1)], axis=1)
    star, best = bootstrap(oracles, clusters=clusters)
    return AlphaSweep(measure=str(plan.primary), fuser=fusers[0].name, points=points, star=star, best=best)


def _joined(outcome: Outcome) -> Pipeline | None:
    """A pipeline with a lexical and a dense retriever: the first two that a contender fuses, or else the first of each
    that a contender uses alone."""
    pipelines = [replace(contender.pipeline, fuse=None, rerank=()) for contender in outcome.plan.contenders]
    for pipeline in pipelines:
        if sorted(retriever.signal for retriever in pipeline.retrieve) == PAIR:
            return pipeline
    alone = {p.retrieve[0].signal: p for p in reversed(pipelines) if len(p.retrieve) == 1}
    if "sparse" not in alone or "dense" not in alone or alone["sparse"].depth != alone["dense"].depth:
        return None
    return replace(alone["sparse"], retrieve=(*alone["sparse"].retrieve, *alone["dense"].retrieve))


def _with_alpha_star(outcome: Outcome, rankings: list[Rankings], documents: Mapping[str, str]) -> Floats:
    stars = Labeller(outcome.plan.exam.queries, outcome.view.spans(), documents).alphas(rankings)
    weights = np.stack([stars if ranking.signal == "dense" else 1 - stars for ranking in rankings], axis=1)
    return _score(outcome, blend(rankings, weights, "floor", _width(rankings), "oracle"))


def _width(rankings: list[Rankings]) -> int:
    """Room for all candidates of the rankings: a search fuses all of them, too."""
    return sum(ranking.ids.shape[1] for ranking in rankings)


def _score(outcome: Outcome, ranking: Rankings) -> Floats:
    measure, whole = outcome.plan.primary, fold(ranking, outcome.view.parents)
    scores: Floats = MEASURES[measure.name](outcome.judges[0].gains(whole, measure.level), measure.k)
    return scores


def graph_value(
    contenders: Sequence[Contender],
    measure: str,
    means: Sequence[float],
    comparisons: Sequence[Comparison],
    latency: Sequence[float],
) -> str:
    """A sentence about the graph; empty if all configurations use the graph, or none does. One that walks for some
    questions alone, as `thorough` does, is neither."""
    uses = [[r for r in contender.pipeline.retrieve if r.signal == "graph"] for contender in contenders]
    always = [i for i, own in enumerate(uses) if any(not isinstance(r, PPR) or r.when == "always" for r in own)]
    without = [i for i, own in enumerate(uses) if not own]
    if not always or not without:
        return ""
    best_with = max(always, key=lambda i: means[i])
    # With a reranker on one side only, the reranker would be compared and not the graph.
    alike = [i for i in without if contenders[i].pipeline.rerank == contenders[best_with].pipeline.rerank]
    best_without = max(alike or without, key=lambda i: means[i])
    scores = (
        f"{contenders[best_with].name} scores {measure} {means[best_with]:.3f}; "
        f"{contenders[best_without].name}, the best configuration without the graph, scores {means[best_without]:.3f}"
    )
    speed = _speed(latency[best_with], latency[best_without])
    significant = any(c.significant for c in comparisons if {c.a, c.b} == {best_with, best_without})
    if significant and means[best_with] > means[best_without]:
        return f"The graph improves results on this corpus: {scores}. The difference is significant{speed}."
    if significant:
        return f"The graph makes results worse on this corpus: {scores}, significantly better. Leave the graph out."
    return (
        f"The graph does not improve results on this corpus: {scores}. "
        f"The difference is not significant{speed}. Leave the graph out."
    )


def _speed(with_graph: float, without: float) -> str:
    return f" (p50 {with_graph:.1f} ms against {without:.1f} ms)"


def llm_value(
    names: Sequence[str],
    measure: str,
    means: Sequence[float],
    latency: Sequence[Timing],
    comparisons: Sequence[Comparison],
) -> str:
    """Sentences about the language model's gain and price; empty if no configuration calls a model, or all do."""
    with_llm = [i for i, timing in enumerate(latency) if timing.calls]
    without = [i for i in range(len(names)) if i not in with_llm]
    if not with_llm or not without:
        return ""
    best, other = (max(rows, key=lambda i: (means[i], -i)) for rows in (with_llm, without))
    c = next((c for c in comparisons if {c.a, c.b} == {best, other}), None)
    if c is None:
        return ""
    sign = 1 if c.a == best else -1
    low, high = sorted((sign * c.low, sign * c.high))
    price = f"${latency[best].cost_per_1k:,.2f} and {latency[best].calls * 1000:,.0f} calls per 1,000 queries"
    slower = latency[best].p50 - latency[other].p50
    price += f" and adds {slower:,.0f} ms per query" if slower >= 1 else ""
    change = (
        f"changes {measure} by {_signed(sign * c.difference)} [{_signed(low)}, {_signed(high)}] "
        f"({names[best]} against {names[other]}, the best configuration without one)"
    )
    if c.significant and sign * c.difference > 0:
        return f"The language model {change}, a significant gain. It costs {price}."
    why = "a significant loss" if c.significant else "which is not significant"
    return f"The language model is not worth its price here: it {change}, {why}. It costs {price}."


def _signed(value: float) -> str:
    return f"{round(value, 3) + 0.0:+.3f}"  # no minus before a zero


_SAMPLED = 300
"""Questions whose hits the report keeps, to look at on the HTML page."""
_HITS = 5
"""Hits kept for each of these questions and each configuration."""


def build_report(
    outcome: Outcome,
    documents: Mapping[str, str],
    titles: Mapping[str, str],
    command: str,
    default: DefaultRow,
    learned: Sequence[TrainedFusion] = (),
    model_checks: Sequence[ModelCheck] = (),
    about_models: str = "",
) -> BenchReport:
    """The report of a run. `documents` maps document ids to texts, `titles` maps them to titles. `default` is
    the row of the configuration in use. `about_models` says whether the language models are fit for their steps."""
    plan, exam = outcome.plan, outcome.plan.exam
    names = [contender.name for contender in plan.contenders]
    primary = str(plan.primary)
    out = np.array(held_out(exam.queries))
    clusters = clusters_of(exam.queries)
    intervals = _intervals(outcome.scores, clusters)
    halves = {name: scores[out] for name, scores in outcome.scores.items()}
    held = _intervals(halves, clusters[out]) if out.any() else intervals
    comparisons = compare_all(outcome.scores[primary], clusters=clusters)
    means = outcome.scores[primary].mean(axis=0).tolist()
    advice = recommend(outcome.scores[primary], exam.queries, default) if len(names) > 1 else None
    verdict = decide(
        names,
        primary,
        outcome.scores[primary],
        out.tolist(),
        comparisons,
        intervals[primary],
        held[primary],
        dict(enumerate(outcome.latency)),
        advice,
        reranked=[bool(contender.pipeline.rerank) for contender in plan.contenders],
    )
    assessments = [
        about_left_out(exam, plan.left_out, plan.access.groups, bool(outcome.view.withheld(plan.access))),
        llm_value(names, primary, means, outcome.latency, comparisons),
        graph_value(plan.contenders, primary, means, comparisons, [timing.p50 for timing in outcome.latency]),
        about_models,
    ]
    queries, chunks = _samples(outcome, titles)
    return BenchReport(
        surefind=__version__,
        created=datetime.now().astimezone().isoformat(timespec="seconds"),
        command=command,
        audience=str(plan.access),
        groups=tuple(sorted(plan.access.groups)),
        environment=environment(),
        exam=ExamFacts(
            name=exam.name,
            version=exam.version,
            fingerprint=exam.fingerprint,
            queries=len(exam.queries),
            families=exam.families(),
            dropped=outcome.left_out.total,
            restricted=outcome.left_out.restricted,
        ),
        corpus=CorpusFacts(
            documents=len(outcome.view.admitted(plan.access)),
            withheld=outcome.view.withheld(plan.access),
            chunks=len(outcome.view),
            layout=outcome.view.layout,
            fingerprint=outcome.view.fingerprint,
        ),
        measures=tuple(str(measure) for measure in plan.measures),
        primary=primary,
        confidence=0.95,
        compares_layouts=plan.compares_layouts,
        rows=_rows(outcome, titles, intervals, held, letters(means, comparisons)),
        query_ids=tuple(query.id for query in exam.queries),
        query_texts=tuple(query.text for query in exam.queries),
        query_documents=tuple(
            tuple(sorted({judgment.document for judgment in (*query.judgments, *query.segments)}))
            for query in exam.queries
        ),
        query_clusters=tuple(clusters.tolist()),
        winner=names[verdict.winner],
        ties=tuple(names[i] for i in verdict.ties),
        recommended=names[verdict.recommended],
        recommendation=advice,
        verdict=verdict.text,
        details=tuple(filter(None, [*verdict.details, *assessments])),
        comparisons=tuple(_named(comparison, names) for comparison in comparisons),
        leakage=leakage(exam),
        alpha_sweep=alpha_sweep(outcome, documents),
        memory_bytes=outcome.memory_bytes,
        problems=(*outcome.problems, *step_problems(names, outcome.steps)),
        queries=queries,
        chunks=chunks,
        learned=tuple(learned),
        model_checks=tuple(model_checks),
    )


UNJUDGED = 10
"""Documents of each question among which the share of unjudged ones is counted."""


def _rows(
    outcome: Outcome,
    titles: Mapping[str, str],
    intervals: Mapping[str, Sequence[Interval]],
    held: Mapping[str, Sequence[Interval]],
    marks: Sequence[str],
) -> tuple[ReportRow, ...]:
    plan, scores = outcome.plan, outcome.scores[str(outcome.plan.primary)]
    families = _groups(outcome, [query.family for query in plan.exam.queries])
    bands = _groups(outcome, [band(query) for query in plan.exam.queries], order=BANDS)
    return tuple(
        ReportRow(
            name=contender.name,
            aliases=tuple(contender.aliases),
            pipeline=contender.pipeline.name or short(contender.pipeline),
            spec=str(contender.pipeline),
            measures={measure: rows[i] for measure, rows in intervals.items()},
            letters=marks[i],
            latency_ms=outcome.latency[i],
            calls=outcome.latency[i].calls,
            cost_per_1k=outcome.latency[i].cost_per_1k,
            families=families[i],
            bands=bands[i],
            unjudged=round(float(outcome.judges[i].unjudged(outcome.rankings[i], UNJUDGED).mean()), 3),
            index_bytes=outcome.index_bytes[i],
            reranking=_moved(outcome, i, titles),
            layout=outcome.views[i].layout,
            chunks=len(outcome.views[i]),
            ingest_s_per_doc=outcome.ingestion[i],
            held_out={measure: rows[i] for measure, rows in held.items()},
            scores=tuple(round(score, 4) for score in scores[:, i].tolist()),
        )
        for i, contender in enumerate(plan.contenders)
    )


def _named(comparison: Comparison, names: Sequence[str]) -> RowComparison:
    return RowComparison(
        names[comparison.a],
        names[comparison.b],
        comparison.difference,
        comparison.low,
        comparison.high,
        comparison.p,
        comparison.p_holm,
    )


def _moved(outcome: Outcome, i: int, titles: Mapping[str, str]) -> tuple[RerankChange, ...]:
    """What the rerankers of a contender changed."""
    plan = outcome.plan
    movement = Movement(plan.exam.queries, outcome.judges[i], plan.primary, outcome.views[i].spans(), titles)
    return tuple(movement.of(step) for step in outcome.steps[i])


def _intervals(scores: Mapping[str, Floats], clusters: Clusters) -> dict[str, list[Interval]]:
    """Bootstrap intervals of all measures, with the same resamples for each."""
    names = list(scores)
    stacked = np.concatenate([scores[name] for name in names], axis=1)
    columns = stacked.shape[1] // len(names)
    intervals = bootstrap(stacked, clusters=clusters)
    return {name: intervals[i * columns : (i + 1) * columns] for i, name in enumerate(names)}


def _groups(outcome: Outcome, labels: Sequence[str | None], order: Sequence[str] = ()) -> list[Means]:
    """For each contender, the mean of every measure within each group of queries; empty if there is only one
    group."""
    groups = [label for label in order or sorted({label for label in labels if label}) if label in labels]
    if len(groups) < 2:
        return [{} for _ in outcome.plan.contenders]
    members = {group: np.array([label == group for label in labels]) for group in groups}
    means = {group: {m: s[mask].mean(axis=0) for m, s in outcome.scores.items()} for group, mask in members.items()}
    return [
        {group: {m: round(float(values[i]), 5) for m, values in means[group].items()} for group in groups}
        for i in range(len(outcome.plan.contenders))
    ]


def _samples(
    outcome: Outcome, titles: Mapping[str, str]
) -> tuple[tuple[SampledQuestion, ...], tuple[QuotedChunk, ...]]:
    """The queries on which the contenders differ most, with the hits of each: examples to read, not for statistics.

    Relevance of a hit, and the rank of the first relevant hit, are at the level of the primary measure.
    """
    primary = outcome.plan.primary
    scores = outcome.scores[str(primary)]
    order = np.argsort(-scores.std(axis=1), kind="stable")[:_SAMPLED].tolist()
    level = "chunk" if primary.of_spans else primary.level
    pairs = list(zip(outcome.rankings, outcome.judges, strict=True))
    gains = [judge.gains(ranking, level).gains for ranking, judge in pairs]
    numbers: dict[tuple[int, int], int] = {}
    owner = [outcome.views.index(view) for view in outcome.views]  # the first contender of each layout
    queries = []
    for q in order:
        query = outcome.plan.exam.queries[q]
        results = []
        for c, (ranking, judge) in enumerate(pairs):
            ids = ranking.row(q)[0][:_HITS].tolist()
            first = np.flatnonzero(gains[c][q] > 0)
            flags = tuple(int(judge.relevant(q, chunk_id, level)) for chunk_id in ids)
            shown = tuple(numbers.setdefault((owner[c], chunk_id), len(numbers)) for chunk_id in ids)
            rank = int(first[0]) + 1 if len(first) else None
            results.append((round(float(scores[q, c]), 4), rank, shown, flags))
        queries.append(
            SampledQuestion(
                id=query.id,
                text=query.text,
                family=query.family,
                overlap=query.overlap,
                gold=tuple(
                    QuotedGold(judgment.document, titles.get(judgment.document, ""), judgment.quote)
                    for judgment in query.judgments[:3]
                ),
                results=tuple(results),
            )
        )
    chunks = []
    for c, chunk_id in numbers:
        (passage,) = outcome.views[c].passages([chunk_id], outcome.plan.access)
        chunk = passage.chunk
        chunks.append(QuotedChunk(chunk.document, passage.title, tuple(chunk.headings), chunk.text[:240]))
    return tuple(queries), tuple(chunks)
