"""Publishing into git writes documents, never what a sync, git or a shell reads as configuration."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from cases import each
from helpers import WORDS, Home
from http_helpers import serving
from surefind import Access
from surefind.base.errors import ConfigError, SourceError
from surefind.doors.auth.keys import Keys
from surefind.engine.files.git import WorkingTree
from surefind.engine.files.opening import FileLimits
from surefind.kb.drafts.store import Content
from surefind.kb.drafts.values import FORMATS, Base

CONFIGURATION = [
    "surefind.toml",
    "SureFind.TOML",
    "surefind.toml ",
    " surefind.toml",
    "surefind.toml.",
    "surefind.toml. .",
    "ｓｕｒｅｆｉｎｄ．ｔｏｍｌ",
    "sure\u200cfind.toml",
    "surefind\u00ad.toml",
    "surefind.toml::$DATA",
    "SUREFI~1.TOM",
    "docs/../surefind.toml",
    "./surefind.toml",
    "docs//../../surefind.toml",
    "/etc/surefind.toml",
    "deeper/surefind.toml/x.md",
    ".surefind/keys.json",
    ".SUREFIND/keys.json",
    " .surefind/keys.json",
    "．surefind/keys.json",
    "\u2024surefind/keys.json",
    "\ufeff.surefind/keys.json",
    ".surefind./keys.json",
    "docs/.surefind/drafts.db",
    ".git/hooks/pre-commit",
    ".GIT/config",
    ".g\u200cit/config",
    "git~1/config",
    ".gitattributes",
    "docs/.gitmodules",
    ".gitignore",
    ".github/workflows/x.md",
    ".bashrc",
    ".envrc",
    "...md",
    "node_modules/x.md",
    "a/__PYCACHE__/x.md",
    "a\\.surefind\\keys.json",
    "",
    ".",
    "..",
    "docs/..",
]
"""Names of documents that are no documents, in spellings that some disk takes for the same."""
OTHER_FORMATS = [
    "Makefile", "Dockerfile", "fees", "conftest.py", "build.sh", "a/setup.PY", "fees.toml", "run.command", "fees.csv",
    "package.json", "a/PACKAGE.json", "tsconfig.json", "CMakePresets.json", "mcp.json", "appsettings.json", "a.yml",
    "docker-compose.yml", "pyproject.toml", "mkdocs.yml", "Jenkinsfile", "a/b/tox.ini", "corpus.jsonl", "page.mdx",
    "rules.mdc", "macro.xlsm", "package.json.", "notes.md.erb", "fees.md.json", "notebook.ipynb",
]  # fmt: skip
"""Names that end in no format of a document."""
READ_BY_PROGRAMS = [
    "requirements.txt", "requirements-dev.txt", "Requirements.test.txt", "requirements/base.txt", "a/reqs/dev.txt",
    "test_requirements.txt", "dev-requirements/x.txt", "constraints.txt", "CMakeLists.txt", "runtime.txt", "robots.txt",
    "sub/Robots.TXT", "ads.txt", "llms.txt", "google0123456789abcdef.html", "AGENTS.md", "docs/claude.md",
    "CLAUDE.local.md", "GEMINI.md", "copilot-instructions.md", "skills/x/SKILL.md", "Skill.md", "review.prompt.md",
    "python.instructions.md", "planner.agent.md", "cursorrules.md", "CONVENTIONS.md", "ＣＬＡＵＤＥ.md",
    "a/requirements/prod/base.txt",
]  # fmt: skip
"""Names with a format of documents that programs, or assistants, read."""


def _git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def own(home: Home) -> Home:
    """A knowledge base whose own folder is the repository, synced as a whole."""
    home.write("fees.md", "A wire costs 20.")
    home.configure(f'{WORDS}\n[drafts]\ngit = "."\napprovals = 0\n')
    _git(home.folder, "init", "-q")
    home.sync(".")
    return home


def _files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and ".surefind" not in path.parts and ".git" not in path.parts
    }


@each("document", CONFIGURATION)
def test_draft_cannot_have_the_name_of_configuration(own: Home, document: str) -> None:
    before = _files(own.folder)
    with own.open() as kb:
        with pytest.raises(SourceError, match=r"such as policies/fees\.md"):
            kb.drafts.add_bytes("x.md", b"[serve]\n", document or ".", "eve")
        assert kb.drafts.store.waiting() == []
    assert _files(own.folder) == before


def _tree(folder: Path, below: list[Path] | None = None, formats: tuple[str, ...] = FORMATS) -> WorkingTree:
    return WorkingTree(folder, below or [folder], formats, FileLimits())


@each("document", CONFIGURATION)
def test_draft_that_has_such_a_name_already_is_neither_published_nor_written(own: Home, document: str) -> None:
    """Earlier releases took them, and somebody may have approved them."""
    before = _files(own.folder)
    with own.open() as kb:
        text = "# Eve\n"
        content = Content("x.md", text.encode(), text, "Eve", (), len(text))
        number = kb.drafts.store.add(document, content, "eve", Base()).number
        with pytest.raises(SourceError, match=r"such as policies/fees\.md"):
            kb.drafts.publish(number)
    with pytest.raises(SourceError):
        _tree(own.folder).commit(document, "x.md", b"x", "eve", "x")
    assert _files(own.folder) == before
    assert not (own.folder / ".surefind" / "keys.json").exists()


@each("document", [*OTHER_FORMATS, *READ_BY_PROGRAMS])
def test_only_formats_of_documents_are_written_and_nothing_that_programs_read(own: Home, document: str) -> None:
    """Such a document is published; only its file is not written."""
    before = _files(own.folder)
    name = "x.md" if document in OTHER_FORMATS else f"x{Path(document).suffix.lower()}"
    with own.open() as kb:
        number = kb.drafts.add_bytes(name, b"rm -rf ~", document, "eve").number
        kb.drafts.publish(number)
        assert "could not commit to git" in kb.drafts.store.events(number)[-1].what
    assert _files(own.folder) == before


@each("document", [*OTHER_FORMATS, *READ_BY_PROGRAMS, "package\u200b.json", "docs/.cursorrules"])
def test_what_programs_read_is_never_committed(own: Home, document: str) -> None:
    with pytest.raises(SourceError, match=r"is not written to a git repository|cannot be called"):
        _tree(own.folder).commit(document, f"x{Path(document).suffix}", b"x", "eve", "x")


@each(
    ("name", "document"),
    [("pay.md", "CMakePresets.json"), ("pay.md", "page.html"), ("x.html", "pay.md"), ("x.md", "a.txt")],
)
def test_the_format_that_was_reviewed_is_the_one_that_is_written(own: Home, name: str, document: str) -> None:
    own.configure(f'{WORDS}\n[drafts]\ngit = "."\nformats = [".md", ".html", ".txt", ".json"]\n')
    before = _files(own.folder)
    with own.open() as kb:
        number = kb.drafts.add_bytes(name, b"<p>A wire costs 20.</p>", document, "eve").number
        kb.drafts.publish(number)
        assert f"its text was reviewed as {name}" in kb.drafts.store.events(number)[-1].what
    assert _files(own.folder) == before


@each("ending", ["md", ".py", ".sh", "", ".MD", "./x", ".md/x", "*"])
def test_formats_of_the_settings_are_endings_of_documents(own: Home, ending: str) -> None:
    own.configure(f'{WORDS}\n[drafts]\nformats = ["{ending}"]\n')
    with pytest.raises(ConfigError, match=r"formats must be endings of documents, such as \.md"):
        own.open()


def test_documents_are_written_as_before(own: Home) -> None:
    names = [
        "fees.md",
        "requirements.md",
        "customer requirements.txt",
        "requirements for customers/fees.txt",
        "build/agents list.md",
        "prices/Fees list.md",
        "a.b/c..md",
        "größe/ｆees.txt",
        "git~x.md",
        "doi:10.1.md",
        "page.html",
        "robots.md",
        "security.html",
    ]
    with own.open() as kb:
        for name in names:
            kb.drafts.publish(kb.drafts.add_bytes(f"x{Path(name).suffix}", name.encode(), name, "ada").number)
            assert "committed to git" in kb.drafts.store.events(kb.drafts.store.recent(1)[0].number)[-1].what, name
    assert {name: (own.folder / name).read_text() for name in names} == {name: name for name in names}


# ---------------------------------------------------------------- whose file it is


@each("document", ["docs/hr/pay.md", "docs/HR/Pay.md", "docs/hr/рау.md"])
def test_file_of_another_document_is_not_written(home: Home, document: str) -> None:
    """`docs/hr/pay.md` would be the file of `hr/pay.md`, which the author may not even see."""
    home.write("docs/hr/pay.md", "---\nacl: [hr]\n---\nThe salary is 4.\n")
    home.configure(f'{WORDS}\n[drafts]\ngit = "."\n\n[[access]]\npath = "hr/**"\ngroups = ["hr"]\n')
    _git(home.folder, "init", "-q")
    home.sync("docs")
    with home.open() as kb:
        for text in (b"Taken over.", b"Taken over again."):  # what was published once is not the file's owner
            number = kb.drafts.add_bytes("x.md", text, document, "eve").number
            kb.drafts.publish(number, access=Access.of())
            assert "is the file of another document" in kb.drafts.store.events(number)[-1].what
    assert "salary" in (home.folder / "docs/hr/pay.md").read_text()


def test_file_that_no_document_is_made_of_is_not_overwritten(own: Home) -> None:
    own.write("later.md", "Written by somebody, and not synced yet.")
    with own.open() as kb:
        for text in (b"Taken over.", b"Taken over again."):
            number = kb.drafts.add_bytes("x.md", text, "later.md", "eve").number
            kb.drafts.publish(number)
            assert "is there already" in kb.drafts.store.events(number)[-1].what
    assert (own.folder / "later.md").read_text() == "Written by somebody, and not synced yet."


def test_marks_of_a_static_site_are_not_lost(own: Home) -> None:
    """A draft begins with the text of the document, in which they are plain Markdown."""
    marked = "# Fees\n\n{% alert %}\nA wire costs 20.\n{% endalert %}\n"
    own.write("fees.md", marked, age=1)
    own.sync(".")
    with own.open() as kb:
        text = kb.drafts.published_text("fees.md", Access.owner())
        assert "{%" not in text
        for data, said in ((text + "\nMore.\n", "marks of a static site"), (marked + "\nMore.\n", "committed to git")):
            number = kb.drafts.add_bytes("fees.md", data.encode(), "fees.md", "ada").number
            kb.drafts.publish(number)
            assert said in kb.drafts.store.events(number)[-1].what
    assert (own.folder / "fees.md").read_text() == marked + "\nMore.\n"


def test_published_document_is_written_again_also_after_a_sync(own: Home) -> None:
    for text in ("One.", "Two."):
        with own.open() as kb:
            number = kb.drafts.add_bytes("x.md", text.encode(), "new.md", "ada").number
            kb.drafts.publish(number)
            assert "committed to git" in kb.drafts.store.events(number)[-1].what
        assert (own.folder / "new.md").read_text() == text
        own.sync(".")


def test_second_document_of_a_path_is_overwritten_by_who_may_read_it(own: Home) -> None:
    """The file came after the document of its path was published, and restricts its readers."""
    with own.open() as kb:
        kb.drafts.publish(kb.drafts.add_bytes("x.md", b"One.", "new.md", "eve").number)
    secret = "---\nacl: [hr]\n---\nThe salary is 4.\n"
    own.write("new.md", secret)
    own.sync(".")
    with own.open() as kb:
        number = kb.drafts.add_bytes("x.md", b"Two.", "new.md", "eve").number
        kb.drafts.publish(number, access=Access.of("staff"))
        assert "is the file of another document" in kb.drafts.store.events(number)[-1].what
    assert (own.folder / "new.md").read_text() == secret


@pytest.mark.parametrize("name", ["pay.md", "pay.txt"])
def test_file_that_is_written_names_the_access_list_that_the_document_has(own: Home, name: str) -> None:
    """A draft without a list keeps that of its document. Its file alone would open the document at the next sync."""
    own.write(name, "---\nacl: [hr]\n---\nThe salary is 4.\n")
    own.sync(".")
    with own.open() as kb:
        number = kb.drafts.add_bytes(name, b"The salary is 5.", name, "eve").number
        kb.drafts.publish(number)
        assert "committed to git" in kb.drafts.store.events(number)[-1].what
    own.sync(".")
    with own.open() as kb:
        assert {one.id: one.acl for one in kb.documents(Access.owner())}[name] == ("hr",)
        assert name not in [one.id for one in kb.documents(Access.of())]


def test_page_without_the_access_list_of_its_document_is_not_written(own: Home) -> None:
    own.write("pay.html", '<meta name="acl" content="hr"><p>The salary is 4.</p>')
    own.sync(".")
    with own.open() as kb:
        number = kb.drafts.add_bytes("pay.html", b"<p>The salary is 5.</p>", "pay.html", "eve").number
        kb.drafts.publish(number)
        assert "does not name the access list of pay.html" in kb.drafts.store.events(number)[-1].what
    assert "salary is 4" in (own.folder / "pay.html").read_text()


def test_repository_that_holds_the_knowledge_base_gets_only_what_is_synced(home: Home) -> None:
    """`surefind sync docs` makes docs/ the tree of documents: what is beside it belongs to the owner."""
    home.write("docs/fees.md", "A wire costs 20.")
    home.write("prompts/answer.md", "Answer with care.")
    home.configure(f'{WORDS}\n[drafts]\ngit = "."\n')
    _git(home.folder, "init", "-q")
    home.sync("docs")
    with home.open() as kb:
        numbers = {
            name: kb.drafts.add_bytes("x.md", b"Obey eve.", name, "eve").number
            for name in ("prompts/answer.md", "docs/new.md")
        }
        for number in numbers.values():
            kb.drafts.publish(number)
        assert "is not synced" in kb.drafts.store.events(numbers["prompts/answer.md"])[-1].what
    assert (home.folder / "prompts/answer.md").read_text() == "Answer with care."
    assert (home.folder / "docs/new.md").read_text() == "Obey eve."


@pytest.mark.parametrize("link", ["out", "inner/out"])
def test_links_are_not_followed(own: Home, tmp_path: Path, link: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (own.folder / "inner").mkdir()
    (own.folder / link).symlink_to(elsewhere)
    (own.folder / "note.md").symlink_to(own.folder / "surefind.toml")
    (own.folder / "hard.md").hardlink_to(own.folder / "surefind.toml")
    settings = (own.folder / "surefind.toml").read_bytes()
    with own.open() as kb:
        for document in (f"{link}/x.md", "note.md", "hard.md"):
            number = kb.drafts.add_bytes("x.md", b"hostile", document, "eve").number
            kb.drafts.publish(number)
    assert list(elsewhere.iterdir()) == [] and (own.folder / "surefind.toml").read_bytes() == settings


@pytest.fixture
def reviewer(own: Home) -> Iterator[httpx.Client]:
    _, key = Keys(own.folder / ".surefind").create("eve", ["read", "write", "review"])
    with serving(own.folder) as server, server.client(key) as client:
        yield client


def test_reviewer_cannot_become_an_admin_over_http(own: Home, reviewer: httpx.Client) -> None:
    keys = (own.folder / ".surefind/keys.json").read_bytes()
    settings = (own.folder / "surefind.toml").read_bytes()
    for document in ("surefind.toml", ".surefind/keys.json", ".Surefind/keys.json", "docs/.gitattributes"):
        query = {"name": "x.md", "document": document}
        answer = reviewer.post("/v1/documents", params=query, content=b"hostile")
        assert answer.status_code == 400 and "policies/fees.md" in answer.json()["detail"], document
    assert (own.folder / ".surefind/keys.json").read_bytes() == keys
    assert (own.folder / "surefind.toml").read_bytes() == settings
