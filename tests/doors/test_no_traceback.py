"""Damaged files, a full or read-only disk and files of somebody else end with a message, not with a traceback."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cases import each
from exam_helpers import surefind
from helpers import WORDS, Home, ask
from llm_server import LLMServer
from surefind.base import spec
from surefind.base.errors import ConfigError, ExamError, NotBuiltError, SpecError, is_full
from surefind.base.types import EVERY, Chunk, Document, Query, Rankings
from surefind.engine.llm.address import LLMSettings
from surefind.engine.search.pipeline import Pipeline
from surefind.engine.services import LocalServices
from surefind.kb import KnowledgeBase
from surefind.kb.settings.config import parse_settings
from surefind.kb.settings.file import changed
from surefind.lab.bench.reranking import RunCache
from surefind.lab.exam.formats.collections import read_beir
from surefind.lab.exam.formats.library import Library
from surefind.lab.exam.formats.questions import read_questions
from surefind.lab.exam.formats.table import read_table

DEEP = "[" * 100_000
PAGE = "# Fees\n\nThe Wire Fee is 25 dollars, says the Bank Secrecy Act.\n"


# ---------------------------------------------------------------- the disk


def test_a_damaged_run_is_computed_again(tmp_path: Path) -> None:
    cache = RunCache(tmp_path)
    made = Rankings(np.arange(40).reshape(4, 10), np.zeros((4, 10), np.float32), "bm25", "sparse", 0.0)
    cache.put_rankings("run", made)
    path = tmp_path / "run.npz"
    whole = path.read_bytes()
    for size in range(0, len(whole), 11):
        path.write_bytes(whole[:size])
        assert cache.rankings("run") is None
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        again = cache.rankings("run")  # a changed time of a file, say, does no harm
        assert again is None or np.array_equal(again.ids, made.ids)


def test_a_run_of_other_shapes_is_computed_again(tmp_path: Path) -> None:
    meta = np.array('{"source": "bm25", "signal": "sparse", "floor": 0}')
    np.savez(tmp_path / "run.npz", ids=np.zeros((2, 3), np.int64), scores=np.zeros((2, 2), np.float32), meta=meta)
    assert RunCache(tmp_path).rankings("run") is None
    (tmp_path / "data.json").write_text(DEEP)
    assert RunCache(tmp_path).data("data") is None


SHORT = """
import resource, signal, sys
import numpy as np
from surefind.base.errors import is_full
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
try:
    np.save(sys.argv[1], np.zeros(10_000))
except OSError as error:
    print(error.errno, is_full(error), error)
"""


def test_a_short_write_is_a_full_disk(tmp_path: Path) -> None:
    """The disk takes a part of an array, and numpy raises an error without a number. A limit on the size of files does
    the same."""
    command = [sys.executable, "-c", SHORT, str(tmp_path / "array.npy")]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ran.stdout.startswith("None True 10000 requested and ")
    assert not is_full(OSError("20 requested"))


@each("number", [errno.EROFS, errno.EACCES, errno.EIO, errno.ENAMETOOLONG])
def test_an_error_of_the_disk_is_a_message(home: Home, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError(number, os.strerror(number), str(home.folder / ".surefind"))

    monkeypatch.setattr(KnowledgeBase, "sync", fail)
    ran = surefind("sync", home.docs, kb=home.folder)
    assert ran.code == 3
    assert f"{home.folder / '.surefind'} cannot be" in ran.err and os.strerror(number) in ran.err


def without_privileges() -> None:
    """Makes the superuser obey permissions: drops CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH and CAP_FOWNER."""
    for capability in (1, 2, 3):
        ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)


@pytest.mark.skipif(sys.platform != "linux", reason="drops privileges of Linux")
def test_a_read_only_knowledge_base_is_searched_and_not_written(home: Home) -> None:
    home.write("docs/a.md", PAGE)
    home.sync("docs")
    home.write("docs/b.md", PAGE)
    folders = [home.folder, *(path for path in home.folder.rglob("*"))]
    modes = [(path, path.stat().st_mode) for path in folders]

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "surefind", *words, "--kb", str(home.folder)]
        return subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=without_privileges)

    try:
        for path, mode in modes:
            path.chmod(mode & ~0o222)
        found, denied = run("search", "wire fee"), run("sync")
    finally:
        for path, mode in modes:
            path.chmod(mode)
    assert found.returncode == 0 and "The Wire Fee is 25 dollars" in found.stdout
    assert denied.returncode == 3 and "Traceback" not in denied.stderr
    assert "cannot be written or read (Permission denied)" in denied.stderr


# ---------------------------------------------------------------- settings and specs


@each(
    "text",
    [
        "a = " + "[" * 5000 + "]" * 5000,
        "a = " + "{b=" * 3000 + "1" + "}" * 3000,
    ],
)
def test_nested_settings_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="x is nested too deeply"):
        parse_settings(text, "x")
    with pytest.raises(ConfigError, match="not changed"):
        changed("a = " + DEEP, {("search", "k"): 5}, "x")


@each("text", ["hyde(retriever=" * 5000, "bm25(k1=" + DEEP, "(" * 50_000, "bm25 >> " + "(" * 50_000])
def test_nested_specs_are_refused(text: str) -> None:
    with pytest.raises(SpecError):
        Pipeline.parse(text)


def test_a_spec_in_strings_in_strings_is_refused() -> None:
    text = "bm25"
    for _ in range(11):
        text = f"hyde(retriever={json.dumps('hyde(retriever=' * 17 + text + ')' * 17)})"
    with pytest.raises(SpecError, match="nested deeper than 20 levels"):
        spec.make("retrieve", text)


# ---------------------------------------------------------------- exams of somebody else

LIBRARY = Library([Document("a.md", PAGE, "Fees")])
ROW: dict[str, Any] = {"query": "fee?", "document": "a.md", "start": 0, "end": 4}


@each("name", ["queries.jsonl", "qrels/test.tsv", "spans.jsonl"])
@each("content", [b"\xff\xfe\x00caf\xe9", DEEP.encode()])
def test_a_beir_folder_that_cannot_be_read_is_refused(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / "qrels").mkdir()
    (tmp_path / "queries.jsonl").write_text('{"_id": "1", "text": "fee?"}\n')
    (tmp_path / "qrels/test.tsv").write_text("query-id\tcorpus-id\tscore\n1\ta.md\t1\n")
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ExamError, match=rf"{Path(name).name}|contains no questions"):
        read_beir(tmp_path, LIBRARY)


@each("place", ["start", "end", "grade"])
@each("value", ["1e999", "-1e999", "NaN"])
def test_numbers_without_end_are_bad_rows(tmp_path: Path, place: str, value: str) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text(json.dumps({**ROW, place: "HERE"}).replace('"HERE"', value) + "\n")
    with pytest.raises(ExamError, match="line 1"):
        read_table(path, LIBRARY)
    (tmp_path / "qrels").mkdir()
    (tmp_path / "queries.jsonl").write_text('{"_id": "1", "text": "fee?"}\n')
    (tmp_path / "qrels/test.tsv").write_text("query-id\tcorpus-id\tscore\n1\ta.md\t1\n")
    span = {"query-id": "1", "corpus-id": "a.md", "start": 0, "end": 4, "score": 1}
    field = "score" if place == "grade" else place
    (tmp_path / "spans.jsonl").write_text(json.dumps({**span, field: "HERE"}).replace('"HERE"', value) + "\n")
    with pytest.raises(ExamError, match="line 1"):
        read_beir(tmp_path, LIBRARY)


@each("suffix", ["jsonl", "json"])
def test_nested_rows_are_refused(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"mine.{suffix}"
    path.write_text(DEEP)
    with pytest.raises(ExamError, match="nested too deeply"):
        read_questions(path)
    with pytest.raises(ExamError, match="nested too deeply"):
        read_table(path, LIBRARY)


# ---------------------------------------------------------------- hyde around the graph


def test_a_graph_without_its_indexes_says_so(llm: LLMServer) -> None:
    services = LocalServices(llm=LLMSettings(model=llm.model))
    chunks = [Chunk("a.md", 0, len(PAGE), PAGE)]
    for text in ("ppr(seed=[bm25])", "hyde(retriever=ppr(seed=[bm25]))"):
        retriever = spec.make("retrieve", text)
        with pytest.raises(NotBuiltError, match="no index of bm25"):
            retriever.build(chunks, services).search(retriever, [Query("Wire Fee")], 1, EVERY)


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize("inner", ["ppr(seed=[bm25])", "graph_local(model=toy)", "entity_overlap"])
def test_hyde_around_graph_retrievers(llm: LLMServer, home: Home, inner: str) -> None:
    llm.say("The Wire Fee is set by the Bank Secrecy Act.")
    home.configure(f'{WORDS}\n[llm]\nmodel = "{llm.model}"\n')
    home.write("docs/a.md", PAGE)
    home.write("docs/b.md", "# Rules\n\nAnna Smith reads the Bank Secrecy Act every year.\n")
    home.sync("docs")
    with home.open() as kb:
        for rest in ("", " + bm25 >> weighted(hyde=0.5, bm25=0.5, missing=score)"):
            assert ask(kb, "Wire Fee", pipeline=f"hyde(retriever={inner}){rest}").hits
