"""Sync: only what changed is read, and the result is what a fresh sync would give."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import each
from helpers import EXAMPLE, WORDS, Home, ask
from surefind.base.errors import NotBuiltError, SourceError
from surefind.base.protocols import Reader
from surefind.base.types import Document
from surefind.engine.write.prepare import Prepared
from surefind.engine.write.preparing import FilePreparer


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that are read from here on."""
    names: list[str] = []
    read = FilePreparer.read

    def counting(self: FilePreparer, reader: Reader, path: Path, *more: str) -> Prepared:
        names.append(path.name)
        return read(self, reader, path, *more)

    monkeypatch.setattr(FilePreparer, "read", counting)
    return names


@pytest.fixture
def two(home: Home) -> Home:
    home.write("docs/a.md", "alpha common")
    home.write("docs/sub/b.md", "beta common")
    home.sync("docs")
    return home


# ---------------------------------------------------------------- what is read


def test_first_sync_takes_everything_in(home: Home) -> None:
    home.write("docs/a.md", "alpha")
    home.write("docs/b.txt", "beta")
    home.write("docs/c.png", b"\x89PNG")
    report = home.sync("docs")
    assert (report.added, report.documents, report.chunks, report.generation) == (2, 2, 2, 1)
    assert report.ignored == {".png": 1}
    assert report.rebuilt == ["bm25"]


def test_unchanged_files_are_not_read_again(two: Home, reads: list[str]) -> None:
    report = two.sync()
    assert reads == []
    assert (report.unchanged, report.added, report.changed, report.removed) == (2, 0, 0, 0)


def test_sync_without_changes_makes_no_generation_and_builds_nothing(two: Home) -> None:
    report = two.sync()
    assert (report.generation, report.rebuilt) == (1, [])


def test_file_of_the_same_size_and_time_is_not_even_opened(two: Home) -> None:
    """That is what makes a sync of a large folder fast; the time of writing is what tells."""
    stat = (two.docs / "a.md").stat()
    (two.docs / "a.md").write_text("ALPHA COMMON")
    os.utime(two.docs / "a.md", ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert two.sync().unchanged == 2


def test_file_written_just_before_it_was_read_is_looked_at_again(home: Home) -> None:
    """Two writes within one tick of the clock leave the same time and may leave the same size."""
    path = home.write("docs/a.md", "alpha", age=0)
    home.sync("docs")
    stat = path.stat()
    path.write_text("gamma")
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert home.sync().changed == 1


def test_changed_file_replaces_its_old_version(two: Home, reads: list[str]) -> None:
    two.write("docs/a.md", "gamma common", age=30)
    report = two.sync()
    assert reads == ["a.md"]
    assert (report.changed, report.unchanged, report.generation) == (1, 1, 2)
    assert two.found("alpha") == []
    assert two.found("gamma") == ["a.md"]


def test_deleted_file_is_forgotten(two: Home) -> None:
    (two.docs / "a.md").unlink()
    report = two.sync()
    assert (report.removed, report.documents) == (1, 1)
    assert two.found("common") == ["sub/b.md"]


def test_renamed_file_is_found_under_its_new_name(two: Home) -> None:
    (two.docs / "a.md").rename(two.docs / "z.md")
    report = two.sync()
    assert (report.added, report.removed) == (1, 1)
    assert two.found("alpha") == ["z.md"]


def test_file_that_was_only_touched_is_unchanged(two: Home, reads: list[str]) -> None:
    two.write("docs/a.md", "alpha common", age=10)
    report = two.sync()
    assert reads == []
    assert (report.unchanged, report.generation) == (2, 1)


def test_emptied_source_leaves_nothing(two: Home) -> None:
    (two.docs / "a.md").unlink()
    (two.docs / "sub/b.md").unlink()
    assert two.sync().documents == 0


# ---------------------------------------------------------------- sources


def test_path_inside_a_source_syncs_only_that_part(two: Home) -> None:
    two.write("docs/a.md", "gamma", age=30)
    two.write("docs/sub/b.md", "delta", age=30)
    assert two.sync("docs/sub").changed == 1
    assert two.found("delta") == ["sub/b.md"]
    assert two.found("alpha") == ["a.md"]


def test_single_file_inside_a_source_may_be_synced(two: Home) -> None:
    two.write("docs/sub/b.md", "delta", age=30)
    report = two.sync("docs/sub/b.md")
    assert (report.changed, report.removed) == (1, 0)


def test_single_file_may_be_a_source(home: Home) -> None:
    home.write("docs/a.md", "alpha")
    home.write("docs/b.md", "beta")
    assert home.sync("docs/a.md").documents == 1
    assert home.found("alpha") == ["a.md"]


def test_two_sources_with_the_same_path_keep_both_documents(home: Home) -> None:
    home.write("one/x.md", "alpha first")
    home.write("two/x.md", "alpha second")
    home.sync("one", "two")
    assert sorted(home.found("alpha")) == ["two/x.md", "x.md"]


def test_second_source_keeps_its_ids_when_its_files_change(home: Home) -> None:
    home.write("one/x.md", "alpha first")
    home.write("two/x.md", "alpha second")
    home.sync("one", "two")
    home.write("two/x.md", "alpha third", age=30)
    home.sync()
    assert home.found("third") == ["two/x.md"]


def test_ids_stay_different_when_folders_share_a_name(home: Home) -> None:
    for letter in "abc":
        home.write(f"{letter}/docs/x.md", f"alpha {letter}")
    home.sync("a/docs", "b/docs", "c/docs")
    found = home.found("alpha")
    assert len(set(found)) == 3


def test_prefixed_id_does_not_meet_a_real_path(home: Home) -> None:
    home.write("one/x.md", "alpha a")
    home.write("one/two/x.md", "alpha b")
    home.write("two/x.md", "alpha c")
    home.sync("one", "two")
    assert len(set(home.found("alpha"))) == 3


def test_source_that_takes_in_an_old_one_replaces_it(home: Home) -> None:
    home.write("docs/sub/b.md", "beta")
    home.write("docs/a.md", "alpha")
    home.sync("docs/sub")
    report = home.sync("docs")
    assert report.documents == 2
    assert home.found("beta") == ["sub/b.md"]
    with home.open() as kb:
        assert kb.status().sources == [str(home.docs)]


def test_source_that_takes_in_an_old_one_has_its_own_file_of_the_same_path(home: Home) -> None:
    home.write("docs/x.md", "alpha")
    home.write("docs/sub/x.md", "alpha")
    home.sync("docs/sub")
    home.sync("docs")
    assert sorted(home.found("alpha")) == ["sub/x.md", "x.md"]


@each("paths", [("docs", "docs"), ("docs", "docs/sub"), ("docs/sub", "docs")])
def test_overlapping_paths_take_a_file_in_once(home: Home, paths: tuple[str, ...]) -> None:
    home.write("docs/a.md", "alpha common")
    home.write("docs/sub/b.md", "beta common")
    assert home.sync(*paths).documents == 2
    assert sorted(home.found("common")) == ["a.md", "sub/b.md"]


def test_forgotten_source_leaves_no_documents(home: Home) -> None:
    home.write("one/a.md", "alpha")
    home.write("two/b.md", "beta")
    home.sync("one", "two")
    report = home.sync(forget=[home.folder / "one"])
    assert (report.removed, report.documents) == (1, 1)
    assert home.found("alpha") == []
    assert home.found("beta") == ["b.md"]


def test_forgetting_what_is_no_source_lists_the_sources(two: Home) -> None:
    with pytest.raises(SourceError, match=f"is not a source of this knowledge base. Sources: {two.docs}"):
        two.sync(forget=[two.folder / "elsewhere"])


def test_missing_folder_is_named(home: Home) -> None:
    with pytest.raises(SourceError, match=r"There is no file or folder .*/nowhere"):
        home.sync("nowhere")


def test_missing_folder_beside_a_good_one_changes_nothing(home: Home) -> None:
    home.write("docs/a.md", "alpha")
    with pytest.raises(SourceError, match="nothing was changed"):
        home.sync("docs", "nowhere")
    assert not (home.folder / ".surefind").exists()


def test_empty_folder_says_so(home: Home) -> None:
    with pytest.raises(SourceError, match=r"nothing to index in .*: it holds no files\. Known types: .*\.md"):
        home.sync("docs")


def test_folder_of_other_types_says_which(home: Home) -> None:
    home.write("docs/a.png", b"x")
    home.write("docs/b.png", b"x")
    with pytest.raises(SourceError, match=r"its 2 files are \.png ×2"):
        home.sync("docs")


def test_source_that_is_gone_keeps_its_documents_and_says_what_to_do(two: Home) -> None:
    two.docs.rename(two.folder / "moved")
    with pytest.raises(SourceError, match=r"no longer exists\. Restore it, or remove .* surefind sync --forget"):
        two.sync()
    assert sorted(two.found("common")) == ["a.md", "sub/b.md"]


def test_excluded_files_are_left_out_and_forgotten(two: Home) -> None:
    two.configure(WORDS + '[sync]\nexclude = ["sub/*"]\n')
    assert two.sync().removed == 1
    assert two.found("common") == ["a.md"]


# ---------------------------------------------------------------- files that cannot be read

PROBLEMS = {
    "binary": (b"alpha \0\1\2", "looks binary"),
    "undecodable": (b"alpha \xff\xfa", "is not UTF-8 text (byte 0xff at 6)"),
    "too large": (b"alpha " * 200_000, "is larger than 1 MB"),
}


@each(("content", "reason"), PROBLEMS.values(), ids=PROBLEMS)
def test_unreadable_file_is_skipped_with_the_reason(home: Home, content: bytes, reason: str) -> None:
    home.configure(WORDS + "[sync]\nmax_file_mb = 1\n")
    home.write("docs/good.md", "beta")
    home.write("docs/bad.md", content)
    report = home.sync("docs")
    assert [problem.path for problem in report.problems] == ["bad.md"]
    assert reason in report.problems[0].reason
    assert report.documents == 1


@pytest.mark.parametrize("kind", ["binary", "undecodable", "too large"])
def test_file_that_became_unreadable_keeps_its_old_version(two: Home, kind: str) -> None:
    content, reason = PROBLEMS[kind]
    two.configure(WORDS + "[sync]\nmax_file_mb = 1\n")
    two.write("docs/a.md", content, age=30)
    report = two.sync()
    assert report.problems[0].reason.startswith(reason)
    assert report.problems[0].reason.endswith("; the version indexed before is kept")
    assert two.found("alpha") == ["a.md"]


def test_mended_file_is_taken_in(home: Home) -> None:
    home.write("docs/a.md", b"\xff alpha")
    home.write("docs/b.md", "beta")
    home.sync("docs")
    home.write("docs/a.md", "alpha", age=30)
    report = home.sync()
    assert (report.added, report.problems) == (1, [])


def test_problems_of_other_parts_are_kept_when_one_part_is_synced(two: Home) -> None:
    two.write("docs/bad.md", b"\xff")
    two.sync()
    two.sync("docs/sub")
    with two.open() as kb:
        assert [problem.path for problem in kb.status().problems] == ["bad.md"]


def test_problems_of_two_sources_with_the_same_path_are_both_kept(home: Home) -> None:
    for name in ("one", "two"):
        home.write(f"{name}/good.md", f"alpha {name}")
        home.write(f"{name}/bad.md", b"\xff")
    home.sync("one", "two")
    with home.open() as kb:
        assert len(kb.status().problems) == 2


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.md", "---\ndate: 2024-02-30\n---\nx"), ("a.html", "<div>" * 3000 + "x")],
    ids=["impossible date", "deep nesting"],
)
def test_one_file_that_upsets_its_reader_does_not_stop_the_sync(home: Home, name: str, content: str) -> None:
    home.write(f"docs/{name}", content)
    home.write("docs/good.md", "beta")
    assert [problem.path for problem in home.sync("docs").problems] == [name]
    assert home.found("beta") == ["good.md"]


def test_file_name_that_is_not_utf8_does_not_stop_the_sync(home: Home) -> None:
    home.write("docs/good.md", "beta")
    try:
        Path(os.fsdecode(os.fsencode(home.docs) + b"/\xff.md")).write_text("alpha")
    except OSError:
        pytest.skip("this file system takes only UTF-8 names")
    home.sync("docs")
    assert home.found("beta") == ["good.md"]


def test_text_with_a_nul_character_is_found_in_full_or_refused(home: Home) -> None:
    home.write("docs/a.txt", "word " * 15_000 + "\n\nzeta \0 omega")
    home.write("docs/b.txt", "other")
    report = home.sync("docs")
    assert report.problems or home.found("omega") == ["a.txt"]


def test_folder_that_cannot_be_listed_keeps_its_documents(two: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    scandir = os.scandir

    def refuse(path: Path) -> object:
        if Path(path).name == "sub":
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    two.sync()
    assert "sub/b.md" in two.found("beta")


def test_size_limit_below_a_megabyte_is_told_as_it_is(home: Home) -> None:
    home.configure(WORDS + "[sync]\nmax_file_mb = 0.1\n")
    home.write("docs/a.md", "alpha " * 30_000)
    home.write("docs/b.md", "beta")
    (problem,) = home.sync("docs").problems
    assert "0.1 MB" in problem.reason


# ---------------------------------------------------------------- the same result


def test_two_knowledge_bases_of_one_folder_have_the_same_ids(tmp_path: Path) -> None:
    one, two = Home(tmp_path / "one"), Home(tmp_path / "two")
    for home in (one, two):
        with home.open() as kb:
            kb.sync(EXAMPLE / "runbooks")
    assert one.answers("restart the queue", "certificate") == two.answers("restart the queue", "certificate")


def test_changed_chunker_takes_effect_with_the_next_sync(two: Home, reads: list[str]) -> None:
    two.write("docs/long.md", "one two three four five six")
    two.sync()
    two.configure(WORDS + '[index]\nchunk = "fixed(tokens=2, overlap=0)"\nenrich = []\n')
    reads.clear()
    report = two.sync()
    assert reads == []
    assert report.chunks == 3 + 1 + 1
    assert report.rebuilt == ["bm25"]


def test_changed_chunker_takes_effect_when_it_is_built(two: Home) -> None:
    two.configure(WORDS + '[index]\nchunk = "fixed(tokens=1, overlap=0)"\nenrich = []\n')
    with two.open() as kb:
        with pytest.raises(NotBuiltError, match=r"are not cut by fixed\(tokens=1.*surefind sync"):
            ask(kb, "alpha")
        kb.build("words")
        assert [hit.text for hit in ask(kb, "alpha").hits] == ["alpha"]


def test_going_back_to_an_earlier_chunker_finds_what_changed_meanwhile(two: Home) -> None:
    whole = WORDS + '[index]\nchunk = "whole"\n'
    two.configure(whole)
    two.sync()
    two.configure(WORDS)
    two.write("docs/a.md", "gamma", age=30)
    two.sync()
    two.configure(whole)
    with two.open() as kb:
        kb.build("words")
    assert two.found("gamma") == ["a.md"]


def test_going_back_to_an_earlier_chunker_never_mixes_documents_up(two: Home) -> None:
    """What is built between the change and the sync is an index over some chunks, and is kept for good."""
    whole = WORDS + '[index]\nchunk = "whole"\n'
    two.configure(whole)
    two.sync()
    two.configure(WORDS)
    two.write("docs/a.md", "gamma", age=30)
    two.sync()
    two.configure(whole)
    with two.open() as kb:
        kb.build("words")
    two.sync()
    assert two.found("beta") == ["sub/b.md"]


edits = st.lists(
    st.tuples(
        st.sampled_from(["a.md", "b.md", "sub/c.md", "sub/d.txt"]),
        st.none() | st.lists(st.sampled_from("cash card wire hold branch".split()), max_size=6).map(" ".join),
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=settings.default.max_examples // 5)
@given(rounds=st.lists(edits, min_size=1, max_size=3))
def test_incremental_syncs_give_what_a_fresh_sync_gives(rounds: list[list[tuple[str, str | None]]]) -> None:
    queries = ("cash", "card wire", "hold branch anchor")
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder))
        home.write("docs/anchor.md", "anchor cash")
        home.sync("docs")
        for number, changes in enumerate(rounds):
            for name, text in changes:
                if text is None:
                    (home.docs / name).unlink(missing_ok=True)
                else:
                    home.write(f"docs/{name}", f"# Heading\n\n{text}\n", age=50 - number)
            home.sync()
        fresh = Home(Path(folder) / "fresh")
        with fresh.open() as kb:
            kb.sync(home.docs)
        assert home.answers(*queries) == fresh.answers(*queries)


def test_incremental_sync_with_the_encoder_gives_what_a_fresh_one_gives(tmp_path: Path) -> None:
    settings = '[search]\npipeline = "meaning"\n[pipelines.meaning]\nretrieve = ["dense"]\n'
    home, fresh = Home(tmp_path / "home", settings), Home(tmp_path / "fresh", settings)
    home.write("docs/a.md", "The teller counts cash.")
    home.write("docs/c.md", "Wires need two approvals.")
    home.sync("docs")
    home.write("docs/b.md", "Cards are issued at the branch.")
    (home.docs / "c.md").unlink()
    home.sync()
    with fresh.open() as kb:
        kb.sync(home.docs)
    assert home.answers("bank cards", "cash") == fresh.answers("bank cards", "cash")


def test_index_is_not_mistaken_for_that_of_the_same_documents_cut_elsewhere(
    two: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later release may cut the same text in other places under the same spec."""
    from surefind.base.types import Chunk
    from surefind.engine.chunk.hierarchical import Hierarchical

    two.write("docs/c.md", "alpha one\n\nbeta two\n\ngamma three", age=30)
    two.sync()
    (two.folder / ".surefind/catalogue.db").unlink()

    def every_word(self: Hierarchical, document: Document, services: object) -> list[Chunk]:
        at = [i for i, char in enumerate(f" {document.text}") if char == " "]
        return [Chunk(document.id, a, a + 3, document.text[a : a + 3]) for a in at if document.text[a : a + 3].strip()]

    monkeypatch.setattr(Hierarchical, "chunk", every_word)
    monkeypatch.setattr(Hierarchical, "text_only", False)  # cut here, where it is patched
    two.sync("docs")
    with two.open() as kb:
        hits = ask(kb, "two").hits
        assert [(hit.document, hit.text) for hit in hits] == [("c.md", "two")]


def test_what_a_stopped_sync_on_a_cluster_prepared_is_deleted_by_the_next_one(home: Home) -> None:
    """It holds the text of files, which may have been deleted since."""
    left = home.folder / ".surefind" / "cache" / "prepared.db"
    home.write("docs/a.md", "alpha")
    left.parent.mkdir(parents=True)
    for suffix in ("", "-wal", "-shm"):
        left.with_name(left.name + suffix).write_bytes(b"prepared")
    home.sync("docs")
    assert not list(left.parent.glob("prepared.db*"))
