"""Links, pipes and overlapping folders: nothing outside a source is read unasked, and nothing is read twice."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest

from cases import each
from exam_helpers import surefind
from helpers import WORDS, Home
from surefind.base.errors import ConfigError, SourceError
from surefind.engine.files.opening import ReplacedError, held, read_bytes
from surefind.engine.files.readers import Readers
from surefind.engine.files.scan import FileRules, Missed, scan
from surefind.engine.write.intake import Intake
from surefind.engine.write.preparing import FilePreparer

Follow = Literal["never", "inside", "anywhere"]


@pytest.fixture
def outside(home: Home) -> Path:
    home.write("docs/own.md", "own words")
    home.write("outside/secret.md", "secret words")
    home.write("outside/sub/deep.md", "deep words")
    return home.folder / "outside"


def follow(home: Home, value: str) -> None:
    home.configure(f'{WORDS}[sync]\nfollow_links = "{value}"\n')


def scanned(root: Path, links: Follow = "inside", *exclude: str) -> tuple[list[str], dict[str, str], int]:
    """The files that are read, what is skipped and why, and how many links name what is read anyway."""
    missed = Missed()
    rules = FileRules(exclude, links)
    found = [entry.relative for entry in scan(root, rules, Readers().find, missed) if Readers().find(entry.relative)]
    assert missed.unreadable == []
    return found, dict(missed.skipped), missed.aliases


# ---------------------------------------------------------------- links that lead out


def to_file(docs: Path, outside: Path) -> None:
    (docs / "link.md").symlink_to(outside / "secret.md")


def to_file_by_a_relative_path(docs: Path, outside: Path) -> None:
    (docs / "link.md").symlink_to("../outside/secret.md")


def to_file_by_a_chain(docs: Path, outside: Path) -> None:
    (outside / "step").symlink_to(outside / "secret.md")
    (docs / "second.md").symlink_to(outside / "step")
    (docs / "link.md").symlink_to("second.md")


def to_folder(docs: Path, outside: Path) -> None:
    (docs / "link").symlink_to(outside)


def to_folder_in_a_folder(docs: Path, outside: Path) -> None:
    (docs / "inner").mkdir()
    (docs / "inner" / "link").symlink_to("../../outside")


def to_folder_whose_name_begins_alike(docs: Path, outside: Path) -> None:
    outside.rename(docs.with_name("docs-private"))
    (docs / "link").symlink_to("../docs-private")


WAYS_OUT = [
    to_file, to_file_by_a_relative_path, to_file_by_a_chain, to_folder, to_folder_in_a_folder,
    to_folder_whose_name_begins_alike,
]  # fmt: skip


@pytest.mark.parametrize("links", ["never", "inside", None])
@pytest.mark.parametrize("way", WAYS_OUT)
def test_link_out_of_the_source_is_not_followed_and_listed(
    home: Home, outside: Path, way: Callable[[Path, Path], None], links: str | None
) -> None:
    way(home.docs, outside)
    if links:
        follow(home, links)
    result = home.sync("docs")
    assert (result.documents, result.problems, home.found("secret deep")) == (1, [], [])
    assert all("outside the source folder" in skipped.reason for skipped in result.skipped)
    assert "link" in " ".join(skipped.path for skipped in result.skipped)
    with home.open() as kb:
        assert kb.status().problems == result.skipped
    assert home.sync().skipped == result.skipped


@pytest.mark.parametrize("way", WAYS_OUT)
def test_link_out_of_the_source_is_followed_where_the_settings_say_so(
    home: Home, outside: Path, way: Callable[[Path, Path], None]
) -> None:
    way(home.docs, outside)
    follow(home, "anywhere")
    result = home.sync("docs")
    assert (result.skipped, result.problems) == ([], [])
    assert len(home.found("secret")) == 1
    assert home.sync().unchanged == result.documents


def test_document_behind_a_link_leaves_when_links_are_no_longer_followed(home: Home, outside: Path) -> None:
    to_file(home.docs, outside)
    follow(home, "anywhere")
    assert home.sync("docs").documents == 2
    follow(home, "inside")
    assert (home.sync().removed, home.found("secret")) == (1, [])


def test_reason_names_the_place_and_the_setting(home: Home, outside: Path) -> None:
    to_file(home.docs, outside)
    (skipped,) = home.sync("docs").skipped
    assert skipped.path == "link.md"
    assert skipped.reason == (
        f'is a link to {outside}/secret.md, outside the source folder; to read it, set follow_links = "anywhere"'
    )


def test_folder_with_nothing_but_links_out_says_so(home: Home) -> None:
    home.write("outside/secret.md", "secret")
    to_file(home.docs, home.folder / "outside")
    with pytest.raises(SourceError, match=r"it holds no files; skipped: link\.md is a link to .*outside the source"):
        home.sync("docs")


def test_source_may_itself_be_a_link(home: Home, outside: Path) -> None:
    (home.folder / "alias").symlink_to(outside)
    assert home.sync("alias").documents == 2
    assert home.sync("outside").unchanged == 2


def test_source_behind_a_folder_that_became_a_link_stays_the_same_source(home: Home) -> None:
    home.write("disk/docs/a.md", "alpha")
    home.sync("disk/docs")
    (home.folder / "disk").rename(home.folder / "other")
    (home.folder / "disk").symlink_to("other")
    result = home.sync()
    assert (result.unchanged, result.skipped, result.problems) == (1, [], [])
    assert home.sync("other/docs").documents == 1
    assert home.sync("disk/docs/a.md").documents == 1
    assert home.sync(forget=[home.folder / "disk" / "docs"]).documents == 0


def test_source_that_is_forgotten_and_named_at_once_is_forgotten(home: Home) -> None:
    home.write("docs/a.md", "alpha")
    follow(home, "anywhere")
    home.sync("docs")
    assert home.sync("docs", forget=[home.docs]).documents == 0


@each("value", ['"everywhere"', "true"])
def test_setting_with_another_value_names_the_choices(home: Home, value: str) -> None:
    home.configure(f"[sync]\nfollow_links = {value}\n")
    with pytest.raises(ConfigError, match="line 2: follow_links must be"):
        home.open()


# ---------------------------------------------------------------- links within a source


@each("links", ["never", "inside", "anywhere"])
def test_file_with_two_names_is_read_once_under_its_own(tmp_path: Path, links: Follow) -> None:
    (tmp_path / "z.md").write_text("x")
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.md").symlink_to("z.md")
    (tmp_path / "b").symlink_to("sub")
    (tmp_path / "sub" / "c.md").symlink_to("../a.md")
    assert scanned(tmp_path, links) == (["z.md"], {}, 3)


def test_link_gives_a_file_without_a_reader_a_name_that_has_one(home: Home) -> None:
    home.write("docs/README", "# Handbook\n\nalpha")
    home.write("docs/tool", "def alpha():\n    pass\n")
    (home.docs / "README.md").symlink_to("README")
    (home.docs / "README.txt").symlink_to("README")
    (home.docs / "tool.py").symlink_to("tool")
    result = home.sync("docs")
    assert (result.documents, result.problems, result.skipped, result.aliases) == (2, [], [], 1)
    assert sorted(home.found("alpha")) == ["README.md", "tool.py"]
    assert home.sync().unchanged == 2


@each("target", [".env", ".git/config", "node_modules/x.md", "drafts/x.md"])
def test_link_to_what_is_ignored_is_not_followed(tmp_path: Path, target: str) -> None:
    (tmp_path / target).parent.mkdir(exist_ok=True)
    (tmp_path / target).write_text("token")
    (tmp_path / "a.md").symlink_to(target)
    (tmp_path / "b").symlink_to(Path(target).parent)
    found, skipped, _ = scanned(tmp_path, "inside", "drafts")
    assert found == []
    assert f"is a link to {target}, which is" in skipped["a.md"]
    found, skipped, _ = scanned(tmp_path, "anywhere", "drafts")
    assert ("a.md" in found) == (not target.startswith("drafts"))


def test_dangling_links_and_loops_are_listed(tmp_path: Path) -> None:
    (tmp_path / "gone.md").symlink_to("nowhere.md")
    (tmp_path / "self.md").symlink_to("self.md")
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    for links in ("never", "inside", "anywhere"):
        found, skipped, aliases = scanned(tmp_path, links)
        assert (found, aliases) == ([], 0)
        assert skipped == {
            "gone.md": "is a link to nowhere.md, which does not exist",
            "self.md": "is a link that leads back to itself",
            "one": "is a link that leads back to itself",
            "two": "is a link that leads back to itself",
        }


# ---------------------------------------------------------------- a folder is read once


def test_folder_that_several_links_lead_to_is_read_once(tmp_path: Path) -> None:
    """`a` leads into the folder that `b` leads to; `c` leads above the source itself."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "out" / "sub").mkdir(parents=True)
    (tmp_path / "out" / "sub" / "x.md").touch()
    (tmp_path / "docs" / "own.md").touch()
    (tmp_path / "docs" / "a").symlink_to("../out/sub")
    (tmp_path / "docs" / "b").symlink_to("../out")
    (tmp_path / "docs" / "c").symlink_to("..")
    (tmp_path / "docs" / "d.md").symlink_to("../out/sub/x.md")
    assert scanned(tmp_path / "docs", "anywhere")[0] == ["own.md", "a/x.md"]


def test_linked_file_is_not_read_again_in_its_folder(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "x.md").touch()
    (tmp_path / "docs" / "a.md").symlink_to("../out/x.md")
    (tmp_path / "docs" / "b").symlink_to("../out")
    assert scanned(tmp_path / "docs", "anywhere")[0] == ["a.md"]


@each("target", ["two", "two/sub", "."])
def test_link_into_another_source_gives_no_second_document(home: Home, target: str) -> None:
    home.write("one/a.md", "alpha common")
    home.write("two/b.md", "beta common")
    home.write("two/sub/c.md", "gamma common")
    (home.folder / "one" / "link").symlink_to(home.folder / target)
    follow(home, "anywhere")
    home.sync("one", "two")
    assert sorted(home.found("common")) == ["a.md", "b.md", "sub/c.md"]
    assert home.sync("one").documents == 3


def test_folder_that_two_sources_lead_to_belongs_to_the_first(home: Home, outside: Path) -> None:
    for name in ("one", "two"):
        home.write(f"{name}/{name}.md", "own")
        (home.folder / name / "link").symlink_to(outside)
    follow(home, "anywhere")
    assert home.sync("one", "two").documents == 4
    assert home.found("secret") == ["link/secret.md"]
    assert home.sync("two").documents == 4


def test_source_that_takes_in_an_old_one_reads_all_of_it(home: Home) -> None:
    home.write("docs/sub/b.md", "beta common")
    home.write("docs/a.md", "alpha common")
    follow(home, "anywhere")
    home.sync("docs/sub")
    assert home.sync("docs").documents == 2
    assert sorted(home.found("common")) == ["a.md", "sub/b.md"]


@each(
    "paths", [("docs", "./docs"), ("docs", "docs/../docs/"), ("docs", "alias"), ("alias", "docs/sub"), ("in", "docs")]
)
def test_folder_given_by_two_names_is_one_source(home: Home, paths: tuple[str, str]) -> None:
    home.write("docs/a.md", "alpha common")
    home.write("docs/sub/b.md", "beta common")
    (home.folder / "alias").symlink_to("docs")
    (home.folder / "in").symlink_to("docs/sub")
    assert home.sync(*paths).documents == 2
    for path in paths:
        assert home.sync(path).documents == 2
    with home.open() as kb:
        assert kb.status().sources == [str(home.docs)]


# ---------------------------------------------------------------- what is no file


def test_pipes_and_sockets_are_skipped_and_listed(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.write("docs/own.md", "own")
    os.mkfifo(home.docs / "pipe.md")
    (home.docs / "link.md").symlink_to("pipe.md")
    (home.docs / "null.md").symlink_to("/dev/null")
    monkeypatch.chdir(home.docs)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket.md")
        for value in ("inside", "anywhere"):
            follow(home, value)
            result = home.sync("docs")
            reasons = {skipped.path: skipped.reason for skipped in result.skipped}
            assert reasons["pipe.md"] == "is a named pipe, not a file"
            assert reasons["socket.md"] == "is a socket, not a file"
            assert reasons["link.md"].startswith("is a link to pipe.md, which is a named pipe")
            assert "null.md" in reasons
            assert (result.documents, result.problems) == (1, [])


def test_source_that_is_a_pipe_is_refused(home: Home) -> None:
    os.mkfifo(home.folder / "pipe.md")
    with pytest.raises(SourceError, match=r"pipe\.md is a named pipe, not a file or folder"):
        home.sync("pipe.md")


# ---------------------------------------------------------------- swapped between scan and read


def link_to_secret(home: Home) -> None:
    (home.docs / "sub" / "a.md").unlink()
    (home.docs / "sub" / "a.md").symlink_to(home.folder / "outside" / "secret.md")


def linked_folder(home: Home) -> None:
    (home.docs / "sub").rename(home.folder / "moved")
    home.write("outside/a.md", "secret words")
    (home.docs / "sub").symlink_to(home.folder / "outside")


def pipe(home: Home) -> None:
    (home.docs / "sub" / "a.md").unlink()
    os.mkfifo(home.docs / "sub" / "a.md")


@pytest.mark.parametrize("swap", [link_to_secret, linked_folder, pipe])
@pytest.mark.parametrize("before", [Intake, FilePreparer])
def test_link_swapped_in_after_the_scan_is_not_read(
    home: Home, outside: Path, monkeypatch: pytest.MonkeyPatch, swap: Callable[[Home], None], before: type
) -> None:
    """Before the file is compared with what was read before, and before the child process opens it."""
    home.write("docs/sub/a.md", "alpha words")
    name = "_checked" if before is Intake else "read"
    real = getattr(before, name)

    def swapping(self: object, *given: object) -> object:
        if any("a.md" in str(one) for one in given):
            swap(home)
        return real(self, *given)

    with monkeypatch.context() as patch:
        patch.setattr(before, name, swapping)
        result = home.sync("docs")
    (problem,) = result.problems
    assert problem.path == "sub/a.md" and "the next sync checks it again" in problem.reason
    assert (result.documents, home.found("secret alpha")) == (1, [])


def test_file_that_was_swapped_is_read_when_it_is_back(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.write("docs/own.md", "own")
    path = home.write("docs/sub/a.md", "alpha")
    real = FilePreparer.read

    def swapping(self: FilePreparer, *given: object) -> object:
        if "a.md" in str(given[1]):
            path.rename(home.folder / "kept.md")
            os.mkfifo(path)
        return real(self, *given)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(FilePreparer, "read", swapping)
        assert len(home.sync("docs").problems) == 1
    path.unlink()
    (home.folder / "kept.md").rename(path)
    assert (home.sync().problems, home.found("alpha")) == ([], ["sub/a.md"])


def test_file_swapped_while_it_is_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_text("alpha")
    with pytest.raises(ReplacedError), held(path, str(path)):
        path.unlink()
        path.symlink_to("/etc/passwd")


def test_link_that_was_turned_elsewhere_is_refused(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).write_text(name)
    link = tmp_path / "a.md"
    link.symlink_to("one")
    assert read_bytes(link, str(tmp_path / "one"), 50) == b"one"
    link.unlink()
    link.symlink_to("two")
    with pytest.raises(ReplacedError):
        read_bytes(link, str(tmp_path / "one"), 50)


# ---------------------------------------------------------------- what sync says


def test_sync_lists_every_type_that_no_reader_takes(home: Home) -> None:
    home.write("docs/a.md", "alpha")
    types = [f".x{i}" for i in range(12)]
    for i, suffix in enumerate(types):
        for j in range(i + 1):
            home.write(f"docs/{j}{suffix}", "x")
    home.write("docs/X.X0", "x")
    out = surefind("sync", home.docs, kb=home.folder).out
    assert "79 files ignored because no reader reads their type: .x11 ×12, .x10 ×11, " in out
    assert all(f"{suffix} ×" in out for suffix in types) and ".x0 ×2" in out
    found = surefind("sync", "--json", kb=home.folder).json["ignored"]
    assert found == {suffix: i + 1 + (i == 0) for i, suffix in enumerate(types)}


def test_refused_folder_lists_every_type(home: Home) -> None:
    for i in range(12):
        home.write(f"docs/a.x{i}", "x")
    with pytest.raises(SourceError) as caught:
        home.sync("docs")
    assert all(f".x{i} ×1" in str(caught.value) for i in range(12))


def test_type_whose_name_is_not_utf8_is_listed(home: Home) -> None:
    home.write("docs/a.md", "alpha")
    Path(os.fsdecode(os.fsencode(home.docs) + b"/b.\xff")).touch()
    assert ".? ×1" in surefind("sync", home.docs, kb=home.folder).out
    assert surefind("sync", "--json", kb=home.folder).json["ignored"] == {".?": 1}


def test_sync_lists_links_and_pipes_beside_failures(home: Home, outside: Path) -> None:
    for i in range(11):
        home.write(f"docs/bad{i:02}.md", b"\0")
    os.mkfifo(home.docs / "pipe.md")
    to_file(home.docs, outside)
    (home.docs / "again.md").symlink_to("own.md")
    out = surefind("sync", home.docs, kb=home.folder).out
    assert "1 links ignored: their targets are read under their own names.\n" in out
    assert "2 links and special files skipped:\n  pipe.md is a named pipe, not a file\n  link.md is a link to " in out
    assert "11 files skipped or read only in part:\n  bad00.md " in out
    found = surefind("sync", "--json", kb=home.folder).json
    assert (len(found["problems"]), len(found["skipped"]), found["aliases"]) == (11, 2, 1)
    said = surefind("status", kb=home.folder).out
    assert "link.md is a link to" in said and "pipe.md is a named pipe" in said


def test_part_of_a_source_keeps_what_was_skipped_elsewhere(home: Home, outside: Path) -> None:
    to_file(home.docs, outside)
    home.write("docs/sub/a.md", "alpha")
    home.sync("docs")
    assert home.sync("docs/sub").skipped == []
    with home.open() as kb:
        assert [problem.path for problem in kb.status().problems] == ["link.md"]
