"""A document's name has one spelling, at every door: other spellings, and names that look like it, are refused."""

from __future__ import annotations

import io
import unicodedata
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from cases import each
from exam_helpers import surefind
from helpers import Home
from surefind import Access
from surefind.base.access import Caller
from surefind.base.errors import NotFoundError, SourceError, UsageError
from surefind.base.names import document_name, look_alikes, one_spelling
from surefind.doors.mcp.drafts import ProposeArguments, propose
from surefind.doors.mcp.search import ReadArguments, read
from surefind.kb.drafts.store import Content
from surefind.kb.drafts.values import Base

HIDDEN = "payroll/pay.md"
SPELLINGS = [
    "./payroll/pay.md", "payroll//pay.md", "payroll/./pay.md", "/payroll/pay.md", "payroll/pay.md/",
    "x/../payroll/pay.md",
    "payroll/x/../pay.md", "payroll\\pay.md", "payroll/pay.md\u200b", "pay\u00adroll/pay.md", "payroll/\ufeffpay.md",
    "payroll/\u202epay.md", "payroll\u2060/pay.md", "payroll/pay\U000e0041.md", "payroll /pay.md", "payroll/ pay.md",
    "\u00a0payroll/pay.md", "payroll\u3000/pay.md", "payroll/pay.md\n", "payroll/pay\x00.md", "payroll/pay\x7f.md",
    "payroll/pay\u2028.md", "caf\u0065\u0301.md", "A\u030angstr\u00f6m.md", ".", "..", "/", "//", "./", " ", "",
]  # fmt: skip
"""Other spellings of a name, and no names at all."""
ALIKE = [
    "PAYROLL/pay.md", "Payroll/Pay.md", "payroll/PAY.MD", "ｐａｙｒｏｌｌ/pay.md", "payroll/рау.md", "раyroll/pay.md",
    "pаyroll/pay.md", "payroII/pay.md", "payro11/pay.md", "рауrо\u04cfl/pay.md", "𝐩ayroll/pay.md", "ꮲayroll/pay.md",
    "payroll／pay.md", "ρayroll/pay.md", "payroll/pay．md", "ⲣayroll/pay.md", "Ρayroll/pay.md",
    "payroll%2Fpay.md", "payroll%252Fpay%2Emd",
]  # fmt: skip
"""Names that people take for it."""
OTHERS = [
    "payroll/pays.md",
    "payroll/pay-2.md",
    "payrolls/pay.md",
    "Großbuch/Straße.md",
    "отчёт/зарплата.md",
    "給与/表.md",
]
"""Ordinary names."""


@pytest.fixture
def office(home: Home) -> Home:
    home.write(f"docs/{HIDDEN}", "---\nacl: [hr]\n---\n# Pay\n\nThe salary is 4.\n")
    home.write("docs/open.md", "# Open\n\nThe office is open.\n")
    home.sync("docs")
    return home


Propose = Callable[[Home, str], None]


def _by_python(home: Home, document: str) -> None:
    with home.open() as kb:
        kb.drafts.add_bytes("x.md", b"Taken over.", document, "eve", access=Access.of())


def _by_file(home: Home, document: str) -> None:
    home.write("x.md", "Taken over.")
    with home.open() as kb:
        kb.drafts.add(home.folder / "x.md", document, "eve")


def _by_an_agent(home: Home, document: str) -> None:
    with home.open() as kb:
        caller = Caller("eve", frozenset(("read", "write")), frozenset())
        propose(kb, caller, ProposeArguments(document=document, text="Taken over."))


def _by_command(home: Home, document: str) -> None:
    home.write("x.md", "Taken over.")
    ran = surefind("draft", "new", str(home.folder / "x.md"), "--document", document, kb=home.folder)
    if ran.code:
        raise SourceError(ran.err)


DOORS: dict[str, Propose] = {"python": _by_python, "file": _by_file, "agent": _by_an_agent}


@each("document", [name for name in SPELLINGS if name])
@each("door", DOORS)
def test_other_spelling_is_refused(office: Home, door: str, document: str) -> None:
    if door == "agent" and document.strip() in (HIDDEN, ""):
        return  # blanks around what an agent writes are not part of it
    with pytest.raises(UsageError, match=r"cannot be called|one printable line"):
        DOORS[door](office, document)
    with office.open() as kb:
        assert kb.drafts.store.waiting() == []


@each("document", ["./payroll/pay.md", "payroll//pay.md", "payroll/pay.md\u200b", "PAYROLL/pay.md"])
def test_command_refuses_it_in_one_sentence(office: Home, document: str) -> None:
    with pytest.raises(SourceError, match=r"cannot be called|looks like the name of another document"):
        _by_command(office, document)


@each("document", ALIKE)
@each("door", DOORS)
def test_name_that_looks_like_another_is_refused(office: Home, door: str, document: str) -> None:
    with pytest.raises(SourceError, match="looks like the name of another document") as refused:
        DOORS[door](office, document)
    assert (repr(HIDDEN) in str(refused.value)) == (door == "file"), "only the owner may read it here"


def test_look_alike_of_a_document_that_the_caller_may_read_is_named(office: Home) -> None:
    with office.open() as kb:
        with pytest.raises(SourceError, match=r"another document, 'payroll/pay.md'"):
            kb.drafts.add_bytes("x.md", b"text", "PAYROLL/pay.md", "ada", access=Access.of("hr"))
        with pytest.raises(SourceError, match=r"another document, 'open.md'"):
            kb.drafts.add_bytes("x.md", b"text", "Open.md", "eve", access=Access.of())


def test_look_alike_of_a_retired_document_is_refused(office: Home) -> None:
    with office.open() as kb:
        kb.retire("open.md")
        with pytest.raises(SourceError, match="looks like"):
            kb.drafts.add_bytes("x.md", b"text", "OPEN.md")
        kb.drafts.publish(kb.drafts.add_bytes("x.md", b"It is open again.", "open.md").number)


@each("document", [*SPELLINGS[:20], *ALIKE])
def test_old_draft_with_such_a_name_is_not_published(office: Home, document: str) -> None:
    with office.open() as kb:
        content = Content("x.md", b"Taken over.", "Taken over.", "", (), 11)
        number = kb.drafts.store.add(document, content, "eve", Base()).number
        with pytest.raises(SourceError, match=r"cannot be called|looks like"):
            kb.drafts.publish(number)


def test_of_two_drafts_that_look_alike_one_is_published(office: Home) -> None:
    with office.open() as kb:
        first, second = (kb.drafts.add_bytes("x.md", b"text", name).number for name in ("new.md", "New.md"))
        kb.drafts.publish(first)
        with pytest.raises(SourceError, match="looks like"):
            kb.drafts.publish(second)


@each("document", OTHERS)
def test_ordinary_names_are_taken(office: Home, document: str) -> None:
    with office.open() as kb:
        kb.drafts.publish(kb.drafts.add_bytes("x.md", b"The numbat.", document).number)
        assert document in [one.id for one in kb.documents(Access.of())]


@each("document", [name for name in SPELLINGS if name])
def test_nothing_is_read_or_retired_by_another_spelling(office: Home, document: str) -> None:
    with office.open() as kb:
        with pytest.raises(UsageError, match="cannot be called"):
            kb.reader().document(document, Access.owner())
        with pytest.raises(UsageError, match="cannot be called"):
            read(kb, Access.owner(), ReadArguments(document=document))
        with pytest.raises(UsageError, match="cannot be called"):
            kb.retire(document)


@each("document", ALIKE)
def test_nothing_is_read_by_a_look_alike(office: Home, document: str) -> None:
    with office.open() as kb, pytest.raises(NotFoundError):
        kb.reader().document(document, Access.owner())


# ---------------------------------------------------------------- files on disk


def test_files_get_the_one_spelling_as_their_id(home: Home) -> None:
    names = {
        "caf\u0065\u0301.md": "caf\u00e9.md",
        "می\u200cخواهم.md": "میخواهم.md",
        "old /fees.md": "old/fees.md",
        "a\u00a0b.md": "a\u00a0b.md",
        "Plain Name (2).md": "Plain Name (2).md",
        "дела/отчёт.md": "дела/отчёт.md",
    }
    for name in names:
        home.write(f"docs/{name}", f"# A numbat\n\nAbout {len(name)}.\n")
    assert home.sync("docs").problems == []
    with home.open() as kb:
        assert {one.id for one in kb.documents(Access.owner())} == set(names.values())
    assert home.sync("docs").unchanged == len(names)
    for name in names:
        (home.folder / "docs" / name).unlink()
    home.write("docs/last.md", "The last.")
    assert home.sync("docs").removed == len(names)


def test_two_files_of_one_spelling_are_one_document_and_a_problem(home: Home) -> None:
    """The file with the spelling itself counts, whichever comes first in the folder."""
    home.write("docs/caf\u0065\u0301.md", "The second numbat.")
    home.write("docs/caf\u00e9.md", "The first numbat.")
    home.write("docs/pay\u200b.md", "The fake pay.")
    home.write("docs/pay.md", "The true pay.")
    for _ in range(2):  # and again at the next sync
        report = home.sync("docs")
        assert {problem.path for problem in report.problems} == {"caf\u0065\u0301.md", "pay\u200b.md"}
        assert all("rename one of them" in problem.reason for problem in report.problems)
        with home.open() as kb:
            texts = {one.id: one.text for one in kb.documents(Access.owner())}
        assert texts == {"caf\u00e9.md": "The first numbat.", "pay.md": "The true pay."}
    (home.folder / "docs/pay.md").unlink()
    home.sync("docs")
    with home.open() as kb:
        texts = {one.id: one.text for one in kb.documents(Access.owner())}
    assert texts["pay.md"] == "The fake pay." and len(texts) == 2


def test_file_that_comes_later_takes_no_name(home: Home) -> None:
    home.write("docs/pay.md", "---\nacl: [hr]\n---\nThe true pay.")
    home.sync("docs")
    home.write("docs/pay\u200b.md", "The fake pay.")
    assert [problem.path for problem in home.sync("docs").problems] == ["pay\u200b.md"]
    with home.open() as kb:
        assert {one.id: one.text for one in kb.documents(Access.owner())} == {"pay.md": "The true pay."}


def test_renamed_file_keeps_its_document(home: Home) -> None:
    """A copy over another disk often changes the form of accents."""
    path = home.write("docs/caf\u0065\u0301.md", "The numbat.")
    home.sync("docs")
    path.rename(path.with_name("caf\u00e9.md"))
    home.sync("docs")
    with home.open() as kb:
        assert [one.id for one in kb.documents(Access.owner())] == ["caf\u00e9.md"]


@each("name", ["a\nb.md", "a\x1b[31m.md", "a\\b.md", "\u200b/x.md", "\u200b.hidden.md", " /x.md"])
def test_file_whose_name_no_document_can_have_is_a_problem(home: Home, name: str) -> None:
    home.write("docs/plain.md", "The numbat.")
    home.write(f"docs/{name}", "The second numbat.")
    report = home.sync("docs")
    assert [problem.path for problem in report.problems] == [name]
    assert "has a name that no document can have" in report.problems[0].reason
    with home.open() as kb:
        assert [one.id for one in kb.documents(Access.owner())] == ["plain.md"]


def test_records_keep_their_ids_without_what_nobody_sees(home: Home) -> None:
    rows = ['{"_id": "https://x.org//page/", "text": "one"}', '{"_id": " b\u200b ", "text": "two"}']
    home.write("docs/corpus.jsonl", "\n".join(rows))
    home.sync("docs")
    with home.open() as kb:
        assert {one.id for one in kb.documents(Access.owner())} == {"https://x.org//page/", "b"}
        assert kb.reader().document("https://x.org//page/", Access.owner())[0].text == "one"
        version = kb.history("https://x.org//page/")[0].number
        kb.drafts.publish(kb.drafts.restore(version).number)


def _zipped(*members: tuple[str, str]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, text in members:
            archive.writestr(name, text)
    return made.getvalue()


def test_members_of_archives_have_one_spelling(home: Home) -> None:
    names = ("./a.md", "b//c.md", "caf\u0065\u0301.md", "d\u200b.md", "e\nf.md")
    home.write("docs/all.zip", _zipped(*((name, f"About {name!a}.") for name in names)))
    report = home.sync("docs")
    with home.open() as kb:
        ids = {one.id for one in kb.documents(Access.owner())}
    assert ids == {"all.zip/a.md", "all.zip/b/c.md", "all.zip/caf\u00e9.md", "all.zip/d.md"}
    assert ["no document can have" in problem.reason for problem in report.problems] == [True]


@pytest.mark.filterwarnings("ignore:Duplicate name")
@each("second", ["pay.md", "./pay.md", "pay\u200b.md", ".//pay.md"])
@each("restricted", [0, 1])
def test_archive_with_a_name_twice_is_left_to_the_owner(home: Home, second: str, restricted: int) -> None:
    texts = ["The salary is 4.", "The salary is 5."]
    texts[restricted] = f"---\nacl: [hr]\n---\n{texts[restricted]}"
    home.write("docs/all.zip", _zipped(("pay.md", texts[0]), (second, texts[1]), ("open.md", "The office is open.")))
    report = home.sync("docs")
    with home.open() as kb:
        assert [one.id for one in kb.documents(Access.of("hr"))] == ["all.zip/open.md"]
        owned = " ".join(one.text for one in kb.documents(Access.owner()))
    assert "salary is 4" in owned and "salary is 5" in owned, "nothing is lost"
    assert any("2 files of this name" in problem.reason for problem in report.problems)


# ---------------------------------------------------------------- the functions


@each("name", SPELLINGS)
def test_only_one_spelling_is_a_name(name: str) -> None:
    with pytest.raises(SourceError, match="cannot be called"):
        document_name(name)


@each("name", [HIDDEN, *ALIKE, *OTHERS, "..a", "a..b/...md", "doi:10.1.md", "a b/c (d).md", "😀.md"])
def test_ordinary_names_have_one_spelling(name: str) -> None:
    assert document_name(name) == name == one_spelling(name)


def test_every_character_is_either_in_a_name_or_refused() -> None:
    """And the one spelling of any path has one spelling."""
    blocks = (
        (0, 0x3000),
        (0xD7F0, 0xE010),
        (0xFB00, 0x10000),
        (0x1D160, 0x1D17B),
        (0xE0000, 0xE0080),
    )
    for code in (code for block in blocks for code in range(*block)):
        name = f"a{chr(code)}b"
        assert one_spelling(one_spelling(name)) == one_spelling(name)
        kind = unicodedata.category(chr(code))
        try:
            assert document_name(name) and kind not in ("Cf", "Cc", "Cs") and unicodedata.is_normalized("NFC", name)
        except SourceError:
            wrong = kind in ("Cf", "Cc", "Cs", "Zl", "Zp") or chr(code) == "\\"
            assert wrong or not unicodedata.is_normalized("NFC", name)


@each("alike", ALIKE)
def test_look_alikes_have_a_form_in_common(alike: str) -> None:
    assert not look_alikes(alike).isdisjoint(look_alikes(HIDDEN))


@each("other", OTHERS)
def test_ordinary_names_do_not_look_alike(other: str) -> None:
    assert look_alikes(other).isdisjoint(look_alikes(HIDDEN))


def test_names_of_the_sample_do_not_look_alike() -> None:
    names = [str(path) for path in (Path(__file__).parents[2] / "examples").rglob("*.md")]
    forms: dict[str, str] = {}
    for name in names:
        assert all(forms.setdefault(form, name) == name for form in look_alikes(name)), name
