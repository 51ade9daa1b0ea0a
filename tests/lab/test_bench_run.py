"""Running a plan: what is computed, what is shared, what is kept, what is reported."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from rich.console import Console

from exam_helpers import copy_few, query
from helpers import WORDS, Home
from surefind import Access
from surefind.base.disk.sealed import from_json, sealed, to_json, unsealed
from surefind.base.errors import ExamError
from surefind.base.types import Query, Rankings
from surefind.engine.retrieve._postings import Postings
from surefind.engine.search.pipeline import Pipeline
from surefind.kb import KnowledgeBase
from surefind.lab.bench.cost import quote_for
from surefind.lab.bench.engine import Bench
from surefind.lab.bench.files import markdown, write_files, write_runs
from surefind.lab.bench.plan import Contender, Plan, distinct, from_texts, parse_measures
from surefind.lab.bench.recommendation import DefaultRow
from surefind.lab.bench.report import FORMAT, BenchReport
from surefind.lab.bench.run import Finished, beir_base, known_item_exam, run_bench
from surefind.lab.bench.terminal import show
from surefind.lab.exam.model import Exam, Judgment, clusters_of
from surefind.lab.exam.store import ExamStore
from surefind.lab.measure.ranks import SPAN_MEASURES
from surefind.lab.measure.statistics import MIN_CLUSTERS, bootstrap
from surefind.testing import rankings_of

pytestmark = pytest.mark.usefixtures("remembered_models")

TEXTS = ("bm25", "bm25(k1=0, b=0)", "bm25 + bm25(k1=0, b=0) >> rrf(k=[10, 60])")
MEASURES = ("nDCG@10", "R@5", "RR@10:span", "P@5:chunk", "T1EM", "BC")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten documents of the sample, synced for BM25."""
    home = Home(tmp_path_factory.mktemp("bench"))
    copy_few(home.docs)
    home.sync("docs")
    return home.folder


@pytest.fixture
def kb(base: Path) -> Any:
    with KnowledgeBase.open(base) as opened:
        yield opened


def plan_of(kb: KnowledgeBase, *texts: str, measures: Sequence[str] = MEASURES) -> Plan:
    exam = known_item_exam(kb, per_family=8)
    return Plan(tuple(from_texts(texts or TEXTS, kb.settings.pipelines)), exam, parse_measures(measures))


@pytest.fixture(scope="module")
def finished(base: Path) -> Finished:
    with KnowledgeBase.open(base) as kb:
        return run_bench(kb, plan_of(kb), "surefind bench")


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each retriever searches for many queries at once; timing asks for one at a time."""
    counts: Counter[str] = Counter()
    search = Postings.search

    def counting(self: Postings, retriever: Any, queries: Sequence[Query], *rest: Any, **more: Any) -> Rankings:
        counts[str(retriever)] += len(queries) > 1
        return search(self, retriever, queries, *rest, **more)

    monkeypatch.setattr(Postings, "search", counting)
    return counts


# ---------------------------------------------------------------- the report


def test_report_has_the_promised_keys(finished: Finished) -> None:
    data = to_json(finished.report)
    assert data["format"] == FORMAT and data.keys() >= {"exam", "rows", "winner", "ties", "query_ids", "query_texts"}
    for row in data["rows"]:
        assert {"name", "spec", "measures", "latency_ms", "cost_per_1k"} <= row.keys()
        assert {"p50", "p95"} <= row["latency_ms"].keys()
        assert list(row["measures"]) == list(MEASURES)
        assert all(set(interval) == {"mean", "low", "high"} for interval in row["measures"].values())


def test_intervals_and_tests_treat_the_questions_about_a_document_together(finished: Finished) -> None:
    assert finished.outcome is not None
    clusters = clusters_of(finished.outcome.plan.exam.queries)
    assert MIN_CLUSTERS <= len(set(clusters.tolist())) < len(clusters)
    assert finished.report.query_clusters == tuple(clusters.tolist())
    primary = finished.report.primary
    found = [row.measures[primary] for row in finished.report.rows]
    assert found == bootstrap(finished.outcome.scores[primary], clusters=clusters)


def test_report_is_json(finished: Finished) -> None:
    text = json.dumps(to_json(finished.report), allow_nan=False)
    assert from_json(BenchReport, json.loads(text)) == finished.report


def test_other_names_of_a_row_are_in_the_table_and_the_files(kb: KnowledgeBase, tmp_path: Path) -> None:
    both = distinct([Contender(name, Pipeline.parse("bm25")) for name in ("BM25", "words")])
    plan = replace(plan_of(kb), contenders=tuple(both))
    made = run_bench(kb, plan, "").report
    assert [(row.name, row.aliases) for row in made.rows] == [("BM25", ("words",))]
    said = io.StringIO()
    show(made, Console(file=said, width=200))
    assert "BM25 (also words)" in said.getvalue() and "BM25 (also words)" in markdown(made)
    write_files(made, tmp_path)
    with (tmp_path / "table.csv").open(encoding="utf-8", newline="") as file:
        assert [(row["name"], row["aliases"]) for row in csv.DictReader(file)] == [("BM25", "words")]
    alone = run_bench(kb, replace(plan, contenders=(replace(both[0], aliases=()),)), "").report
    assert alone.rows[0].aliases == (), "the cached report of the other plan has an alias"


def test_every_contender_has_a_row(finished: Finished) -> None:
    assert [row.spec for row in finished.report.rows] == [
        str(contender.pipeline)
        for contender in finished.outcome.plan.contenders  # type: ignore[union-attr]
    ]


def test_means_lie_in_their_intervals(finished: Finished) -> None:
    for row in finished.report.rows:
        assert all(i.low <= i.mean <= i.high for i in row.measures.values())


def test_mean_is_that_of_the_scores(finished: Finished) -> None:
    for row in finished.report.rows:
        assert np.mean(row.scores) == pytest.approx(row.measures["nDCG@10"].mean, abs=1e-5)


def test_known_items_are_found_well(finished: Finished) -> None:
    """Questions made of the passages' own words: BM25 that did not find them would be broken."""
    assert finished.report.rows[0].measures["nDCG@10"].mean > 0.8


def test_winner_has_the_highest_mean(finished: Finished) -> None:
    means = {row.name: row.measures["nDCG@10"].mean for row in finished.report.rows}
    assert means[finished.report.winner] == max(means.values())


def test_ties_share_a_letter_with_the_winner(finished: Finished) -> None:
    letters = {row.name: set(row.letters) for row in finished.report.rows}
    winner = finished.report.winner
    assert {name for name in letters if name != winner and letters[name] & letters[winner]} == set(finished.report.ties)


def test_every_row_is_scored_by_family(finished: Finished) -> None:
    for row in finished.report.rows:
        assert set(row.families) == set(finished.report.exam.families)


def test_family_scores_average_to_the_whole(finished: Finished) -> None:
    sizes = finished.report.exam.families
    for row in finished.report.rows:
        total = sum(sizes[family] * scores["nDCG@10"] for family, scores in row.families.items())
        assert total / sum(sizes.values()) == pytest.approx(row.measures["nDCG@10"].mean, abs=1e-4)


def test_latency_is_given_by_stage(finished: Finished) -> None:
    fused = finished.report.rows[2].latency_ms
    assert {"bm25", "rrf"} <= set(fused.stages)
    assert 0 < fused.p50 <= fused.p95


def test_latency_is_given_for_two_retrievers_of_one_name(finished: Finished) -> None:
    assert len(finished.report.rows[2].latency_ms.stages) == 3


def test_index_size_is_given(finished: Finished) -> None:
    assert all(row.index_bytes > 0 for row in finished.report.rows)


def test_report_names_command_and_environment(finished: Finished) -> None:
    assert finished.report.command == "surefind bench"
    assert finished.report.environment.packages.keys() >= {"numpy", "numba"}


def test_known_item_exam_comes_with_its_leakage(finished: Finished) -> None:
    assert "are in its gold passage" in finished.report.leakage.text


def test_span_measures_of_the_report_are_those_of_the_module(kb: KnowledgeBase) -> None:
    outcome = Bench(kb).run(plan_of(kb, "bm25", measures=SPAN_MEASURES))
    assert set(outcome.scores) == set(SPAN_MEASURES)
    assert all((outcome.scores["T1EM"] <= outcome.scores["T5EM"]).ravel())


def test_identical_pipelines_under_other_parameters_tie(kb: KnowledgeBase) -> None:
    report = run_bench(kb, plan_of(kb, "bm25", "bm25(k1=1.5000001)"), "").report
    assert list(report.ties) == [row.name for row in report.rows if row.name != report.winner]


# ---------------------------------------------------------------- shared work, cache, resuming


def test_shared_retrievers_run_once(kb: KnowledgeBase, batches: Counter[str]) -> None:
    run_bench(
        kb, plan_of(kb, "bm25(k1=0.71)", "bm25(k1=0.72)", "bm25(k1=0.71) + bm25(k1=0.72) >> rrf(k=[1, 2, 3])"), ""
    )
    assert sorted(batches.values()) == [1, 1]


def test_second_run_is_the_first_one_from_the_cache(kb: KnowledgeBase, batches: Counter[str]) -> None:
    plan = plan_of(kb, "bm25(k1=0.81)", "bm25(k1=0.82)")
    first = run_bench(kb, plan, "once")
    before = sum(batches.values())
    second = run_bench(kb, plan, "again")
    assert second.outcome is None
    assert second.report == replace(first.report, command="again")
    assert sum(batches.values()) == before


def test_another_default_makes_another_report(kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(kb, "bm25(k1=0.85)", "bm25(k1=0.86)")
    assert run_bench(kb, plan, "").outcome is not None
    assert run_bench(kb, plan, "").outcome is None
    monkeypatch.setattr("surefind.lab.bench.run.default_row", lambda contenders, settings: DefaultRow(1))
    made = run_bench(kb, plan, "")
    assert made.outcome is not None and made.report.recommended == plan.contenders[1].name


def test_another_measure_runs_no_retriever_again(kb: KnowledgeBase, batches: Counter[str]) -> None:
    run_bench(kb, plan_of(kb, "bm25(k1=0.83)"), "")
    run_bench(kb, plan_of(kb, "bm25(k1=0.83)", measures=["AP@5"]), "")
    assert sum(batches.values()) == 1


def test_fresh_run_computes_again(kb: KnowledgeBase, batches: Counter[str]) -> None:
    plan = plan_of(kb, "bm25(k1=0.84)")
    run_bench(kb, plan, "")
    run_bench(kb, plan, "", fresh=True)
    assert sum(batches.values()) == 2


def test_interrupted_run_goes_on_behind_the_finished_retriever(kb: KnowledgeBase, batches: Counter[str]) -> None:
    plan = plan_of(kb, "bm25(k1=0.91)", "bm25(k1=0.92)")

    def stop_after_the_first(what: str, done: int, total: int) -> None:
        if what.startswith("Retrieving") and done == total:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_bench(kb, plan, "", report=stop_after_the_first)
    assert sum(batches.values()) == 1
    run_bench(kb, plan, "")
    assert sorted(batches.values()) == [1, 1]


def test_interrupted_run_gives_the_report_of_a_whole_one(kb: KnowledgeBase) -> None:
    plan = plan_of(kb, "bm25(k1=0.93)", "bm25(k1=0.94)")

    def stop_at_scoring(what: str, done: int, total: int) -> None:
        if what == "Scoring":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_bench(kb, plan, "", report=stop_at_scoring)
    resumed = run_bench(kb, plan, "").report.rows
    shutil.rmtree(kb.data / "runs")
    whole = run_bench(kb, plan, "").report.rows
    assert [row.scores for row in resumed] == [row.scores for row in whole]


def test_damaged_cache_is_computed_again(kb: KnowledgeBase, batches: Counter[str]) -> None:
    plan = plan_of(kb, "bm25(k1=0.95)")
    run_bench(kb, plan, "")
    for path in (kb.data / "runs").iterdir():
        path.write_bytes(b"damaged")
    run_bench(kb, plan, "")
    assert sum(batches.values()) == 2


def test_progress_is_reported_to_its_end(kb: KnowledgeBase) -> None:
    seen: dict[str, tuple[int, int]] = {}
    run_bench(kb, plan_of(kb, "bm25(k1=0.96)"), "", report=lambda what, done, total: seen.update({what: (done, total)}))
    assert all(done == total for done, total in seen.values())
    assert {"Retrieving bm25", "Scoring", "Timing"} <= set(seen)


# ---------------------------------------------------------------- the quote


def test_quote_counts_retrievals_not_pipelines(kb: KnowledgeBase) -> None:
    quote = quote_for(Bench(kb), plan_of(kb, "bm25(k1=0.61)", "bm25(k1=0.62)", "bm25(k1=0.61) + bm25(k1=0.62) >> rrf"))
    assert (quote.configurations, quote.retrievals, quote.cached, quote.embeddings) == (3, 2, 0, 0)


def test_quote_knows_what_is_cached(kb: KnowledgeBase) -> None:
    run_bench(kb, plan_of(kb, "bm25(k1=0.63)"), "")
    assert quote_for(Bench(kb), plan_of(kb, "bm25(k1=0.63)", "bm25(k1=0.64)")).cached == 1


def test_quote_counts_the_queries_to_embed(kb: KnowledgeBase) -> None:
    plan = plan_of(kb, "bm25", "dense")
    assert quote_for(Bench(kb), plan).embeddings == len(plan.exam.queries)


def test_quote_is_said_in_a_sentence(kb: KnowledgeBase) -> None:
    text = str(quote_for(Bench(kb), plan_of(kb, "bm25(k1=0.65)")))
    asked = len(known_item_exam(kb, per_family=8).queries)
    assert f"1 configurations × {asked} questions: 1 retrieval runs" in text


# ---------------------------------------------------------------- exams of a knowledge base


def test_known_item_exam_is_written_once(kb: KnowledgeBase) -> None:
    known_item_exam(kb, per_family=7)  # so that the next call writes one, and the one after it loads it
    assert known_item_exam(kb, per_family=8) == known_item_exam(kb, per_family=8)


def test_known_item_exam_is_written_again_when_documents_change(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.write("docs/a.md", "# Vault keys\n\nTwo people hold the keys of the vault at all times.")
    home.sync("docs")
    with home.open() as kb:
        first = known_item_exam(kb)
    home.write("docs/b.md", "# Wire desk\n\nThe wire desk closes at three in the afternoon each day.")
    home.sync()
    heard = list[str]()
    with home.open() as kb:
        assert known_item_exam(kb, tell=heard.append).version == first.version + 1
    assert heard == ["Wrote known-item v2: since known-item v1 was written, the documents have changed."]


def saved_by_another_generator(kb: KnowledgeBase, questions: int | None = None) -> Exam:
    """An exam that another generator left, with the first of today's questions."""
    exam = known_item_exam(kb, per_family=5)
    older = replace(exam, queries=exam.queries[:questions], generator=exam.generator + 1)
    return ExamStore(kb.data / "exams").write(replace(older, version=exam.version + 1))


def test_known_item_exam_is_written_again_when_the_generator_changes(kb: KnowledgeBase) -> None:
    before, heard = saved_by_another_generator(kb, questions=3), list[str]()
    after = known_item_exam(kb, per_family=5, tell=heard.append)
    assert (after.version, len(after.queries) > 3) == (before.version + 1, True)
    assert heard == [
        f"Wrote {after.label}: since {before.label} was written, the rules by which questions are written have changed."
    ]


def test_known_item_exam_of_a_version_without_numbers_is_written_again(kb: KnowledgeBase) -> None:
    before = saved_by_another_generator(kb, questions=3)
    file = kb.data / "exams" / "known-item" / f"v{before.version:03}.jsonl"
    header, *rows = file.read_text(encoding="utf-8").splitlines()
    without = {key: value for key, value in unsealed(json.loads(header)).items() if key != "generator"}
    file.write_text("\n".join([json.dumps(sealed(without)), *rows]), encoding="utf-8")
    assert known_item_exam(kb, per_family=5).version == before.version + 1


def test_changed_generator_that_writes_the_same_questions_makes_no_version(
    kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, heard = saved_by_another_generator(kb), list[str]()
    assert known_item_exam(kb, per_family=5, tell=heard.append).version == before.version
    monkeypatch.setattr("surefind.lab.bench.run.generate", None)  # it is not needed again
    assert known_item_exam(kb, per_family=5, tell=heard.append).version == before.version
    assert heard == []


def test_new_known_item_exam_says_which_command_wrote_the_last_one(kb: KnowledgeBase) -> None:
    before, heard = known_item_exam(kb, per_family=4), list[str]()
    after = known_item_exam(kb, per_family=3, tell=heard.append)
    assert heard == [
        f"Wrote {after.label}: {before.label} was written with other options (generate --per-family 4 --seed 42)."
    ]


def test_known_item_exam_of_one_family_is_not_taken_for_the_whole(kb: KnowledgeBase) -> None:
    from surefind.lab.exam.known_item import generate

    made = generate(kb.documents(Access.owner()), per_family=6, families=["first_sentence"])
    ExamStore(kb.data / "exams").save(replace(made, corpus=kb.reader().fingerprint))
    assert len(known_item_exam(kb, per_family=6).families()) > 1


def test_a_question_keeps_its_id_when_other_documents_change(kb: KnowledgeBase) -> None:
    """`--check` pairs questions by id."""
    from surefind.lab.exam.known_item import generate

    before = {q.id: q.text for q in generate(kb.documents(Access.owner()), per_family=5).queries}
    after = {q.id: q.text for q in generate(kb.documents(Access.owner())[1:], per_family=5).queries}
    assert all(before[query_id] == text for query_id, text in after.items() if query_id in before)


def test_questions_whose_passage_is_gone_are_counted(kb: KnowledgeBase) -> None:
    some = kb.documents(Access.owner())[0].id
    exam = Exam("e", (query("1", "cash", Judgment(some)), query("2", "gone", Judgment("gone.md"))))
    plan = Plan(tuple(from_texts(["bm25"], {})), exam, parse_measures(["R@5"]))
    report = run_bench(kb, plan, "").report.exam
    assert (report.queries, report.dropped, report.restricted) == (1, 1, 0)


def test_exam_without_any_passage_left_is_refused(kb: KnowledgeBase) -> None:
    exam = Exam("e", (query("2", "gone", Judgment("gone.md")),))
    with pytest.raises(ExamError, match="No question of e points at a document of this knowledge base"):
        run_bench(kb, Plan(tuple(from_texts(["bm25"], {})), exam, parse_measures(["R@5"])), "")


# ---------------------------------------------------------------- files


def test_report_is_written_in_every_form(finished: Finished, tmp_path: Path) -> None:
    assert write_files(finished.report, tmp_path / "out") == tmp_path / "out" / "report.html"
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "report.html",
        "report.json",
        "report.md",
        "table.csv",
    ]


def test_json_file_is_the_report(finished: Finished, tmp_path: Path) -> None:
    write_files(finished.report, tmp_path)
    assert unsealed(json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))) == to_json(finished.report)


def test_csv_has_a_row_a_configuration_best_first(finished: Finished, tmp_path: Path) -> None:
    write_files(finished.report, tmp_path)
    with (tmp_path / "table.csv").open(encoding="utf-8", newline="") as file:
        found = list(csv.DictReader(file))
    means = [float(row["nDCG@10 mean"]) for row in found]
    assert len(found) == len(finished.report.rows) and means == sorted(means, reverse=True)


def test_markdown_tables_have_as_many_cells_in_every_row(finished: Finished) -> None:
    tables = markdown(finished.report).split("\n\n")
    for table in (lines for lines in (block.splitlines() for block in tables) if lines[0].startswith("|")):
        assert len({line.count("|") for line in table}) == 1


def test_markdown_says_the_verdict_and_the_command(finished: Finished) -> None:
    text = markdown(finished.report)
    assert (
        all(line in text for line in (*finished.report.verdict.split("\n"), *finished.report.details))
        and "$ surefind bench\n" in text
    )


@pytest.fixture
def runs(finished: Finished, tmp_path: Path) -> Path:
    assert finished.outcome
    names = [row.name for row in finished.report.rows]
    write_runs(
        tmp_path,
        names,
        finished.outcome.rankings,
        finished.report.query_ids,
        [view.spans() for view in finished.outcome.views],
    )
    return tmp_path


def test_every_configuration_has_a_trec_run(finished: Finished, runs: Path) -> None:
    assert len(list(runs.glob("*.trec"))) == len(finished.report.rows)


def test_trec_run_has_six_fields_a_line(runs: Path) -> None:
    for path in runs.iterdir():
        for line in path.read_text(encoding="utf-8").splitlines():
            _, q0, _, rank, score, tag = line.split()
            assert (q0, tag) == ("Q0", path.stem) and int(rank) >= 1 and float(score) > 0


def test_trec_run_ranks_each_document_once_by_falling_score(runs: Path) -> None:
    for path in runs.iterdir():
        found: dict[str, list[tuple[str, int, float]]] = {}
        for line in path.read_text(encoding="utf-8").splitlines():
            query_id, _, document, rank, score, _ = line.split()
            found.setdefault(query_id, []).append((document, int(rank), float(score)))
        for rows in found.values():
            assert len({document for document, _, _ in rows}) == len(rows)
            assert [rank for _, rank, _ in rows] == list(range(1, len(rows) + 1))
            scores = np.array([score for _, _, score in rows], np.float32)  # as trec_eval reads them
            assert (np.diff(scores) < 0).all()


def test_trec_run_keeps_the_order_of_equal_and_of_tiny_scores(finished: Finished, tmp_path: Path) -> None:
    assert finished.outcome
    spans = finished.outcome.view.spans()
    ids = sorted({spans.document(query_id): query_id for query_id in spans.ids.tolist()}.values())
    scores = [2e-9 if i == 0 else 1e-9 for i in range(len(ids))]
    write_runs(tmp_path, ["ties"], [rankings_of([(ids, scores)])], ["q"], [spans])
    rows = [line.split() for line in (tmp_path / "ties.trec").read_text(encoding="utf-8").splitlines()]
    assert [row[2] for row in rows] == [quote(spans.document(query_id), safe="/") for query_id in ids]
    assert (np.diff(np.array([row[4] for row in rows], np.float32)) < 0).all()


def test_trec_run_gives_the_recall_of_the_report(finished: Finished, runs: Path) -> None:
    assert finished.outcome
    golds = {q.id: {j.document for j in q.judgments} for q in finished.outcome.plan.exam.queries}
    found: dict[str, set[str]] = {query_id: set() for query_id in golds}
    for line in (runs / "bm25.trec").read_text(encoding="utf-8").splitlines():
        query_id, _, document, rank, *_ = line.split()
        if int(rank) <= 5:
            found[query_id].add(document)
    recalls = [len(found[query_id] & golds[query_id]) / len(golds[query_id]) for query_id in golds]
    assert finished.report.rows[0].measures["R@5"].mean == pytest.approx(np.mean(recalls))


# ---------------------------------------------------------------- BEIR


def beir(folder: Path, **documents: str) -> Path:
    (folder / "qrels").mkdir(parents=True)
    corpus = [{"_id": query_id, "title": query_id.title(), "text": text} for query_id, text in documents.items()]
    questions = [{"_id": f"q-{query_id}", "text": text.split(".")[0]} for query_id, text in documents.items()]
    for name, lines in (("corpus", corpus), ("queries", questions)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    judged = "".join(f"q-{query_id}\t{query_id}\t1\n" for query_id in documents)
    (folder / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}", encoding="utf-8")
    return folder


ANIMALS = {"cats": "Cats sleep all day. They purr.", "dogs": "Dogs bark at night. They run."}
PLANTS = {"oak": "Oaks grow slowly. They last.", "fir": "Firs stay green. They smell."}


def test_beir_folder_is_corpus_and_exam_in_one(tmp_path: Path) -> None:
    kb, exam = beir_base(tmp_path, beir(tmp_path / "animals", **ANIMALS), "test")
    with kb:
        plan = Plan(tuple(from_texts(["bm25"], {})), exam, parse_measures(["nDCG@10"]))
        report = run_bench(kb, plan, "").report
    assert (report.corpus.documents, report.exam.queries) == (2, 2)
    assert report.rows[0].measures["nDCG@10"].mean == 1


def test_beir_documents_are_not_cut(tmp_path: Path) -> None:
    long = {"long": "Word after word. " * 500}
    kb, _ = beir_base(tmp_path, beir(tmp_path / "long", **long), "test")
    with kb:
        assert len(kb.reader().view) == 1


def test_folder_without_a_corpus_is_no_beir_folder(tmp_path: Path) -> None:
    with pytest.raises(ExamError, match=r"is not a BEIR folder: it has no corpus\.jsonl"):
        beir_base(tmp_path, tmp_path, "test")


def test_two_beir_folders_of_one_name_stay_apart(tmp_path: Path) -> None:
    beir_base(tmp_path, beir(tmp_path / "a" / "data", **ANIMALS), "test")[0].close()
    kb, _ = beir_base(tmp_path, beir(tmp_path / "b" / "data", **PLANTS), "test")
    with kb:
        assert {document.id for document in kb.documents(Access.owner())} == set(PLANTS)


# ---------------------------------------------------------------- other stages


def test_reranker_takes_part(tmp_path: Path, toys: None) -> None:
    home = Home(tmp_path)
    copy_few(home.docs)
    home.sync("docs")
    with home.open() as kb:
        report = run_bench(kb, plan_of(kb, "bm25", "bm25 >> shared_words"), "").report
    assert {"bm25", "shared_words"} == set(report.rows[1].latency_ms.stages)


def test_reranker_is_timed_on_as_many_candidates_as_a_search_gives_it(
    tmp_path: Path, toys: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    import toy_stages

    home = Home(tmp_path)
    copy_few(home.docs)
    home.sync("docs")
    shown: Counter[int] = Counter()
    rerank = toy_stages.SharedWords.rerank

    def counting(
        self: Any, queries: Sequence[Query], rankings: Rankings, passages: Any, k: int, services: Any
    ) -> Rankings:
        if len(queries) == 1:
            shown[rankings.ids.shape[1]] += 1
        return rerank(self, queries, rankings, passages, k, services)

    monkeypatch.setattr(toy_stages.SharedWords, "rerank", counting)
    with home.open() as kb:
        run_bench(kb, plan_of(kb, "bm25 + bm25(k1=0) >> rrf >> shared_words"), "")
    assert max(shown) > 10


def test_dense_retrieval_and_the_alpha_sweep(tmp_path: Path) -> None:
    """The one run with the real model: four short passages."""
    home = Home(tmp_path, WORDS)
    for name, text in {**ANIMALS, **PLANTS}.items():
        home.write(f"docs/{name}.md", text)
    home.sync("docs")
    exam = Exam("e", (query("1", "a kitten that naps", Judgment("cats.md")), query("2", "trees", Judgment("oak.md"))))
    texts = ["bm25", "dense", "bm25 + dense >> convex(alpha=[0, 1])"]
    with home.open() as kb:
        report = run_bench(kb, Plan(tuple(from_texts(texts, {})), exam, parse_measures(["RR@10"])), "").report
    rows = {row.name: row.measures["RR@10"].mean for row in report.rows}
    sweep = {point.alpha: point.mean for point in report.alpha_sweep.points}
    assert rows["dense"] > rows["bm25"]
    assert (len(sweep), sweep[1.0]) == (11, rows["bm25 + dense >> convex(alpha=1.0)"])


def test_the_alpha_sweep_needs_no_single_retrievers_and_takes_no_reranked_rows(tmp_path: Path, toys: None) -> None:
    home = Home(tmp_path, WORDS)
    for name, text in {**ANIMALS, **PLANTS}.items():
        home.write(f"docs/{name}.md", text)
    home.sync("docs")
    exam = Exam("e", (query("1", "a kitten that barks", Judgment("cats.md")), query("2", "trees", Judgment("oak.md"))))
    fused = "bm25 + dense >> tm2c2(alpha=[0, 1])"
    with home.open() as kb:
        reports = [
            run_bench(kb, Plan(tuple(from_texts(texts, {})), exam, parse_measures(["RR@10"])), "").report
            for texts in ([fused], [fused, "bm25 + dense >> tm2c2(alpha=1) >> shared_words"])
        ]
    rows = {row.name: row.measures["RR@10"].mean for row in reports[1].rows}
    plain, reranked = (report.alpha_sweep for report in reports)
    assert plain == reranked
    assert rows["bm25 + dense >> tm2c2(alpha=1.0)"] != rows["bm25 + dense >> tm2c2(alpha=1.0) >> shared_words"]
    assert (plain.fuser, plain.points[-1].mean) == ("tm2c2", rows["bm25 + dense >> tm2c2(alpha=1.0)"])
    assert max(point.mean for point in plain.points) <= plain.best.mean == 1
    assert plain.star.mean <= 1
