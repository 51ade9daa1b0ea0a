"""The engine of studies: what runs, what is stored, what is left out, what the page shows."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from exam_helpers import query
from helpers import WORDS, Home
from llm_server import LLMServer
from surefind.base.access import Access
from surefind.base.disk.sealed import unsealed
from surefind.base.errors import ExamError, UsageError
from surefind.kb import KnowledgeBase
from surefind.lab.bench.plan import Contender
from surefind.lab.exam.model import Exam, Judgment
from surefind.lab.study.context import Collection, Options, RunContext, Wanted, open_collections, sampled
from surefind.lab.study.html import draw, render, show, write_files
from surefind.lab.study.run import StudyRun
from surefind.lab.study.scores import best_of, judge, mean, summary
from surefind.lab.study.stage import Before, Study, StudyPart, find_study
from surefind.lab.study.tables import (
    Claim,
    Figure,
    Ours,
    Paper,
    TableLine,
    TableSpec,
    beats,
    distinct_rows,
    mean_of,
    named_rows,
)
from surefind.lab.study.values import NEEDS_LLM, Cloud, Column, Head, Row, Table

SPELT = "zero one two three four five six seven eight".split()
DOCUMENTS = {f"d{i}": f"# Document {SPELT[i]}\n{'alpha ' * i}beta number {SPELT[i]}\n" for i in range(1, 9)}
EXAM = Exam("e", tuple(query(f"q{i}", f"number {SPELT[i]}", Judgment(f"d{i}.md")) for i in range(1, 9)))
PAPER = {"words": (0.5,), "asking": (0.75,)}


class Toy:
    """A study of two stages that counts what it measures. The second takes the winner of the first."""

    def __init__(self) -> None:
        self.measured: list[str] = []
        figures = (Figure("RR@10", mean_of("RR@10")),)
        columns = (Ours(lambda result: figures), Paper((Head("FiQA", paper=True),)))
        table = TableSpec("Table 1", "Toys", "first", distinct_rows(["words", "flat", "asking"], {}), columns, PAPER)
        others = tuple(TableSpec(number, "More toys", "then", named_rows([]), ()) for number in ("Table 2", "Figure 1"))
        first = StudyPart("first", self.measure("first"), (table,), self.contenders)
        then = StudyPart("then", self.measure("then"), others, self.next, ("first",))
        self.study = Study("Toys", "A study of toys", (first, then))

    def measure(self, name: str) -> Any:
        def work(context: RunContext, before: Before, allowed: Sequence[Contender]) -> dict[str, Any]:
            self.measured.append(name)
            return summary(context.score(allowed, ["RR@10"]))

        return work

    def contenders(self, context: RunContext, before: Before) -> list[Contender]:
        return context.contenders({"words": "bm25", "flat": "bm25(k1=0, b=0)", "asking": "bm25 >> asks_model"})

    def next(self, context: RunContext, before: Before) -> list[Contender]:
        winner = best_of(before.get("first", {}), ["words", "flat"], "RR@10") or "words"
        return context.contenders({"again": {"words": "bm25", "flat": "bm25(k1=0, b=0)"}[winner]})


@pytest.fixture
def home(tmp_path: Path, toys: None) -> Home:
    made = Home(tmp_path / "kb")
    for name, text in DOCUMENTS.items():
        made.write(f"docs/{name}.md", text)
    made.sync("docs")
    return made


def collection(kb: KnowledgeBase, exam: Exam = EXAM, name: str = "mine") -> Collection:
    return Collection(name, kb, exam, Access.public(), ("--exam", exam.name))


def run(kb: KnowledgeBase, toy: Toy, exam: Exam = EXAM, **more: Any) -> dict[str, Any]:
    options = more.pop("options", Options())
    return StudyRun("toys", toy.study, [collection(kb, exam)], options, **more).run()


def test_a_row_shows_our_figure_beside_the_papers_and_names_what_was_left_out(home: Home) -> None:
    with home.open() as kb:
        table = run(kb, Toy())["tables"][0]
    words, flat, asking = table["rows"]
    assert (words["name"], words["cells"], words["left_out"]) == ("words", (pytest.approx(1.0), 0.5), "")
    assert flat["cells"][1] is None
    assert (asking["cells"], asking["left_out"]) == ((None, 0.75), NEEDS_LLM)
    assert table["command"] == "surefind study toys --exam e --only 'Table 1' --fresh"


def test_finished_stages_are_not_measured_again(home: Home) -> None:
    toy = Toy()
    with home.open() as kb:
        first = run(kb, toy)
        again = run(kb, toy)
    assert toy.measured == ["first", "then"]
    assert again["results"] == first["results"]


def test_a_run_that_stops_continues_with_the_stage_that_stopped(home: Home) -> None:
    toy = Toy()
    first, then = toy.study.stages

    def interrupted(*_: Any) -> dict[str, Any]:
        raise KeyboardInterrupt

    whole = toy.study
    toy.study = replace(whole, stages=(first, replace(then, measure=interrupted)))
    with home.open() as kb:
        with pytest.raises(KeyboardInterrupt):
            run(kb, toy)
        toy.study = whole
        run(kb, toy)
    assert toy.measured == ["first", "then"]


def test_a_damaged_result_is_measured_again(home: Home) -> None:
    toy = Toy()
    with home.open() as kb:
        run(kb, toy)
        for path in (kb.data / "studies" / "stages").glob("*.json"):
            path.write_text(path.read_text().replace("0.", "1.", 1))
        run(kb, toy)
    assert toy.measured == ["first", "then"] * 2


def changed_documents(home: Home, toy: Toy) -> None:
    home.write("docs/d9.md", "A new document about nothing in particular.")
    home.sync("docs")


def test_changed_documents_are_measured_again(home: Home) -> None:
    toy = Toy()
    with home.open() as kb:
        run(kb, toy)
    changed_documents(home, toy)
    with home.open() as kb:
        run(kb, toy)
    assert toy.measured == ["first", "then"] * 2


@pytest.mark.parametrize("what", ["exam", "layout", "version", "fresh"])
def test_whatever_a_stage_depends_on_is_part_of_its_key(home: Home, what: str) -> None:
    toy = Toy()
    with home.open() as kb:
        run(kb, toy)
        if what == "exam":
            run(kb, toy, replace(EXAM, queries=EXAM.queries[:5]))
        elif what == "layout":
            run(kb, toy, options=Options("whole()"))
        elif what == "fresh":
            run(kb, toy, fresh=True)
        else:
            toy.study = replace(toy.study, stages=tuple(replace(stage, version=2) for stage in toy.study.stages))
            run(kb, toy)
    assert toy.measured == ["first", "then"] * 2


def test_only_one_table_runs_the_stages_that_it_needs(home: Home) -> None:
    toy = Toy()
    with home.open() as kb:
        run(kb, toy, only=("table 1",))
        assert toy.measured == ["first"]
        run(kb, toy, only=("Figure 1",))
    assert toy.measured == ["first", "then"]


@pytest.mark.parametrize("mark", [{"problems": ["the model failed"]}, {"provisional": True}])
def test_a_result_that_may_get_better_is_not_stored(home: Home, mark: dict[str, Any]) -> None:
    toy = Toy()
    first, _ = toy.study.stages
    plain = first.measure
    toy.study = replace(toy.study, stages=(replace(first, measure=lambda *given: {**plain(*given), **mark}),))
    with home.open() as kb:
        run(kb, toy)
        run(kb, toy)
    assert toy.measured == ["first", "first"]


def test_a_terminal_shows_the_first_columns_of_each_collection(home: Home) -> None:
    heads = [Head(f"m{i}", f"c{c}") for c in range(4) for i in range(5)]
    table = Table("Table 1", "Wide", tuple(heads), (Row("a", tuple(range(20))),))
    screen = Console(file=io.StringIO(), width=200)
    report = {"title": "T", "source": "S", "collections": [], "tables": [asdict(table)]}
    show(report, screen)
    shown = screen.file.getvalue()  # type: ignore[attr-defined]
    assert "m2" in shown and "m3" not in shown and "8 more columns are in the report." in shown


def test_an_unknown_table_is_named(home: Home) -> None:
    with pytest.raises(UsageError, match=r"no 'Table 3'\. .*Choices: .*Table 1"):
        Toy().study.chosen(["Table 3"])


def test_each_collection_is_a_column(home: Home) -> None:
    toy = Toy()
    with home.open() as kb:
        pair = [collection(kb), collection(kb, replace(EXAM, queries=EXAM.queries[:3]), "few")]
        table = StudyRun("toys", toy.study, pair, Options()).run()["tables"][0]
    assert [(head["group"], head["text"]) for head in table["heads"]] == [
        ("mine", "RR@10"),
        ("few", "RR@10"),
        ("", "FiQA"),
    ]
    assert len(table["rows"][0]["cells"]) == 3


# ---------------------------------------------------------------- language models


def test_steps_that_ask_are_quoted_then_run(home: Home, llm: LLMServer) -> None:
    llm.reply = lambda prompt: "1"
    home.configure(f'{WORDS}\n[llm]\nmodel = "{llm.model}"\n[llm.prices]\n"{llm.model}" = [0, 1000]\n')
    toy = Toy()
    with home.open() as kb:
        asked = StudyRun("toys", toy.study, [collection(kb)], Options(llm=True))
        quoted = [calls.calls for _, listed in asked.calls() for calls in listed]
        assert quoted == [8] and not llm.bodies
        table = asked.run()["tables"][0]
        assert asked.calls()[0][1] == []  # what is stored costs nothing
    assert len(llm.bodies) == 8
    assert table["rows"][2]["cells"][0] is not None and not table["rows"][2]["left_out"]


def test_without_a_model_nothing_is_quoted_and_the_steps_are_named(home: Home) -> None:
    with home.open() as kb:
        offline = StudyRun("toys", Toy().study, [collection(kb)], Options())
        assert offline.calls() == [(offline.collections[0], [])]
        assert offline.left_out() == ["asking"]


def test_a_layout_or_an_extractor_that_asks_counts_as_asking(home: Home) -> None:
    with home.open() as kb:
        context = RunContext(collection(kb), Options())
        assert context.contender("a", "bm25", "llm_segments").asks_llm
        assert context.contender("b", "entity_overlap(extract=llm)").asks_llm
        assert context.contender("c", "bm25 >> conditional(stage=llm_listwise)").asks_llm
        assert not context.contender("d", "bm25 + dense >> rrf").asks_llm


# ---------------------------------------------------------------- findings


def column(**scores: list[float]) -> Column:
    rows = {
        name: {
            "spec": name,
            "aliases": [],
            "scores": values,
            "measures": {"RR@10": {"mean": sum(values) / len(values)}},
        }
        for name, values in scores.items()
    }
    count = len(next(iter(scores.values())))
    found = {"primary": "RR@10", "rows": rows, "clusters": list(range(count)), "families": ["a", "b"] * (count // 2)}
    return Column("mine", {"first": found})


def test_a_collection_agrees_only_beyond_chance() -> None:
    clear = column(good=[1.0] * 20, bad=[0.0] * 20, close=[1.0] * 19 + [0.5])
    assert judge(clear, "first", "good", "bad").outcome == "agrees"
    assert judge(clear, "first", "bad", "good").outcome == "disagrees"
    assert judge(clear, "first", "good", "close").outcome == "undecided"
    assert judge(clear, "first", "good", "gone").outcome == "left out"
    text = judge(clear, "first", "good", "bad").text
    assert text == "RR@10 1.000 (good) against 0.000 (bad): +1.000 [+1.000, +1.000], p < 0.001."


def test_the_best_row_is_found_among_those_that_ran() -> None:
    result = column(good=[1.0, 1.0], bad=[0.0, 0.0]).results["first"]
    assert best_of(result, ["gone", "bad", "good"], "RR@10") == "good"
    assert best_of(result, ["gone"], "RR@10") is None
    assert mean(result, "gone", "RR@10") is None


# ---------------------------------------------------------------- collections


def test_questions_are_drawn_with_the_seed() -> None:
    few = sampled(EXAM, 4, 1)
    assert [q.id for q in few.queries] == [q.id for q in sampled(EXAM, 4, 1).queries]
    assert [q.id for q in few.queries] != [q.id for q in sampled(EXAM, 4, 2).queries]
    assert [q.id for q in few.queries] == sorted(q.id for q in few.queries)
    assert sampled(EXAM, 100, 1) is EXAM and sampled(EXAM, None, 1) is EXAM


def beir(folder: Path) -> Path:
    (folder / "qrels").mkdir(parents=True)
    rows = [{"_id": name, "title": "", "text": text} for name, text in DOCUMENTS.items()]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    asked = [{"_id": f"q{i}", "text": f"number {SPELT[i]}"} for i in range(1, 9)]
    (folder / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in asked))
    lines = "".join(f"q{i}\td{i}\t1\n" for i in range(1, 9))
    (folder / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{lines}")
    return folder


def test_beir_folders_become_collections_with_one_budget(home: Home, tmp_path: Path) -> None:
    folders = (beir(tmp_path / "one" / "set"), beir(tmp_path / "two" / "set"))
    found = open_collections(home.folder, Wanted(beir=folders, questions=5))
    assert [one.name for one in found] == ["set", "set (2)"]
    assert [len(one.exam.queries) for one in found] == [5, 5]
    assert found[0].kb.services.meter is found[1].kb.services.meter
    assert found[0].flags == ("--beir", str(folders[0]))
    for one in found:
        one.kb.close()


def test_wrong_collections_are_explained(home: Home, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--questions must be at least 1, not 0"):
        open_collections(home.folder, Wanted(questions=0))
    with pytest.raises(ExamError, match="There is no exam called 'none'"):
        open_collections(home.folder, Wanted(exams=("none",)))
    with pytest.raises(ExamError, match="There is no folder"):
        open_collections(home.folder, Wanted(beir=(tmp_path / "nothing",)))


def test_an_unknown_study_is_named() -> None:
    with pytest.raises(UsageError, match=r"There is no study 'context'\. .*context-layer"):
        find_study("context")


# ---------------------------------------------------------------- the page


class _Tags(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


HOSTILE = '</td><script>alert(1)</script><img src="x" onerror=alert(1)> & \u2028'


@pytest.mark.parametrize("chart", ["", "bars", "lines", "clouds", "swarm"])
def test_no_text_becomes_markup(home: Home, chart: Any) -> None:
    toy = Toy()
    heads = (Head(HOSTILE, HOSTILE), Head("n", paper=True, format=","))
    lines = [
        TableLine(HOSTILE, "", HOSTILE, HOSTILE, (0.5, 1000)),
        TableLine("b", cells=(None, HOSTILE)),
        TableLine("c", cells=(0.7, None)),
    ]
    first, _ = toy.study.stages
    table = TableSpec(
        HOSTILE,
        HOSTILE,
        "first",
        lambda columns, stage: lines,
        (Paper(heads),),
        {},
        (Claim(HOSTILE, beats("good", HOSTILE)),),
        (HOSTILE,),
        chart,
        clouds=lambda columns: (Cloud(HOSTILE, ((0.5, 0.25), (1.0, 0.75))),),
    )
    toy.study = replace(toy.study, title=HOSTILE, stages=(replace(first, tables=(table,)),))
    with home.open() as kb:
        page = render(run(kb, toy))
    seen = _Tags(page)
    assert not {"script", "img"} & set(seen.tags)
    assert HOSTILE in seen.text and "1,000" in seen.text
    assert "http://" not in page and "https://" not in page
    assert ("svg" in seen.tags) is bool(chart)


def test_the_files_are_sealed_and_complete(home: Home, tmp_path: Path) -> None:
    with home.open() as kb:
        report = run(kb, Toy())
    page = write_files(report, tmp_path / "out")
    assert page.name == "study.html" and "Table 1" in page.read_text()
    stored = unsealed(json.loads((tmp_path / "out" / "study.json").read_text()))
    assert stored["tables"][0]["rows"][0]["name"] == "words"


# ---------------------------------------------------------------- charts


def _row(name: str, *cells: float | None) -> dict[str, Any]:
    return {"name": name, "cells": cells}


def test_bars_of_values_below_zero_go_to_the_left() -> None:
    chart = draw("bars", "t", [Head("gain", format="+.1f")], [_row("up", 2.0), _row("down", -1.0)])
    (up, up_wide), (down, down_wide) = [
        (float(x), float(wide)) for x, wide in re.findall(r'<rect x="([\d.]+)" y="\d+" width="([\d.]+)"', chart)
    ]
    assert up_wide == pytest.approx(2 * down_wide, abs=0.1) and down + down_wide == pytest.approx(up, abs=0.1)
    assert "+2.0" in chart and "-1.0" in chart


def test_a_chart_draws_the_named_columns_of_the_rows_that_have_them() -> None:
    heads = [Head("T1EM", "mine"), Head("ms", "mine"), Head("T1EM", "", paper=True)]
    rows = [_row("both", 0.5, 40.0, 0.25), _row("nothing", None, 3.0, None), _row("one", 0.75, 40.0, None)]
    chart = draw("bars", "t", heads, rows, ("T1EM",))
    assert chart.count("<rect x=") == 3 and "40" not in _Tags(chart).text and "nothing" not in chart
    assert draw("lines", "t", heads, rows, ("T1EM",)).count("<polyline") == 2
    assert draw("bars", "t", heads, rows, ("no such column",)) == ""


def test_every_name_of_a_row_that_is_left_out_has_the_reason(home: Home) -> None:
    toy = Toy()
    first, _ = toy.study.stages
    twice = replace(first, contenders=lambda context, before: context.contenders({**TWICE, "words": "bm25"}))
    toy.study = replace(toy.study, stages=(twice,))
    with home.open() as kb:
        (found,) = run(kb, toy)["results"].values()
    assert found["first"]["left_out"] == dict.fromkeys(TWICE, NEEDS_LLM)


TWICE = {"asking": "bm25 >> asks_model", "asking too": "bm25 >> asks_model"}
