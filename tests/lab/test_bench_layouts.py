"""Layouts as contenders: each row as if its layout were the only one, side by side in one report."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from exam_helpers import copy_few
from helpers import WORDS, Home
from surefind import Access
from surefind.base.errors import ConfigError, SpecError
from surefind.base.types import Document
from surefind.engine.retrieve.bm25 import BM25
from surefind.engine.write.layout import Layout
from surefind.kb import KnowledgeBase
from surefind.kb.settings.config import parse_settings
from surefind.lab.bench.cost import quote_for
from surefind.lab.bench.engine import Bench, sample, seconds_per_character
from surefind.lab.bench.files import markdown, write_files
from surefind.lab.bench.plan import (
    Plan,
    across,
    distinct,
    from_settings,
    from_texts,
    layouts_from_texts,
    parse_measures,
    preset,
)
from surefind.lab.bench.run import Finished, known_item_exam, run_bench
from surefind.lab.bench.terminal import show

pytestmark = pytest.mark.usefixtures("remembered_models")

LAYOUTS = [
    "fixed(tokens=50, overlap=10, unit=tokens)",
    "markdown(tokens=80, min_tokens=20) + headings",
    "hierarchical(parent=150, child=30, overlap=5) + headings",
]
MEASURES = ("T1EM", "MRR", "nDCG@10", "R@5:span", "SpanR@5", "SpanP@5", "IoU@5")


def plan_of(kb: KnowledgeBase, *layouts: str) -> Plan:
    exam = known_item_exam(kb, per_family=8)
    contenders = across(from_texts(["bm25"], {}), layouts_from_texts(layouts))
    return Plan(tuple(contenders), exam, parse_measures(MEASURES))


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = Home(tmp_path_factory.mktemp("layouts"))
    copy_few(home.docs)
    home.sync("docs")
    return home.folder


@pytest.fixture
def kb(base: Path) -> Any:
    with KnowledgeBase.open(base) as opened:
        yield opened


@pytest.fixture(scope="module")
def finished(base: Path) -> Finished:
    with KnowledgeBase.open(base) as kb:
        plan = plan_of(kb, *LAYOUTS)
        quote = quote_for(Bench(kb), plan)
        assert (quote.configurations, quote.retrievals, quote.cached) == (3, 3, 0)
        assert not any(kb.has_cut(contender.layout) for contender in plan.contenders), "a quote cuts nothing"
        return run_bench(kb, plan, "surefind bench")


def test_row_is_what_its_layout_gives_alone(finished: Finished, base: Path, tmp_path: Path) -> None:
    with KnowledgeBase.open(base) as kb:
        exam = known_item_exam(kb, per_family=8)
    for row, text in zip(finished.report.rows, LAYOUTS, strict=True):
        chunk, *enrich = text.split(" + ")
        home = Home(tmp_path / row.name, f'[index]\nchunk = "{chunk}"\nenrich = {enrich}\n{WORDS}')
        copy_few(home.docs)
        home.sync("docs")
        with home.open() as alone:
            plan = Plan(tuple(from_texts(["bm25"], {})), exam, parse_measures(MEASURES))
            expected = run_bench(alone, plan, "surefind bench").report
        assert row.scores == expected.rows[0].scores
        assert {m: i.mean for m, i in row.measures.items()} == {m: i.mean for m, i in expected.rows[0].measures.items()}
        assert (row.layout, row.chunks) == (text, expected.corpus.chunks)


def test_parents_stand_once_in_a_ranking(finished: Finished) -> None:
    outcome = finished.outcome
    assert outcome
    spans, rankings = outcome.views[2].spans(), outcome.rankings[2]
    for q in range(len(rankings)):
        places = spans.at(rankings.row(q)[0]).tolist()
        parents = [(spans.documents[p], spans.starts[p], spans.ends[p]) for p in places]
        assert len(set(parents)) == len(parents)


def test_every_layout_says_what_it_costs(finished: Finished) -> None:
    rows = finished.report.rows
    assert len({row.chunks for row in rows}) == 3
    assert all(row.ingest_s_per_doc > 0 and row.index_bytes > 0 for row in rows)


def test_samples_show_the_passages_of_each_layout(finished: Finished, kb: KnowledgeBase) -> None:
    report = finished.report
    texts = {document.id: document.text for document in kb.documents(Access.owner())}
    assert all(chunk.text in texts[chunk.document] for chunk in report.chunks)
    shown = [{report.chunks[n].text for q in report.queries for n in q.results[c][2]} for c in range(3)]
    assert not shown[0] & shown[1]


def test_repeated_run_comes_from_the_cache(finished: Finished, kb: KnowledgeBase) -> None:
    again = run_bench(kb, plan_of(kb, *LAYOUTS), "surefind bench")
    assert again.outcome is None
    assert again.report.rows == finished.report.rows
    quote = quote_for(Bench(kb), plan_of(kb, *LAYOUTS, "whole"))
    assert (quote.retrievals, quote.cached) == (4, 3)


def test_tables_show_passages_index_and_ingestion(finished: Finished, tmp_path: Path) -> None:
    text = markdown(finished.report)
    assert "cut in 3 ways" in text
    assert "| passages | index MB | ingest s/doc |" in text
    console = Console(width=300, record=True, file=(tmp_path / "out").open("w", encoding="utf-8"))
    show(finished.report, console)
    assert "cut in 3 ways" in (printed := console.export_text())
    assert "ingest s/doc" in printed
    write_files(finished.report, tmp_path)
    with (tmp_path / "table.csv").open(encoding="utf-8", newline="") as file:
        assert {row["layout"] for row in csv.DictReader(file)} == set(LAYOUTS)


def test_questions_are_embedded_once_for_all_layouts(kb: KnowledgeBase) -> None:
    exam = known_item_exam(kb, per_family=8)
    contenders = across(from_texts(["dense"], {}), layouts_from_texts(LAYOUTS))
    quote = quote_for(Bench(kb), Plan(tuple(contenders), exam, parse_measures(MEASURES)))
    assert (quote.retrievals, quote.embeddings) == (3, len(exam.queries))


# ---------------------------------------------------------------- plans


def test_layouts_times_pipelines() -> None:
    made = across(from_texts(["bm25", "dense"], {}), layouts_from_texts(["whole", "fixed(tokens=[20, 30], overlap=5)"]))
    assert [contender.name for contender in made] == [
        "whole | bm25", "whole | dense", "fixed(tokens=20, overlap=5) | bm25", "fixed(tokens=20, overlap=5) | dense",
        "fixed(tokens=30, overlap=5) | bm25", "fixed(tokens=30, overlap=5) | dense",
    ]  # fmt: skip
    assert len(distinct([*made, *made])) == 6


def test_layout_reads_back() -> None:
    text = "hierarchical(parent=300, child=60, overlap=0) + headings + neighbors(tokens=20)"
    assert str(Layout.read(text)) == text


def test_wrong_layout_is_refused_with_the_choices() -> None:
    with pytest.raises(SpecError, match=r"no chunker called 'fixt'.*fixed"):
        layouts_from_texts(["fixt"])
    with pytest.raises(SpecError, match="no enricher called 'bm25'"):
        layouts_from_texts(["fixed + bm25"])


def test_chunking_preset_has_the_grid_of_its_study_and_takes_other_pipelines() -> None:
    contenders, measures = preset("chunking")
    grids = ("fixed-", "semantic-", "hierarchical-")
    assert [sum(c.name.startswith(grid) and "+" not in c.name for c in contenders) for grid in grids] == [6, 6, 6]
    assert measures == ("T1EM", "T1C", "T1O", "MRR", "SpanR@5", "SpanP@5", "IoU@5")
    other, _ = preset("chunking", from_texts(["bm25"], {}), layouts_from_texts(["markdown(tokens=99)"]))
    assert len(other) == len(contenders) + 1
    assert {str(c.pipeline) for c in other} == {"bm25(k1=1.5, b=0.75, analyzer=auto)"}


def test_settings_may_name_layouts() -> None:
    settings = parse_settings('[bench]\npipelines = ["words"]\nlayouts = ["whole", "fixed"]\n', "surefind.toml")
    contenders, _ = from_settings(settings.bench, settings.pipelines)
    assert [contender.name for contender in contenders] == ["whole", "fixed"]
    with pytest.raises(ConfigError, match="layouts must be a list"):
        from_settings({"layouts": "whole"}, {})


# ---------------------------------------------------------------- ingestion


def test_sample_is_spread_over_the_documents() -> None:
    documents = [Document(f"{i}.md", "word " * 1000) for i in range(40)]
    taken = sample(documents, 12_000)
    assert [(document.id, len(document.text)) for document in taken] == [("0.md", 5000), ("4.md", 5000), ("8.md", 2000)]
    assert sum(len(document.text) for document in sample(documents[:1], 12_000)) == 5000


def test_seconds_are_those_of_cutting_and_indexing() -> None:
    documents = [Document("a.md", "Some words to cut. " * 200)]
    assert seconds_per_character(documents, Layout.read("fixed"), [BM25()], Path(), 2000) > 0
