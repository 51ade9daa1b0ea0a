"""Which knowledge base a command uses, and what paths are relative to."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from exam_helpers import Ran, surefind
from helpers import WORDS, Home, ask
from surefind.base.disk import sealed
from surefind.base.disk.sealed import nearest
from surefind.base.errors import StoreError
from surefind.engine.services import LocalServices

Shell = Callable[..., Ran]


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> Shell:
    """Runs a command in a folder, as a shell in that folder would."""

    def run(*words: str | Path, cwd: Path, **env: str) -> Ran:
        with monkeypatch.context() as there:
            there.chdir(cwd)
            there.delenv("SUREFIND_KB", raising=False)
            for name, value in env.items():
                there.setenv(name, value)
            return surefind(*words)

    return run


@pytest.fixture
def deep(home: Home) -> Path:
    """A folder below one with a surefind.toml, with a document in it."""
    home.write("docs/deep/er/a.md", "# Cash\n\nThe teller counts cash.")
    home.write("docs/b.md", "# Vault\n\nThe vault opens at nine.")
    return home.docs / "deep" / "er"


def test_a_sync_in_a_subfolder_goes_to_the_parents_knowledge_base(home: Home, deep: Path, shell: Shell) -> None:
    done = shell("sync", ".", "--json", cwd=deep)
    assert done.code == 0, done.err
    assert done.json["documents"] == 1
    assert (home.folder / ".surefind").is_dir() and not (deep / ".surefind").exists()
    assert done.err.splitlines()[0] == f"Using the knowledge base in {home.folder}."


def test_a_search_in_a_subfolder_finds_the_documents_of_the_parent(home: Home, deep: Path, shell: Shell) -> None:
    home.sync("docs")
    done = shell("search", "vault", "--json", cwd=deep)
    assert [hit["document"] for hit in done.json["hits"]] == ["b.md"]


def test_nothing_is_said_where_the_knowledge_base_is_here_or_named(home: Home, deep: Path, shell: Shell) -> None:
    home.sync("docs")
    assert shell("search", "vault", cwd=home.folder).err == ""
    assert shell("search", "vault", "--kb", home.folder, cwd=deep).err == ""
    assert shell("search", "vault", cwd=deep, SUREFIND_KB=str(home.folder)).err == ""


def test_a_named_folder_wins_even_if_it_is_the_current_one(home: Home, deep: Path, shell: Shell) -> None:
    home.sync("docs")
    done = shell("search", "vault", "--kb", ".", cwd=deep)
    assert done.code == 3 and f"There is no knowledge base in {deep} yet" in done.err


def test_init_writes_here_whatever_is_above(home: Home, deep: Path, shell: Shell) -> None:
    assert shell("init", "--json", cwd=deep).code == 0
    assert (deep / "surefind.toml").exists()
    done = shell("sync", ".", "--json", cwd=deep)
    assert (deep / ".surefind").is_dir() and "Using" not in done.err


def test_paths_on_the_command_line_are_relative_to_the_current_folder(home: Home, deep: Path, shell: Shell) -> None:
    home.sync("docs")
    (deep / "q.csv").write_text("query,document\ncash,deep/er/a.md\n", encoding="utf-8")
    assert shell("exam", "import", "q.csv", cwd=deep).code == 0
    assert shell("exam", "export", "q", "out.jsonl", cwd=deep).code == 0
    assert (deep / "out.jsonl").exists()
    assert (home.folder / ".surefind" / "exams" / "q").is_dir()


def test_paths_in_the_settings_are_relative_to_the_knowledge_base(home: Home, deep: Path, shell: Shell) -> None:
    """A model that is not there is complained about with the path that was tried; one that is there is opened."""
    (home.folder / "models" / "mine").mkdir(parents=True)
    home.configure(f'{WORDS}\nrerank = ["cross_encoder(model=models/mine)"]\n')
    home.sync("docs")
    for cwd in (home.folder, deep):
        trace = shell("search", "vault", "--json", cwd=cwd).json["trace"]
        note = next(entry["note"] for entry in trace if entry["stage"] == "rerank")
        assert str(home.folder / "models" / "mine") in note


def test_path_that_is_not_in_the_knowledge_base_is_taken_as_written(home: Home) -> None:
    located = LocalServices(folder=home.folder).located
    assert located("docs") == home.folder / "docs"
    assert located("elsewhere/model") == Path("elsewhere/model")
    assert located("/absolute") == Path("/absolute")


def test_two_knowledge_bases_in_one_process_have_their_own_models(tmp_path: Path) -> None:
    """The same words in two settings files name two encoders, and a reranker that only one of them has."""
    models = pytest.importorskip("surefind_models")
    pipeline = 'retrieve = ["dense(model=onnx(path=models/own))"]\nrerank = ["cross_encoder(model=models/judge)"]\n'
    homes = [Home(tmp_path / name, f"[pipelines.own]\n{pipeline}") for name in ("one", "other")]
    for home, encoder in zip(homes, ("minilm", "arctic"), strict=True):
        (home.folder / "models").mkdir()
        (home.folder / "models" / "own").symlink_to(models.path(encoder))
        home.write("docs/a.md", "# Vault\n\nThe vault is closed at six.\n")
        home.write("docs/b.md", "# Desk\n\nThe desk opens at nine.\n")
        home.sync("docs")
    (homes[0].folder / "models" / "judge").symlink_to(models.path("reranker"))
    with homes[0].open() as one, homes[1].open() as other:
        for kb, encoder in ((one, "minilm"), (other, "arctic")):
            retriever = kb.pipeline("own").retrieve[0]
            weights = kb.services.embedder(encoder).fingerprint
            assert retriever.index_spec(kb.services) == f"dense(model=onnx)@{weights}"
        notes = [ask(kb, "when does the vault close?", pipeline="own").trace[-1].note for kb in (one, other)]
    assert notes[0] == "" and "There is no cross-encoder 'models/judge'" in notes[1]


# ---------------------------------------------------------------- how far up


def test_nearest_is_the_nearest(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b" / "c"
    inner.mkdir(parents=True)
    (tmp_path / "surefind.toml").touch()
    (tmp_path / "a" / ".surefind").mkdir()
    assert nearest(inner) == tmp_path / "a"
    assert nearest(tmp_path) == tmp_path


def test_a_file_called_as_the_data_folder_is_none(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / ".surefind").touch()
    assert nearest(tmp_path / "a") is None


def test_nothing_above_the_home_folder_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    (home / "docs").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    (tmp_path / "surefind.toml").touch()
    assert nearest(home / "docs") is None
    (home / "surefind.toml").touch()
    assert nearest(home / "docs") == home


def test_another_file_system_is_not_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mounted").mkdir()
    (tmp_path / "surefind.toml").touch()
    monkeypatch.setattr(sealed, "_device", lambda folder: 1 if folder.name == "mounted" else 2)
    assert nearest(tmp_path / "mounted") is None


def test_settings_of_another_user_are_refused_from_below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "surefind.toml").touch()
    if os.geteuid() == 0:
        os.chown(tmp_path / "surefind.toml", 12345, 12345)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(StoreError, match=r"belongs to another user.*--kb"):
        nearest(tmp_path / "mine")
    assert nearest(tmp_path) == tmp_path


def test_a_current_folder_that_is_gone_gets_a_sentence(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    code = f"import os; os.chdir({str(gone)!r}); os.rmdir({str(gone)!r}); from surefind.doors.cli import main; main()"
    done = subprocess.run([sys.executable, "-P", "-c", code, "status"], capture_output=True, text=True, check=False)
    assert done.returncode == 3 and "The current folder no longer exists" in done.stderr
