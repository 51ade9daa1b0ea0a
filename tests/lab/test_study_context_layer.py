"""`surefind study context-layer` from end to end on ten documents."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from cases import each
from exam_helpers import Ran, copy_few, surefind
from helpers import WORDS, Home
from llm_server import LLMServer
from llm_steps import BLOCK
from surefind.lab.exam.store import ExamStore
from surefind.lab.study.studies.context_layer import SHARES

pytestmark = pytest.mark.usefixtures("remembered_models")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = Home(tmp_path_factory.mktemp("study"))
    copy_few(home.docs)
    home.sync("docs")
    return home.folder


@pytest.fixture(scope="module")
def ran(base: Path) -> Ran:
    return surefind("study", "context-layer", "--offline", "--questions", "40", "--json", kb=base)


@pytest.fixture(scope="module")
def tables(ran: Ran) -> dict[str, Any]:
    assert ran.code == 0, ran.err
    return {table["number"]: table for table in ran.json["tables"]}


def test_fifteen_rows_are_below_fifteen_configurations(tables: dict[str, Any]) -> None:
    table = tables["Results"]
    rows = {row["name"]: row["cells"] for row in table["rows"]}
    assert table["title"].startswith("Fifteen configurations") and len(table["rows"]) == len(rows) == 15
    assert rows["RSF"] == rows["Convex α=0.5"] and "one configuration" in " ".join(table["notes"])
    assert all(cells[0] is not None for cells in rows.values())


def test_only_three_rows_have_a_figure_of_the_paper(tables: dict[str, Any]) -> None:
    heads = tables["Results"]["heads"]
    at = next(i for i, head in enumerate(heads) if head["paper"])
    printed = {row["name"]: row["cells"][at] for row in tables["Results"]["rows"] if row["cells"][at] is not None}
    assert printed == {"Vector": 0.038, "RRF k=60 (vector 2:1)": 0.082, "Convex α=0.3": 0.729}
    assert all(row["cells"][0] is not None for row in tables["Results"]["rows"])
    assert "none of its rows" in tables["Results"]["notes"][0]


def test_the_figure_of_chance_is_right(tables: dict[str, Any]) -> None:
    """One relevant document of 109 in a random order: each of the ten places has it with probability 1/109."""
    chance = sum(1 / math.log2(place + 1) for place in range(1, 11)) / 109
    assert f"({chance:.3f})" in tables["Results"]["notes"][1]


def test_each_claim_has_a_verdict(tables: dict[str, Any]) -> None:
    outcomes = [finding["verdicts"][0]["outcome"] for finding in tables["Results"]["findings"]]
    assert len(outcomes) == 3 and set(outcomes) <= {"agrees", "disagrees", "undecided"}


def test_the_papers_questions_add_up(tables: dict[str, Any]) -> None:
    counts = [row["cells"][0] for row in tables["Query categories"]["rows"] if row["cells"][0] is not None]
    assert sum(counts) == tables["Corpus"]["rows"][0]["cells"][-1] == sum(SHARES.values()) == 1706
    assert counts == list(SHARES.values())


def test_our_questions_have_the_shares_of_the_paper(base: Path) -> None:
    ran = surefind("study", "context-layer", "--offline", "--only", "Query categories", "--json", kb=base)
    ours = {row["name"]: row["cells"][1] for row in ran.json["tables"][0]["rows"]}
    assert list(ours) == list(SHARES)
    scale = min(ours[kind] / share for kind, share in SHARES.items())
    assert all(ours[kind] <= scale * share + 1 + scale for kind, share in SHARES.items())
    assert ours["heading_paraphrase"] >= 1


def test_the_model_rewords_the_headings(tmp_path: Path, llm: LLMServer) -> None:
    home = Home(tmp_path, WORDS)
    copy_few(home.docs)
    home.sync("docs")
    llm.reply = lambda prompt: json.dumps({"question": _reworded(prompt)})
    words = ("study", "context-layer", "--only", "Query categories", "--llm", llm.model, "--json")
    home.configure(f'{WORDS}\n[llm.prices]\n"{llm.model}" = [1, 1]\n')
    refused = surefind(*words, kb=home.folder)
    assert refused.code == 2 and "Add --yes" in refused.err and not llm.bodies
    ran = surefind(*words, "--yes", kb=home.folder)
    assert ran.code == 0, ran.err
    with home.open() as kb:
        exam = ExamStore(kb.data / "exams").load("context-layer")
    written = [query for query in exam.queries if query.family == "heading_paraphrase"]
    assert len(written) > 10 and all(query.metadata["model"] == llm.model for query in written)
    assert all("doings of" in query.text and query.judgments for query in written)
    assert len(written) / len(exam.queries) == pytest.approx(311 / 1706, abs=0.03)
    asked = len(llm.bodies)
    assert surefind(*words, "--yes", kb=home.folder).code == 0 and len(llm.bodies) == asked  # kept


def _reworded(prompt: str) -> str:
    """Drops the first word of the heading; every fifth answer repeats the heading."""
    heading = BLOCK.search(prompt)
    assert heading is not None
    first, *rest = heading[4].split()
    return heading[4] if len(prompt) % 5 == 0 else f"what are the doings of {' '.join(rest) or first}?"


def test_the_command_of_a_table_makes_its_figures_again(base: Path, tables: dict[str, Any]) -> None:
    words = ["study", "context-layer", "--exam", "context-layer@1", "--questions", "40", "--seed", "42", "--offline"]
    assert tables["Results"]["command"] == f"surefind {' '.join(words)} --only Results --fresh"
    again = surefind(*words, "--only", "Results", "--fresh", "--json", kb=base)
    (table,) = again.json["tables"]
    measured = [(row["name"], row["cells"][:6]) for row in table["rows"]]
    assert measured == [(row["name"], row["cells"][:6]) for row in tables["Results"]["rows"]]


def test_the_layout_of_the_paper_is_an_option(base: Path) -> None:
    made = surefind("study", "context-layer", "--layout", "paper", "--questions", "5", "--offline", "--json", kb=base)
    table = made.json["tables"][2]
    assert table["rows"][-1]["cells"][0] == "fixed(tokens=500, overlap=50, unit=tokens)"
    assert "--layout 'fixed(tokens=500, overlap=50, unit=tokens)'" in table["command"]


def test_the_terminal_shows_figures_findings_and_commands(base: Path) -> None:
    shown = surefind("study", "context-layer", "--offline", "--questions", "40", kb=base)
    assert shown.code == 0, shown.err
    for part in ("Results: Fifteen configurations", "Convex α=0.3", "0.729", "The paper: BM25 beats vectors", "--only"):
        assert part in shown.out
    page = Path(shown.out.rsplit("Report: ", 1)[1].strip())
    assert page.parent.parent == base / ".surefind" / "studies"
    assert page.name == "study.html" and (page.parent / "study.json").exists()


def test_without_a_name_the_studies_are_listed(base: Path) -> None:
    listed = surefind("study")
    assert listed.code == 0 and "context-layer: " in listed.out and "Query categories" in listed.out
    assert "Results" in {number for one in surefind("study", "--json").json for number in one["tables"]}


def test_a_dry_run_measures_nothing(base: Path) -> None:
    planned = surefind("study", "context-layer", "--dry-run", "--json", kb=base)
    assert planned.json["left_out"] == [] and planned.json["tables"][0] == "Results"
    assert [one["calls"] for one in planned.json["llm_calls"]] == [0]
    assert 0 <= planned.json["minutes"] < 10
    shown = surefind("study", "context-layer", "--dry-run", "--offline", kb=base)
    assert shown.code == 0 and "minutes, without training, and 0 calls to language models." in shown.out


@each(
    ("words", "message"),
    [
        (("context",), "There is no study 'context'"),
        (("context-layer", "--only", "Table 9"), "This study has no 'Table 9'"),
        (("context-layer", "--offline", "--llm", "ollama:x"), "Leave one of the two out"),
        (("context-layer", "--layout", "nothing"), "nothing"),
        (("context-layer", "--encoder", "minilm", "--encoder", "arctic"), "This study compares no encoders"),
        (("cascade", "--layout", "paper"), "names no layout of its own"),
        (("context-layer", "--questions", "0"), "--questions must be at least 1"),
        (("context-layer", "--beir", "nowhere"), "There is no folder"),
        (("context-layer", "--beir", "."), "is not a BEIR folder"),
        (("context-layer", "--budget", "much"), "'--budget': it must be a number. See: "),
        (("context-layer", "--seed", "x"), "'--seed': it must be an integer. See: "),
        (("context-layer", "more"), "unexpected extra argument(s) (more). See: "),
    ],
)
def test_bad_input_gets_one_sentence(base: Path, words: tuple[str, ...], message: str) -> None:
    wrong = surefind("study", *words, kb=base)
    assert wrong.code == 2 and message in wrong.err and "Traceback" not in wrong.err


@each("option", ["--layout", "--encoder", "--cheaper-llm", "--llm"])
def test_options_are_read_before_questions_are_written(tmp_path: Path, option: str) -> None:
    home = Home(tmp_path, WORDS)
    home.write("docs/a.md", "# The vault\n\nMia Reyes opens the vault each morning at seven.\n")
    home.sync("docs")
    wrong = surefind("study", "support-chatbot", option, "nothing", kb=home.folder)
    assert wrong.code == 2 and not list((home.folder / ".surefind").glob("exams/*"))


def test_an_empty_folder_is_explained(tmp_path: Path) -> None:
    Home(tmp_path, WORDS)
    wrong = surefind("study", "context-layer", "--offline", "--json", kb=tmp_path)
    assert wrong.code == 3 and "no knowledge base" in json.loads(wrong.out)["error"]["message"]
