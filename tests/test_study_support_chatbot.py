"""`surefind study support-chatbot`: its tables, with one encoder and with two, with and without a language model."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from exam_helpers import Ran, surefind
from helpers import WORDS
from llm_server import LLMServer
from llm_steps import passages, upside_down
from study_helpers import figures, make_base, printed, tables_of
from surefind.exam.model import Exam
from surefind.exam.store import ExamStore
from surefind.kb import KnowledgeBase
from surefind.study.studies.support_chatbot import _measure as measure
from surefind.study.studies.support_chatbot import _paper as paper

pytestmark = pytest.mark.usefixtures("remembered_models")

OTHER = 'prefixed(model=minilm, query="find: ", passage="text: ")'
WORDS_OF = ("study", "support-chatbot", "--exam", "mine", "--questions", "9", "--json")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_base(tmp_path_factory.mktemp("chatbot"))


@pytest.fixture(scope="module")
def one(base: Path) -> Ran:
    return surefind(*WORDS_OF, "--offline", kb=base)


@pytest.fixture(scope="module")
def two(base: Path) -> Ran:
    chosen = ("--encoder", "minilm", "--encoder", OTHER)
    return surefind(*WORDS_OF, "--offline", *chosen, "--only", "Table 3", "--only", "Table 9", kb=base)


def test_the_tables_are_numbered_as_in_the_paper(one: Ran) -> None:
    numbers = ["Table 2", "Table 11", "Table 3", "Table 12", "Table 9", "Table 10", "Table 4", "Table 13", "Table 5"]
    assert list(tables_of(one)) == [*numbers, "Appendix E", "Table 6", "Table 7", "Table 8"]


def test_what_was_left_out_is_named_with_its_reason(one: Ran) -> None:
    tables = tables_of(one)
    left_out = {
        number: {row["name"]: row["left_out"] for row in table["rows"] if row["left_out"]}
        for number, table in tables.items()
    }
    model = "left out: needs a language model (--llm)"
    assert left_out["Table 4"] == dict.fromkeys([paper.LLM, paper.SLIDE, paper.BM25_LLM], model)
    assert left_out["Appendix E"] == {"HyDE": model}
    assert left_out["Table 9"] == {"Champion + another encoder": "left out: needs a second one (--encoder)"}
    assert {left_out["Table 7"][name] for name in (paper.ZERO, paper.ONE, paper.META)} == {model}
    assert left_out["Table 7"][paper.CHEAP] == "left out: needs a second model (--cheaper-llm)"
    why = left_out["Table 8"]["your encoder, fine-tuned"]
    assert "surefind[train]" in why or "60 questions are needed" in why


def test_ours_and_the_papers_figures_share_the_rows_that_both_have(one: Ran) -> None:
    recall = figures(tables_of(one)["Table 2"])
    deep, shallow, gap = recall["BM25"][:3]
    assert 0 < shallow <= deep <= 1 and gap == pytest.approx(deep - shallow)
    assert recall["BM25"][3:] == ["38.1%", "23.9%", "21.6%", "12.3%", "54.3%", "34.8%", "70.1%", "61.2%"]
    assert recall["minilm"][3:] == [None] * 8
    assert recall["Stella 1.5B"] == [None, None, None, *printed("support-chatbot", "Table 2")["Stella 1.5B"]]
    heads = tables_of(one)["Table 2"]["heads"]
    assert [head["text"] for head in heads[:3]] == ["R@50", "R@10", "R@50 − R@10"]


def test_reranking_fifty_does_not_change_r_at_50(one: Ran) -> None:
    rows = figures(tables_of(one)["Table 4"])
    assert rows[paper.CE][0] == rows["Champion"][0]
    assert rows[paper.BM25_CE][0] == rows["BM25"][0]
    assert all(rows[name][-2] > 0 and rows[name][-1] == 0 for name in ("Champion", paper.CE, "BM25"))


def test_the_champion_is_the_best_by_r_at_50_and_goes_on(one: Ran, two: Ran) -> None:
    found = two.json["results"]["mine"]
    rows = found["encoders"]["rows"]
    best = found["encoders"]["champion"]
    assert rows[best]["measures"]["R@50"]["mean"] == max(row["measures"]["R@50"]["mean"] for row in rows.values())
    names = {f"Champion + {name}" for name in rows if name != best}
    assert set(found["fusion"]["rows"]) == {"Champion", *names}
    reranked = one.json["results"]["mine"]
    spec = reranked["fusion"]["rows"][reranked["fusion"]["best"]]["spec"]
    assert reranked["reranking"]["rows"][paper.CE]["spec"].startswith(spec)


def test_two_encoders_are_joined(two: Ran) -> None:
    tables = tables_of(two)
    assert list(tables) == ["Table 3", "Table 9"]
    (row,) = [row for row in tables["Table 9"]["rows"] if "concat" in row["spec"]]
    assert row["name"].startswith("Champion + ") and row["cells"][0] > 0 and not row["left_out"]


def test_chunk_sizes_are_layouts(one: Ran) -> None:
    rows = one.json["results"]["mine"]["chunks"]["rows"]
    assert len(rows) == 8 and "fixed(tokens=4096, overlap=0" in rows["4096 BM25"]["spec"]
    assert figures(tables_of(one)["Table 6"])["2048 tokens"][4:] == ["84.9%", "66.5%", "54.3%", "34.8%"]


def test_the_papers_tables_agree_where_they_repeat_each_other() -> None:
    """To find a figure that was copied wrongly. Where they differ, the paper differs."""
    recall, fused, reranked = (printed("support-chatbot", f"Table {n}") for n in (2, 3, 4))
    recall_ndcg, fused_ndcg, reranked_ndcg = (printed("support-chatbot", f"Table {n}") for n in (11, 12, 13))
    assert fused["Champion"] == printed("support-chatbot", "Table 9")["Champion"] == recall["gemini_large_03_07"]
    assert fused_ndcg["Champion"] == recall_ndcg["gemini_large_03_07"]
    best = fused["Champion + Stella 1.5B"]
    assert reranked["Champion"][:4] == best[:4] == printed("support-chatbot", "Table 7")["Champion"]
    assert reranked["Champion"][4:6] == fused["Champion + text-embedding-3-large"][4:6]
    assert reranked_ndcg["BM25"] == recall_ndcg["BM25"]
    assert all(len(row) == 8 for rows in (recall, reranked, reranked_ndcg) for row in rows.values())
    assert printed("support-chatbot", "Table 6")["2048"][2:] == recall["BM25"][4:6]


def test_ctrl_c_keeps_the_stages_that_are_done(tmp_path: Path) -> None:
    folder = make_base(tmp_path / "kb")
    command = [sys.executable, "-m", "surefind", *WORDS_OF, "--offline", "--kb", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "mine: encoders: finished" in line:
                break
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
    assert process.returncode == 130 and "run the same command to continue" in said
    again = surefind(*WORDS_OF, "--offline", kb=folder)
    assert again.code == 0 and "encoders: started" not in again.err and "reranking: started" in again.err


def _model(prompt: str) -> str:
    """Prefers the passages that are shown last, and drafts an answer where no passage is shown."""
    if "<passage" not in prompt:
        return "Mia Reyes approves it."
    if "<query " not in prompt:
        return json.dumps({"analysis": "wrong", "system_prompt": "Prefer the passage that names the thing."})
    return json.dumps({"ranking": upside_down(passages(prompt))})


def test_with_a_model_the_prompts_are_learnt_and_measured(base: Path, llm: LLMServer) -> None:
    llm.reply = _model
    (base / "surefind.toml").write_text(f'{WORDS}\n[llm.prices]\n"{llm.model}" = [1, 1]\n')
    only = ("--only", "Table 4", "--only", "Table 7", "--only", "Appendix E", "--only", "Table 5")
    try:
        refused = surefind(*WORDS_OF, *only, "--llm", llm.model, kb=base)
        assert refused.code == 2 and "Add --yes" in refused.err and not llm.bodies
        ran = surefind(*WORDS_OF, *only, "--llm", llm.model, "--yes", kb=base)
    finally:
        (base / "surefind.toml").write_text(WORDS)
    tables = tables_of(ran)
    rows = figures(tables["Table 4"])
    assert rows[paper.LLM][1] < rows["Champion"][1] and rows[paper.LLM][0] == rows["Champion"][0]
    assert rows[paper.LLM][-1] > 0
    assert figures(tables["Table 5"])[paper.LLM][0] == rows[paper.LLM][-1]
    assert figures(tables["Appendix E"])["HyDE"][0] is not None
    learnt = {row["name"]: row["left_out"] for row in tables["Table 7"]["rows"]}
    assert not learnt[paper.ZERO] and not learnt[paper.ONE]
    assert figures(tables["Table 7"])[paper.ONE][1] is not None


def test_a_cheaper_model_has_a_row_of_its_own(base: Path, llm: LLMServer) -> None:
    llm.reply = _model
    second = f"{llm.model}-small"
    prices = "".join(f'"{one}" = [1, 1]\n' for one in (llm.model, second))
    (base / "surefind.toml").write_text(f"{WORDS}\n[llm.prices]\n{prices}")
    both = ("--llm", llm.model, "--cheaper-llm", second)
    try:
        ran = surefind(*WORDS_OF, "--only", "Table 7", *both, "--yes", kb=base)
        alone = surefind(*WORDS_OF, "--cheaper-llm", second, kb=base)
        other = surefind("study", "cascade", "--exam", "mine", *both, kb=base)
    finally:
        (base / "surefind.toml").write_text(WORDS)
    table = tables_of(ran)["Table 7"]
    assert figures(table)[paper.CHEAP][1] is not None and f"--cheaper-llm '{second}'" in table["command"]
    assert {str(body["model"]) for body in llm.bodies} == {"toy", "toy-small"}
    assert alone.code == 2 and "Choose that one too, with --llm" in alone.err
    assert other.code == 2 and "compares no language models" in other.err


def test_an_encoder_is_tuned_where_torch_is_installed(base: Path) -> None:
    """On questions that are not asked: 42 of 45 are too few, so they are asked twice under other words."""
    pytest.importorskip("torch")
    pytest.importorskip("safetensors")
    with KnowledgeBase.open(base) as kb:
        store = ExamStore(kb.data / "exams")
        first = store.load("mine").queries
        again = tuple(replace(q, id=f"{q.id}-b", text=f"Please tell me: {q.text}") for q in first)
        store.save(Exam("more", (*first, *again)))
    words = ("study", "support-chatbot", "--exam", "more", "--questions", "9", "--offline", "--only", "Table 8")
    table = tables_of(surefind(*words, "--json", kb=base))["Table 8"]
    rows = figures(table)
    assert 0 <= rows["your encoder"][0] <= 1 and 0 <= rows["your encoder, fine-tuned"][0] <= 1
    assert not any(row["left_out"] for row in table["rows"])


def test_an_encoder_behind_an_endpoint_is_not_tuned(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "need_torch", lambda: None)
    monkeypatch.setattr(measure, "MIN_QUESTIONS", 1)
    with KnowledgeBase.open(base) as kb:
        rest = ExamStore(kb.data / "exams").load("mine")
    assert "openai(model=m) cannot be trained here" in measure._why_not_tuned(rest, "openai(model=m)")
    assert measure._why_not_tuned(rest, "minilm") == ""
