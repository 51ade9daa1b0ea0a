"""Versions: history, differences, rollback, drafts, review, publishing and retiring."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import each
from exam_helpers import surefind
from helpers import WORDS, Home, ask
from surefind import Access
from surefind.base.errors import ConflictError, NotBuiltError, NothingIndexedError, SourceError, UsageError
from surefind.base.protocols import Reader, Services
from surefind.base.types import Chunk, Document
from surefind.engine.files.inside import reading
from surefind.engine.store.catalogue import Catalogue
from surefind.engine.store.versions import Generation, Version
from surefind.engine.write.layout import Layout
from surefind.engine.write.prepare import Prepared, PrepareTask, prepare
from surefind.engine.write.preparing import FilePreparer
from surefind.kb.changes import compare, compare_texts


@pytest.fixture(scope="module", autouse=True)
def _reads_in_this_process() -> Iterator[None]:
    """Starting a process for each sync would be most of the time of these tests."""

    def read(self: FilePreparer, reader: Reader, path: Path, key: str, layout: str = "", real: str = "") -> Prepared:
        with reading(self.limits, self.readers) as scope:
            return prepare(PrepareTask(str(reader), str(path), key, layout, real), scope)

    with mock.patch.object(FilePreparer, "read", read):
        yield


@pytest.fixture
def two(home: Home) -> Home:
    home.write("docs/a.md", "alpha common")
    home.write("docs/b.md", "beta common")
    home.sync("docs")
    return home


@pytest.fixture
def three(two: Home) -> Home:
    """Three generations: a and b; a says something else; b is gone and c is new."""
    two.write("docs/a.md", "gamma common", age=50)
    two.sync()
    (two.docs / "b.md").unlink()
    two.write("docs/c.md", "delta common", age=40)
    two.sync()
    return two


def keeping(generations: int) -> str:
    return f"{WORDS}\n[sync]\nkeep_generations = {generations}\n"


def texts(home: Home) -> dict[str, str]:
    with home.open() as kb:
        return {document.id: document.text for document in kb.documents(Access.owner())}


def draft(home: Home, text: str, document: str = "", name: str = "draft.md") -> int:
    with home.open() as kb:
        return kb.drafts.add(home.write(f"drafts/{name}", text), document).number


def publish(home: Home, text: str, document: str) -> int:
    """Draft and publish at once. Returns the generation."""
    number = draft(home, text, document)
    with home.open() as kb:
        return kb.drafts.publish(number)


def publish_outdated(home: Home, number: int) -> None:
    """Publishes a draft whose document changed since: it is refused until its text is put on the newer version."""
    with home.open() as kb:
        before = kb.catalogue.generation()
        with pytest.raises(ConflictError, match=f"surefind draft rebase {number}"):
            kb.drafts.publish(number)
        assert kb.catalogue.generation() == before
        kb.drafts.rebase(number)
        kb.drafts.publish(number)


def retire(home: Home, document: str) -> int:
    with home.open() as kb:
        return kb.retire(document)


def rollback(home: Home, generation: int) -> Generation:
    with home.open() as kb:
        return kb.rollback(generation)


def numbers(home: Home) -> list[int]:
    with home.open() as kb:
        return [generation.number for generation in kb.generations()]


def history(home: Home, document: str) -> list[Version]:
    with home.open() as kb:
        return kb.history(document)


def index_files(home: Home) -> dict[str, int]:
    folder = home.folder / ".surefind/indexes"
    return {str(path): path.stat().st_mtime_ns for path in folder.rglob("*")}


class StoppedError(Exception):
    pass


def stopped(really: bool = True) -> contextlib.AbstractContextManager[object]:
    """Within it, a writer dies before its commit."""
    return mock.patch.object(Catalogue, "commit", side_effect=StoppedError) if really else contextlib.nullcontext()


# ---------------------------------------------------------------- history


def test_generation_says_when_why_and_by_whom_it_was_made(two: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUREFIND_AUTHOR", "ada")
    publish(two, "gamma", "a.md")
    retire(two, "b.md")
    rollback(two, 1)
    with two.open() as kb:
        made = kb.generations()
    assert [(g.number, g.documents, g.reason) for g in made] == [
        (1, 2, "sync"), (2, 2, "publish a.md"), (3, 1, "retire b.md"), (4, 2, "rollback to 1"),
    ]  # fmt: skip
    assert [g.author for g in made[1:]] == ["ada"] * 3
    assert all(g.created.startswith("20") for g in made)


def test_history_lists_versions_newest_first_with_the_generations_that_hold_them(three: Home) -> None:
    found = history(three, "a.md")
    assert [(v.state, v.generations, v.length) for v in found] == [
        ("published", (2, 3), len("gamma common")),
        ("retired", (1,), len("alpha common")),
    ]
    assert found[0].number > found[1].number
    assert [(v.state, v.generations) for v in history(three, "b.md")] == [("retired", (1, 2))]


def test_history_of_a_document_that_never_was_is_empty(two: Home) -> None:
    assert history(two, "nonesuch.md") == []


def test_history_after_a_rollback_calls_the_earlier_version_published(three: Home) -> None:
    rollback(three, 1)
    assert [(v.state, v.generations) for v in history(three, "a.md")] == [("retired", (2, 3)), ("published", (1, 4))]


def test_command_shows_generations_and_versions(three: Home) -> None:
    lines = surefind("history", kb=three.folder).out.splitlines()
    assert [line.split()[:2] for line in lines] == [["generation", str(number)] for number in (3, 2, 1)]
    assert all("2 documents  sync" in line for line in lines)
    lines = surefind("history", "a.md", kb=three.folder).out.splitlines()
    assert [line.split()[2] for line in lines] == ["published", "retired"]
    assert lines[0].endswith("generations 2, 3")
    draft(three, "more", "a.md")
    assert surefind("history", "a.md", kb=three.folder).out.splitlines()[0].endswith("no generation")


def test_command_gives_history_as_json(three: Home) -> None:
    assert [one["number"] for one in surefind("history", "--json", kb=three.folder).json] == [1, 2, 3]
    versions = surefind("history", "a.md", "--json", kb=three.folder).json
    assert [one["generations"] for one in versions] == [[2, 3], [1]]


def test_command_refuses_the_history_of_an_unknown_document(two: Home) -> None:
    ran = surefind("history", "nonesuch.md", kb=two.folder)
    assert ran.code == 2
    assert "There is no document 'nonesuch.md'" in ran.err


# ---------------------------------------------------------------- diff


def test_diff_compares_the_current_generation_with_the_one_before(three: Home) -> None:
    with three.open() as kb:
        found = compare(kb.catalogue)
    assert (found.before, found.after) == (2, 3)
    assert (found.added, found.removed, found.changed) == (["c.md"], ["b.md"], [])


@pytest.mark.parametrize(
    ("pair", "expected"),
    [
        ((1, 3), (["c.md"], ["b.md"], ["a.md"])),
        ((3, 1), (["b.md"], ["c.md"], ["a.md"])),
        ((1, None), (["c.md"], ["b.md"], ["a.md"])),
        ((None, 2), ([], [], ["a.md"])),
        ((2, 2), ([], [], [])),
        ((None, 1), ([], [], [])),
    ],
)
def test_diff_of_any_two_generations(
    three: Home, pair: tuple[int | None, int | None], expected: tuple[list[str], ...]
) -> None:
    with three.open() as kb:
        found = compare(kb.catalogue, *pair)
    assert (found.added, found.removed, found.changed) == expected


def test_diff_of_a_document_shows_its_lines(home: Home) -> None:
    home.write("docs/a.md", "# Title\n\none\ntwo\nthree\n")
    home.sync("docs")
    home.write("docs/a.md", "# Title\n\none\n2\nthree\n", age=50)
    home.write("docs/new.md", "new line\n")
    home.sync()
    with home.open() as kb:
        lines = compare_texts(kb.catalogue, "a.md")
        added = compare_texts(kb.catalogue, "new.md")
        removed = compare_texts(kb.catalogue, "new.md", 2, 1)
    assert lines[:2] == ["--- a.md (generation 1)", "+++ a.md (generation 2)"]
    assert [line for line in lines[3:] if line[0] in "+-"] == ["-two", "+2"]
    assert added[3:] == ["+new line"]
    assert removed[3:] == ["-new line"]


def test_diff_of_a_document_that_neither_generation_has_is_refused(three: Home) -> None:
    with three.open() as kb, pytest.raises(UsageError, match=r"Neither generation has a document 'b.md'"):
        compare_texts(kb.catalogue, "b.md", 3, 3)


@pytest.mark.parametrize("pair", [(9, None), (None, 9), (0, 1), (-1, 2)])
def test_diff_of_an_unknown_generation_names_those_that_are_kept(
    three: Home, pair: tuple[int | None, int | None]
) -> None:
    with three.open() as kb, pytest.raises(UsageError, match=r"There is no generation .*Kept generations: 1, 2, 3\."):
        compare(kb.catalogue, *pair)


def test_diff_before_anything_is_published_is_refused(home: Home) -> None:
    draft(home, "alpha", "a.md")
    with home.open() as kb, pytest.raises(NothingIndexedError, match="There is no knowledge base"):
        compare(kb.catalogue)
    assert surefind("diff", kb=home.folder).code == 3


def test_metadata_alone_is_a_change_and_the_command_says_that_the_text_is_the_same(two: Home) -> None:
    two.write("docs/a.md", "---\nstatus: approved\n---\nalpha common", age=50)
    two.sync()
    assert "~ a.md" in surefind("diff", kb=two.folder).out
    assert "The text of a.md is the same in both generations." in surefind("diff", "-d", "a.md", kb=two.folder).out


def test_command_shows_what_changed(three: Home) -> None:
    assert surefind("diff", "1", kb=three.folder).out.splitlines() == [
        "Generation 1 to 3: 1 added, 1 changed, 1 removed.", "+ c.md", "~ a.md", "- b.md",
    ]  # fmt: skip
    assert surefind("diff", "1", "2", "--json", kb=three.folder).json == {
        "before": 1, "after": 2, "added": [], "removed": [], "changed": ["a.md"],
    }  # fmt: skip
    lines = surefind("diff", "1", "--document", "a.md", kb=three.folder).out.splitlines()
    assert lines[-2:] == ["-alpha common", "+gamma common"]
    assert surefind("diff", "1", "-d", "a.md", "--json", kb=three.folder).json == lines


# ---------------------------------------------------------------- rollback


def test_rollback_gives_the_answers_of_the_earlier_generation_and_builds_nothing(two: Home) -> None:
    queries = ["common", "alpha", "gamma beta", "delta"]
    before = two.answers(*queries)
    two.write("docs/a.md", "gamma common and more", age=50)
    two.write("docs/c.md", "delta common", age=50)
    two.sync()
    after, files = two.answers(*queries), index_files(two)
    assert after != before
    rollback(two, 1)
    assert index_files(two) == files
    assert two.answers(*queries) == before
    rollback(two, 2)
    assert two.answers(*queries) == after
    assert index_files(two) == files


def test_rollback_is_seen_by_the_knowledge_base_that_made_it(three: Home) -> None:
    with three.open() as kb:
        assert [hit.document for hit in ask(kb, "alpha").hits] == []
        earlier = kb.rollback(1)
        result = ask(kb, "alpha")
    assert (earlier.number, earlier.documents) == (1, 2)
    assert ([hit.document for hit in result.hits], result.generation) == (["a.md"], 4)


def test_rollback_can_be_rolled_back(three: Home) -> None:
    newest = texts(three)
    rollback(three, 1)
    assert texts(three) == {"a.md": "alpha common", "b.md": "beta common"}
    rollback(three, 4)  # a generation that is itself a rollback
    assert texts(three) == {"a.md": "alpha common", "b.md": "beta common"}
    rollback(three, 3)
    assert texts(three) == newest
    assert numbers(three) == [1, 2, 3, 4, 5, 6]


def test_rollback_to_the_current_generation_changes_nothing(three: Home) -> None:
    before = texts(three)
    rollback(three, 3)
    assert texts(three) == before


def test_sync_after_a_rollback_brings_back_what_the_folder_holds(three: Home) -> None:
    folder, answers = texts(three), three.answers("common", "gamma")
    rollback(three, 1)
    report = three.sync()
    assert (report.added, report.changed, report.removed) == (1, 1, 1)
    assert texts(three) == folder
    assert [[hit[0] for hit in found] for found in three.answers("common", "gamma")] == [
        [hit[0] for hit in found] for found in answers
    ]
    assert three.sync().generation == report.generation == 5


def test_sync_after_a_rollback_reads_only_what_differs(three: Home) -> None:
    rollback(three, 2)  # as the folder, but for b and c
    report = three.sync()
    assert (report.unchanged, report.added, report.removed) == (1, 1, 1)


def test_sync_makes_no_generation_where_the_folder_is_what_the_rollback_shows(three: Home) -> None:
    rollback(three, 1)
    three.write("docs/a.md", "alpha common", age=30)
    three.write("docs/b.md", "beta common", age=30)
    (three.docs / "c.md").unlink()
    report = three.sync()
    assert (report.unchanged, report.generation) == (2, 4)
    three.write("docs/d.md", "epsilon common")
    assert three.sync().generation == 5
    assert sorted(texts(three)) == ["a.md", "b.md", "d.md"]


def test_what_a_rollback_shows_survives_sweeps(three: Home) -> None:
    """The generations between are forgotten, and what only they had."""
    rollback(three, 1)
    for step in range(3):
        three.write("docs/z.md", f"zeta common {step}", age=30 - step)
        with three.open() as kb:
            kb.sync(three.docs / "z.md")
    assert texts(three) == {"a.md": "alpha common", "b.md": "beta common", "z.md": "zeta common 2"}
    assert numbers(three) == [5, 6, 7]
    assert [v.length for v in history(three, "a.md")] == [len("alpha common")]
    assert sorted(three.found("common")) == ["a.md", "b.md", "z.md"]


def test_rollback_to_a_generation_that_was_swept_names_those_that_are_kept(two: Home) -> None:
    for step in range(4):
        two.write("docs/a.md", f"alpha {step}", age=50 - step)
        two.sync()
    before = texts(two)
    with pytest.raises(UsageError, match=r"There is no generation 1\. Kept generations: 3, 4, 5\."):
        rollback(two, 1)
    ran = surefind("rollback", "2", kb=two.folder)
    assert (ran.code, ran.out) == (2, "")
    assert "Kept generations: 3, 4, 5." in ran.err
    assert texts(two) == before
    assert numbers(two) == [3, 4, 5]


@pytest.mark.parametrize("generation", [0, -1, 99])
def test_rollback_to_a_generation_that_never_was_is_refused(two: Home, generation: int) -> None:
    with pytest.raises(UsageError, match=f"There is no generation {generation}. Kept generations: 1."):
        rollback(two, generation)


def test_rollback_before_the_first_generation_is_refused(home: Home) -> None:
    with home.open() as kb, pytest.raises(NothingIndexedError, match="There is no knowledge base"):
        kb.rollback(1)


def test_rollback_brings_back_the_access_lists_of_then_and_keeps_the_rules_of_now(two: Home) -> None:
    two.write("docs/a.md", "---\nacl: [board]\n---\nalpha common", age=50)
    two.sync()
    assert two.found("common") == ["b.md"]
    rollback(two, 1)
    assert two.found("common") == ["a.md", "b.md"]
    two.configure(WORDS + '\n[[access]]\npath = "a.md"\ngroups = ["board"]\n')
    assert two.found("common") == ["b.md"]


def test_rollback_to_a_generation_that_todays_settings_cannot_search_says_how_to_build_it(two: Home) -> None:
    two.configure(WORDS + '\n[index]\nchunk = "fixed(tokens=50, overlap=0)"\n')
    two.write("docs/a.md", "gamma common", age=50)
    two.sync()
    rollback(two, 1)
    with pytest.raises(NotBuiltError, match="surefind sync"):
        two.found("alpha")
    two.write("docs/a.md", "alpha common", age=40)
    assert two.sync().generation == 3
    assert two.found("alpha") == ["a.md"]


def test_command_rolls_back(three: Home) -> None:
    assert surefind("rollback", "1", kb=three.folder).out.splitlines() == [
        "Generation 4 shows the 2 documents of generation 1.",
        "The next surefind sync brings the knowledge base up to date with its folders again.",
    ]
    assert surefind("rollback", "3", "--json", kb=three.folder).json["reason"] == "rollback to 3"
    assert surefind("rollback", "three", kb=three.folder).code == 2


def test_one_generation_is_kept_where_the_settings_say_so(two: Home) -> None:
    two.configure(keeping(1))
    number = draft(two, "drafted common", "a.md")
    two.write("docs/a.md", "gamma common", age=50)
    two.sync()
    assert numbers(two) == [2]
    with pytest.raises(UsageError, match=r"Kept generations: 2\."):
        rollback(two, 1)
    publish_outdated(two, number)
    assert numbers(two) == [3]
    assert [v.generations for v in history(two, "a.md")] == [(3,)]
    rollback(two, 3)
    assert texts(two) == {"a.md": "drafted common", "b.md": "beta common"}
    two.write("docs/b.md", "epsilon common", age=40)
    two.sync()
    assert numbers(two) == [5]
    assert texts(two) == {"a.md": "drafted common", "b.md": "epsilon common"}


# ---------------------------------------------------------------- drafts


@pytest.mark.parametrize(
    "pipeline", ["bm25(k1=1.5)", "tfidf(ngrams=1)", "ppr(seed=[bm25])", "bm25 + tfidf @50 >> rrf(k=60)"]
)
def test_draft_is_found_by_no_search(two: Home, pipeline: str) -> None:
    draft(two, "zebra common", "a.md")
    draft(two, "zebra common zebra", "new.md")
    with two.open() as kb:
        for groups in ((), ("*",)):
            hits = ask(kb, "zebra common", 50, groups, pipeline=pipeline).hits
            found = {(hit.document, hit.text) for hit in hits}
            assert found, "the documents themselves are found"
            assert found <= {("a.md", "alpha common"), ("b.md", "beta common")}
    assert texts(two) == {"a.md": "alpha common", "b.md": "beta common"}


def test_draft_makes_no_generation_and_is_counted_by_status(two: Home) -> None:
    number = draft(two, "gamma", "a.md")
    with two.open() as kb:
        status, (waiting,) = kb.status(), kb.drafts.store.waiting()
    assert (status.generation, status.generations, status.drafts, status.documents) == (1, [1], 1, 2)
    assert (waiting.number, waiting.document, waiting.state, waiting.generation) == (number, "a.md", "draft", None)


def test_draft_is_named_by_its_file_or_as_one_says(two: Home) -> None:
    draft(two, "gamma", name="new.md")
    draft(two, "gamma", "hr/pay.md", name="new.md")
    with two.open() as kb:
        assert [version.document for version in kb.drafts.store.waiting()] == ["hr/pay.md", "new.md"]


def test_drafts_survive_sweeps(two: Home) -> None:
    two.configure(keeping(1))
    number, other = draft(two, "drafted common", "a.md"), draft(two, "new common", "new.md")
    with two.open() as kb:
        kb.drafts.review(other)
    for step in range(3):
        two.write("docs/a.md", f"alpha {step} common", age=50 - step)
        two.sync()
    with two.open() as kb:
        assert [(v.number, v.state) for v in kb.drafts.store.waiting()] == [(other, "in review"), (number, "draft")]
        kb.drafts.publish(other)
    publish_outdated(two, number)
    assert texts(two) == {"a.md": "drafted common", "b.md": "beta common", "new.md": "new common"}


def test_draft_before_the_first_sync_can_be_published(home: Home) -> None:
    publish(home, "alpha", "a.md")
    assert home.found("alpha") == ["a.md"]
    home.write("docs/b.md", "beta")
    home.sync("docs")
    assert texts(home) == {"a.md": "alpha", "b.md": "beta"}


def test_draft_of_a_restricted_document_is_read_by_its_groups_only(two: Home) -> None:
    two.write("docs/a.md", "---\nacl: [board]\n---\nalpha common", age=50)
    two.sync()
    publish(two, "---\nacl: [board]\nstatus: new\n---\nzebra common", "a.md")
    assert two.found("zebra") == []
    assert two.found("zebra", groups=["staff"]) == []
    assert two.found("zebra", groups=["board"], where=["status=new"]) == ["a.md"]
    with pytest.raises(UsageError, match="No document has the metadata key 'status'"):
        two.found("zebra", where=["status=new"])


def test_access_list_of_the_draft_counts_and_not_that_of_the_version_before(two: Home) -> None:
    publish(two, "---\nacl: [board]\n---\nzebra common", "a.md")
    assert two.found("zebra") == []
    publish(two, "---\nacl: [public]\n---\nzebra common", "a.md")
    assert two.found("zebra") == ["a.md"]


def test_path_rule_holds_for_what_is_published(home: Home) -> None:
    """By the path of the file that it stands for, too: the second source's document has another id."""
    home.configure(WORDS + '\n[[access]]\npath = "hr/**"\ngroups = ["hr"]\n')
    home.write("one/hr/x.md", "alpha")
    home.write("two/hr/x.md", "beta")
    home.sync("one", "two")
    publish(home, "zebra one", "hr/x.md")
    publish(home, "zebra two", "two/hr/x.md")
    publish(home, "zebra new", "hr/new.md")
    assert home.found("zebra") == []
    assert sorted(home.found("zebra", groups=["hr"])) == ["hr/new.md", "hr/x.md", "two/hr/x.md"]


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.xyz", "alpha", r"No reader can read the file type of .*a\.xyz\. Known types: .*\.md"),
        ("none", "alpha", "No reader can read the file type of .*none"),
        ("a.jsonl", '{"text": "one"}\n{"text": "two"}\n', r"a\.jsonl holds 2 documents\. A draft must be one document"),
        ("a.md", "---\nacl: [board\n---\nalpha", r"a\.md looks restricted: it has broken front matter at line 3"),
        ("a.json", "{", r"a\.json is not JSON"),
        ("large.md", "alpha " * 1000, r"large\.md is larger than 0\.005 MB \(max_file_mb\)"),
    ],
)
def test_draft_that_cannot_be_read_is_refused_and_nothing_is_kept(
    two: Home, name: str, content: str, told: str
) -> None:
    two.configure(WORDS + "\n[sync]\nmax_file_mb = 0.005\n")
    with pytest.raises(SourceError, match=told):
        draft(two, content, "a.md", name)
    with two.open() as kb:
        assert kb.drafts.store.waiting() == []
    assert history(two, "a.md")[0].state == "published"


def test_draft_of_a_file_that_is_not_there_is_refused(two: Home) -> None:
    for missing in (two.folder / "nonesuch.md", two.docs / "a.md" / "b.md"):
        with two.open() as kb, pytest.raises(SourceError, match=r"There is no file .*nothing was changed"):
            kb.drafts.add(missing)
    with two.open() as kb, pytest.raises(SourceError):
        kb.drafts.add(two.docs)
    assert surefind("draft", "new", "nonesuch.md", kb=two.folder).code == 2


# ---------------------------------------------------------------- review


def test_draft_goes_to_review_and_back_and_is_published_from_either(two: Home) -> None:
    first, second = draft(two, "one common", "a.md"), draft(two, "two common", "b.md")
    with two.open() as kb:
        assert kb.drafts.review(first).state == "in review"
        assert kb.drafts.review(first).state == "in review"
        assert kb.drafts.review(first, done=True).state == "draft"
        kb.drafts.review(second)
        kb.drafts.publish(first)
        kb.drafts.publish(second)
        assert kb.drafts.store.waiting() == []
    assert texts(two) == {"a.md": "one common", "b.md": "two common"}


def test_version_that_is_no_draft_cannot_be_reviewed_or_published(two: Home) -> None:
    waiting = draft(two, "one", "a.md")
    published = history(two, "b.md")[0].number
    with two.open() as kb:
        for number in (published, 0, -1, 999):
            with pytest.raises(UsageError, match=f"There is no open draft {number}. List the drafts"):
                kb.drafts.review(number)
            with pytest.raises(UsageError, match=f"There is no open draft {number}"):
                kb.drafts.publish(number)
        assert kb.drafts.publish(waiting) == 2
        with pytest.raises(UsageError, match=r"There is no open draft \d+\. Draft \d+ is published\."):
            kb.drafts.publish(waiting)
        assert [generation.number for generation in kb.generations()] == [1, 2]


# ---------------------------------------------------------------- publishing


def test_published_draft_takes_the_place_of_the_version_before(two: Home) -> None:
    assert publish(two, "zebra common", "a.md") == 2
    assert two.found("alpha") == []
    assert two.found("zebra") == ["a.md"]
    assert [(v.state, v.generations) for v in history(two, "a.md")] == [("published", (2,)), ("retired", (1,))]


def test_published_version_stays_while_its_file_does_not_change(two: Home) -> None:
    publish(two, "zebra common", "a.md")
    report = two.sync()
    assert (report.unchanged, report.changed, report.generation) == (2, 0, 2)
    two.write("docs/a.md", "alpha common", age=20)  # touched: the same content at another time
    assert two.sync().unchanged == 2
    two.write("docs/b.md", "epsilon common", age=20)
    two.sync()
    assert texts(two) == {"a.md": "zebra common", "b.md": "epsilon common"}


def test_published_version_gives_way_when_its_file_changes(two: Home) -> None:
    publish(two, "zebra common", "a.md")
    two.write("docs/a.md", "gamma common", age=20)
    assert two.sync().changed == 1
    assert texts(two) == {"a.md": "gamma common", "b.md": "beta common"}


def test_published_version_leaves_with_its_file(two: Home) -> None:
    publish(two, "zebra common", "a.md")
    (two.docs / "a.md").unlink()
    assert two.sync().removed == 1
    assert texts(two) == {"b.md": "beta common"}


def test_file_that_was_synced_between_draft_and_publishing_does_not_take_over_at_the_next_sync(two: Home) -> None:
    number = draft(two, "zebra common", "a.md")
    two.write("docs/a.md", "gamma common", age=50)
    two.sync()
    publish_outdated(two, number)
    assert two.sync().unchanged == 2
    assert texts(two)["a.md"] == "zebra common"


def test_draft_of_a_new_document_takes_the_place_of_a_file_that_came_since(two: Home) -> None:
    number = draft(two, "zebra common", "c.md")
    two.write("docs/c.md", "gamma common", age=50)
    two.sync()
    publish_outdated(two, number)
    two.sync()
    assert texts(two) == {"a.md": "alpha common", "b.md": "beta common", "c.md": "zebra common"}
    two.write("docs/c.md", "delta common", age=40)
    two.sync()
    assert texts(two)["c.md"] == "delta common"


def test_draft_of_a_document_whose_file_is_gone_since_becomes_a_document_of_its_own(two: Home) -> None:
    number = draft(two, "zebra common", "a.md")
    (two.docs / "a.md").unlink()
    two.sync()
    publish_outdated(two, number)
    assert two.sync().removed == 0
    assert texts(two) == {"a.md": "zebra common", "b.md": "beta common"}


def test_document_of_no_file_stays_through_syncs_and_takes_new_versions(two: Home) -> None:
    publish(two, "zebra common", "new.md")
    two.write("docs/a.md", "gamma common", age=50)
    assert two.sync().documents == 3
    publish(two, "yak common", "new.md")
    two.sync()
    assert texts(two) == {"a.md": "gamma common", "b.md": "beta common", "new.md": "yak common"}


def test_later_draft_may_be_published_before_an_earlier_one(two: Home) -> None:
    first, second = draft(two, "one common", "a.md"), draft(two, "two common", "a.md")
    with two.open() as kb:
        kb.drafts.publish(second)
    publish_outdated(two, first)
    assert texts(two)["a.md"] == "one common"
    assert two.sync().unchanged == 2


def test_draft_is_published_on_top_of_a_rollback(three: Home) -> None:
    rollback(three, 1)
    publish(three, "zebra common", "b.md")
    assert texts(three) == {"a.md": "alpha common", "b.md": "zebra common"}
    assert sorted(three.found("common")) == ["a.md", "b.md"]
    rollback(three, 3)
    assert sorted(texts(three)) == ["a.md", "c.md"]


def test_rollback_undoes_what_was_published(two: Home) -> None:
    publish(two, "zebra common", "a.md")
    rollback(two, 1)
    assert two.sync().unchanged == 2
    assert texts(two)["a.md"] == "alpha common"
    rollback(two, 2)
    two.sync()
    assert texts(two)["a.md"] == "zebra common"


def test_one_record_of_a_file_can_be_published_over(home: Home) -> None:
    records = [{"id": f"r{i}", "text": f"record{i} common"} for i in range(3)]
    home.write("docs/r.json", json.dumps(records))
    home.sync("docs")
    publish(home, "zebra common", "r.json#r1")
    assert home.sync().unchanged == 1
    assert texts(home) == {"r.json#r0": "record0 common", "r.json#r1": "zebra common", "r.json#r2": "record2 common"}
    home.write("docs/r.json", json.dumps(records[:2]), age=20)
    home.sync()
    assert texts(home) == {"r.json#r0": "record0 common", "r.json#r1": "record1 common"}


def test_publish_that_a_model_failed_at_is_not_undone_by_the_next_sync(
    two: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sync reads a file again whose chunks a model did not finish; the file says something else here."""

    def fails(layout: Layout, document: Document, services: Services) -> tuple[list[Chunk], str]:
        return layout.cut(document, services), "was indexed without some answers of a language model"

    monkeypatch.setattr("surefind.engine.write.preparing.cut_here", fails)
    monkeypatch.setattr(Layout, "text_only", False)
    publish(two, "zebra common", "a.md")
    assert two.sync().unchanged == 2
    assert texts(two)["a.md"] == "zebra common"


@pytest.mark.parametrize("then", ["publish", "sync", "retire"])
def test_interrupted_publish_leaves_the_old_generation_and_the_next_writer_completes(two: Home, then: str) -> None:
    before = two.answers("common", "alpha")
    number = draft(two, "zebra common", "a.md")
    with stopped(), two.open() as kb, pytest.raises(StoppedError):
        kb.drafts.publish(number)
    assert two.answers("common", "alpha") == before
    assert two.found("zebra") == []
    with two.open() as kb:
        assert [(v.number, v.state) for v in kb.drafts.store.waiting()] == [(number, "draft")]
        if then == "sync":
            assert kb.sync().generation == 1
            two.write("docs/b.md", "epsilon common", age=30)
            assert kb.sync().generation == 2
        if then == "retire":
            kb.retire("b.md")
        assert kb.drafts.publish(number) == (2 if then == "publish" else 3)
    expected = {"publish": ["beta common"], "sync": ["epsilon common"], "retire": []}[then]
    assert list(texts(two).values()) == ["zebra common", *expected]
    assert two.found("zebra") == ["a.md"]


# ---------------------------------------------------------------- retiring


def test_retired_document_is_out_and_its_file_is_not_touched(two: Home) -> None:
    content = (two.docs / "a.md").read_bytes()
    assert retire(two, "a.md") == 2
    assert two.found("alpha common") == ["b.md"]
    assert (two.docs / "a.md").read_bytes() == content
    assert [(v.state, v.generations) for v in history(two, "a.md")] == [("retired", (1,))]


def test_retired_document_stays_out_while_its_file_does_not_change(two: Home) -> None:
    two.configure(keeping(1))
    retire(two, "a.md")
    report = two.sync()
    assert (report.unchanged, report.added, report.generation) == (2, 0, 2)
    two.write("docs/a.md", "alpha common", age=20)  # touched: the same content at another time
    for step in range(3):
        two.write("docs/b.md", f"beta {step}", age=10 - step)
        two.sync()
    assert texts(two) == {"b.md": "beta 2"}


def test_retired_document_comes_back_when_its_file_changes(two: Home) -> None:
    retire(two, "a.md")
    two.write("docs/a.md", "gamma common", age=20)
    two.sync()
    assert two.found("gamma") == ["a.md"]
    two.write("docs/a.md", "alpha common", age=10)
    two.sync()
    assert two.found("alpha") == ["a.md"], "it was retired once, not for good"


def test_retired_document_comes_back_when_it_is_published_and_then_follows_its_file(two: Home) -> None:
    waiting = draft(two, "yak common", "a.md")  # made while the document was there
    retire(two, "a.md")
    publish(two, "zebra common", "a.md")
    two.sync()
    assert texts(two) == {"a.md": "zebra common", "b.md": "beta common"}
    retire(two, "a.md")
    publish_outdated(two, waiting)
    two.sync()
    assert texts(two) == {"a.md": "yak common", "b.md": "beta common"}
    two.write("docs/a.md", "gamma common", age=20)
    two.sync()
    assert texts(two) == {"a.md": "gamma common", "b.md": "beta common"}


def test_file_that_was_removed_and_written_again_is_not_retired_any_more(two: Home) -> None:
    retire(two, "a.md")
    (two.docs / "a.md").unlink()
    two.sync()
    two.write("docs/a.md", "alpha common", age=20)
    two.sync()
    assert two.found("alpha") == ["a.md"]


def test_rollback_undoes_a_retirement_and_can_be_undone(two: Home) -> None:
    retire(two, "a.md")
    rollback(two, 1)
    assert two.sync().unchanged == 2
    assert sorted(texts(two)) == ["a.md", "b.md"]
    rollback(two, 2)
    two.sync()
    assert sorted(texts(two)) == ["b.md"]


def test_rollback_beyond_a_retirement_compares_the_file_with_the_version_that_it_shows(three: Home) -> None:
    three.configure(keeping(9))
    retire(three, "a.md")
    rollback(three, 1)
    three.sync()
    assert texts(three) == {"a.md": "gamma common", "c.md": "delta common"}


def test_unchanged_file_is_not_read_again_after_a_rollback_beyond_two_retirements(three: Home) -> None:
    three.configure(keeping(9))
    rollback(three, 1)
    retire(three, "a.md")
    rollback(three, 3)
    assert three.sync().unchanged == 2


def test_document_that_is_not_there_cannot_be_retired(two: Home) -> None:
    draft(two, "zebra", "new.md")
    with two.open() as kb:
        for name in ("nonesuch.md", "new.md", ""):
            with pytest.raises(UsageError, match=r"There is no document|cannot be called ''"):
                kb.retire(name)
        kb.retire("a.md")
        with pytest.raises(UsageError, match=r"There is no document 'a\.md' in the current generation"):
            kb.retire("a.md")
        assert kb.catalogue.generation() == 2


def test_document_of_no_file_can_be_retired_and_published_again(two: Home) -> None:
    publish(two, "zebra common", "new.md")
    retire(two, "new.md")
    two.sync()
    assert sorted(texts(two)) == ["a.md", "b.md"]
    publish(two, "yak common", "new.md")
    assert texts(two)["new.md"] == "yak common"


def test_last_document_may_be_retired(home: Home) -> None:
    home.write("docs/a.md", "alpha")
    home.sync("docs")
    retire(home, "a.md")
    assert texts(home) == {}
    rollback(home, 1)
    assert home.found("alpha") == ["a.md"]


@each("how", ["retire", "forget", "publish", "change"])
def test_interrupted_writer_neither_retires_nor_ends_a_retirement(home: Home, how: str) -> None:
    home.write("one/a.md", "alpha common")
    home.write("two/b.md", "beta common")
    home.sync("one", "two")
    retire(home, "a.md")
    number = draft(home, "zebra common", "a.md")
    with stopped(), home.open() as kb, pytest.raises(StoppedError):
        if how == "retire":
            kb.retire("b.md")
        elif how == "forget":
            kb.sync(forget=[home.folder / "one"])
        elif how == "publish":
            kb.drafts.publish(number)
        else:
            home.write("one/a.md", "gamma common", age=20)
            kb.sync()
    home.write("one/a.md", "alpha common", age=10)
    home.sync()
    assert texts(home) == {"b.md": "beta common"}
    assert [v.state for v in history(home, "a.md")] == ["retired"]
    with home.open() as kb:
        assert [(v.number, v.state) for v in kb.drafts.store.waiting()] == [(number, "draft")]


# ---------------------------------------------------------------- commands


def test_commands_take_a_document_from_draft_to_retirement(two: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUREFIND_AUTHOR", "ada")
    file = two.write("drafts/new.md", "zebra common")
    assert "No drafts." in surefind("draft", "list", kb=two.folder).out
    shown = surefind("draft", "new", file, "-d", "a.md", kb=two.folder).out.split()
    number = shown[1]
    assert shown == ["draft", number, "draft", "a.md", "ada"]
    assert surefind("search", "zebra", "--as", "*", kb=two.folder).code == 1
    assert "in review" in surefind("draft", "review", number, kb=two.folder).out
    assert surefind("draft", "list", kb=two.folder).out.split()[2:5] == ["in", "review", "a.md"]
    assert "draft" in surefind("draft", "review", number, "--done", kb=two.folder).out
    assert surefind("draft", "publish", number, kb=two.folder).out == "Published in generation 2.\n"
    assert "zebra" in surefind("search", "zebra", kb=two.folder).out
    assert surefind("draft", "retire", "a.md", kb=two.folder).out == "Retired in generation 3.\n"
    assert surefind("search", "zebra", kb=two.folder).code == 1


def test_commands_give_json(two: Home) -> None:
    file = two.write("drafts/new.md", "zebra common")
    made = surefind("draft", "new", file, "--json", kb=two.folder).json
    assert (made["document"], made["state"], made["revision"]) == ("new.md", "draft", 1)
    assert surefind("draft", "list", "--json", kb=two.folder).json == [made]
    assert surefind("draft", "review", str(made["number"]), "--json", kb=two.folder).json["state"] == "in review"
    assert surefind("draft", "publish", str(made["number"]), "--json", kb=two.folder).json == {"generation": 2}
    assert surefind("draft", "retire", "new.md", "--json", kb=two.folder).json == {"generation": 3}
    assert surefind("draft", "list", "--json", kb=two.folder).json == []


def test_commands_refuse_wrong_versions_and_documents(two: Home) -> None:
    for call in (("publish", "99"), ("review", "99"), ("retire", "nonesuch.md")):
        ran = surefind("draft", *call, kb=two.folder)
        assert ran.code == 2, call
        assert call[1] in ran.err
        refused = surefind("draft", *call, "--json", kb=two.folder)
        assert (refused.code, refused.json["error"]["type"]) == (2, "UsageError")
    assert surefind("draft", "publish", "x", kb=two.folder).code == 2


# ---------------------------------------------------------------- against a model


@dataclass(frozen=True)
class Made:
    """A version: what it says, and what the file said that it stands for (None: it stands for none)."""

    number: int
    text: str
    file: str | None


@dataclass
class Model:
    """What each kept generation holds, in plain Python. A generation shows a set; a rollback shows an earlier one."""

    keep: int
    files: dict[str, str] = field(default_factory=dict)
    generations: list[tuple[int, dict[str, Made]]] = field(default_factory=list)
    drafts: dict[int, tuple[str, str]] = field(default_factory=dict)
    retired: dict[str, list[Made]] = field(default_factory=dict)
    count: int = 0

    @property
    def shown(self) -> dict[str, Made]:
        return self.generations[-1][1] if self.generations else {}

    def known(self, name: str) -> Made | None:
        """The version that a file is compared with."""
        found = [self.shown[name]] if name in self.shown else self.retired.get(name, [])
        return max(found, key=lambda made: made.number, default=None)

    def made(self, text: str, file: str | None) -> Made:
        self.count += 1
        return Made(self.count, text, file)

    def synced(self) -> dict[str, Made]:
        """What the next set holds if it is synced now; nothing is changed yet."""
        after = dict(self.shown)
        for name in {*self.files, *self.shown}:
            before = self.known(name)
            if name in self.files and (before is None or before.file != self.files[name]):
                after[name] = self.made(self.files[name], self.files[name])
            elif name not in self.files and before is not None and before.file is not None:
                after.pop(name, None)
        return after

    def ended(self) -> set[str]:
        """The documents whose retirement a sync ends: their files changed, or are gone."""
        known = {name: made for name in self.retired if (made := self.known(name))}
        return {name for name, made in known.items() if made.file not in (None, self.files.get(name))}

    def commit(self, shown: dict[str, Made]) -> None:
        self.generations.append((self.generations[-1][0] + 1 if self.generations else 1, shown))

    def sweep(self) -> None:
        kept = [id(shown) for _, shown in self.generations[-self.keep :]]
        self.generations = [one for one in self.generations if id(one[1]) in kept]


NAMES = ["a.md", "b.md", "c.md"]
CONTENTS = st.none() | st.sampled_from(["alpha common", "beta common", "gamma common"])
SYNC = st.tuples(st.just("sync"), st.dictionaries(st.sampled_from(NAMES), CONTENTS, max_size=2))
STEPS = st.one_of(
    SYNC,
    SYNC,
    st.tuples(st.just("rollback"), st.integers(0, 5)),
    st.tuples(st.just("draft"), st.sampled_from([*NAMES, "new.md"])),
    st.tuples(st.just("publish"), st.integers(0, 3)),
    st.tuples(st.just("retire"), st.integers(0, 3)),
)


class Run:
    """Does each step to a knowledge base and to the model."""

    def __init__(self, folder: Path, keep: int) -> None:
        self.home = Home(folder, keeping(keep))
        self.model = Model(keep)
        self.written = 0

    def write(self, edits: dict[str, str | None]) -> None:
        for name, text in edits.items():
            self.written += 1
            if text is None:
                self.model.files.pop(name, None)
                (self.home.docs / name).unlink(missing_ok=True)
            else:
                self.model.files[name] = text
                self.home.write(f"docs/{name}", text, age=10_000 - self.written)

    def sync(self, edits: dict[str, str | None], stops: bool = False) -> None:
        self.write(edits)
        model = self.model
        after, ended = model.synced(), model.ended()
        try:
            with self.home.open() as kb, stopped(stops):
                report = kb.sync() if model.generations else kb.sync(self.home.docs)
        except StoppedError:
            return
        if after != model.shown or ended:
            model.commit(after)
        for name in ended:
            del model.retired[name]
        model.sweep()
        assert report.generation == model.generations[-1][0]

    def rollback(self, which: int) -> None:
        number, shown = self.model.generations[which % len(self.model.generations)]
        rollback(self.home, number)
        self.model.commit(shown)

    def draft(self, document: str, stops: bool = False) -> None:
        self.written += 1
        text = f"draft{self.written} of {document} common"
        self.model.drafts[draft(self.home, text, document)] = (document, text)

    def publish(self, which: int, stops: bool = False) -> None:
        model = self.model
        ready = {n: d for n, d in model.drafts.items() if d[0] == "new.md" or model.known(d[0])}
        if not ready:
            return
        number = list(ready)[which % len(ready)]
        document, text = ready[number]
        try:
            with self.home.open() as kb, stopped(stops):
                if kb.drafts.store.base(number).text != kb.drafts.published_text(document, Access.owner()):
                    kb.drafts.rebase(number)
                kb.drafts.publish(number)
        except StoppedError:
            return
        before = model.known(document)
        model.commit({**model.shown, document: model.made(text, before.file if before else None)})
        model.retired.pop(document, None)
        del model.drafts[number]
        model.sweep()

    def retire(self, which: int, stops: bool = False) -> None:
        model = self.model
        if not model.shown:
            return
        document = sorted(model.shown)[which % len(model.shown)]
        try:
            with self.home.open() as kb, stopped(stops):
                kb.retire(document)
        except StoppedError:
            return
        gone = model.shown[document]
        others = [made for made in model.retired.get(document, []) if made != gone]
        model.commit({name: made for name, made in model.shown.items() if name != document})
        model.retired[document] = [*others, gone]
        model.sweep()

    def check(self) -> None:
        model = self.model
        with self.home.open() as kb:
            assert [one.number for one in kb.generations()] == [number for number, _ in model.generations]
            for generation, (_, shown) in zip(kb.generations(), model.generations, strict=True):
                members = kb.catalogue.members(generation.contents)
                held = [(m.document, kb.catalogue.versions.document(m.version).text) for m in members]
                assert held == sorted((name, made.text) for name, made in shown.items())
                assert generation.documents == len(held)
            expected = {name: made.text for name, made in model.shown.items()}
            assert {d.id: d.text for d in kb.documents(Access.owner())} == expected
            if expected:
                assert {hit.document: hit.text for hit in ask(kb, "common", k=50).hits} == expected
            assert {version.number for version in kb.drafts.store.waiting()} == set(model.drafts)


@settings(max_examples=settings.default.max_examples // 4)
@given(
    st.integers(1, 3), st.lists(st.tuples(STEPS, st.sampled_from([False, False, False, True])), min_size=4, max_size=9)
)
def test_every_kept_generation_is_what_a_model_says(keep: int, steps: list[tuple[tuple[str, object], bool]]) -> None:
    """Whatever is edited, synced, rolled back, published, retired or interrupted before its commit."""
    with tempfile.TemporaryDirectory() as folder:
        run = Run(Path(folder), keep)
        run.sync({"a.md": "alpha common", "b.md": "beta common"})
        for (name, given), stops in steps:
            more = {} if name == "rollback" else {"stops": stops}
            getattr(run, name)(given, **more)
            run.check()


# ---------------------------------------------------------------- what is left over


def test_interrupted_sync_leaves_no_chunks_behind(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.write("docs/a.md", "alpha")
    home.sync("docs")

    def count() -> int:
        with home.open() as kb:
            return int(kb.catalogue.db.execute("SELECT count(*) FROM chunks").fetchone()[0])

    before = count()
    for number in range(3):
        home.write("docs/a.md", f"alpha {number}", age=50 - number)
        with monkeypatch.context() as patch:
            patch.setattr(Catalogue, "commit", lambda *given: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                home.sync()
    home.write("docs/a.md", "alpha", age=40)
    home.sync()
    assert count() == before


def test_documents_of_a_forgotten_source_leave_again_after_a_rollback(home: Home) -> None:
    home.write("docs/a.md", "alpha")
    home.write("other/b.md", "beta")
    home.sync("docs", "other")
    home.sync(forget=[home.docs])
    with home.open() as kb:
        kb.rollback(1)
    assert home.found("alpha") == ["a.md"]
    assert home.sync().removed == 1
    assert home.found("alpha") == []
    home.sync("docs")
    assert home.found("alpha") == ["a.md"]


def test_draft_can_be_discarded(home: Home) -> None:
    home.write("docs/a.md", "alpha")
    home.sync("docs")
    draft = home.write("draft.md", "beta")
    with home.open() as kb:
        number = kb.drafts.add(draft, "a.md").number
        kb.drafts.discard(number)
        assert kb.drafts.store.waiting() == []
        assert [version.state for version in kb.history("a.md")] == ["published"]
        with pytest.raises(UsageError, match=f"There is no open draft {number}"):
            kb.drafts.discard(number)


@each("order", [("rollback", "1"), ("draft", "publish", "1"), ("draft", "retire", "a.md")])
def test_nothing_is_made_where_there_is_no_knowledge_base(tmp_path: Path, order: tuple[str, ...]) -> None:
    assert "There is no knowledge base" in surefind(*order, kb=tmp_path).err
    assert not (tmp_path / ".surefind").exists()
