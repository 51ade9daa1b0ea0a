"""Drift: what a change of the documents does to an exam, and the gate that refuses a change for the worse."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from threading import Event
from unittest import mock

import numpy as np
import pytest

from cases import each
from exam_helpers import FEW, copy_few, query, surefind
from helpers import WORDS, Home
from surefind import Access
from surefind.base.errors import ExamError, GateError, UsageError
from surefind.doors.cli import sync as sync_command
from surefind.engine.search.reader import Searcher
from surefind.engine.store.catalogue import Catalogue
from surefind.engine.write.intake import SyncReport
from surefind.kb import KnowledgeBase
from surefind.kb.changes import Difference
from surefind.kb.shared import always_open
from surefind.lab.bench.drift import Drift, drift_text, locate_gold, measure_drift, standing_exam
from surefind.lab.bench.engine import Bench
from surefind.lab.bench.gate import ExamGate, preview
from surefind.lab.bench.report import RunDifference, corrected
from surefind.lab.exam.model import Exam, Judgment
from surefind.lab.exam.store import ExamStore
from surefind.lab.measure.statistics import permutation_p

GATED = f"{WORDS}\n[sync]\ngate = true\n"
ANIMALS = ("alpaca", "beaver", "condor", "dolphin", "echidna", "falcon", "gazelle", "hamster")
OWNER = Access.owner()


def page(animal: str, more: str = "") -> str:
    return f"# The {animal}\n\nThe {animal} lives far away and eats something. {more}\n"


@pytest.fixture
def zoo(home: Home) -> Home:
    """A page about each animal, and an exam with a question about each page."""
    for animal in ANIMALS:
        home.write(f"docs/{animal}.md", page(animal))
    home.sync("docs")
    questions = tuple(
        query(animal, f"where does the {animal} live", Judgment(f"{animal}.md", grade=1)) for animal in ANIMALS
    )
    save(home, Exam("zoo", questions))
    return home


def save(home: Home, exam: Exam) -> Exam:
    return ExamStore(home.folder / ".surefind/exams").save(exam)


def remove(home: Home, *animals: str) -> None:
    for animal in animals:
        (home.docs / f"{animal}.md").unlink()


def drift_since(home: Home, generation: int, exam: str = "zoo") -> Drift:
    with home.open() as kb:
        found = ExamStore(kb.data / "exams").load(exam)
        return measure_drift(kb, found, kb.reader_of(generation), kb.reader())


def state(home: Home) -> dict[str, object]:
    """Everything that a sync could have left behind: the rows of the catalogue and the folders of the indexes."""
    catalogue = Catalogue(home.folder / ".surefind", readonly=True)
    try:
        tables = ("generations", "members", "versions", "texts", "counters", "indexes")
        rows: dict[str, object] = {
            name: sorted(map(repr, catalogue.db.execute(f"SELECT * FROM {name}"))) for name in tables
        }
        rows["counters"] = catalogue.db.execute("SELECT * FROM counters WHERE name != 'session'").fetchall()
    finally:
        catalogue.close()
    return {**rows, "folders": sorted(path.name for path in (home.folder / ".surefind/indexes").iterdir())}


# ---------------------------------------------------------------- what changed, and why


def test_removed_gold_document_makes_its_question_worse(zoo: Home) -> None:
    remove(zoo, "condor")
    zoo.sync()
    found = drift_since(zoo, 1)
    assert [(change.id, change.before, change.after, change.rank_after) for change in found.worse] == [
        ("condor", 1.0, 0.0, None)
    ]
    assert found.worse[0].why == "condor.md was removed"
    assert (found.questions, found.left_out, found.better) == (8, 0, ())
    assert (found.before, found.after) == (1.0, 7 / 8)
    assert found.difference == pytest.approx(-1 / 8)
    assert found.documents == Difference(1, 2, [], ["condor.md"], [])


def test_new_document_above_the_gold_is_named(zoo: Home) -> None:
    zoo.write("docs/copy.md", "# where does the condor live\n\nwhere does the condor live: condor, condor", age=50)
    zoo.sync()
    found = drift_since(zoo, 1)
    assert [(change.id, change.rank_before, change.rank_after) for change in found.worse] == [("condor", 1, 2)]
    assert found.worse[0].why == "copy.md is new and ranked above it"
    assert found.worse[0].after == pytest.approx(1 / np.log2(3))


def test_changed_document_above_the_gold_is_named(zoo: Home) -> None:
    zoo.write("docs/falcon.md", "# where does the condor live\n\nwhere does the condor live: condor, condor", age=50)
    zoo.sync()
    worse = {change.id: change for change in drift_since(zoo, 1).worse}
    assert worse["condor"].why == "falcon.md changed and is ranked above it"


def test_gold_document_that_changed_is_named(zoo: Home) -> None:
    zoo.write("docs/condor.md", "# A bird\n\nIt was renamed.", age=50)
    zoo.sync()
    found = drift_since(zoo, 1)
    assert found.worse[0].id == "condor"
    assert found.worse[0].why.startswith("condor.md changed")


def test_question_that_gets_better_is_listed_with_the_reason(zoo: Home) -> None:
    remove(zoo, "condor")
    zoo.sync()
    zoo.write("docs/condor.md", page("condor"), age=50)
    zoo.sync()
    found = drift_since(zoo, 2)
    assert [(change.id, change.why) for change in found.better] == [("condor", "condor.md is new")]
    assert found.worse == ()
    assert not found.failed


def test_question_without_gold_in_either_generation_is_left_out(zoo: Home) -> None:
    remove(zoo, "condor")
    zoo.sync()
    zoo.write("docs/more.md", "unrelated words", age=50)
    zoo.sync()
    found = drift_since(zoo, 2)
    assert (found.questions, found.left_out) == (7, 1)


def test_exam_about_other_documents_is_an_error(zoo: Home) -> None:
    save(zoo, Exam("other", (query("q", "who", Judgment("nowhere.md")),)))
    with pytest.raises(ExamError, match="No question of other v1 points at a document of either generation"):
        drift_since(zoo, 1, "other")


def test_same_generation_has_no_drift(zoo: Home) -> None:
    found = drift_since(zoo, 1)
    assert (found.affected, found.difference, found.low, found.high, found.p) == (0, 0.0, 0.0, 0.0, 1.0)


def test_everything_removed_loses_every_question(zoo: Home) -> None:
    remove(zoo, *ANIMALS)
    zoo.sync()
    found = drift_since(zoo, 1)
    assert (found.before, found.after, len(found.worse)) == (1.0, 0.0, 8)
    assert found.failed


def test_changed_questions_are_those_whose_searches_give_other_scores(tmp_path: Path) -> None:
    """Checked against searches, one question at a time, and nDCG written out."""
    home = Home(tmp_path)
    copy_few(home.docs)
    home.sync("docs")
    with home.open() as kb:
        exam = standing_exam(kb, kb.reader())
    changed = home.docs / FEW[3]
    home.write(f"docs/{FEW[3]}", changed.read_text(encoding="utf-8").replace("wire", "transfer"), age=50)
    home.write("docs/new.md", (home.docs / FEW[4]).read_text(encoding="utf-8"), age=50)
    home.sync()
    found = drift_since(home, 1, "known-item")
    with home.open() as kb:
        readers = kb.reader_of(1), kb.reader()
        texts = [{d.id: d.text for d in reader.documents(OWNER)} for reader in readers]
        moved, same_ranking = set(), 0
        for asked, (old, new) in zip(exam.queries, locate_gold(exam.queries, *texts), strict=True):
            ranked = [first_ten(kb, reader, asked.text) for reader in readers]
            scores = [ndcg(one, gold.documents, gold.lost) for one, gold in zip(ranked, (old, new), strict=True)]
            moved |= {asked.id} if scores[0] != scores[1] else set()
            seen = {*ranked[0], *ranked[1], *old.documents, *new.documents}
            same_ranking += ranked[0] == ranked[1] and not seen & {FEW[3], "new.md"}
    assert {change.id for change in (*found.worse, *found.better)} == moved
    assert len(moved) > 3
    assert found.questions - found.affected == same_ranking > 0


def first_ten(kb: KnowledgeBase, reader: Searcher, text: str) -> list[str]:
    hits = reader.search(text, OWNER, kb.pipeline(), 100).hits
    return list(dict.fromkeys(hit.document for hit in hits))[:10]


def ndcg(ranked: list[str], gold: tuple[str, ...], lost: tuple[str, ...]) -> float:
    gain = sum(1 / np.log2(rank + 1) for rank, document in enumerate(ranked, 1) if document in gold)
    ideal = sum(1 / np.log2(rank + 1) for rank in range(1, min(10, len(gold) + len(lost)) + 1))
    return round(float(gain / ideal), 9)


def test_statistics_are_those_of_all_questions(zoo: Home) -> None:
    remove(zoo, "condor", "falcon", "beaver")
    zoo.sync()
    found = drift_since(zoo, 1)
    losses = np.array([-1.0] * 3 + [0.0] * 5)
    assert found.difference == pytest.approx(losses.mean())
    assert found.p == pytest.approx(float(permutation_p(losses[:, None])[0]))
    assert found.low <= found.difference <= found.high
    assert not found.failed  # three questions are too few to be sure


# ---------------------------------------------------------------- gold passages


OLD = "Wires leave until three in the afternoon on every business day of the branch. Ask the desk for forms."


def gold_after(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The documents and the lost documents of a question about the first sentence, after an edit."""
    asked = query("q", "until when do wires leave", Judgment("w.md", 0, 78, 1, OLD[:78]))
    ((_, after),) = locate_gold([asked], {"w.md": OLD}, {"w.md": text})
    return after.documents, after.lost


def test_moved_passage_is_found() -> None:
    assert gold_after(f"An introduction. {OLD}") == (("w.md",), ())


def test_edited_passage_still_counts() -> None:
    assert gold_after(OLD.replace("three", "half past four")) == (("w.md",), ())


def test_passage_that_was_cut_out_is_lost() -> None:
    assert gold_after("Ask the desk for forms.") == ((), ("w.md",))


def test_document_with_one_of_two_passages_left_is_not_lost() -> None:
    asked = query("q", "wires", Judgment("w.md", 0, 78, 1, OLD[:78]), Judgment("w.md", 79, 102, 1, OLD[79:102]))
    ((_, after),) = locate_gold([asked], {"w.md": OLD}, {"w.md": "Ask the desk for forms."})
    assert (after.documents, after.lost) == (("w.md",), ())


def test_one_of_two_gold_documents_lost_lowers_the_score(home: Home) -> None:
    home.write("docs/a.md", "condor food")
    home.write("docs/b.md", "condor nest")
    home.write("docs/c.md", "something else")
    home.sync("docs")
    save(home, Exam("both", (query("q", "condor", Judgment("a.md"), Judgment("b.md")),)))
    remove(home, "b")
    home.sync()
    found = drift_since(home, 1, "both")
    assert (found.before, found.worse[0].why) == (1.0, "b.md was removed")
    assert found.after == pytest.approx(1 / (1 + 1 / np.log2(3)))


# ---------------------------------------------------------------- the standing exam


def test_named_exam_stands(zoo: Home) -> None:
    save(zoo, Exam("second", (query("q", "falcon", Judgment("falcon.md")),)))
    zoo.configure(f'{WORDS}\n[exam]\nstanding = "second"\n')
    with zoo.open() as kb:
        assert standing_exam(kb, kb.reader()).name == "second"


def test_only_exam_of_ones_own_stands(zoo: Home) -> None:
    save(zoo, Exam("known-item", (query("q", "falcon", Judgment("falcon.md")),)))
    with zoo.open() as kb:
        assert standing_exam(kb, kb.reader()).name == "zoo"


def test_several_exams_leave_it_to_known_items(zoo: Home) -> None:
    save(zoo, Exam("second", (query("q", "falcon", Judgment("falcon.md")),)))
    with zoo.open() as kb:
        written = standing_exam(kb, kb.reader())
        assert written.name == "known-item"
        assert written.corpus == kb.reader().fingerprint
        assert standing_exam(kb, kb.reader()) == written


def test_unknown_standing_exam_is_named(zoo: Home) -> None:
    zoo.configure(f'{WORDS}\n[exam]\nstanding = "zooo"\n')
    ran = surefind("drift", "1", kb=zoo.folder)
    assert ran.code == 2
    assert "There is no exam called 'zooo'. Did you mean zoo?" in ran.err


# ---------------------------------------------------------------- surefind drift


def test_command_shows_what_got_worse_and_exits_with_1(zoo: Home) -> None:
    remove(zoo, *ANIMALS[:6])
    zoo.sync()
    ran = surefind("drift", "1", kb=zoo.folder)
    assert ran.code == 1
    assert "Generation 1 to 2: 0 documents added, 0 changed, 6 removed." in ran.out
    assert "Exam: zoo v1, 8 questions." in ran.out
    assert "nDCG@10 1.000 -> 0.250: -0.750, 95% interval" in ran.out
    assert "WORSE: the loss is significant." in ran.out
    assert "1.00 -> 0.00  where does the alpaca live  (rank 1 -> not found)\n      alpaca.md was removed" in ran.out


def test_command_exits_with_0_if_the_loss_may_be_chance(zoo: Home) -> None:
    remove(zoo, "condor")
    zoo.sync()
    ran = surefind("drift", "1", kb=zoo.folder)
    assert ran.code == 0
    assert "ok: no significant loss." in ran.out


def test_command_prints_json(zoo: Home) -> None:
    remove(zoo, *ANIMALS[:6])
    zoo.sync()
    ran = surefind("drift", "1", "--json", kb=zoo.folder)
    assert ran.code == 1
    assert ran.json["failed"] is True
    assert ran.json["documents"]["removed"] == [f"{animal}.md" for animal in ANIMALS[:6]]
    assert len(ran.json["worse"]) == 6


def test_command_takes_several_exams(zoo: Home) -> None:
    save(zoo, Exam("second", (query("q", "falcon", Judgment("falcon.md")),)))
    remove(zoo, *ANIMALS)
    zoo.sync()
    ran = surefind("drift", "1", "--exam", "zoo", "--exam", "second", "--json", kb=zoo.folder)
    assert [one["exam"] for one in ran.json["exams"]] == ["zoo v1", "second v1"]
    assert ran.code == 1


def test_several_exams_are_corrected_together(zoo: Home) -> None:
    remove(zoo, *ANIMALS[:6])
    zoo.sync()
    one = drift_since(zoo, 1)
    assert [round(drift.p / one.p, 6) for drift in corrected([one, one])] == [2.0, 2.0]


def test_unknown_generation_is_one_sentence(zoo: Home) -> None:
    ran = surefind("drift", "7", kb=zoo.folder)
    assert ran.code == 2
    assert ran.err == "surefind: There is no generation 7. Kept generations: 1.\n"


def test_generation_that_is_no_longer_kept_is_one_sentence(zoo: Home) -> None:
    zoo.configure(f"{WORDS}\n[sync]\nkeep_generations = 1\n")
    remove(zoo, "condor")
    zoo.sync()
    ran = surefind("drift", "1", kb=zoo.folder)
    assert (ran.code, ran.err) == (2, "surefind: There is no generation 1. Kept generations: 2.\n")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (f'{WORDS}\n[index]\nchunk = "whole"\n', "Generation 1 is not cut by whole + headings"),
        (WORDS.replace("bm25", "tfidf"), "Generation 1 has no index for tfidf"),
    ],
)
def test_generation_of_other_settings_is_refused(zoo: Home, settings: str, message: str) -> None:
    zoo.configure(settings)
    remove(zoo, "condor")
    zoo.sync()
    ran = surefind("drift", "1", kb=zoo.folder)
    assert ran.code == 2
    assert f"surefind: {message}: the settings have changed since. Choose a later generation" in ran.err


def test_reader_holds_the_earlier_generation(zoo: Home) -> None:
    zoo.configure(f"{WORDS}\n[sync]\nkeep_generations = 1\n")
    with zoo.open() as kb:
        held = kb.reader_of(1)
        remove(zoo, "condor")
        zoo.sync()
        assert "condor.md" in [document.id for document in held.documents(OWNER)]


# ---------------------------------------------------------------- the gate


@pytest.fixture
def gated(zoo: Home) -> Home:
    zoo.configure(GATED)
    return zoo


def sync(home: Home, *words: str) -> tuple[int, str]:
    ran = surefind("sync", *words, kb=home.folder)
    return ran.code, ran.out + ran.err


def test_gate_refuses_documents_that_make_the_exam_worse(gated: Home) -> None:
    remove(gated, *ANIMALS[:5])
    code, said = sync(gated)
    assert code == 1
    assert "surefind: The gate refused the new documents: zoo v1 got worse by more than gate_margin = 0.01." in said
    assert "Nothing was published: searches still see generation 1." in said
    assert "1.00 -> 0.00  where does the alpaca live  (rank 1 -> not found)\n      alpaca.md was removed" in said
    assert "run the same command with --no-gate" in said
    assert gated.found("alpaca")[0] == "alpaca.md"


def test_refused_generation_leaves_nothing_behind(gated: Home) -> None:
    before = state(gated)
    remove(gated, *ANIMALS[:5])
    gated.write("docs/new.md", "something new", age=50)
    assert sync(gated)[0] == 1
    assert state(gated) == before


def test_no_gate_publishes_what_was_refused(gated: Home) -> None:
    remove(gated, *ANIMALS[:5])
    assert sync(gated)[0] == 1
    code, said = sync(gated, "--no-gate")
    assert code == 0
    assert "0 added, 0 changed, 5 removed" in said
    assert "(generation 2)" in said


def test_fixed_documents_pass_after_a_refusal(gated: Home) -> None:
    remove(gated, *ANIMALS[:5])
    assert sync(gated)[0] == 1
    for animal in ANIMALS[:5]:
        gated.write(f"docs/{animal}.md", page(animal, "Updated."), age=40)
    code, said = sync(gated)
    assert code == 0
    assert "The gate asked zoo v1: nDCG@10 1.000 -> 1.000: +0.000" in said


def test_change_that_does_no_harm_passes(gated: Home) -> None:
    gated.write("docs/new.md", "something new", age=50)
    ran = surefind("sync", "--json", kb=gated.folder)
    assert ran.code == 0
    assert (ran.json["generation"], ran.json["gate"]["difference"]) == (2, 0.0)


def test_sync_without_changes_asks_nothing(gated: Home) -> None:
    with mock.patch.object(Bench, "rank", side_effect=AssertionError):
        assert sync(gated)[0] == 0


def test_first_generation_passes(home: Home) -> None:
    home.configure(GATED)
    home.write("docs/a.md", page("alpaca"))
    assert sync(home, str(home.docs))[0] == 0


def test_small_loss_within_the_margin_passes(gated: Home) -> None:
    gated.configure(f"{GATED}gate_margin = 0.9\n")
    remove(gated, *ANIMALS[:5])
    assert sync(gated)[0] == 0


@each(
    ("difference", "high", "margin", "no"),
    [
        (-0.05, -0.01, 0.01, True),
        (-0.05, 0.01, 0.01, False),
        (-0.005, -0.001, 0.01, False),
        (-0.005, -0.001, 0.0, True),
        (0.05, 0.1, 0.01, False),
    ],
)
def test_rule_of_the_gate(difference: float, high: float, margin: float, no: bool) -> None:
    runs = RunDifference(
        questions=8, before=0.9, after=0.9 + difference, difference=difference, low=-0.2, high=high, p=0.5
    )
    assert runs.lost_more_than(margin) is no


@pytest.mark.parametrize(
    ("stages", "calls"),
    [
        ('retrieve = ["bm25"]\nrerank = ["conditional(stage=llm_listwise)"]', 2 * 2 * len(ANIMALS)),
        ('retrieve = ["multi_query(retriever=\\"hyde(retriever=bm25)\\")"]', 2 * (1 + 4) * len(ANIMALS)),
        ('retrieve = ["graph_local"]', 0),
    ],
)
def test_the_gate_is_quoted_with_the_stages_inside_others(gated: Home, stages: str, calls: int) -> None:
    gated.configure(f'[search]\npipeline = "mine"\n[pipelines.mine]\n{stages}\n')
    with gated.open() as kb:
        assert sum(one.calls for one in ExamGate(kb).calls()) == calls
        if calls:
            assert "asks a language model" in preview(kb, 1, OWNER).reason


def test_retiring_a_document_is_gated(gated: Home) -> None:
    questions = tuple(query(f"{i}", f"condor {word}", Judgment("condor.md")) for i, word in enumerate(ANIMALS))
    save(gated, Exam("condors", questions))
    gated.configure(f'{GATED}\n[exam]\nstanding = "condors"\n')
    said = ""
    with gated.open() as kb:
        try:
            kb.retire("condor.md", gate=ExamGate(kb))
        except GateError as error:
            said = str(error)
    assert "The gate refused the new documents: condors v1" in said
    assert gated.found("condor")[0] == "condor.md"
    ran = surefind("draft", "retire", "condor.md", "--no-gate", kb=gated.folder)
    assert (ran.code, ran.out) == (0, "Retired in generation 2.\n")
    assert gated.found("condor") == []


def test_publishing_a_draft_is_gated(gated: Home) -> None:
    questions = [query(f"{i}", f"condor {word}", Judgment("condor.md")) for i, word in enumerate(ANIMALS)]
    save(gated, Exam("zoo", tuple(questions)))
    with gated.open() as kb:
        number = kb.drafts.add(gated.write("drafts/condor.md", "Nothing."), "condor.md").number
    ran = surefind("draft", "publish", str(number), kb=gated.folder)
    assert ran.code == 1
    assert "The gate refused the new documents: zoo v2" in ran.err
    ran = surefind("draft", "publish", str(number), "--no-gate", kb=gated.folder)
    assert (ran.code, ran.out) == (0, "Published in generation 2.\n")


def test_refused_draft_stays_a_draft(gated: Home) -> None:
    with gated.open() as kb:
        number = kb.drafts.add(gated.write("drafts/condor.md", "Nothing."), "condor.md").number

        with pytest.raises(GateError):
            kb.drafts.publish(number, gate=_never)
        assert [(draft.number, draft.state) for draft in kb.drafts.store.waiting()] == [(number, "draft")]
        assert kb.drafts.publish(number, gate=always_open) == 2
        assert kb.history("condor.md")[0].state == "published"


def test_refused_retirement_keeps_the_document(gated: Home) -> None:
    before = state(gated)
    with gated.open() as kb, pytest.raises(GateError):
        kb.retire("condor.md", gate=_never)
    assert state(gated) == before


def _never(before: object, after: object) -> None:
    raise GateError("no")


def test_gate_sees_both_generations_and_searches_see_the_first(gated: Home) -> None:
    seen: list[tuple[int, int, bool, bool, list[str]]] = []

    def look(before: Searcher, after: Searcher) -> None:
        old, new = ([document.id for document in reader.documents(OWNER)] for reader in (before, after))
        numbers = before.generation, after.generation
        seen.append((*numbers, "condor.md" in old, "condor.md" in new, gated.found("condor")))

    remove(gated, "condor")
    gated.sync(gate=look)
    assert seen == [(1, 2, True, False, ["condor.md"])]
    assert "condor.md" not in gated.found("condor")


def test_python_call_without_a_gate_is_refused_if_the_settings_require_one(gated: Home) -> None:
    remove(gated, "condor")
    with gated.open() as kb:
        for call in (lambda: kb.sync(), lambda: kb.retire("falcon.md"), lambda: kb.drafts.publish(1)):
            with pytest.raises(UsageError, match="gate = true, and this call has no gate"):
                call()
        assert kb.sync(gate=ExamGate(kb)).removed == 1


def test_gate_that_cannot_ask_publishes_nothing(gated: Home) -> None:
    gated.configure(f'{GATED}\n[exam]\nstanding = "nope"\n')
    before = state(gated)
    remove(gated, "condor")
    code, said = sync(gated)
    assert code == 1
    assert "The gate could not ask the standing exam: There is no exam called 'nope'." in said
    assert state(gated) == before


def test_settings_that_changed_with_the_documents_are_measured_on_both(gated: Home) -> None:
    gated.configure(f'{GATED}\n[index]\nchunk = "whole"\n')
    remove(gated, *ANIMALS[:5])
    code, said = sync(gated)
    assert code == 1
    assert "The gate refused the new documents" in said
    assert gated.found("alpaca")[0] == "alpaca.md"


def test_watching_goes_on_after_a_refusal(gated: Home, capsys: pytest.CaptureFixture[str]) -> None:
    remove(gated, *ANIMALS[:5])
    last = SyncReport(generation=1)
    with gated.open() as kb:
        assert sync_command._again(kb, last, no_gate=False, as_json=False, stop=Event()) is last
        assert "The gate refused the new documents" in capsys.readouterr().err
        assert sync_command._again(kb, last, no_gate=True, as_json=False, stop=Event()).generation == 2


def test_rollback_is_not_asked(gated: Home) -> None:
    remove(gated, *ANIMALS[:5])
    assert sync(gated, "--no-gate")[0] == 0
    assert surefind("rollback", "1", kb=gated.folder).code == 0
    assert surefind("rollback", "2", kb=gated.folder).code == 0


def test_refusal_after_a_rollback_leaves_the_rolled_back_state(gated: Home) -> None:
    gated.write("docs/new.md", "something new", age=50)
    assert sync(gated)[0] == 0
    assert surefind("rollback", "1", kb=gated.folder).code == 0
    before = gated.answers("condor", "new")
    remove(gated, *ANIMALS[:5])
    assert sync(gated)[0] == 1
    assert gated.answers("condor", "new") == before
    assert sync(gated, "--no-gate")[0] == 0
    assert gated.found("something new")[0] == "new.md"


def test_second_gate_reads_the_answers_of_the_first(gated: Home) -> None:
    """The generation that was `after` is `before` next time, and its rankings are cached."""
    gated.write("docs/new.md", "something new", age=50)
    assert sync(gated)[0] == 0
    gated.write("docs/newer.md", "something newer", age=40)
    runs = gated.folder / ".surefind/runs"
    known = {path.name for path in runs.iterdir()}
    assert sync(gated)[0] == 0
    assert len({path.name for path in runs.iterdir()} - known) == 1


KILLED = """
import os, signal, sys
from surefind.kb import KnowledgeBase

def die(before, after):
    os.kill(os.getpid(), signal.SIGKILL)

with KnowledgeBase.open(sys.argv[1]) as kb:
    kb.sync(gate=die)
"""


def test_process_killed_at_the_gate_changes_nothing_for_readers(gated: Home) -> None:
    before = gated.answers("condor", "alpaca")
    remove(gated, *ANIMALS[:5])
    done = subprocess.run([sys.executable, "-c", KILLED, str(gated.folder)], check=False, env=os.environ)
    assert done.returncode == -signal.SIGKILL
    assert gated.answers("condor", "alpaca") == before
    assert sync(gated)[0] == 1
    assert gated.answers("condor", "alpaca") == before
    assert sync(gated, "--no-gate")[0] == 0
    assert "condor.md" not in gated.found("condor")


# ---------------------------------------------------------------- before publishing


def test_preview_says_what_a_draft_loses_and_leaves_nothing_behind(gated: Home) -> None:
    with gated.open() as kb:
        generation, size = kb.catalogue.generation(), _files_of(gated)
        number = kb.drafts.add(gated.write("drafts/new.md", "Nothing."), "condor.md").number
        found = preview(kb, number, Access.owner())
        assert found.drift is not None and found.drift.worse
        assert {change.rank_after for change in found.drift.worse} == {None}
        assert (kb.catalogue.generation(), kb.drafts.store.get(number).state) == (generation, "draft")
        assert kb.search("condor", Access.public()).hits
        assert len(kb.catalogue.versions.held(kb.catalogue.snapshot_id())) == len(kb.documents(Access.owner()))
        assert kb.history("condor.md")[1:] == []
    assert _files_of(gated) == size
    with gated.open() as kb:
        assert preview(kb, number, Access.owner()) == found, "asked twice, the same answer"


def test_preview_says_which_answers_a_draft_rewrites(gated: Home) -> None:
    """A rank says nothing about the answer: a text of 12 weeks and one of 14 are found alike."""
    with gated.open() as kb:
        number = kb.drafts.add(
            gated.write("drafts/new.md", page("condor").replace("something", "grass")), "condor.md"
        ).number
        found = preview(kb, number, Access.owner()).drift
        assert found is not None and not found.worse
        assert [text for text in found.rewritten if "condor" not in text] == [] != list(found.rewritten)


def test_a_passage_that_moved_is_not_rewritten(zoo: Home) -> None:
    text = page("alpaca")
    start = text.index("The alpaca lives")
    spanned = Judgment("alpaca.md", start, len(text), grade=1, quote=text[start : start + 12])
    save(zoo, Exam("spans", (query("a", "where does the alpaca live", spanned),)))
    zoo.write("docs/alpaca.md", "Some words before.\n\n" + text)
    zoo.sync()
    assert drift_since(zoo, 1, "spans").rewritten == ()
    zoo.write("docs/alpaca.md", text.replace("something", "grass"))
    zoo.sync()
    found = drift_since(zoo, 1, "spans")
    assert found.rewritten == ("where does the alpaca live",)
    assert "1 question asks for a text that changed" in drift_text(found)


def test_preview_without_an_exam_asks_nothing(home: Home) -> None:
    home.write("docs/a.md", "alpha")
    home.sync("docs")
    with home.open() as kb:
        found = preview(kb, kb.drafts.add(home.write("drafts/a.md", "beta"), "a.md").number, Access.owner())
    assert found.drift is None and "There is no exam yet" in found.reason
    assert not (home.folder / ".surefind" / "exams").exists()


def _files_of(home: Home) -> set[str]:
    return {str(path) for path in (home.folder / ".surefind" / "indexes").rglob("*")}
