"""The command line: every command, its JSON, its exit codes, its complaints."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from cases import each
from exam_helpers import QUESTIONS, Ran, copy_few, query, surefind
from helpers import EXAMPLE, WORDS, Home, ask
from surefind import __version__
from surefind.base.disk.sealed import sealed, unsealed
from surefind.doors.cli import app
from surefind.engine.search.reader import Searcher
from surefind.engine.store.lock import writer_lock
from surefind.kb import KnowledgeBase
from surefind.lab.exam.model import Exam, Judgment
from surefind.lab.exam.store import ExamStore

HIT = {
    "rank", "score", "document", "id", "title", "headings", "location", "start", "end", "matched", "text", "stages",
    "sentence", "source", "path", "lines", "version",
}  # fmt: skip


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The whole sample, synced for BM25."""
    home = Home(tmp_path_factory.mktemp("cli"))
    assert surefind("sync", EXAMPLE, kb=home.folder).code == 0
    return home.folder


@pytest.fixture
def small(home: Home) -> Home:
    home.write("docs/a.md", "---\nstatus: final\n---\n# Cash\n\nThe teller counts cash twice before the vault opens.")
    home.write("docs/b.md", "---\nacl: [audit]\n---\n# Audit\n\nThe auditors count cash once a year.")
    assert surefind("sync", home.docs, kb=home.folder).code == 0
    return home


def check_complaint(ran: Ran, code: int, says: str) -> None:
    """One sentence on the error stream, after any progress; nothing on the other stream, and the exit code."""
    assert ran.code == code
    assert re.search(says, ran.err), ran.err
    assert re.search("^surefind: ", ran.err, re.MULTILINE) and "Traceback" not in ran.err
    assert ran.out == ""


# ---------------------------------------------------------------- init, sync, status


def test_init_writes_settings_that_are_the_defaults(tmp_path: Path) -> None:
    assert surefind("init", kb=tmp_path).code == 0
    assert KnowledgeBase.open(tmp_path).settings == KnowledgeBase.open(tmp_path / "none").settings


def test_init_explains_every_setting(tmp_path: Path) -> None:
    surefind("init", kb=tmp_path)
    lines = (tmp_path / "surefind.toml").read_text(encoding="utf-8").splitlines()
    assert sum(line.startswith("#") for line in lines) >= 10


def test_init_replaces_nothing(home: Home) -> None:
    check_complaint(surefind("init", kb=home.folder), 2, r"surefind\.toml already exists.*surefind init --force")
    assert (home.folder / "surefind.toml").read_text(encoding="utf-8") == WORDS


def test_init_replaces_settings_when_forced(home: Home) -> None:
    assert surefind("init", "--force", kb=home.folder).code == 0
    assert (home.folder / "surefind.toml").read_text(encoding="utf-8") != WORDS


def test_init_json_names_the_file(tmp_path: Path) -> None:
    assert surefind("init", "--json", kb=tmp_path).json == {"written": str(tmp_path / "surefind.toml")}


def test_sync_json_counts(home: Home) -> None:
    home.write("docs/a.md", "# A\n\ntext")
    found = surefind("sync", home.docs, "--json", kb=home.folder).json
    assert (found["added"], found["documents"], found["problems"]) == (1, 1, [])


def test_sync_says_what_changed(small: Home) -> None:
    small.write("docs/c.md", "# C\n\nnew")
    assert "1 added, 0 changed, 0 removed, 2 unchanged" in surefind("sync", kb=small.folder).out


def test_sync_forgets_a_folder(small: Home) -> None:
    assert "2 removed" in surefind("sync", "--forget", small.docs, kb=small.folder).out


def test_status_json(small: Home) -> None:
    found = surefind("status", "--json", kb=small.folder).json
    assert (found["documents"], found["restricted"], found["sources"]) == (2, 1, [str(small.docs)])


def test_status_lists_skipped_files(small: Home) -> None:
    small.write("docs/c.md", b"\x00\x01")
    surefind("sync", kb=small.folder)
    assert re.search(r"Skipped +1 files:\n  c\.md looks binary", surefind("status", kb=small.folder).out)


def test_version_is_printed() -> None:
    assert surefind("--version").out == f"surefind {__version__}\n"


# ---------------------------------------------------------------- search


def test_search_json_has_the_documented_keys(small: Home) -> None:
    found = surefind("search", "cash", "--json", kb=small.folder).json
    assert {"query", "hits", "trace"} <= found.keys()
    assert [hit.keys() >= HIT for hit in found["hits"]] == [True]
    assert found["trace"][0].keys() >= {"stage", "spec", "candidates", "ms"}


def test_search_json_has_no_keys_beyond_the_known(small: Home) -> None:
    """A key more is a promise more: add it here and to the documentation."""
    found = surefind("search", "cash", "--json", kb=small.folder).json
    sure = {
        "answered",
        "confidence",
        "confidence_from",
        "confidence_own",
        "sure",
        "known_words",
        "closest",
        "waiting_for",
    }
    assert found.keys() == {"query", "pipeline", "hits", "trace", "generation", "waiting_for", "searched", *sure}
    assert found["hits"][0].keys() == HIT | {"metadata"}


def test_search_gives_the_hits_of_the_knowledge_base(base: Path) -> None:
    found = surefind("search", "CTR filing deadline", "-k", "3", "--json", kb=base).json["hits"]
    with KnowledgeBase.open(base) as kb:
        hits = ask(kb, "CTR filing deadline", 3).hits
    assert [(hit["id"], hit["score"]) for hit in found] == [(hit.id, hit.score) for hit in hits]


def test_search_takes_words_without_quotes(base: Path) -> None:
    quoted = surefind("search", "CTR filing deadline", "--json", kb=base).json
    assert surefind("search", "CTR", "filing", "deadline", "--json", kb=base).json["hits"] == quoted["hits"]


def test_search_takes_a_pipeline_in_place(base: Path) -> None:
    options = ("--retrieve", "bm25", "--retrieve", "bm25(k1=0)", "--fuse", "rrf(k=60)", "--depth", "50")
    found = surefind("search", "wire", *options, "--json", kb=base).json
    assert found["pipeline"].startswith("bm25(") and "@50 >> rrf(" in found["pipeline"]
    assert [entry["stage"] for entry in found["trace"]] == ["retrieve", "retrieve", "fuse", "parents"]


def test_search_changes_a_part_of_the_default_pipeline(base: Path) -> None:
    def ran(*options: str) -> str:
        return str(
            surefind("search", "wire", "-p", "bm25 + bm25(k1=0) >> rrf(k=9)", *options, "--json", kb=base).json[
                "pipeline"
            ]
        )

    whole = ran()
    assert ran("--depth", "50") == whole.replace(" >>", " @50 >>", 1)
    assert ran("--fuse", "combsum") == f"{whole.split(' >> ')[0]} >> combsum"
    assert ran("--rerank", "cross_encoder(model=nowhere)").startswith(f"{whole} >> cross_encoder(")


def test_search_that_finds_nothing_exits_1(small: Home) -> None:
    ran = surefind("search", "zebra", kb=small.folder)
    assert ran.code == 1 and ran.out.startswith("Nothing found for 'zebra'.\n")


def test_search_that_finds_nothing_exits_1_with_json(small: Home) -> None:
    ran = surefind("search", "zebra", "--json", kb=small.folder)
    assert (ran.code, ran.json["hits"]) == (1, [])


def test_search_shows_restricted_documents_to_their_group(small: Home) -> None:
    assert "b.md" in surefind("search", "auditors", "--as", "audit", kb=small.folder).out


def test_search_says_how_many_documents_were_left_out(small: Home) -> None:
    assert "1 documents were left out before ranking" in surefind("search", "cash", kb=small.folder).out


def test_a_stage_that_failed_is_told_below_the_hits(small: Home) -> None:
    found = surefind("search", "cash", "--pipeline", "bm25 >> llm_listwise", "--as", "*", kb=small.folder)
    assert found.code == 0
    assert "llm_listwise fell back: No language model is chosen." in " ".join(found.out.split())


def test_search_filters_by_front_matter(small: Home) -> None:
    assert surefind("search", "cash", "--where", "status=draft", kb=small.folder).code == 1


def test_explaining_leaves_lists_in_specs_as_they_are(small: Home) -> None:
    ran = surefind("search", "cash", "--retrieve", "ppr(seed=[bm25])", "--explain", "--build", kb=small.folder)
    assert "ppr(seed=[bm25], " in ran.out


def test_search_explains_its_stages(small: Home) -> None:
    ran = surefind("search", "cash", "--explain", kb=small.folder)
    assert "bm25 #1 (" in ran.out and "candidates" in ran.out


def test_long_passages_are_cut_to_the_stretch_that_matters(home: Home) -> None:
    home.write("docs/a.md", "start " * 100 + "the zebra sleeps " + "end " * 100)
    surefind("sync", home.docs, kb=home.folder)
    cut, full = (
        surefind("search", "zebra", kb=home.folder).out,
        surefind("search", "zebra", "--full", kb=home.folder).out,
    )
    assert "zebra" in cut and "…" in cut and len(cut) < len(full) / 2


# ---------------------------------------------------------------- exam


def test_exam_commands_in_a_row(base: Path, tmp_path: Path) -> None:
    made = surefind("exam", "import", QUESTIONS, "--json", kb=base).json
    assert (made["name"], made["version"], made["questions"]) == ("questions", 1, 175)
    assert made in [{**row, "leakage": made["leakage"]} for row in surefind("exam", "list", "--json", kb=base).json]
    shown = surefind("exam", "show", "questions@1", "--json", kb=base).json
    assert (len(shown["queries"]), shown["fingerprint"]) == (175, made["fingerprint"])
    for form, path in (("jsonl", "q.jsonl"), ("csv", "q.csv"), ("beir", "beir"), ("trec", "trec")):
        assert surefind("exam", "export", "questions", tmp_path / path, "--format", form, kb=base).code == 0
    assert surefind("exam", "import", tmp_path / "q.jsonl", kb=base).code == 0
    assert surefind("exam", "import", tmp_path / "q.csv", kb=base).code == 0
    assert surefind("exam", "import", tmp_path / "beir", kb=base).code == 0
    trec = ("exam", "import", tmp_path / "trec" / "topics.tsv", "--qrels", tmp_path / "trec" / "qrels.txt")
    assert surefind(*trec, "--json", kb=base).json["questions"] == 175


def test_exam_is_generated_from_the_documents(small: Home) -> None:
    found = surefind("exam", "generate", "--per-family", "3", "--json", kb=small.folder).json
    assert (found["name"], found["version"]) == ("known-item", 1)
    assert found["leakage"]["text"].startswith("On average")


def test_exam_show_prints_questions_with_their_gold(small: Home) -> None:
    surefind("exam", "generate", "--family", "first_sentence", kb=small.folder)
    shown = surefind("exam", "show", "known-item", "-n", "1", kb=small.folder).out
    assert re.search(r"first_sentence\n  The .*  ->  [ab]\.md", shown)


def test_exam_list_without_exams_says_how_to_write_one(small: Home) -> None:
    assert "surefind exam generate" in surefind("exam", "list", kb=small.folder).out


def test_import_with_bad_rows_stores_nothing(small: Home, tmp_path: Path) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"query": "fine", "document": "a.md"}\n{"query": "odd", "document": "zz.md"}\n', encoding="utf-8")
    check_complaint(surefind("exam", "import", bad, kb=small.folder), 2, "line 2: there is no document 'zz.md'")
    assert surefind("exam", "list", "--json", kb=small.folder).json == []


def test_export_in_an_unknown_format_lists_the_formats(small: Home, tmp_path: Path) -> None:
    ran = surefind("exam", "export", "x", tmp_path / "x", "--format", "xml", kb=small.folder)
    check_complaint(ran, 2, r"no format 'xml'\. Choices: beir, csv, jsonl, trec\.")


# ---------------------------------------------------------------- bench


@pytest.fixture(scope="module")
def ten(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = Home(tmp_path_factory.mktemp("ten"))
    copy_few(home.docs)
    home.sync("docs")
    return home.folder


BENCH = ("bench", "--per-family", "10", "-p", "words", "-p", "bm25(k1=0, b=[0, 1])")


def test_bench_json_is_the_report(ten: Path) -> None:
    found = surefind(*BENCH, "--json", kb=ten).json
    assert {"exam", "rows", "winner", "ties"} <= found.keys()
    assert [row["name"] for row in found["rows"]] == ["words", "bm25(k1=0.0, b=0.0)", "bm25(k1=0.0, b=1.0)"]


def test_bench_prints_the_quote_the_table_and_the_verdict(ten: Path) -> None:
    ran = surefind(*BENCH, kb=ten)
    assert ran.out.startswith("3 configurations × 55 questions: 3 retrieval runs")
    assert re.search(r"words +\d\.\d{3} \[\d\.\d{3}, \d\.\d{3}\]", ran.out)
    assert " is best (nDCG@10 " in ran.out and "Report: " in ran.out


def test_bench_again_says_that_it_is_from_the_cache(ten: Path) -> None:
    surefind(*BENCH, kb=ten)
    assert "this is the cached report (--fresh runs again)" in surefind(*BENCH, kb=ten).out


def test_bench_dry_run_only_quotes(ten: Path) -> None:
    found = surefind("bench", "-p", "bm25(k1=0.3)", "--per-family", "10", "--dry-run", "--json", kb=ten).json
    assert (found["queries"], found["retrievals"], found["cached"]) == (55, 1, 0)


@each("wrong", [("--preset", "contex"), ("-p", "bm26"), ("--layout", "fixd"), ("--measure", "nDGC@10")])
def test_bench_refuses_bad_options_before_it_writes_an_exam(ten: Path, wrong: tuple[str, str]) -> None:
    exams = sorted((ten / ".surefind" / "exams").rglob("*"))
    failed = surefind("bench", "--per-family", "7", *wrong, kb=ten)
    assert failed.code == 2, failed
    assert sorted((ten / ".surefind" / "exams").rglob("*")) == exams


def test_bench_writes_where_it_is_told(ten: Path, tmp_path: Path) -> None:
    surefind(*BENCH, "--out", tmp_path / "out", kb=ten)
    assert (tmp_path / "out" / "report.html").exists()


def test_bench_writes_run_files(ten: Path, tmp_path: Path) -> None:
    surefind("bench", "-p", "bm25(k1=0.31)", "--per-family", "10", "--runs", "--out", tmp_path, kb=ten)
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["bm25_k1=0.31.trec"]


def test_bench_writes_run_files_of_a_cached_report(ten: Path, tmp_path: Path) -> None:
    once = ("bench", "-p", "bm25(k1=0.32)", "--per-family", "10", "--out", tmp_path)
    surefind(*once, kb=ten)
    surefind(*once, "--runs", kb=ten)
    assert (tmp_path / "runs").exists()


def test_bench_takes_the_options_of_search(ten: Path) -> None:
    options = ("--retrieve", "bm25", "--retrieve", "bm25(k1=0)", "--fuse", "rrf(k=60)", "-m", "R@5:span", "-m", "T1EM")
    found = surefind("bench", "--per-family", "10", *options, "--json", kb=ten).json
    assert (len(found["rows"]), found["measures"]) == (1, ["R@5:span", "T1EM"])


def test_bench_compares_a_changed_default_with_the_default(ten: Path) -> None:
    found = surefind("bench", "--per-family", "10", "--depth", "50", "-m", "T1EM", "--json", kb=ten).json
    assert sorted("@50" in row["spec"] for row in found["rows"]) == [False, True]


def test_bench_compares_layouts(ten: Path) -> None:
    found = surefind(
        "bench", "--per-family", "10", "--layout", "fixed(tokens=[40, 80], overlap=0)", "--json", kb=ten
    ).json
    assert [row["layout"] for row in found["rows"]] == [f"fixed(tokens={n}, overlap=0, unit=tokens)" for n in (40, 80)]
    assert found["rows"][0]["chunks"] > found["rows"][1]["chunks"]


def test_bench_takes_an_exam_of_the_list(ten: Path, tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("query,document\nCTR deadline,sop-104-ctr-filing.md\n", encoding="utf-8")
    surefind("exam", "import", path, kb=ten)
    found = surefind("bench", "--exam", "mine", "-p", "words", "--json", kb=ten).json
    assert (found["exam"]["name"], found["exam"]["queries"], found["winner"]) == ("mine", 1, "words")


@pytest.fixture
def two_exams(ten: Path) -> tuple[str | Path, ...]:
    for family in ("first_sentence", "heading_direct"):
        surefind("exam", "generate", "--family", family, "--per-family", "15", "--name", family, kb=ten)
    return ("bench", "-p", "words", "--exam", "first_sentence", "--exam", "heading_direct")


def test_bench_takes_several_exams(ten: Path, two_exams: tuple[str, ...]) -> None:
    found = surefind(*two_exams, "--json", kb=ten).json["reports"]
    assert [report["exam"]["name"] for report in found] == ["first_sentence", "heading_direct"]


def test_check_of_several_exams_is_refused(ten: Path, two_exams: tuple[str, ...], tmp_path: Path) -> None:
    assert surefind("bench", "-p", "words", "--exam", "heading_direct", "--save", tmp_path / "b.json", kb=ten).code == 0
    lift(tmp_path / "b.json", 0.2)
    check_complaint(surefind(*two_exams, "--check", tmp_path / "b.json", kb=ten), 2, "work with one exam only")


def test_bench_takes_a_beir_folder(tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    (folder / "qrels").mkdir(parents=True)
    (folder / "corpus.jsonl").write_text(
        '{"_id": "1", "title": "Cats", "text": "Cats sleep."}\n{"_id": "2", "title": "Dogs", "text": "Dogs bark."}\n',
        encoding="utf-8",
    )
    (folder / "queries.jsonl").write_text('{"_id": "q", "text": "who barks"}\n', encoding="utf-8")
    (folder / "qrels" / "dev.tsv").write_text("query-id\tcorpus-id\tscore\nq\t2\t1\n", encoding="utf-8")
    ran = surefind("bench", "--beir", folder, "--split", "dev", "--retrieve", "bm25", "--json", kb=tmp_path)
    assert ran.json["rows"][0]["measures"]["nDCG@10"]["mean"] == 1
    check_complaint(
        surefind("bench", "--beir", folder, "--retrieve", "bm25", kb=tmp_path), 2, r"no split 'test'\. Splits: dev\."
    )


@pytest.fixture
def baseline(ten: Path, tmp_path: Path) -> Path:
    assert surefind(*BENCH, "--save", tmp_path / "baseline.json", kb=ten).code == 0
    return tmp_path / "baseline.json"


def test_check_against_the_same_report_exits_0(ten: Path, baseline: Path) -> None:
    ran = surefind(*BENCH, "--check", baseline, kb=ten)
    assert ran.code == 0 and "Compared on 55 questions" in ran.out


def lift(path: Path, by: float) -> None:
    report = unsealed(json.loads(path.read_text(encoding="utf-8")))
    for row in report["rows"]:
        row["scores"] = [score + by for score in row["scores"]]
    path.write_text(json.dumps(sealed(report)), encoding="utf-8")


def test_check_against_a_better_report_exits_1(ten: Path, baseline: Path) -> None:
    lift(baseline, 0.2)
    ran = surefind(*BENCH, "--check", baseline, kb=ten)
    assert ran.code == 1 and "WORSE words" in ran.out


def test_check_json_says_that_it_failed(ten: Path, baseline: Path) -> None:
    lift(baseline, 0.2)
    ran = surefind(*BENCH, "--check", baseline, "--json", kb=ten)
    assert (ran.code, ran.json["check"]["failed"]) == (1, True)


def test_check_and_save_of_one_file_compares_with_what_was_there(ten: Path, baseline: Path) -> None:
    lift(baseline, 0.2)
    assert surefind(*BENCH, "--check", baseline, "--save", baseline, kb=ten).code == 1


@each(
    ("options", "says"),
    [
        (("-p", "bm26"), "no pipeline called 'bm26'"),
        (("-p", "bm25(k9=1)"), "bm25 has no parameter 'k9'"),
        (("-m", "nDCG"), "There is no measure 'nDCG'"),
        (("--preset", "context"), r"no preset 'context'\. .*Choices: .*context-layer"),
        (("--exam", "mine9"), "no exam called 'mine9'"),
        (("--retrieve", "bm25", "--fuse", "rrf"), "rrf has one ranking to fuse"),
        (("--beir", "/nowhere/at/all"), "There is no folder /nowhere/at/all"),
    ],
)
def test_bench_complains_before_it_runs(ten: Path, options: tuple[str, ...], says: str) -> None:
    check_complaint(surefind("bench", "--per-family", "10", *options, kb=ten), 2, says)


def test_missing_baseline_is_refused(ten: Path) -> None:
    ran = surefind(*BENCH, "--check", "/nowhere/at/all.json", kb=ten)
    assert ran.code == 2 and "all.json cannot be read" in ran.err and "surefind bench --save FILE." in ran.err


def test_missing_baseline_is_refused_before_anything_runs(ten: Path) -> None:
    check_complaint(surefind(*BENCH, "--check", "/nowhere/at/all.json", kb=ten), 2, "cannot be read")


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("search", ""), "The query is empty. Write one, for example"),
        (("search", "   "), "The query is empty"),
        (("search", "x" * 100_000), "The query has 100,000 characters; the limit is 10,000"),
        (("search", "cash", "-k", "0"), "k must be from 1 to 1,000, not 0"),
        (("search", "cash", "-p", "wrds"), r"no pipeline called 'wrds'\. Did you mean words\? Choices: .*words"),
        (("search", "cash", "--retrieve", "bm26"), r"no retriever called 'bm26'\. Did you mean bm25\? Choices:"),
        (("search", "cash", "--retrieve", "bm25(k3=1)"), "bm25 has no parameter 'k3'. .*Choices: analyzer, b, k1"),
        (("search", "cash", "--retrieve", "bm25(b=7)"), "b must be from 0 to 1"),
        (("search", "cash", "-p", "words", "--retrieve", "bm25"), "Give either --pipeline or --retrieve"),
        (("search", "cash", "--where", "status"), "Cannot read the filter 'status'. Write it like"),
        (("sync", "/nowhere/at/all"), "There is no file or folder /nowhere/at/all"),
    ],
)
def test_bad_input_gets_a_sentence(small: Home, words: tuple[str, ...], says: str) -> None:
    check_complaint(surefind(*words, kb=small.folder), 2, says)


def test_empty_folder_gets_a_sentence(home: Home) -> None:
    check_complaint(
        surefind("sync", home.docs, kb=home.folder), 2, r"There is nothing to index in .*: it holds no files"
    )


def test_bad_files_are_skipped_counted_and_listed(home: Home) -> None:
    home.write("docs/good.md", "# Good\n\ntext")
    home.write("docs/binary.md", b"\x00\x01\x02")
    home.write("docs/broken.md", "---\ntitle: [\n---\ntext")
    ran = surefind("sync", home.docs, kb=home.folder)
    assert ran.code == 0 and "2 added" in ran.out and "1 files skipped or read only in part:" in ran.out
    assert "binary.md looks binary" in ran.out and "1 documents that look restricted" in ran.out
    assert "broken.md looks restricted: it has broken front matter at line 3" in ran.out


@each("words", [("search", "cash"), ("status",), ("bench", "-p", "words"), ("exam", "generate")])
def test_command_where_nothing_is_indexed_exits_3(home: Home, words: tuple[str, ...]) -> None:
    check_complaint(surefind(*words, kb=home.folder), 3, r"There is no knowledge base in .* surefind sync FOLDER")


def test_sync_without_any_source_exits_3(home: Home) -> None:
    check_complaint(surefind("sync", kb=home.folder), 3, "no sources yet. Name a folder: surefind sync docs/")


def test_bad_settings_name_file_line_and_choices(home: Home) -> None:
    home.configure("[search]\npipline = 'words'\n")
    check_complaint(
        surefind("search", "x", kb=home.folder), 2, r"surefind\.toml, line 2: .*'pipline'\. Did you mean pipeline"
    )


def test_second_writer_exits_3_and_names_the_first(small: Home) -> None:
    with writer_lock(small.folder / ".surefind"):
        check_complaint(surefind("sync", small.docs, kb=small.folder), 3, r"Process \d+ .* is writing to")


def test_search_goes_on_while_another_process_writes(small: Home) -> None:
    with writer_lock(small.folder / ".surefind"):
        assert surefind("search", "cash", kb=small.folder).code == 0


def test_full_disk_exits_3_in_one_sentence(small: Home) -> None:
    """/dev/full takes nothing, whatever is written to it."""
    store = ExamStore(small.folder / ".surefind" / "exams")
    store.save(Exam("e", (query("q", "cash", Judgment("a.md")),)))
    check_complaint(
        surefind("exam", "export", "e", "/dev/full", kb=small.folder), 3, "The disk is full .* free some space"
    )


def test_store_of_a_newer_version_exits_3(small: Home) -> None:
    with sqlite3.connect(small.folder / ".surefind" / "catalogue.db") as db:
        db.execute("PRAGMA user_version=99")
    check_complaint(surefind("search", "cash", kb=small.folder), 3, "was written by a newer Surefind .*pip install -U")


def test_damaged_index_is_told_by_a_search_removed_by_doctor_and_rebuilt_by_a_sync(small: Home) -> None:
    before = surefind("search", "cash", "--json", kb=small.folder).json["hits"]
    for path in (small.folder / ".surefind" / "indexes").rglob("*.npy"):
        path.write_bytes(path.read_bytes()[:-1] + b"\xff")
    check_complaint(surefind("search", "cash", kb=small.folder), 3, "surefind sync")
    assert "Make them again with: surefind sync" in surefind("doctor", kb=small.folder).out
    assert surefind("sync", kb=small.folder).code == 0
    assert surefind("search", "cash", "--json", kb=small.folder).json["hits"] == before


def test_failure_is_told_in_json_too(small: Home) -> None:
    ran = surefind("search", "", "--json", kb=small.folder)
    assert ran.code == 2 and ran.json["error"]["type"] == "QueryError"
    assert ran.json["error"]["message"].startswith("The query is empty.")


# ---------------------------------------------------------------- usage


@each(
    ("words", "says"),
    [
        (("search", "cash", "--nope"), r"No such option: --nope.* See: surefind search --help\."),
        (("serch", "cash"), "No such command 'serch'"),
        (("exam", "show"), "[Mm]issing .*name"),
        (("search", "cash", "-k", "many"), "integer"),
        (("exam", "list", "extra"), "unexpected extra argument"),
    ],
)
def test_wrong_call_exits_2_with_a_sentence(words: tuple[str, ...], says: str) -> None:
    check_complaint(surefind(*words), 2, says)


@each("words", [(), ("exam",)])
def test_command_group_alone_shows_its_help(words: tuple[str, ...]) -> None:
    ran = surefind(*words)
    assert ran.code in (0, 2)
    assert "Usage: surefind" in ran.out + ran.err and "Traceback" not in ran.err


def test_interrupt_exits_130_with_a_sentence(small: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Searcher, "find", stop)
    check_complaint(surefind("search", "cash", kb=small.folder), 130, "Stopped. Finished work is kept")


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, command
    for name, child in getattr(command, "commands", {}).items():
        yield from commands(child, (*path, name))


COMMANDS = list(commands(typer.main.get_command(app)))


@each("path", [path for path, _ in COMMANDS], ids=" ".join)
def test_every_command_has_help(path: tuple[str, ...]) -> None:
    ran = surefind(*path, "--help")
    assert ran.code == 0
    text = re.sub(r"Usage:.*\n", "", ran.out).strip()
    assert len(text.splitlines()[0]) > 20


@each(("path", "command"), COMMANDS, ids=lambda value: " ".join(value) if type(value) is tuple else "")
def test_every_option_is_explained(path: tuple[str, ...], command: Any) -> None:
    assert [parameter.name for parameter in command.params if not getattr(parameter, "help", None)] == []


def test_every_command_that_prints_takes_json() -> None:
    leaves = [(path, command) for path, command in COMMANDS if not hasattr(command, "commands")]
    without = [path for path, command in leaves if "--json" not in {o for p in command.params for o in p.opts}]
    assert set(map(tuple, without)) <= {("serve",), ("mcp",)}, "servers print only where they listen"


# ---------------------------------------------------------------- as a process of its own


def shell(*words: str | Path, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    code = "from surefind.doors.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, words)],
        cwd=cwd,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        check=False,
    )


def test_piped_output_has_no_colour_codes(small: Home) -> None:
    ran = shell("search", "cash", "--explain", cwd=small.folder, TERM="xterm-256color")
    assert ran.returncode == 0 and "Cash" in ran.stdout
    assert "\x1b" not in ran.stdout + ran.stderr


def test_knowledge_base_is_taken_from_the_environment(small: Home, tmp_path: Path) -> None:
    ran = shell("status", "--json", cwd=Path(tmp_path.anchor), SUREFIND_KB=str(small.folder))
    assert json.loads(ran.stdout)["documents"] == 2


def test_help_says_surefind_however_it_was_started(tmp_path: Path) -> None:
    """A runner that Python itself loads as a module, as `python -m pytest` does, has another name to go by."""
    (tmp_path / "runner.py").write_text("from surefind.doors.cli import main\nmain()\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "runner", "search", "--help"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "Usage: surefind search " in done.stdout


def test_exit_code_reaches_the_shell(small: Home) -> None:
    assert shell("search", "", cwd=small.folder).returncode == 2


# ---------------------------------------------------------------- doctor


@pytest.fixture(scope="module")
def diagnosis(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    home = Home(tmp_path_factory.mktemp("doctor"))
    home.write("docs/a.md", "# Cash\n\nThe teller counts.")
    home.sync("docs")
    ran = surefind("doctor", "--json", kb=home.folder)
    assert ran.code == 0
    return ran.json  # type: ignore[no-any-return]


def test_doctor_finds_everything_well(diagnosis: dict[str, Any]) -> None:
    assert [check for check in diagnosis["checks"] if check["status"] != "ok"] == []
    assert diagnosis["summary"] == {"ok": len(diagnosis["checks"]), "warning": 0, "failed": 0}


def test_doctor_lists_every_stage(diagnosis: dict[str, Any]) -> None:
    assert {"bm25", "dense"} <= set(diagnosis["stages"]["retrieve"])
    assert {"rrf", "convex", "rsf", "dbsf", "combmnz"} <= set(diagnosis["stages"]["fuse"])


def test_doctor_exits_1_when_a_check_fails(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    from surefind.doors.cli import doctor

    monkeypatch.setattr(doctor, "_encode", lambda: "not asked")
    home.configure("[serch]\n")
    ran = surefind("doctor", kb=home.folder)
    assert ran.code == 1
    assert re.search(r"(?m)^failed   settings +.*surefind\.toml, line 1", ran.out)
