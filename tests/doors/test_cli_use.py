"""`surefind use` and `bench --use`: what they write, build, print and refuse; and names in other commands."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from cases import each
from exam_helpers import Ran, copy_few, surefind
from helpers import WORDS, Home
from report_helpers import row, save_report
from surefind.base.disk.sealed import sealed, unsealed
from surefind.base.errors import MissingPartError
from surefind.engine.retrieve.tfidf import TfIdf
from surefind.kb.settings.config import TEMPLATE, load_settings

COMMENTED = """\
# our handbook
[search]
pipeline = "words"   # since 2024

[index]
chunk = "markdown"

[pipelines.words]    # the fast one
retrieve = ["bm25"]
"""
FUSED = "bm25 + tfidf >> rrf(k=10)"
RECOMMENDED = "Convex α=0.5"


@pytest.fixture
def base(home: Home) -> Home:
    """Two documents, synced for BM25, and a report with three rows."""
    home.configure(COMMENTED)
    home.write("docs/a.md", "# Cash\n\nThe teller counts cash twice before the vault opens.")
    home.write("docs/b.md", "# Wires\n\nThe wire desk sends wires until three.")
    home.sync("docs")
    save_report(home.folder, "questions", row("BM25", "bm25"), row(RECOMMENDED, FUSED), recommended=RECOMMENDED)
    return home


def text(home: Home) -> str:
    return (home.folder / "surefind.toml").read_text(encoding="utf-8")


def state(folder: Path) -> dict[str, tuple[int, int]]:
    """Every file and when it was written, except what each process that reads leaves behind."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    kept = [path for path in files if "readers" not in path.parts and "catalogue.db-" not in path.name]
    return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in kept}


def refused(ran: Ran, code: int, *says: str) -> None:
    assert (ran.code, ran.out) == (code, "")
    assert all(part in ran.err for part in says), ran.err
    assert "Traceback" not in ran.err


# ---------------------------------------------------------------- adopting


def test_row_is_adopted_with_comments_kept_and_can_be_undone(base: Home) -> None:
    ran = surefind("use", RECOMMENDED, kb=base.folder)
    assert ran.code == 0, ran.err
    assert f"pipeline: words → {RECOMMENDED}\n" in ran.out and ">> rrf(k=10.0)\n" in ran.out
    assert "Built: tfidf.\n" in ran.out and "Undo with: surefind use --undo\n" in ran.out
    now = text(base)
    assert now.startswith(COMMENTED.replace('"words"', f'"{RECOMMENDED}"')) and f'[pipelines."{RECOMMENDED}"]' in now
    found = surefind("search", "cash", "--json", kb=base.folder)
    assert found.json["pipeline"].endswith(">> rrf(k=10.0)") and "Building" not in found.err
    undone = surefind("use", "--undo", kb=base.folder)
    assert f"pipeline: {RECOMMENDED} → words\n" in undone.out
    assert f"surefind.toml is as it was before {RECOMMENDED} was adopted" in undone.out
    assert text(base) == COMMENTED


def test_json_says_what_changed(base: Home) -> None:
    made = surefind("use", "convex alpha=0.5", "--json", kb=base.folder).json
    assert {key: made[key] for key in ("name", "changed", "dry_run", "undone", "built", "file")} == {
        "name": RECOMMENDED, "changed": True, "dry_run": False, "undone": False, "built": ["tfidf"],
        "file": str(base.folder / "surefind.toml"),
    }  # fmt: skip
    assert (made["before"]["pipeline"], made["after"]["pipeline"]) == ("words", RECOMMENDED)
    undone = surefind("use", "--undo", "--json", kb=base.folder).json
    assert (undone["undone"], undone["after"]["pipeline"], undone["built"]) == (True, "words", [])


def test_name_of_an_equal_pipeline_is_explained(base: Home) -> None:
    base.configure(COMMENTED + '\n[pipelines.mine]\nretrieve = ["bm25", "tfidf"]\nfuse = "rrf(k=10)"\n')
    ran = surefind("use", RECOMMENDED, kb=base.folder)
    assert f"{RECOMMENDED} is called mine in surefind.toml.\npipeline: words → mine\n" in ran.out


def test_configuration_that_is_in_use_changes_nothing(base: Home) -> None:
    before = state(base.folder)
    ran = surefind("use", "BM25", kb=base.folder)
    assert (ran.code, "words is the default already" in ran.out) == (0, True)
    assert state(base.folder) == before
    refused(surefind("use", "--undo", kb=base.folder), 2, "there is nothing to undo")


def test_dry_run_writes_nothing(base: Home) -> None:
    before = state(base.folder)
    ran = surefind("use", RECOMMENDED, "--dry-run", kb=base.folder)
    assert f"pipeline: words → {RECOMMENDED}\n" in ran.out and "To build: tfidf. This was a dry run" in ran.out
    assert surefind("use", RECOMMENDED, "--dry-run", "--json", kb=base.folder).json["built"] == ["tfidf"]
    assert state(base.folder) == before


def test_dry_run_of_undo_writes_nothing(base: Home) -> None:
    surefind("use", RECOMMENDED, kb=base.folder)
    before = state(base.folder)
    ran = surefind("use", "--undo", "--dry-run", kb=base.folder)
    assert f"pipeline: {RECOMMENDED} → words\n" in ran.out
    assert state(base.folder) == before


def test_knowledge_base_without_settings_gets_a_commented_file(base: Home) -> None:
    (base.folder / "surefind.toml").unlink()
    base.sync("docs", index=False)
    assert surefind("use", "tfidf", kb=base.folder).code == 0
    comments = [line for line in TEMPLATE.splitlines() if line.startswith("#")]
    assert [line for line in text(base).splitlines() if line.startswith("#")] == comments
    assert load_settings(base.folder / "surefind.toml").pipeline == "tfidf"
    assert surefind("use", "--undo", kb=base.folder).code == 0
    assert not (base.folder / "surefind.toml").exists()


def test_settings_without_documents_are_changed_and_the_first_sync_builds(home: Home) -> None:
    assert surefind("use", "tfidf", kb=home.folder).code == 0
    home.write("docs/a.md", "# Cash\n\nThe teller counts cash.")
    home.sync("docs")
    assert surefind("search", "cash", "--json", kb=home.folder).json["pipeline"].startswith("tfidf")


def test_folder_without_a_knowledge_base_gets_no_settings(tmp_path: Path) -> None:
    refused(surefind("use", "tfidf", kb=tmp_path), 3, "There is no knowledge base", "surefind.toml was not changed.")
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------- layouts


@pytest.fixture
def cut(base: Home) -> Home:
    save_report(base.folder, "chunking", row("whole | fused", FUSED, "whole", pipeline="fused"))
    return base


def test_row_with_another_layout_is_adopted_with_it(cut: Home) -> None:
    ran = surefind("use", "whole | fused", kb=cut.folder)
    assert "pipeline: words → fused\n" in ran.out and "→ whole\n" in ran.out and "Built: bm25, tfidf." in ran.out
    now = load_settings(cut.folder / "surefind.toml")
    assert (now.pipeline, str(now.layout)) == ("fused", "whole")
    (hit,) = surefind("search", "cash", "-k", "1", "--json", kb=cut.folder).json["hits"]
    assert hit["text"].startswith("# Cash")
    assert surefind("use", "--undo", kb=cut.folder).code == 0
    assert text(cut) == COMMENTED
    assert surefind("search", "cash", kb=cut.folder).code == 0


def test_search_uses_the_layout_of_a_row_and_changes_nothing(cut: Home) -> None:
    long = "# Cash\n\n" + "The teller counts cash. " * 200 + "\n\n# Vault\n\n" + "The vault opens. " * 300
    cut.write("docs/c.md", long, age=0)
    cut.sync("docs")
    ran = surefind("search", "vault", "-p", "whole | fused", "-k", "1", "--json", "--build", kb=cut.folder)
    (hit,) = ran.json["hits"]
    assert (hit["document"], hit["start"], hit["end"]) == ("c.md", 0, len(long.rstrip()))
    (other,) = surefind("search", "vault", "-p", "words", "-k", "1", "--json", kb=cut.folder).json["hits"]
    assert (other["document"], other["start"] > 0) == ("c.md", True)
    assert text(cut) == COMMENTED


@pytest.mark.usefixtures("toys")
def test_search_asks_no_language_model_to_cut_documents(cut: Home) -> None:
    save_report(cut.folder, "paid", row("with context", "bm25", "whole + asks_context"))
    ran = surefind("search", "cash", "-p", "with context", "--build", kb=cut.folder)
    refused(ran, 2, "asks a language model about each of them", "`surefind use` estimates the cost")


def test_layout_that_costs_money_is_adopted_only_with_consent(cut: Home) -> None:
    cut.configure(before := COMMENTED + '\n[llm]\nmodel = "openai:gpt-4o-mini"\n')
    save_report(cut.folder, "paid", row("with context", "bm25", "whole + llm_context"))
    ran = surefind("use", "with context", kb=cut.folder)
    refused(ran, 2, "This may cost money", "Add --yes to continue.", "surefind.toml was not changed.")
    assert text(cut) == before


def test_fuser_of_a_row_can_be_replaced_and_its_layout_stays(cut: Home) -> None:
    ran = surefind("search", "cash", "-p", "whole | fused", "--fuse", "combsum", "--json", "--build", kb=cut.folder)
    assert ran.json["pipeline"].endswith(">> combsum") and ran.json["hits"][0]["start"] == 0


# ---------------------------------------------------------------- what is refused


def test_without_a_name_the_recommended_row_is_suggested(base: Home) -> None:
    refused(surefind("use", kb=base.folder), 2, f"The report questions recommends: surefind use '{RECOMMENDED}'.")


def test_without_a_name_and_a_report_bench_is_suggested(home: Home) -> None:
    refused(surefind("use", kb=home.folder), 2, "To find the best one, run: surefind bench.")


def test_misspelt_row_is_suggested(base: Home) -> None:
    refused(surefind("use", "Convex α=0.6", kb=base.folder), 2, f"Did you mean {RECOMMENDED}?")


def test_row_of_a_given_report(base: Home, tmp_path: Path) -> None:
    other = save_report(tmp_path / "elsewhere", "x", row("BM25", "bm25(k1=2)"), row("words", "bm25(k1=3)"))
    refused(surefind("use", "Vector", "--report", other, kb=base.folder), 2, "There is no row 'Vector'", "BM25, words")
    assert surefind("use", "words", "--report", other / "report.json", kb=base.folder).code == 0
    now = load_settings(base.folder / "surefind.toml")
    assert (now.pipeline, str(now.named(now.pipeline))) == ("words (2)", "bm25(k1=3.0, b=0.75, analyzer=auto)")


def test_file_that_was_edited_by_hand_is_not_restored(base: Home) -> None:
    surefind("use", RECOMMENDED, kb=base.folder)
    base.configure(edited := text(base) + "# mine\n")
    refused(surefind("use", "--undo", kb=base.folder), 2, "was edited after", "run: surefind use words.")
    assert text(base) == edited
    assert surefind("use", "words", kb=base.folder).code == 0
    assert load_settings(base.folder / "surefind.toml").pipeline == "words" and text(base).endswith("# mine\n")


def test_undo_takes_no_name(base: Home) -> None:
    refused(surefind("use", "BM25", "--undo", kb=base.folder), 2, "--undo takes no name")


def test_read_only_file_is_refused_before_anything_is_built(base: Home) -> None:
    (base.folder / "surefind.toml").chmod(0o444)
    before = state(base.folder)
    refused(surefind("use", RECOMMENDED, kb=base.folder), 2, "surefind.toml is read-only and was not changed")
    refused(surefind("bench", "--use", kb=base.folder), 2, "surefind.toml is read-only and was not changed")
    assert state(base.folder) == before


@pytest.mark.parametrize(
    ("failure", "code", "says"),
    [(MissingPartError("The package x is not installed."), 4, "not installed"), (KeyboardInterrupt(), 130, "Stopped.")],
)
def test_failed_build_leaves_the_file_untouched(
    base: Home, monkeypatch: pytest.MonkeyPatch, failure: BaseException, code: int, says: str
) -> None:
    def broken(*_: object) -> None:
        raise failure

    monkeypatch.setattr(TfIdf, "build", broken)
    refused(surefind("use", RECOMMENDED, kb=base.folder), code, "surefind.toml was not changed.", says)
    assert text(base) == COMMENTED
    monkeypatch.undo()
    refused(surefind("use", "--undo", kb=base.folder), 2, "there is nothing to undo")
    assert surefind("use", RECOMMENDED, kb=base.folder).code == 0


SLOW = """
import time
from surefind.engine.retrieve import tfidf
def build(*_):
    print("building", flush=True)
    time.sleep(60)
tfidf.TfIdf.build = build
from surefind.doors.cli import main
main()
"""


def test_ctrl_c_while_indexes_are_built_leaves_the_file_untouched(base: Home) -> None:
    command = [sys.executable, "-c", SLOW, "use", RECOMMENDED, "--kb", str(base.folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "building\n"
    time.sleep(0.2)
    os.kill(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 130 and "surefind.toml was not changed." in err and "Traceback" not in err
    assert text(base) == COMMENTED


# ---------------------------------------------------------------- bench --use


@pytest.fixture(scope="module")
def ten(tmp_path_factory: pytest.TempPathFactory) -> Home:
    home = Home(tmp_path_factory.mktemp("ten"))
    copy_few(home.docs)
    home.sync("docs")
    return home


BENCH = ("bench", "--per-family", "10", "-p", "bm25(k1=0, b=0)", "-p", "BM25", "--use")


def adopted(home: Home) -> str:
    settings = load_settings(home.folder / "surefind.toml")
    return str(settings.named(settings.pipeline))


def recommended(report: dict[str, Any]) -> str:
    return next(str(one["spec"]) for one in report["rows"] if one["name"] == report["recommended"])


def test_benchmark_adopts_what_it_recommends(ten: Home) -> None:
    ten.configure(WORDS.replace('"bm25"', '"tfidf"'))
    ran = surefind(*BENCH, kb=ten.folder)
    assert ran.code == 0, ran.err
    assert ran.out.index("Report: ") < ran.out.index("pipeline: words → ") < ran.out.index("surefind use --undo")
    saved = max((ten.folder / ".surefind" / "reports").glob("*/report.json"), key=lambda path: path.stat().st_mtime_ns)
    assert adopted(ten) == recommended(json.loads(saved.read_text(encoding="utf-8")))
    assert surefind("use", "--undo", kb=ten.folder).code == 0
    assert text(ten) == WORDS.replace('"bm25"', '"tfidf"')


def test_benchmark_in_json_says_what_it_adopted(ten: Home) -> None:
    ten.configure(WORDS.replace('"bm25"', '"tfidf"'))
    made = surefind(*BENCH, "--json", kb=ten.folder).json
    assert (made["adopted"]["changed"], made["adopted"]["after"]["spec"]) == (True, recommended(made))
    assert adopted(ten) == recommended(made)


def test_benchmark_says_how_to_adopt_what_it_recommends(ten: Home, tmp_path: Path) -> None:
    ten.configure(WORDS.replace('"bm25"', '"tfidf"'))
    (ten.folder / "surefind.toml").chmod(0o444)
    for where in ((), ("--out", str(tmp_path / "my report"))):
        ran = surefind(*BENCH[:-1], *where, kb=ten.folder)
        assert ran.code == 0, ran.err
        (command,) = [line for line in ran.out.splitlines() if "default with: surefind use " in line]
        (ten.folder / "surefind.toml").chmod(0o644)
        assert surefind(*shlex.split(command.partition("with: surefind ")[2]), kb=ten.folder).code == 0
        assert "default with: surefind use" not in surefind(*BENCH[:-1], *where, kb=ten.folder).out
        assert surefind("use", "--undo", kb=ten.folder).code == 0


def test_every_row_of_the_report_is_a_name_for_search(ten: Home) -> None:
    ten.configure(WORDS)
    made = surefind(*BENCH[:-1], "-p", "bm25 + tfidf >> rrf(k=[10, 60])", "--json", kb=ten.folder).json
    assert len(made["rows"]) == 4
    for one in made["rows"]:
        ran = surefind("search", "wire", "-p", one["name"], "--json", kb=ten.folder)
        assert ran.json["pipeline"] == one["spec"], ran.err


@each(
    ("words", "says"),
    [
        (("--exam", "a", "--exam", "b"), "--save, --check and --use work with one exam only"),
        (("--dry-run",), "--dry-run measures nothing"),
        (("--beir", "x"), "--beir measures other documents"),
    ],
)
def test_benchmark_adopts_only_what_it_measured(ten: Home, words: tuple[str, ...], says: str) -> None:
    refused(surefind("bench", *words, "--use", kb=ten.folder), 2, says)


def test_failed_check_adopts_nothing(ten: Home, tmp_path: Path) -> None:
    ten.configure(WORDS)
    baseline = tmp_path / "baseline.json"
    command = ("bench", "--per-family", "10", "-p", "bm25")
    assert surefind(*command, "--save", baseline, kb=ten.folder).code == 0
    saved = unsealed(json.loads(baseline.read_text(encoding="utf-8")))
    for one in saved["rows"]:
        one["scores"] = [1.0 + score for score in one["scores"]]
    baseline.write_text(json.dumps(sealed(saved)), encoding="utf-8")
    ten.configure(before := WORDS.replace('"bm25"', '"tfidf"'))
    ran = surefind(*command, "--check", baseline, "--use", kb=ten.folder)
    assert ran.code == 1 and "The check failed, so nothing was adopted." in ran.err
    assert text(ten) == before


# ---------------------------------------------------------------- names in other commands


@pytest.mark.parametrize("name", ["BM25", "bm25", "tfidf", RECOMMENDED, "convex alpha=0.5", FUSED])
def test_search_takes_rows_presets_retrievers_and_specs(base: Home, name: str) -> None:
    assert surefind("search", "cash", "-p", name, "--build", kb=base.folder).code == 0


def test_settings_of_bench_take_the_same_names(ten: Home) -> None:
    ten.configure(WORDS + '\n[bench]\npipelines = ["BM25", "tfidf"]\n')
    made = surefind("bench", "--per-family", "10", "--json", kb=ten.folder).json
    assert [one["name"] for one in made["rows"]] == ["BM25", "tfidf"]


def test_training_takes_the_same_names(base: Home) -> None:
    assert surefind("exam", "generate", "--name", "mine", kb=base.folder).code == 0
    for command in (("train", "reranker"), ("train", "encoder"), ("train", "prompt")):
        refused(
            surefind(*command, "--exam", "mine", "-p", "Convex α=0.6", kb=base.folder), 2, f"Did you mean {RECOMMENDED}"
        )
