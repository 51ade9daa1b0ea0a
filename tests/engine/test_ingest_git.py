"""Sources that change by themselves: git repositories at a revision, and folders that are watched."""

from __future__ import annotations

import io
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cases import each
from helpers import WORDS, Home, ask
from surefind import Access
from surefind.base.errors import SourceError
from surefind.engine.files.git import GitOrigin, fetch, running
from surefind.engine.files.opening import FileLimits

WHO = {f"GIT_{role}_{part}": "a@b.c" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")}


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-c", "protocol.file.allow=always", *words], cwd=folder, env={**os.environ, **WHO}, check=True,
        capture_output=True, text=True,
    )  # fmt: skip
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Two commits, a tag on the first, a link, a submodule and a hook that would leave a trace."""
    inner = tmp_path / "inner"
    inner.mkdir()
    git(inner, "init", "-q")
    (inner / "secret.md").write_text("submodule words")
    git(inner, "add", ".")
    git(inner, "commit", "-qm", "inner")
    folder = tmp_path / "handbook"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "guide").mkdir()
    (folder / "guide" / "a.md").write_text("alpha first")
    (folder / "b.md").write_text("beta")
    (folder / "photo.png").write_bytes(b"\x89PNG")
    (folder / "link.md").symlink_to("/etc/hostname")
    git(folder, "submodule", "add", "-q", str(inner), "inner")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "one")
    git(folder, "tag", "v1")
    (folder / "guide" / "a.md").write_text("alpha second")
    git(folder, "commit", "-qam", "two")
    for hook in ("post-checkout", "pre-auto-gc", "reference-transaction"):
        path = folder / ".git" / "hooks" / hook
        path.write_text(f"#!/bin/sh\ntouch {tmp_path}/hook-ran\n")
        path.chmod(0o755)
    return folder


@each(
    ("text", "url", "revision", "name"),
    [
        ("git+https://host/team/book.git@v2.1", "https://host/team/book.git", "v2.1", "book"),
        ("git+https://host/book@feature/x", "https://host/book", "feature/x", "book"),
        ("git+ssh://git@host/team/book.git", "ssh://git@host/team/book.git", "", "book"),
        ("git+ssh://git@host:22/book.git@main", "ssh://git@host:22/book.git", "main", "book"),
        ("git+file:///srv/book", "file:///srv/book", "", "book"),
    ],
)
def test_origin_is_read_and_written(text: str, url: str, revision: str, name: str) -> None:
    origin = GitOrigin.parse(text)
    assert (origin.url, origin.revision, origin.name) == (url, revision, name)
    assert GitOrigin.parse(str(origin)) == origin


@each(
    ("text", "words"),
    [
        ("git+http://host/book", "Write git+https://HOST"),
        ("git+ext::sh -c touch% /tmp/x", "Write git+https://HOST"),
        ("git+https:///book", "Write git+https://HOST"),
        ("git+https://host/book@--upload-pack=x", "is not the name of a branch"),
        ("git+https://host/book@a..b", "is not the name of a branch"),
        ("git+https://me:secret@host/book", "contains a password"),
    ],
)
def test_origin_that_is_no_repository_or_no_revision_is_refused(text: str, words: str) -> None:
    with pytest.raises(SourceError) as caught:
        GitOrigin.parse(text)
    assert words in str(caught.value)
    assert "secret" not in str(caught.value)


def test_repository_is_read_at_its_revision_and_nothing_of_it_is_run(home: Home, repository: Path) -> None:
    with home.open() as kb:
        result = kb.sync(f"git+file://{repository}@v1")
        assert (result.added, result.problems) == (2, [])
        assert [d.id for d in kb.documents(Access.owner())] == ["b.md", "guide/a.md"]
        assert ask(kb, "first").hits[0].document == "guide/a.md"
        commit = git(repository, "rev-parse", "v1")
        assert kb.status().sources == [f"git+file://{repository}@v1 ({commit[:12]})"]
    assert not (repository.parent / "hook-ran").exists()


def test_what_is_left_out_of_a_repository_is_listed(home: Home, repository: Path) -> None:
    """Links too, whatever the settings say; by every sync, although the files are laid out by the first alone."""
    (repository / "inside.md").symlink_to("b.md")
    (repository / ".hidden").write_text("x")
    (repository / "drafts").mkdir()
    (repository / "drafts" / "x.png").write_text("x")
    (repository / "large.md").write_text("x" * 2_000_000)
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "three")
    home.configure(f'{WORDS}[sync]\nfollow_links = "anywhere"\nmax_file_mb = 1\nexclude = ["drafts"]\n')
    with home.open() as kb:
        for result in (kb.sync(f"git+file://{repository}"), kb.sync()):
            assert (result.ignored, result.documents) == ({".png": 1}, 2)
            assert {one.path: one.reason for one in result.skipped} == {
                "link.md": "is a link to /etc/hostname; links in a repository are not followed",
                "inside.md": "is a link to b.md; links in a repository are not followed",
                "large.md": "is larger than 1 MB (max_file_mb)",
            }
        assert sorted(p.path for p in kb.status().problems) == ["inside.md", "large.md", "link.md"]


def test_file_that_the_settings_admit_later_is_read_without_a_new_commit(home: Home, repository: Path) -> None:
    (repository / "large.md").write_text("zebra " * 400_000)
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "three")
    home.configure(f"{WORDS}[sync]\nmax_file_mb = 1\n")
    with home.open() as kb:
        assert kb.sync(f"git+file://{repository}").documents == 2
    home.configure(WORDS)
    result = home.sync()
    assert (result.added, result.changed, result.unchanged, result.skipped[1:]) == (1, 0, 2, [])


def test_another_revision_takes_the_place_of_the_first(home: Home, repository: Path) -> None:
    with home.open() as kb:
        kb.sync(repository, revision="v1")
        result = kb.sync(repository, revision="main")
        assert (result.changed, result.unchanged, result.documents) == (1, 1, 2)
        assert len(kb.status().sources) == 1
    assert home.found("second") == ["guide/a.md"] and home.found("first") == []


def test_commits_of_one_second_with_files_of_one_size_are_told_apart(
    home: Home, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2020-01-01T00:00:00Z")
    for words in ("gamma", "delta"):
        (repository / "b.md").write_text(words)
        git(repository, "commit", "-qam", words)
    with home.open() as kb:
        kb.sync(repository, revision=git(repository, "rev-parse", "main~1"))
        assert ask(kb, "gamma").hits[0].document == "b.md"
        assert kb.sync(repository, revision="main").changed == 1
    assert (home.found("gamma"), home.found("delta")) == ([], ["b.md"])


@each(
    ("address", "written"),
    [
        ("https://host/team/book", r"git\+https://host/team/book"),
        ("http://host/book", r"git\+https://host/book"),
        ("git@host:team/book.git", r"git\+ssh://git@host/team/book\.git"),
    ],
)
def test_address_that_is_no_path_says_how_a_repository_is_written(home: Home, address: str, written: str) -> None:
    with home.open() as kb, pytest.raises(SourceError, match=f"To sync a Git repository, write {written}"):
        kb.sync(address)


def test_plain_sync_fetches_what_is_new(home: Home, repository: Path) -> None:
    with home.open() as kb:
        kb.sync(f"git+file://{repository}")
        (repository / "c.md").write_text("gamma")
        git(repository, "rm", "-q", "b.md")
        git(repository, "add", "c.md")
        git(repository, "commit", "-qm", "three")
        result = kb.sync()
        assert (result.added, result.removed, result.unchanged) == (1, 1, 1)
        assert kb.sync().unchanged == 2


def test_short_commit_is_found_in_the_history(home: Home, repository: Path) -> None:
    short = git(repository, "rev-parse", "--short=9", "v1")
    with home.open() as kb:
        kb.sync(repository, revision=short)
    assert home.found("first") == ["guide/a.md"]


def test_unknown_revision_or_repository_changes_nothing(home: Home, repository: Path) -> None:
    with home.open() as kb:
        with pytest.raises(SourceError, match=r"There is no revision 'v9' in file://"):
            kb.sync(repository, revision="v9")
        with pytest.raises(SourceError, match=r"git fetch failed: .*does not appear to be a git repository|git fetch"):
            kb.sync("git+file:///nowhere/at/all")
        assert not kb.data.exists()


def test_repository_out_of_reach_keeps_its_documents_and_is_listed(home: Home, repository: Path) -> None:
    with home.open() as kb:
        kb.sync(f"git+file://{repository}")
        repository.rename(repository.with_name("moved"))
        (problem,) = kb.sync().problems
        assert "cannot be fetched" in problem.reason and "are kept" in problem.reason
        assert [p.path for p in kb.status().problems] == [f"git+file://{repository}", "link.md"]
        assert ask(kb, "second").hits


def test_forgotten_repository_leaves_nothing_behind(home: Home, repository: Path) -> None:
    home.write("docs/x.md", "other")
    with home.open() as kb:
        kb.sync(home.docs)
        kb.sync(f"git+file://{repository}")
        kb.sync(forget=[f"git+file://{repository}"])
        assert [d.id for d in kb.documents(Access.owner())] == ["x.md"]
        assert list((kb.data / "git").iterdir()) == []


def test_folder_around_the_data_does_not_swallow_a_repository(home: Home, repository: Path) -> None:
    home.write("docs/x.md", "other")
    with home.open() as kb:
        kb.sync(f"git+file://{repository}")
        result = kb.sync(home.folder / "docs", home.folder)
        assert len(kb.catalogue.sources()) == 2
        assert result.documents > 2


# ---------------------------------------------------------------- a git that fails


Wrapper = Callable[..., None]


def everything(path: str, size: int) -> bool:
    return True


@pytest.fixture
def wrapper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Wrapper:
    """Puts a `git` first on PATH that runs these lines for `git archive`, and `others` for other commands; $GIT is the
    real one, $NOTES a file."""
    real, folder = shutil.which("git"), tmp_path / "bin"
    folder.mkdir()

    def write(lines: str, others: str = 'exec "$GIT" "$@"') -> None:
        script = folder / "git"
        script.write_text(
            f"#!/bin/sh\nGIT={real}\nNOTES={tmp_path}/notes\n"
            f'case " $* " in *" archive "*) ;; *) {others} ;; esac\n{lines}\n'
        )
        script.chmod(0o755)

    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return write


def boundary(repository: Path) -> int:
    """Where the second of the files begins in the archive."""
    content = subprocess.run(["git", "archive", "main"], cwd=repository, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        return [member.offset for member in archive if member.isreg()][1]


@pytest.mark.parametrize(
    ("ending", "reason"),
    [
        ("echo 'fatal: unable to read tree' >&2; exit 128", "git archive failed: unable to read tree"),
        ("exit 3", "git archive failed: exit code 3"),
        ("kill -9 $$", "git archive failed: exit code -9"),
        ("echo 'error: bad object' >&2; exit 0", "git archive failed: bad object"),
        ("exit 0", "git archive stopped before its end"),
    ],
)
@pytest.mark.parametrize("cut", ["between files", "inside a file"])
def test_cut_archive_fails_and_keeps_the_old_files(
    home: Home, repository: Path, wrapper: Wrapper, ending: str, reason: str, cut: str
) -> None:
    origin = GitOrigin(f"file://{repository}", "main")
    first = fetch(GitOrigin(origin.url, "v1"), home.folder, "", everything)
    size = boundary(repository) + (0 if cut == "between files" else 514)
    wrapper(f'"$GIT" "$@" | head -c {size}; {ending}')
    if cut == "inside a file" and ending == "exit 0":
        reason = "cannot be extracted"
    with pytest.raises(SourceError, match=reason):
        fetch(origin, home.folder, first, everything)
    tree = home.folder / "tree"
    assert (tree / "guide" / "a.md").read_text() == "alpha first"
    assert {path.name for path in tree.iterdir()} == {"b.md", "guide", "photo.png", ".gitmodules"}
    assert not (home.folder / "tree.new").exists()


def test_sync_with_a_cut_archive_loses_no_document(home: Home, repository: Path, wrapper: Wrapper) -> None:
    with home.open() as kb:
        kb.sync(f"git+file://{repository}@v1")
        wrapper(f'"$GIT" "$@" | head -c {boundary(repository)}; exit 1')
        with pytest.raises(SourceError, match="git archive failed"):
            kb.sync(f"git+file://{repository}@main")
        assert [d.id for d in kb.documents(Access.owner())] == ["b.md", "guide/a.md"]
        assert "second" not in kb.documents(Access.owner())[1].text


def test_archive_that_complains_at_length_is_read_all_the_same(home: Home, repository: Path, wrapper: Wrapper) -> None:
    wrapper('yes "warning: so what" | head -c 1000000 >&2; exec "$GIT" "$@"')
    fetch(GitOrigin(f"file://{repository}", "main"), home.folder, "", everything)
    assert (home.folder / "tree" / "b.md").exists()


def test_fetch_that_ends_well_may_have_complained(home: Home, repository: Path, wrapper: Wrapper) -> None:
    wrapper('exec "$GIT" "$@"', 'echo "fatal: cannot prompt for a password" >&2; exec "$GIT" "$@"')
    fetch(GitOrigin(f"file://{repository}", "main"), home.folder, "", everything)
    assert (home.folder / "tree" / "b.md").exists()


def gone(notes: Path) -> bool:
    """Whether the process whose id stands there ends within some seconds."""
    pid = int(notes.read_text())
    for _ in range(200):
        state = Path(f"/proc/{pid}/stat")
        try:
            os.kill(pid, 0)
            if state.exists() and state.read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except (ProcessLookupError, FileNotFoundError):
            return True
        time.sleep(0.05)
    return False


HANGS = '"$GIT" "$@"; sleep 600 & echo $! > "$NOTES"; wait'


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_git_and_its_helpers_end_when_we_raise(
    home: Home, repository: Path, wrapper: Wrapper, error: type[BaseException], tmp_path: Path
) -> None:
    wrapper(HANGS)

    def broken(path: str, size: int) -> bool:
        while not (tmp_path / "notes").exists():
            time.sleep(0.01)
        raise error

    with pytest.raises(error):
        fetch(GitOrigin(f"file://{repository}", "main"), home.folder, "", broken)
    assert gone(tmp_path / "notes")


def test_git_that_hangs_is_stopped_after_its_time(
    home: Home, repository: Path, wrapper: Wrapper, tmp_path: Path
) -> None:
    wrapper(HANGS)
    late = pytest.raises(
        SourceError, match=r"git archive took more than 3 s \(max_repository_seconds\) and was stopped"
    )
    with late, running(repository, "archive", "main", limits=FileLimits(repository_seconds=3)) as output:
        assert output.read()
    assert gone(tmp_path / "notes")


def test_interrupt_ends_git_too(home: Home, repository: Path, wrapper: Wrapper, tmp_path: Path) -> None:
    wrapper(HANGS)
    command = [sys.executable, "-m", "surefind", "sync", f"git+file://{repository}", "--kb", str(home.folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 60
        while not (tmp_path / "notes").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode in (130, -signal.SIGINT)  # the latter where it met Python in the middle of an import
    assert gone(tmp_path / "notes")


# ---------------------------------------------------------------- watching


def test_changes_are_noticed_and_the_data_folder_is_not(home: Home) -> None:
    home.write("docs/a.md", "alpha")
    with home.open() as kb:
        kb.sync(home.folder)  # the data folder lies in the source
        stop = threading.Event()
        seen = []

        def follow() -> None:
            for _ in kb.changes(stop):
                seen.append(time.monotonic())

        def wait_for(many: int) -> None:
            deadline = time.monotonic() + 60
            while len(seen) < many and time.monotonic() < deadline:
                time.sleep(0.05)

        thread = threading.Thread(target=follow)
        thread.start()
        try:
            wait_for(1)  # it watches
            home.write(".surefind/noise.md", "noise")
            time.sleep(1.5)
            assert len(seen) == 1
            for i in range(5):
                home.write(f"docs/{i}.md", "many at once")
            wait_for(2)
        finally:
            stop.set()
            thread.join()
        assert 2 <= len(seen) < 6


def test_watch_syncs_again_until_it_is_stopped(home: Home) -> None:
    home.write("docs/a.md", "alpha")
    command = [sys.executable, "-m", "surefind", "sync", str(home.docs), "--watch", "--kb", str(home.folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout and process.stderr
        assert "1 added" in process.stdout.readline()
        assert any("Watching" in line for line in process.stderr)  # after the progress of the first sync
        home.write("docs/b.md", "beta")
        lines = [process.stdout.readline() for _ in range(2)]
        assert any("1 added" in line for line in lines)
    finally:
        process.send_signal(signal.SIGINT)
        _, complaint = process.communicate(timeout=30)
    assert process.returncode == 130 and "Stopped" in complaint
    assert home.found("beta") == ["b.md"]
