"""`surefind study support-chatbot`: its tables, with one encoder and with two, with and without a language model."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from exam_helpers import Ran, surefind
from helpers import WORDS
from llm_server import LLMServer
from llm_steps import passages, uneven, upside_down
from study_helpers import THINGS, figures, make_base, printed, tables_of
from surefind.base import spec
from surefind.base.errors import SurefindError
from surefind.base.types import Document
from surefind.engine.services import LocalServices
from surefind.lab.study.context import Options, RunContext, Wanted, open_collections
from surefind.lab.study.studies import support_chatbot as measure
from surefind.lab.train.prompt import FAILED, MIN_RECALL

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
    numbers = [
        "Table 1",
        "Table 2",
        "Table 11",
        "Table 3",
        "Table 12",
        "Table 9",
        "Table 10",
        "Table 4",
        "Table 13",
        "Table 5",
    ]
    assert list(tables_of(one)) == [*numbers, "Appendix E", "Table 6", "Table 7", "Table 8"]


def test_what_was_left_out_is_named_with_its_reason(one: Ran) -> None:
    tables = tables_of(one)
    left_out = {
        number: {row["name"]: row["left_out"] for row in table["rows"] if row["left_out"]}
        for number, table in tables.items()
    }
    model = "left out: needs a language model (--llm)"
    assert left_out["Table 4"] == dict.fromkeys([measure.LLM, measure.SLIDE, measure.BM25_LLM], model)
    assert left_out["Appendix E"] == {"HyDE": model}
    assert left_out["Table 9"] == {"Champion + another encoder": "left out: needs a second one (--encoder)"}
    assert {left_out["Table 7"][name] for name in (measure.ZERO, measure.ONE, measure.META)} == {model}
    assert left_out["Table 7"][measure.CHEAP] == "left out: needs a second model (--cheaper-llm)"


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
    assert rows[measure.CE][0] == rows["Champion"][0]
    assert rows[measure.BM25_CE][0] == rows["BM25"][0]
    assert all(rows[name][-2] > 0 and rows[name][-1] == 0 for name in ("Champion", measure.CE, "BM25"))


def test_the_champion_is_the_best_by_r_at_50_and_goes_on(one: Ran, two: Ran) -> None:
    found = two.json["results"]["mine"]
    rows = found["encoders"]["rows"]
    best = found["encoders"]["champion"]
    assert rows[best]["measures"]["R@50"]["mean"] == max(row["measures"]["R@50"]["mean"] for row in rows.values())
    names = {f"Champion + {name}" for name in rows if name != best}
    assert set(found["fusion"]["rows"]) == {"Champion", *names}
    reranked = one.json["results"]["mine"]
    spec = reranked["fusion"]["rows"][reranked["fusion"]["best"]]["spec"]
    assert reranked["reranking"]["rows"][measure.CE]["spec"].startswith(spec)


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
    assert rows[measure.LLM][1] < rows["Champion"][1] and rows[measure.LLM][0] == rows["Champion"][0]
    assert rows[measure.LLM][-1] > 0
    assert figures(tables["Table 5"])[measure.LLM][0] == rows[measure.LLM][-1]
    assert figures(tables["Appendix E"])["HyDE"][0] is not None
    learnt = {row["name"]: row["left_out"] for row in tables["Table 7"]["rows"]}
    assert not learnt[measure.ZERO] and not learnt[measure.ONE]
    assert figures(tables["Table 7"])[measure.ONE][1] is not None


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
    assert figures(table)[measure.CHEAP][1] is not None and f"--cheaper-llm '{second}'" in table["command"]
    assert {str(body["model"]) for body in llm.bodies} == {"toy", "toy-small"}
    assert alone.code == 2 and "Choose that one too, with --llm" in alone.err
    assert other.code == 2 and "compares no language models" in other.err


def _written(prompt: str) -> str:
    """Writes questions, or a question with a negative, about the passage that is shown."""
    thing = next((thing for thing in THINGS if f"The {thing}" in prompt), "vault")
    if '"negative"' in prompt:
        other = "Nobody here says who approves it, only that it is kept in a room beside the stairs."
        return json.dumps({"query": f"who says yes to one {thing}?", "negative": other})
    return json.dumps({"questions": [f"who says yes to one {thing}?", f"is a {thing} approved by somebody?"]})


def test_table_8_has_eight_rows_four_measures_two_sizes(
    tmp_path: Path, llm: LLMServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All encoders of Table 8 are trained on what the model wrote, and measured on questions of the exam."""
    pytest.importorskip("torch")
    pytest.importorskip("safetensors")
    from surefind.lab.train import neural

    monkeypatch.setattr(neural, "MIN_PAIRS", 8)  # a triplet for each of 15 passages
    base = make_base(tmp_path / "kb", "Papers about it are stored for seven years in room five beside the stairs.")
    llm.reply = _written
    (base / "surefind.toml").write_text(f'{WORDS}\n[llm.prices]\n"{llm.model}" = [1, 1]\n')
    chosen = ("--encoder", "minilm", "--encoder", "arctic", "--only", "Table 8", "--llm", llm.model)
    try:
        refused = surefind(*WORDS_OF, *chosen, kb=base)
        assert refused.code == 2 and "Add --yes" in refused.err and not llm.bodies
        table = tables_of(surefind(*WORDS_OF, *chosen, "--yes", kb=base))["Table 8"]
    finally:
        (base / "surefind.toml").write_text(WORDS)
    rows = {row["name"]: row for row in table["rows"]}
    assert list(rows)[:8] == list(printed("support-chatbot", "Table 8"))
    assert [head["text"] for head in table["heads"]] == ["nDCG@5", "nDCG@10", "R@10", "R@50"] * 2
    ours = [name for name in rows if "headings" not in name]
    assert not [rows[name]["left_out"] for name in ours if rows[name]["left_out"]]
    assert all(0 <= cell <= 1 for name in ours for cell in rows[name]["cells"][:4])
    assert all("study-fine-tuned-on" in rows[name]["spec"] for name in ours if name.startswith("fine-tuned"))
    assert "fixed(tokens=512" in rows["fine-tuned on triplets, 512"]["spec"]
    assert {"questions" in prompt for prompt in llm.prompts} == {True, False}  # questions, and triplets


def test_without_a_model_the_rows_of_table_8_that_need_one_say_so(one: Ran) -> None:
    rows = {row["name"]: row for row in tables_of(one)["Table 8"]["rows"]}
    model = "left out: needs a language model (--llm)"
    asked = [name for name, row in rows.items() if row["left_out"] == model]
    assert asked == [name for name in rows if "questions" in name or "triplets" in name or "GPL" in name]
    assert rows["another encoder, 512"]["left_out"] == "left out: needs a second one (--encoder)"
    assert all(0 <= cell <= 1 for size in (512, 2048) for cell in rows[f"as it is, {size}"]["cells"][:4])


def test_an_encoder_behind_an_endpoint_is_not_tuned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "need_torch", lambda: None)
    assert "openai(model=m) cannot be trained here" in measure._why_not("openai(model=m)", LocalServices())
    assert measure._why_not("minilm", LocalServices()) == ""


def test_the_settings_of_fine_tuning_are_those_of_the_paper(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = {}
    monkeypatch.setattr(measure, "_why_not", lambda encoder, services: "")
    fake = SimpleNamespace(fit_encoder=lambda kb, job, *_: jobs.setdefault(job.name, job) and _refuse())
    monkeypatch.setitem(sys.modules, "surefind.lab.train.neural", fake)
    (mine,) = open_collections(base, Wanted(("mine",), questions=9))
    with mine.kb:
        context = RunContext(mine, Options(llm=True))
        found = measure.fine_tune(context, {}, measure.untuned(context, {}))
    assert len(jobs) == 7 and "no room" in str(found["left_out"])
    assert {(job.rate, job.batch, job.warmup, job.epochs, job.share) for job in jobs.values()} == {
        (6.25e-6, 8, 500, 1, 1.0)
    }
    losses = {name.removeprefix("study-").removesuffix("-mine"): (job.write, job.loss) for name, job in jobs.items()}
    assert losses["fine-tuned-on-questions-2048"] == ("questions", "multiple-negatives")
    assert losses["fine-tuned-on-triplets-512"] == ("triplets", "triplet")
    assert losses["another-encoder-gpl-512"] == ("questions", "margin-mse")


def _refuse() -> None:
    raise SurefindError("There is no room.")


# ---------------------------------------------------------------- Table 1, repeated runs


def test_table_1_counts_questions_documents_and_passages(one: Ran, base: Path) -> None:
    table = tables_of(one)["Table 1"]
    rows = figures(table)
    assert rows["paper: Help Articles"] == [310, 3.6, 28870, 20243, 15848, 237, 480, 125248]
    questions, relevant, small, large, documents, median, p75, most = rows["mine"]
    assert (questions, relevant, documents) == (9, 1.0, len(THINGS))
    assert small == large == len(THINGS) and 0 < median <= p75 <= most < 100


def test_passages_are_counted_as_they_are_cut() -> None:
    texts = ["word " * count for count in (1, 511, 512, 513, 1500, 5000)]
    chunker = spec.make("chunk", "fixed(tokens=512, overlap=0)")
    cut = [len(chunker.chunk(Document(f"{i}.md", text, ""), LocalServices())) for i, text in enumerate(texts)]
    context: Any = SimpleNamespace(
        kb=SimpleNamespace(documents=lambda access: [Document(f"{i}.md", text, "") for i, text in enumerate(texts)]),
        access=None,
        exam=SimpleNamespace(queries=()),
    )
    assert measure.count(context, {}, ())["chunks_512"] == sum(cut)


def test_a_row_that_is_run_three_times_has_an_interval(base: Path, llm: LLMServer) -> None:
    """The model turns the passages round in the first run only, so the three means differ."""
    seen: set[str] = set()

    def model(prompt: str) -> str:
        first = prompt not in seen
        seen.add(prompt)
        numbers = sorted(passages(prompt))
        return json.dumps({"ranking": upside_down(numbers) if first else uneven(numbers)})

    llm.reply = model
    (base / "surefind.toml").write_text(f'{WORDS}\n[llm.prices]\n"{llm.model}" = [1, 1]\n')
    try:
        ran = surefind(*WORDS_OF, "--only", "Table 4", "--llm", llm.model, "--repeats", "3", "--yes", kb=base)
        other = surefind("study", "cascade", "--exam", "mine", "--repeats", "2", "--offline", kb=base)
    finally:
        (base / "surefind.toml").write_text(WORDS)
    table = tables_of(ran)["Table 4"]
    rows = figures(table)
    assert set(rows) == set(printed("support-chatbot", "Table 4"))  # the runs are one row
    assert re.fullmatch(r"\d+\.\d% ± \d+\.\d", rows[measure.LLM][1]) and not rows[measure.LLM][1].endswith("± 0.0")
    assert isinstance(rows["Champion"][1], float) and "--repeats 3" in table["command"]
    assert other.code == 2 and "repeats no rows" in other.err


def test_the_interval_of_runs_is_students() -> None:
    row = lambda mean: {"measures": {"R@10": {"mean": mean}}, "aliases": [], "scores": []}  # noqa: E731
    found = measure.folded({"rows": {"a": row(0.5), "a, run 1": row(0.6), "a, run 2": row(0.7), "b": row(0.1)}})
    assert found["rows"]["a"]["measures"]["R@10"]["mean"] == pytest.approx(0.6) and found["runs"] == 3
    assert found["rows"]["a"]["spread"]["R@10"] == pytest.approx(4.303 * 0.1 / 3**0.5)
    assert list(found["rows"]) == ["a", "b"] and "spread" not in found["rows"]["b"]


# ---------------------------------------------------------------- the paper's settings


def test_the_model_reads_512_tokens_of_fifty_passages(base: Path) -> None:
    (mine,) = open_collections(base, Wanted(("mine",), questions=9))
    with mine.kb:
        specs = {one.name: str(one.pipeline) for one in measure.reranked(RunContext(mine, Options(llm=True)), {})}
    for row in (measure.LLM, measure.SLIDE, measure.BM25_LLM):
        assert "passage_tokens=512" in specs[row] and "top=50" in specs[row]


def test_a_prompt_is_learnt_from_up_to_a_thousand_questions(base: Path) -> None:
    (mine,) = open_collections(base, Wanted(("mine",), questions=9))
    with mine.kb:
        trainer = measure._trainer(RunContext(mine, Options(llm=True)), {})
    assert trainer is not None and len(trainer.queries) == 36 and trainer.rounds == 1000  # all that are not asked
    assert (MIN_RECALL, FAILED) == (0.5, 0.3)
