"""`surefind bench --answers`: how often a quote has the answer, and what its confidence is worth."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from cases import each
from exam_helpers import query, surefind
from helpers import Home
from http_helpers import SETTINGS
from llm_server import LLMServer
from surefind.base.access import Access
from surefind.base.disk.sealed import unsealed
from surefind.lab.bench.answers import AnswersExam, AnswersReport, AnswersRow, Refusals, curves, render
from surefind.lab.bench.report import environment
from surefind.lab.exam.model import Exam, ExamQuery, Judgment
from surefind.lab.exam.store import ExamStore
from surefind.lab.measure.spans import aurc, by_confidence, is_right, precision_at_half, risks
from surefind.lab.measure.statistics import MIN_CLUSTERS, Interval, bootstrap, bootstrap_of

TEXT = (
    "Wires are sent daily. The cutoff of\ndomestic wires is 3 pm. Fees are 22 dollars. Fees are 44 dollars for others."
)
CUTOFF = "The cutoff of domestic wires is 3 pm."


def gold(part: str, start: int = 0) -> tuple[Judgment, str]:
    at = TEXT.index(part) + start
    return Judgment("wires.md", at, at + len(part)), part


# ---------------------------------------------------------------- right quotes


@each("part", ["3 pm", "cutoff of\ndomestic wires", "The **cutoff** of\ndomestic wires is 3 PM!"])
def test_a_quote_that_contains_the_gold_is_right(part: str) -> None:
    """Markup, case and white space do not count."""
    at = TEXT.index("3 pm")
    assert is_right(CUTOFF, None, "wires.md", Judgment("wires.md", at, at + 4), part)


def test_a_quote_of_another_document_is_wrong() -> None:
    assert not is_right(CUTOFF, (0, len(CUTOFF)), "cards.md", *gold("3 pm"))


def test_a_quote_that_shares_words_alone_is_wrong() -> None:
    assert not is_right("Fees are 44 dollars for others.", None, "wires.md", *gold("22 dollars"))
    assert not is_right("It costs 122 dollars.", None, "wires.md", *gold("22 dollars"))


def test_the_same_words_at_another_place_of_the_document_are_right() -> None:
    judgment = Judgment("wires.md", 1000, 1004)
    assert is_right(CUTOFF, (0, 37), "wires.md", judgment, "3 pm")
    assert not is_right(CUTOFF, (0, 37), "wires.md", judgment, "4 pm")


def test_half_of_the_quote_must_lie_inside_longer_gold() -> None:
    quote = "Fees are 22 dollars."  # 20 characters
    at = TEXT.index(quote)
    for inside, right in ((10, True), (9, False)):
        end = at + inside
        gold_text = Judgment("wires.md", 0, end), TEXT[:end]
        assert is_right(quote, (at, at + len(quote)), "wires.md", *gold_text) is right
        assert not is_right(quote, None, "wires.md", *gold_text)  # its place is not known


def test_empty_gold_and_a_whole_document_are_never_right() -> None:
    assert not is_right(CUTOFF, (0, 37), "wires.md", Judgment("wires.md", 3, 3), "")
    assert not is_right(CUTOFF, (0, 37), "wires.md", Judgment("wires.md"), TEXT)


# ---------------------------------------------------------------- confidence


def test_risks_and_their_area() -> None:
    _, wrong = by_confidence(np.array([0.2, 0.9, 0.5, 0.7]), np.array([False, True, True, False]))
    assert wrong.tolist() == [0, 1, 0, 1]  # at 0.9, 0.7, 0.5, 0.2
    assert risks(wrong) == pytest.approx([0 / 1, 1 / 2, 1 / 3, 2 / 4])
    assert aurc(wrong) == pytest.approx((0 + 1 / 2 + 1 / 3 + 2 / 4) / 4)
    assert precision_at_half(wrong) == pytest.approx(1 - 1 / 2)


def test_the_surer_half_of_three_is_two() -> None:
    assert precision_at_half(np.array([0.0, 1.0, 1.0])) == pytest.approx(1 / 2)


def test_questions_that_are_equally_sure_share_their_mean() -> None:
    for right in ([True, True, False], [True, False, True]):
        order, wrong = by_confidence(np.array([0.9, 0.5, 0.5]), np.array(right))
        assert order.tolist() == [0, 1, 2] and wrong.tolist() == [0, 0.5, 0.5]


def test_the_bootstrap_of_a_mean_is_the_bootstrap() -> None:
    values = np.random.default_rng(0).random(40)
    for clusters in (None, np.arange(40) % MIN_CLUSTERS):
        (same,) = bootstrap(values[:, None], 500, clusters=clusters)
        found = bootstrap_of(lambda drawn: float(drawn.mean()), values, 500, clusters=clusters)
        assert (found.mean, found.low, found.high) == pytest.approx((same.mean, same.low, same.high))


def test_resamples_keep_the_order() -> None:
    ordered = bootstrap_of(lambda drawn: float((np.diff(drawn) >= 0).all()), np.arange(20.0), 200)
    assert (ordered.low, ordered.high) == (1, 1)


# ---------------------------------------------------------------- the command


PAGES = {
    "wires.md": "# Wires\n\nWires are sent daily. The cutoff of domestic wires is 3 pm. Fees are 22 dollars.",
    "cards.md": "# Cards\n\nA lost card is blocked by calling extension 4270. Cards are renewed every third year.",
    "loans.md": "# Loans\n\nA loan needs two signatures. The rate of a car loan is 7 percent.",
}


@pytest.fixture
def bank(tmp_path: Path) -> Home:
    home = Home(tmp_path, SETTINGS)
    for name, text in PAGES.items():
        home.write(f"docs/{name}", text)
    home.sync("docs")
    return home


@pytest.fixture
def ask(bank: Home) -> Callable[..., ExamQuery]:
    """Makes a question whose gold is a part of a document, or the whole."""
    with bank.open() as kb:
        texts = {document.id: document.text for document in kb.documents(Access.owner())}

    def make(text: str, document: str, part: str = "") -> ExamQuery:
        at = texts[document].index(part)
        place = Judgment(document, at, at + len(part), quote=part) if part else Judgment(document)
        return query(text[:20], text, place)

    return make


def save(home: Home, *queries: ExamQuery) -> None:
    with home.open() as kb:
        ExamStore(kb.data / "exams").save(Exam("asked", queries))


def test_the_command_measures_quotes(bank: Home, ask: Callable[..., ExamQuery]) -> None:
    save(
        bank,
        ask("When is the cutoff of domestic wires?", "wires.md", "3 pm"),
        ask("Which extension blocks a lost card?", "cards.md", "extension 4270"),
        ask("What is the rate of a car loan?", "wires.md", "Fees are 22 dollars."),  # the gold is elsewhere
        ask("Tell me about loans", "loans.md"),
    )
    bank.write("no.txt", "Who composed the opera Fidelio?\n\nzzzxqy\nzzzxqy\n")
    words = ("bench", "--answers", "--exam", "asked", "--unanswerable", bank.folder / "no.txt")
    made = surefind(*words, "-p", "words", "-p", "counts", "--json", kb=bank.folder).json
    assert made["exam"]["queries"] == 3 and made["exam"]["without_span"] == 1
    assert [row["name"] for row in made["rows"]] == ["words", "counts"]
    for row in made["rows"]:
        assert row["answered"]["mean"] == 1 and row["right"]["mean"] == row["precision"]["mean"] == pytest.approx(2 / 3)
        (none,) = row["unanswerable"]
        assert none["name"] == "no" and none["questions"] == 2 and none["refused"]["mean"] == 1
        assert none["unanswered"]["mean"] == 1 and row["seconds"] > 0 and row["first"]["mean"] <= row["right"]["mean"]
        assert row.get("written") is None and 20 < row["characters"] <= 600
        assert row["right"]["low"] < 2 / 3 < row["right"]["high"] and row["letters"] == "a"
        assert row["curve"][-1] == [1, pytest.approx(1 / 3, abs=1e-3)] and len(row["curve"]) == 3
        assert row["aurc"]["mean"] == pytest.approx(sum(risk for _, risk in row["curve"]) / 3, abs=1e-3)
    page = Path(made["page"])
    assert page.parent.parent == bank.folder / ".surefind" / "reports"
    saved = unsealed(json.loads((page.parent / "answers.json").read_text()))
    assert saved["rows"] == made["rows"]
    text = page.read_text()
    assert "<script" not in text and "://" not in text and "<polyline" in text and "no: refused" in text


def test_the_terminal_shows_every_figure_with_its_interval(bank: Home, ask: Callable[..., ExamQuery]) -> None:
    save(bank, ask("When is the cutoff of domestic wires?", "wires.md", "3 pm"), ask("cards", "cards.md"))
    shown = surefind("bench", "--answers", "--exam", "asked", "--out", bank.folder / "out", kb=bank.folder)
    assert shown.code == 0 and "asked v1: 1 questions. 1 questions were left out: their gold is a whole" in shown.out
    rows = {line[:24].strip(): line[24:].strip() for line in shown.out.splitlines()}
    for name in ("right", "answered", "right if answered", "right in the surer half"):
        assert rows[name] == "1.000 [1.000, 1.000]"
    assert rows["AURC"] == "0.000 [0.000, 0.000]" and rows["characters"] != rows["AURC"]
    assert "not answered" not in shown.out and (bank.folder / "out" / "answers.html").exists()
    assert "Asking words: finished, 1" in shown.err


def test_a_refused_question_is_the_least_sure_and_wrong(bank: Home, ask: Callable[..., ExamQuery]) -> None:
    save(
        bank,
        ask("zzzxqy", "cards.md", "extension 4270"),
        ask("When is the cutoff of domestic wires?", "wires.md", "3 pm"),
    )
    (row,) = surefind("bench", "--answers", "--exam", "asked", "--json", kb=bank.folder).json["rows"]
    assert row["answered"]["mean"] == row["right"]["mean"] == 0.5
    assert row["precision"]["mean"] == row["precision_at_half"]["mean"] == 1
    assert row["aurc"]["mean"] == pytest.approx((0 + 1 / 2) / 2) and row["unanswerable"] == []


def test_nothing_answered_has_no_precision(bank: Home, ask: Callable[..., ExamQuery]) -> None:
    save(bank, ask("zzzxqy", "cards.md", "extension 4270"))
    made = surefind("bench", "--answers", "--exam", "asked", "--json", kb=bank.folder).json
    (row,) = made["rows"]
    assert row["precision"] is None and row["right"]["mean"] == 0 and row["aurc"]["mean"] == 1
    assert "<td>–</td>" in Path(made["page"]).read_text()


def test_no_language_model_is_asked(bank: Home, ask: Callable[..., ExamQuery]) -> None:
    bank.configure(SETTINGS + '\n[llm]\nmodel = "openai:nosuch"\n')
    save(bank, ask("When is the cutoff of domestic wires?", "wires.md", "3 pm"))
    (row,) = surefind("bench", "--answers", "--exam", "asked", "--json", kb=bank.folder).json["rows"]
    assert row["right"]["mean"] == 1
    refused = surefind("bench", "--answers", "--exam", "asked", "-p", "bm25 >> llm_listwise", kb=bank.folder)
    assert refused.code == 2 and "asks a language model" in refused.err


def test_restricted_documents_need_their_group(bank: Home, ask: Callable[..., ExamQuery]) -> None:
    save(
        bank,
        ask("When is the cutoff of domestic wires?", "wires.md", "3 pm"),
        ask("Which extension blocks a lost card?", "cards.md", "extension 4270"),
    )
    bank.write("docs/cards.md", f"---\nacl: [hr]\n---\n{PAGES['cards.md']}", age=0)
    bank.sync("docs")
    words = ("bench", "--answers", "--exam", "asked", "--json")
    assert surefind(*words, kb=bank.folder).json["exam"]["queries"] == 1
    (row,) = (made := surefind(*words, "--as", "hr", kb=bank.folder).json)["rows"]
    assert made["exam"]["queries"] == 2 and row["right"]["mean"] == 1


def test_an_exam_of_whole_documents_is_refused(bank: Home, ask: Callable[..., ExamQuery]) -> None:
    save(bank, ask("cards", "cards.md"), ask("wires", "wires.md"))
    ran = surefind("bench", "--answers", "--exam", "asked", kb=bank.folder)
    assert ran.code == 2 and "No question of asked v1 marks the passage that answers it" in ran.err
    assert "Asking" not in ran.err and "Traceback" not in ran.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--unanswerable", "no.txt"), "--unanswerable is for --answers."),
        (("--llm", "ollama:x"), "--llm is for --answers."),
        (("--answers", "--unanswerable", "nosuch.txt"), "nosuch.txt cannot be read"),
        (("--answers", "--unanswerable", "empty.txt"), "has no questions. Write one a line."),
        (("--answers", "--unanswerable", "long.txt"), "Question 2 of"),
        (("--answers", "--layout", "whole"), "--layout is not for it"),
        (("--answers", "--preset", "chunking"), "presets that compare layouts."),
        (("--answers", "--check", "x.json"), "--check is not for it"),
        (("--answers", "--ask-again"), "--ask-again is not for it"),
        (("--answers", "-p", "nosuch"), "There is no pipeline called 'nosuch'."),
    ],
)
def test_wrong_options_are_one_sentence(
    bank: Home, words: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bank.write("empty.txt", "\n")
    bank.write("long.txt", f"short\n{'long ' * 50_000}\n")
    monkeypatch.chdir(bank.folder)
    ran = surefind("bench", *words, kb=bank.folder)
    assert ran.code == 2 and message in ran.err and "Traceback" not in ran.err
    assert not (bank.folder / ".surefind" / "reports").exists()


def test_a_stopped_run_leaves_no_report(
    bank: Home, ask: Callable[..., ExamQuery], monkeypatch: pytest.MonkeyPatch
) -> None:
    save(bank, ask("When is the cutoff of domestic wires?", "wires.md", "3 pm"))

    def stop(*args: object, **more: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("surefind.lab.bench.answers.answer", stop)
    ran = surefind("bench", "--answers", "--exam", "asked", kb=bank.folder)
    assert ran.code == 130 and "Traceback" not in ran.err and not (bank.folder / ".surefind" / "reports").exists()


def test_names_on_the_page_are_text() -> None:
    one = Interval(0.5, 0.25, 0.75)
    row = AnswersRow(
        name="<b>&", aliases=(), spec="bm25", letters="a", right=one, first=one, reached=one, answered=one, unsure=one,
        precision=one, lost=one, facts=one, precision_at_half=one, aurc=one, characters=300.0, seconds=0.5,
        unanswerable=(Refusals(name="<s>", questions=2, refused=one, unanswered=one),),
        curve=((0.5, 0.0), (1.0, 0.25)),
    )  # fmt: skip
    lines = ElementTree.fromstring(f"<div>{curves([row])}</div>").findall(".//polyline")
    assert [one.get("points") for one in lines] == [f"{44 + 160.0},{12 + 320.0} {44 + 320.0},{12 + 240.0}"]
    page = render(
        AnswersReport(
            surefind="0",
            created="2026-01-01",
            command="<u>",
            audience="everybody",
            groups=(),
            rows=(row,),
            environment=environment(),
            confidence=0.95,
            exam=AnswersExam(name="<i>", version=1, queries=2, without_span=0),
        )
    )
    assert (
        "<b>" not in page
        and "<i>" not in page
        and "<u>" not in page
        and "<s>" not in page
        and "0.500 [0.250,\u00a00.750]" in page
    )


def test_written_answers_are_measured(bank: Home, ask: Callable[..., ExamQuery], llm: LLMServer) -> None:
    bank.configure(SETTINGS + f'\n[llm]\nmodel = "{llm.model}"\n')
    question = ask("When is the cutoff of domestic wires?", "wires.md", "3 pm")
    save(bank, replace(question, metadata={"answer_facts": ["3 pm", "22 dollars"]}))
    said = [{"text": "The cutoff of domestic wires is 3 pm.", "passages": [1, 99]}]
    llm.say(json.dumps({"sentences": [*said, {"text": "Napoleon liked wires.", "passages": [1]}]}))
    words = ("bench", "--answers", "--exam", "asked", "--llm", llm.model, "--json", "--yes")
    (row,) = surefind(*words, kb=bank.folder).json["rows"]
    written = row["written"]
    assert row["right"]["mean"] == 1 and written["written"] == 1 and written["invented"] == 1
    assert row["facts"]["mean"] == 0.5 and written["supported"]["mean"] == 1 and written["dropped"] == 1
    shown = surefind("bench", "--answers", "--exam", "asked", "--llm", llm.model, "--yes", kb=bank.folder)
    assert "wrote 1 answers" in shown.out and "invented citations, not shown" in shown.out
