"""The drafts: drafts, revisions, comments, approvals, and what happens when several people write at once."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import each
from drafts_editor import content, edit
from exam_helpers import surefind
from helpers import WORDS, Home
from surefind import Access, KnowledgeBase
from surefind.base.errors import ConflictError, DamagedError, SourceError, UsageError
from surefind.base.types import Document
from surefind.engine.store.catalogue import Catalogue
from surefind.engine.store.lock import writer_lock
from surefind.kb.drafts import publishing, review, store
from surefind.kb.drafts.store import DraftStore
from surefind.kb.drafts.values import Base, same_person


@pytest.fixture
def drafts(tmp_path: Path) -> Iterator[DraftStore]:
    found = DraftStore(tmp_path / ".surefind")
    yield found
    found.close()


@pytest.fixture
def fees(home: Home) -> Home:
    home.write("docs/fees.md", "# Fees\n\nA wire costs 20.\n")
    home.write("docs/pay.md", "---\nacl: [hr]\nowner: ada\n---\nThe salary is 1.\n")
    home.sync("docs")
    return home


def made(drafts: DraftStore, text: str = "one", author: str = "ada") -> int:
    return drafts.add("fees.md", content(text), author, Base()).number


# ---------------------------------------------------------------- saving


def test_every_save_is_a_revision_and_all_are_kept(drafts: DraftStore) -> None:
    number = made(drafts)
    for at, text in enumerate(("two", "three"), 1):
        assert drafts.save(number, at, content(text), "bob").revision == at + 1
    assert [drafts.revision(number, at).data for at in (1, 2, 3)] == [b"one", b"two", b"three"]
    assert drafts.revision(number).number == 3
    assert drafts.authors(number) == ["ada", "bob"]
    assert [(event.who, event.what) for event in drafts.events(number)] == [
        ("ada", "made the draft"), ("bob", "saved"), ("bob", "saved"),
    ]  # fmt: skip


def test_save_on_an_older_revision_is_refused_and_hands_the_text_back(drafts: DraftStore) -> None:
    number = made(drafts)
    drafts.save(number, 1, content("bob's text"), "bob")
    with pytest.raises(ConflictError, match="bob saved revision 2 of draft 1 meanwhile") as refused:
        drafts.save(number, 1, content("ada's text"), "ada")
    assert (refused.value.newer, refused.value.refused) == (2, b"ada's text")
    assert drafts.revision(number).data == b"bob's text"
    assert drafts.save(number, 2, content("both"), "ada").revision == 3


def test_published_or_discarded_draft_is_not_changed_any_more(drafts: DraftStore) -> None:
    first, second = made(drafts), made(drafts)
    drafts.set_state(first, "discarded", "ada", "discarded the draft")
    drafts.published(second, 1, Base(7, "hash", "one"), 3, "ada")
    for number in (first, second):
        with pytest.raises(UsageError, match=f"There is no open draft {number}"):
            drafts.save(number, 1, content("two"), "ada")
        with pytest.raises(UsageError, match="There is no open draft"):
            review.approve(drafts, number, 1, "bob")
    assert drafts.waiting() == []
    assert drafts.get(second).generation == 3


def test_empty_desk_has_no_file_and_nothing_in_it(tmp_path: Path) -> None:
    drafts = DraftStore(tmp_path / ".surefind")
    assert (drafts.waiting(), drafts.count(), list(drafts.problems())) == ([], 0, [])
    assert not (tmp_path / ".surefind").exists()


def test_a_number_that_no_file_can_hold_is_a_wrong_number(tmp_path: Path) -> None:
    drafts = DraftStore(tmp_path)
    made(drafts)
    with pytest.raises(UsageError, match="such a large number"):
        drafts.get(2**70)
    drafts.close()


def test_error_while_the_tables_are_made_leaves_none_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = store.DRAFTS
    broken = tuple(one.replace("CREATE TABLE blobs", "CREATE NOTHING blobs") for one in whole.format.statements)
    monkeypatch.setattr(store, "DRAFTS", replace(whole, format=replace(whole.format, statements=broken)))
    with pytest.raises(DamagedError):
        made(DraftStore(tmp_path))
    monkeypatch.setattr(store, "DRAFTS", whole)
    drafts = DraftStore(tmp_path)
    assert drafts.get(made(drafts)).revision == 1
    drafts.close()


@settings(max_examples=settings.default.max_examples // 10)
@given(st.integers(2, 4), st.integers(1, 8))
def test_no_update_and_no_draft_is_lost_when_processes_write_at_once(
    tmp_path_factory: pytest.TempPathFactory, processes: int, times: int
) -> None:
    data = tmp_path_factory.mktemp("drafts") / ".surefind"
    drafts = DraftStore(data)
    number = made(drafts, "begin")
    names = [f"p{at}" for at in range(processes)]
    run = multiprocessing.get_context("spawn")
    started = [run.Process(target=edit, args=(data, number, name, times)) for name in names]
    for process in started:
        process.start()
    for process in started:
        process.join(60)
        assert process.exitcode == 0
    words = drafts.revision(number).data.decode().split()
    assert sorted(words[1:]) == sorted(f"{name}{count}" for name in names for count in range(times))
    assert drafts.get(number).revision == processes * times + 1
    assert len(drafts.waiting()) == processes * times + 1
    assert list(drafts.problems()) == []
    drafts.close()


def test_threads_share_a_desk(drafts: DraftStore) -> None:
    number = made(drafts, "begin")
    threads = [
        threading.Thread(target=edit, args=(drafts.database.path.parent, number, f"t{at}", 5)) for at in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(drafts.revision(number).data.split()) == 31


def test_drafts_are_saved_while_a_sync_holds_the_writers_lock(fees: Home) -> None:
    with writer_lock(fees.folder / ".surefind"), fees.open() as kb:
        number = kb.drafts.add_bytes("fees.md", b"A wire costs 21.", author="ada").number
        for at in range(1, 20):
            kb.drafts.save(number, at, f"A wire costs {21 + at}.".encode(), "ada")
        assert kb.drafts.store.get(number).revision == 20


def test_killed_saver_leaves_whole_revisions(tmp_path: Path) -> None:
    data = tmp_path / ".surefind"
    drafts = DraftStore(data)
    number = made(drafts, "begin")
    code = (
        "import sys; from pathlib import Path; from surefind.kb.drafts.store import Content, DraftStore\n"
        "drafts, n = DraftStore(Path(sys.argv[1])), 0\n"
        "while True:\n"
        "    n += 1; text = f'{n} ' * 20_000\n"
        f"    at = drafts.get({number}).revision\n"
        f"    drafts.save({number}, at, Content('a.md', text.encode(), text, '', (), 1), 'x')\n"
        "    print(n, flush=True)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(data)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for _ in range(3):
        process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    told = 3 + len(process.stdout.read().split())
    process.wait()
    newest = drafts.revision(number)
    assert newest.number - 1 in (told, told + 1), "what was saved is there"
    assert set(newest.data.decode().split()) == {str(newest.number - 1)}
    assert list(drafts.problems()) == []
    drafts.close()


# ---------------------------------------------------------------- review


@pytest.mark.parametrize("name", ["ada", "Ada", " ada ", "ＡＤＡ", "a\u200bda", "ADA\t", "ádа".replace("а", "a")])
def test_nobody_approves_their_own_draft_in_any_spelling(drafts: DraftStore, name: str) -> None:
    number = made(drafts, author="ada")
    drafts.set_state(number, "in review", "ada", "submitted")
    with pytest.raises(UsageError, match="nobody approves their own text"):
        review.approve(drafts, number, 1, name)
    assert drafts.get(number).state == "in review"


@each(("one", "other"), [("J. Doe", "j doe"), ("ada-lovelace", "Ada Lovelace"), ("Zoë", "zoe")])
def test_spellings_of_one_name_are_one_person(one: str, other: str) -> None:
    assert same_person(one, other)
    assert not same_person(one, "bob")


def test_who_saved_any_revision_does_not_approve(drafts: DraftStore) -> None:
    number = made(drafts, author="ada")
    drafts.save(number, 1, content("two"), "bob")
    drafts.save(number, 2, content("three"), "ada")
    drafts.set_state(number, "in review", "ada", "submitted")
    with pytest.raises(UsageError, match="bob wrote a revision"):
        review.approve(drafts, number, 3, "bob")
    review.approve(drafts, number, 3, "cleo")
    assert (drafts.get(number).state, drafts.get(number).approvals) == ("approved", ("cleo",))


def test_save_drops_the_approval(drafts: DraftStore) -> None:
    number = made(drafts)
    drafts.set_state(number, "in review", "ada", "submitted")
    review.approve(drafts, number, 1, "bob")
    assert drafts.save(number, 1, content("two"), "ada").state == "in review"
    assert drafts.get(number).approvals == ()
    with pytest.raises(ConflictError, match="a newer revision, 2, and you read revision 1"):
        review.approve(drafts, number, 1, "bob")


def test_draft_is_approved_only_in_review_and_loses_it_when_handed_back(drafts: DraftStore) -> None:
    number = made(drafts)
    with pytest.raises(UsageError, match="is not in review yet"):
        review.approve(drafts, number, 1, "bob")
    drafts.set_state(number, "in review", "ada", "submitted")
    review.approve(drafts, number, 1, "bob")
    review.approve(drafts, number, 1, "Bob")
    assert drafts.get(number).approvals == ("bob",), "one person counts once"
    drafts.set_state(number, "draft", "bob", "handed back")
    drafts.set_state(number, "in review", "ada", "submitted")
    assert drafts.get(number).approvals == ()


def test_two_approvals_where_the_settings_say_two(tmp_path: Path) -> None:
    drafts = DraftStore(tmp_path / ".surefind", needed=2)
    number = made(drafts)
    drafts.set_state(number, "in review", "ada", "submitted")
    review.approve(drafts, number, 1, "bob")
    with pytest.raises(UsageError, match="needs 2 approvals before it is published, and has 1"):
        publishing.check_approved(drafts.get(number), 2)
    assert drafts.get(number).state == "in review"
    review.approve(drafts, number, 1, "cleo")
    publishing.check_approved(drafts.get(number), 2)
    assert drafts.get(number).state == "approved"
    drafts.close()


def test_number_of_approvals_follows_the_settings(fees: Home) -> None:
    with fees.open() as kb:
        number = kb.drafts.add_bytes("fees.md", b"A wire costs 1.", author="ada").number
        kb.drafts.review(number, author="ada")
        assert kb.drafts.approve(number, 1, "bob").state == "approved"
        fees.configure(WORDS + "\n[drafts]\napprovals = 2\n")
        assert kb.reload() and kb.drafts.store.get(number).state == "in review"
        assert kb.drafts.approve(number, 1, "cleo").state == "approved"


def test_comments_are_on_lines_of_a_revision(drafts: DraftStore) -> None:
    number = made(drafts, "first\nsecond\n")
    said = review.comment(drafts, number, 1, 2, "bob", " <b>why?</b> ")
    answer = review.comment(drafts, number, 1, 2, "ada", "because", reply_to=said.number)
    assert (said.line, said.text, answer.reply_to) == (2, "<b>why?</b>", said.number)
    assert review.resolve(drafts, number, said.number, "ada").resolved_by == "ada"
    assert [one.resolved_by for one in review.comments(drafts, number)] == ["ada", ""]
    for line, text in ((3, "x"), (-1, "x"), (1, "  "), (1, "x" * 10_001), (1, "\ud800")):
        with pytest.raises(UsageError):
            review.comment(drafts, number, 1, line, "bob", text)
    with pytest.raises(UsageError, match="has no comment 99"):
        review.resolve(drafts, number, 99, "ada")
    with pytest.raises(UsageError, match="has no revision 9"):
        review.comment(drafts, number, 9, 1, "bob", "x")


# ---------------------------------------------------------------- publishing


def test_version_has_the_author_of_the_draft_and_the_log_says_who_approved(fees: Home) -> None:
    with fees.open() as kb:
        number = kb.drafts.add_bytes("fees.md", b"A wire costs 21.", author="ada").number
        kb.drafts.review(number, author="ada")
        kb.drafts.approve(number, 1, "bob")
        generation = kb.drafts.publish(number, approvals=1)
        assert kb.history("fees.md")[0].author == "ada"
        assert kb.drafts.store.get(number).state == "published"
        assert (
            kb.drafts.store.events(number)[-1].what
            == f"published revision 1 in generation {generation}, approved by bob"
        )


def test_publishing_without_the_approvals_that_it_needs_is_refused(fees: Home) -> None:
    with fees.open() as kb:
        number = kb.drafts.add_bytes("fees.md", b"A wire costs 21.", author="ada").number
        with pytest.raises(UsageError, match="needs 1 approval before it is published, and has 0"):
            kb.drafts.publish(number, approvals=1)
        assert kb.catalogue.generation() == 1
    assert surefind("draft", "publish", str(number), "--approved", kb=fees.folder).code == 2
    assert surefind("draft", "publish", str(number), kb=fees.folder).code == 0


def test_revision_that_nobody_read_is_not_published(fees: Home) -> None:
    with fees.open() as kb:
        number = kb.drafts.add_bytes("fees.md", b"A wire costs 1.", author="ada").number
        kb.drafts.save(number, 1, b"A wire costs 2.", "bob")
        with pytest.raises(ConflictError, match="has revision 2 now, and you read revision 1"):
            kb.drafts.publish(number, revision=1)
        assert surefind("draft", "publish", str(number), "--revision", "1", kb=fees.folder).code == 2
        assert kb.drafts.store.get(number).state == "draft"
        kb.drafts.publish(number, revision=2)
        assert kb.drafts.store.get(number).state == "published"


def test_save_during_publishing_is_kept_and_based_on_what_was_published(
    fees: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = Catalogue.commit
    with fees.open() as kb:
        number = kb.drafts.add_bytes("fees.md", b"A wire costs 21.", author="ada").number

        def and_somebody_saves(self: Catalogue, *given: object) -> int:
            with fees.open() as other:
                other.drafts.save(number, 1, b"A wire costs 22.", "bob")
            return commit(self, *given)  # type: ignore[arg-type]

        monkeypatch.setattr(Catalogue, "commit", and_somebody_saves)
        kb.drafts.publish(number)
        monkeypatch.undo()
        assert [d.text for d in kb.documents(Access.public())] == ["A wire costs 21."]
        assert (kb.drafts.store.get(number).state, kb.drafts.store.get(number).revision) == ("draft", 2)
        kb.drafts.publish(number)
        assert [d.text for d in kb.documents(Access.public())] == ["A wire costs 22."]


def test_publisher_that_was_killed_after_its_commit_is_completed(fees: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    with fees.open() as kb:
        number = kb.drafts.add_bytes("fees.md", b"A wire costs 21.", author="ada").number
        with monkeypatch.context() as patch:
            patch.setattr(DraftStore, "published", lambda *given: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                kb.drafts.publish(number)
        assert kb.drafts.store.get(number).state == "draft"
        assert kb.drafts.publish(number) == 2, "no second generation"
        assert kb.drafts.store.get(number).state == "published"
        assert kb.catalogue.generation() == 2


@pytest.mark.parametrize("seconds", [0.5, 1.2, 2.0])
def test_killed_publisher_loses_neither_the_draft_nor_the_document(fees: Home, seconds: float) -> None:
    with fees.open() as kb:
        number = kb.drafts.add_bytes("fees.md", b"A wire costs 21.", author="ada").number
    words = ["-m", "surefind", "draft", "publish", str(number), "--kb", str(fees.folder)]
    process = subprocess.Popen([sys.executable, *words], start_new_session=True)
    time.sleep(seconds)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    with fees.open() as kb:
        assert kb.drafts.store.revision(number).data == b"A wire costs 21."
        if kb.drafts.store.get(number).state != "published":
            kb.drafts.publish(number)
        assert [d.text for d in kb.documents(Access.public())] == ["A wire costs 21."]
        assert list(kb.drafts.store.problems()) == []


def test_draft_keeps_the_access_list_and_on_demand_the_metadata_of_its_document(fees: Home) -> None:
    with fees.open() as kb:
        plain = kb.drafts.add_bytes("pay.md", b"The salary is 2.", author="x")
        assert not kb.drafts.may_read(plain.number, Access.public())
        assert kb.drafts.may_read(plain.number, Access.of("hr"))
        kept = kb.drafts.add_bytes("proposal.md", b"The salary is 3.", "pay.md", "x", keep_metadata=True)
        assert kb.drafts.store.revision(kept.number).data == b"The salary is 3.", "its author learns no metadata"
        kb.drafts.publish(kept.number)
        (document,) = kb.documents(Access.of("hr"))[1:]
        assert (document.text, document.acl, document.metadata["owner"]) == ("The salary is 3.", ("hr",), "ada")
        opened = kb.drafts.add_bytes("pay.md", b"---\nacl: [public]\n---\nThe salary is 4.", author="x")
        assert not kb.drafts.may_read(opened.number, Access.public()), "the document is restricted until then"
        kb.drafts.publish(opened.number)
        assert kb.drafts.may_read(opened.number, Access.public())


@pytest.mark.parametrize(
    ("name", "document"),
    [
        ("../x.md", ""), ("a/b.md", ""), ("", "x.md"), (".hidden.md", ""), ("x\n.md", ""), ("x" * 250 + ".md", ""),
        ("x.md", "../../etc/passwd"), ("x.md", "/etc/passwd"), ("x.md", "a\\b.md"), ("x.md", "a\0.md"),
        ("x.md", "\ud800.md"), ("\udcff.md", ""), ("x.md", " "), ("é" * 120 + ".md", ""),
    ],
)  # fmt: skip
def test_hostile_names_are_refused(fees: Home, name: str, document: str) -> None:
    with fees.open() as kb:
        with pytest.raises(SourceError, match=r"must be|cannot be called"):
            kb.drafts.add_bytes(name, b"text", document)
        assert kb.drafts.store.waiting() == []


def test_broken_file_is_refused_and_the_revision_before_stays(fees: Home) -> None:
    with fees.open() as kb:
        number = kb.drafts.add_bytes("fees.md", b"A wire costs 21.", author="ada").number
        with pytest.raises(SourceError, match=r"fees\.pdf"):
            kb.drafts.save(number, 1, b"%PDF-1.7 nothing of a PDF", "ada", "fees.pdf")
        with pytest.raises(SourceError, match=r"new\.pdf") as refused:
            kb.drafts.add_bytes("new.pdf", b"%PDF-1.7 nothing of a PDF")
        assert "/tmp" not in str(refused.value)
        assert kb.drafts.store.get(number).revision == 1


def test_any_kept_version_can_be_restored(fees: Home) -> None:
    with fees.open() as kb:
        first = kb.history("fees.md")[0].number
        kb.drafts.publish(
            kb.drafts.add_bytes("fees.md", b"---\nstatus: new\n---\nA wire costs 21.", author="ada").number
        )
        second = kb.history("fees.md")[0].number
        draft = kb.drafts.restore(first, "bob")
        assert kb.drafts.store.events(draft.number)[0].what == f"made the draft from version {first}"
        kb.drafts.publish(draft.number)
        assert [d.text for d in kb.documents(Access.public())] == ["# Fees\n\nA wire costs 20.\n"]
        assert kb.drafts.source_of(second)[2] == b"---\nstatus: new\n---\nA wire costs 21.", (
            "the file that was published"
        )
        kb.drafts.publish(kb.drafts.restore(second).number)
        (document,) = kb.documents(Access.public())
        assert (document.text, document.metadata) == ("A wire costs 21.", {"status": "new", "language": "unknown"})


def test_restored_version_is_the_same_document(home: Home) -> None:
    """Whatever its metadata are: they are written as front matter and read again."""
    home.write("docs/a.md", '---\ntitle: "A: b"\ndue: 2026-01-02\ntags: [x, "y: z"]\nn: 3\nacl: [hr]\n---\n---\nrule\n')
    home.sync("docs")
    with home.open() as kb:
        (before,) = kb.documents(Access.owner())
        draft = kb.drafts.restore(kb.history("a.md")[0].number)
        kb.drafts.save(draft.number, 1, kb.drafts.store.revision(draft.number).data + b"more\n")
        kb.drafts.publish(draft.number)
        (after,) = kb.documents(Access.owner())
    assert after == Document(
        before.id, before.text + "more\n", before.title, before.format, before.metadata, before.acl, after.places
    )


# ---------------------------------------------------------------- git


def _git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(fees: Home) -> Path:
    folder = fees.folder / "handbook"
    folder.mkdir()
    _git(folder, "init", "-q")
    fees.configure(f'{WORDS}\n[drafts]\ngit = "handbook"\n')
    return folder


def test_each_publish_is_a_commit_with_its_author(fees: Home, repository: Path) -> None:
    with fees.open() as kb:
        for text in (b"A wire costs 21.", b"A wire costs 22."):
            kb.drafts.publish(kb.drafts.add_bytes("x.md", text, "prices/fees list.md", "Ada <ada>\nLovelace").number)
    log = _git(repository, "log", "--format=%an|%s").splitlines()
    assert log == ["Ada ada Lovelace|Publish prices/fees list.md"] * 2
    assert _git(repository, "show", "HEAD:prices/fees list.md") == "A wire costs 22."
    assert _git(repository, "status", "--porcelain") == ""


def test_path_that_leads_out_of_the_repository_is_refused_and_the_publish_stays(fees: Home, repository: Path) -> None:
    (repository / "link").symlink_to(fees.folder)
    with fees.open() as kb:
        number = kb.drafts.add_bytes("x.md", b"hostile", "link/x.md", "eve").number
        kb.drafts.publish(number)
        assert kb.drafts.store.get(number).state == "published"
        assert "could not commit to git" in kb.drafts.store.events(number)[-1].what
    assert not (fees.folder / "x.md").exists()


def test_failing_git_is_reported_by_the_command(fees: Home) -> None:
    fees.configure(f'{WORDS}\n[drafts]\ngit = "nowhere"\n')
    with fees.open() as kb:
        number = kb.drafts.add_bytes("fees.md", b"A wire costs 21.", author="ada").number
    ran = surefind("draft", "publish", str(number), kb=fees.folder)
    assert ran.code == 0 and "not the top folder of a git repository" in ran.err


# ---------------------------------------------------------------- damage


def test_doctor_finds_damage_in_the_desk(fees: Home) -> None:
    with fees.open() as kb:
        number = kb.drafts.add_bytes("fees.md", b"A wire costs 21.", author="ada").number
    path = fees.folder / ".surefind" / "drafts.db"
    with sqlite3.connect(path) as db:
        db.execute("UPDATE blobs SET data = 'A wire costs 99.' WHERE data = ?", (b"A wire costs 21.",))
    db.close()
    with fees.open() as kb:
        assert any("does not match its checksum" in found for found in kb.drafts.store.problems())
        with pytest.raises(Exception, match="does not match its checksum"):
            kb.drafts.store.revision(number)
    checks = {one["name"]: one for one in surefind("doctor", "--json", kb=fees.folder).json["checks"]}
    assert checks["drafts"]["status"] == "failed"
    path.write_bytes(b"not a database" * 500)
    with (
        KnowledgeBase.open(fees.folder) as kb,
        pytest.raises(Exception, match=r"The file of drafts in .*drafts\.db is damaged"),
    ):
        kb.drafts.store.waiting()


def test_restored_version_keeps_the_access_list_that_it_inherited(fees: Home) -> None:
    with fees.open() as kb:
        inherited = kb.drafts.add_bytes("pay.md", b"The salary is 2.", author="x").number
        kb.drafts.publish(inherited)
        version = kb.history("pay.md")[0].number
        kb.drafts.publish(kb.drafts.add_bytes("pay.md", b"---\nacl: [public]\n---\nNothing.", author="x").number)
        restored = kb.drafts.restore(version, "x").number
        assert kb.drafts.store.revision(restored).acl == ("hr",)
        assert not kb.drafts.may_read(restored, Access.public())
        kb.drafts.publish(restored)
        assert [(d.text, d.acl) for d in kb.documents(Access.owner()) if d.id == "pay.md"] == [
            ("The salary is 2.", ("hr",))
        ]


@pytest.mark.parametrize("keeps", [False, True])
def test_rebase_opens_no_draft_of_a_document_that_was_opened(fees: Home, keeps: bool) -> None:
    with fees.open() as kb:
        number = kb.drafts.add_bytes("pay.md", b"The salary is 2.", author="x", keep_metadata=keeps).number
        kb.drafts.publish(kb.drafts.add_bytes("pay.md", b"---\nacl: [public]\n---\nNothing.", author="x").number)
        kb.drafts.rebase(number, "x")
        assert (kb.drafts.store.revision(number).acl, kb.drafts.store.revision(number).data) == (
            ("hr",),
            b"The salary is 2.",
        )
        assert not kb.drafts.may_read(number, Access.public())
        kb.drafts.publish(number)
        assert not [d for d in kb.documents(Access.public()) if "salary" in d.text]


def test_rebase_follows_a_document_that_was_restricted(fees: Home) -> None:
    with fees.open() as kb:
        number = kb.drafts.add_bytes("fees.md", b"A wire costs 3.", author="x").number
        kb.drafts.publish(kb.drafts.add_bytes("fees.md", b"---\nacl: [hr]\n---\nA wire costs 4.", author="x").number)
        kb.drafts.rebase(number, "x")
        assert (
            kb.drafts.store.revision(number).acl == ("hr",)
            and kb.drafts.store.revision(number).data == b"A wire costs 3."
        )
