"""Builds the report of a benchmark (`report`) from the outcome of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

import numpy as np

from surefind import __version__
from surefind.base.types import Floats
from surefind.lab.bench.engine import Outcome
from surefind.lab.bench.environment import environment
from surefind.lab.bench.graph_value import graph_value
from surefind.lab.bench.left_out import about_left_out
from surefind.lab.bench.llm_value import llm_value
from surefind.lab.bench.movement import Movement
from surefind.lab.bench.plan import short
from surefind.lab.bench.recommendation import Recommendation, recommend
from surefind.lab.bench.report import (
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
    TrainedFusion,
)
from surefind.lab.bench.reranking import step_problems
from surefind.lab.bench.sweep import alpha_sweep
from surefind.lab.bench.verdict import decide
from surefind.lab.exam.clusters import clusters_of
from surefind.lab.exam.leakage import BANDS, band, leakage
from surefind.lab.exam.split import held_out
from surefind.lab.measure.clusters import Clusters
from surefind.lab.measure.statistics import Comparison, Interval, bootstrap, compare_all, letters

_SAMPLED = 300
"""Questions whose hits the report keeps, to look at on the HTML page."""
_HITS = 5
"""Hits kept for each of these questions and each configuration."""


def build_report(
    outcome: Outcome,
    documents: Mapping[str, str],
    titles: Mapping[str, str],
    command: str,
    learned: Sequence[TrainedFusion] = (),
    model_checks: Sequence[ModelCheck] = (),
    about_models: str = "",
) -> BenchReport:
    """The report of a run. `documents` maps document ids to texts, `titles` maps them to titles. `about_models` says
    whether the language models are fit for their steps."""
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
    recommendation = _recommendation(outcome, primary)
    verdict = decide(
        names,
        primary,
        outcome.scores[primary],
        out.tolist(),
        comparisons,
        intervals[primary],
        held[primary],
        dict(enumerate(outcome.latency)),
        recommendation,
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
        recommendation=recommendation,
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


def _recommendation(outcome: Outcome, primary: str) -> Recommendation | None:
    """What is best for real questions; None if there is nothing to choose from."""
    contenders = outcome.plan.contenders
    if len(contenders) < 2:
        return None
    specs = [str(contender.pipeline) for contender in contenders]
    layouts = [view.layout for view in outcome.views]
    return recommend(specs, outcome.scores[primary], outcome.plan.exam.queries, layouts, primary)


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
