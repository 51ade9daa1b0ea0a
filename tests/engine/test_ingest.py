"""Files -> Documents: encodings, front matter, HTML, and which files are looked at."""

from __future__ import annotations

import codecs
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from cases import each
from surefind.base import spec
from surefind.base.access import PathRule
from surefind.base.errors import SourceError
from surefind.base.types import Document
from surefind.engine.files.readers import FORMATS, Readers
from surefind.engine.files.scan import FileRules, scan
from surefind.engine.ingest._access_list import access_groups, split_front_matter
from surefind.engine.ingest._decode import read_text


def read(path: Path, content: str | bytes) -> Document:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    (document,) = Readers().find(path.name).read(path, "id")
    return document


# ---------------------------------------------------------------- encodings


@pytest.mark.parametrize(
    "data",
    [
        "Zoë\nline".encode(),
        codecs.BOM_UTF8 + "Zoë\nline".encode(),
        codecs.BOM_UTF16_LE + "Zoë\nline".encode("utf-16-le"),
        codecs.BOM_UTF16_BE + "Zoë\nline".encode("utf-16-be"),
        "Zoë\r\nline".encode(),
        "Zoë\rline".encode(),
    ],
    ids=["utf-8", "utf-8 with mark", "utf-16-le", "utf-16-be", "windows line ends", "old mac line ends"],
)
def test_text_is_read_whatever_its_encoding_and_line_ends(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(data)
    assert read_text(tmp_path / "a.txt") == "Zoë\nline"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"PK\x03\x04\0\0", "looks binary"),
        ("Zoë".encode("latin-1"), "is not UTF-8 text (byte 0xeb at 2); save it as UTF-8"),
        pytest.param(
            codecs.BOM_UTF16_LE + b"a",
            "is not UTF-16 text",
        ),
    ],
)
def test_file_that_is_no_text_is_refused_with_the_reason(data: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(data)
    with pytest.raises(SourceError) as caught:
        read_text(tmp_path / "a.txt")
    assert words in str(caught.value)


# ---------------------------------------------------------------- front matter

plain_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="ascii", exclude_categories=["Cc"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", min_size=1), inner, max_size=3),
    max_leaves=6,
)


@given(
    st.dictionaries(st.text("abcdef_", min_size=1), plain_values, min_size=1, max_size=4),
    st.text(st.characters(exclude_characters="\r", codec="utf-8")),
)
def test_front_matter_and_body_come_apart_again(metadata: dict[str, object], body: str) -> None:
    text = f"---\n{yaml.safe_dump(metadata)}---\n{body}"
    assert split_front_matter(text) == (metadata, body)


@given(st.text())
def test_any_text_is_split_or_refused_with_a_source_error(text: str) -> None:
    try:
        _, body = split_front_matter(text)
    except SourceError:
        return
    assert text.endswith(body)


@each("text", ["no block", "--- not a block", "text\n---\na: 1\n---\n", "---\nopen: end\n"])
def test_text_without_a_block_has_no_metadata(text: str) -> None:
    assert split_front_matter(text) == ({}, text)


def test_two_rules_around_plain_text_are_no_front_matter() -> None:
    text = "---\nJust a sentence.\n---\nmore"
    assert split_front_matter(text) == ({}, text)


def test_dates_become_text() -> None:
    metadata, _ = split_front_matter("---\neffective: 2025-06-02\nat: [2025-06-02 10:00:00]\n---\n")
    assert metadata == {"effective": "2025-06-02", "at": ["2025-06-02T10:00:00"]}


def test_block_may_end_in_dots_or_at_the_end_of_the_file() -> None:
    assert split_front_matter("---\na: 1\n...\nbody") == ({"a": 1}, "body")
    assert split_front_matter("---\na: 1\n---") == ({"a": 1}, "")


def test_broken_block_names_the_line_of_the_file() -> None:
    with pytest.raises(SourceError, match=r"has broken front matter at line 3 .*; fix the YAML or remove the block"):
        split_front_matter("---\ntitle: fine\nacl: a: b\n---\nbody")


@each("value", ["2024-02-30", "0000-00-00", "&a [*a]"])
def test_value_that_yaml_cannot_build_is_a_broken_block(value: str) -> None:
    with pytest.raises(SourceError, match="broken front matter"):
        split_front_matter(f"---\nvalue: {value}\n---\nbody")


@each(
    ("acl", "groups"),
    [
        (None, ()),
        ([], ()),
        ("compliance", ("compliance",)),
        (["b", "a", "b "], ("a", "b")),
        ([7], ("7",)),
    ],
)
def test_access_groups(acl: object, groups: tuple[str, ...]) -> None:
    assert access_groups({"acl": acl}) == groups


@each("acl", ["", " ", [""], {"a": 1}, [["a"]], 1.5, [None]])
def test_unclear_acl_is_refused_rather_than_taken_as_public(acl: object) -> None:
    with pytest.raises(SourceError, match="write `acl: "):
        access_groups({"acl": acl})


# ---------------------------------------------------------------- formats


def test_markdown_title_is_that_of_the_front_matter_then_the_heading_then_the_file(tmp_path: Path) -> None:
    assert read(tmp_path / "a.md", "---\ntitle: Given\n---\n# Heading\n").title == "Given"
    assert read(tmp_path / "a.md", "text\n\n# Heading #\n").title == "Heading"
    assert read(tmp_path / "a.b.md", "text").title == "a"


@each(
    ("text", "title"),
    [
        ("```sh\n# a comment\n```\n\n# Heading\n", "Heading"),
        ("Underlined\n==========\n\n```\n# a comment\n```\n", "Underlined"),
        ("~~~\n```\n# a comment\n~~~\ntext\n", "a"),
        ("    # code\n\n# Why C#\n", "Why C#"),
        ("# The **bold** [guide](https://x.org) to `make`\n", "The bold guide to make"),
        ("| a |\n|===|\n\n===\n", "a"),
        ("# a" + " " * 100_000 + "b\n", "a"),
    ],
)
def test_markdown_title_is_a_heading_and_no_comment_in_code(text: str, title: str, tmp_path: Path) -> None:
    assert read(tmp_path / "a.md", text).title == title


def test_markdown_text_is_what_follows_the_front_matter(tmp_path: Path) -> None:
    document = read(tmp_path / "a.md", "---\nstatus: draft\nacl: [x]\n---\nBody\n")
    assert (document.text, document.metadata["status"], document.acl) == ("Body\n", "draft", ("x",))


def test_html_keeps_structure_and_leaves_out_what_is_no_content(tmp_path: Path) -> None:
    page = """<html><head><title>Page</title><meta name="acl" content="a, b"><meta name="status" content="ok">
    <style>p {}</style></head><body><nav>Menu</nav><h1>Head</h1><p>Text &amp; more</p>
    <ul><li>one</li></ul><table><tr><th>k</th></tr><tr><td>v</td></tr></table>
    <script>evil()</script><footer>Foot</footer></body></html>"""
    document = read(tmp_path / "a.html", page)
    assert document.title == "Page"
    assert document.acl == ("a", "b")
    assert document.metadata["status"] == "ok"
    for there in ("# Head", "Text & more", "- one", "| k |"):
        assert there in document.text
    for absent in ("Menu", "evil", "Foot", "p {}"):
        assert absent not in document.text


@each("content", [",", "", "hr,,board"])
def test_html_with_an_empty_acl_is_left_to_the_owner(tmp_path: Path, content: str) -> None:
    assert read(tmp_path / "a.html", f'<meta name="acl" content="{content}"><p>secret</p>').acl == ("*",)


def test_text_in_another_encoding_is_read_when_that_is_said(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("Zoë".encode("cp1252"))
    with pytest.raises(SourceError, match=r"write readers = \['text\(encoding=cp1252\)'\]"):
        list(Readers().find("a.txt").read(path, "id"))
    (document,) = Readers(("text(encoding=cp1252)",)).find("a.txt").read(path, "id")
    assert document.text == "Zoë"


def test_text_title_is_the_file_name(tmp_path: Path) -> None:
    assert read(tmp_path / "notes.txt", "text").title == "notes"


@each(
    ("name", "reader"),
    [
        ("a.md", "markdown"),
        ("A.MD", "markdown"),
        ("v1.2/a.b.md", "markdown"),
        ("a.md.erb", "markdown"),
        ("a.htm", "html"),
        ("a.log", "text"),
        ("notes.md/README", None),
        ("a.docx", "docx"),
        ("md", None),
    ],
)
def test_reader_is_chosen_by_suffix(name: str, reader: str | None) -> None:
    found = Readers().find(name)
    assert (found and found.name) == reader


def test_every_reader_has_suffixes_of_its_own() -> None:
    suffixes = [suffix for name in spec.names("read") for suffix in spec.make("read", name).suffixes]
    assert len(set(suffixes)) == len(suffixes)


def test_the_table_of_formats_has_every_built_in_reader() -> None:
    assert set(FORMATS) == {name for name in spec.names("read") if name not in spec._plugins("read")}


def test_picking_a_reader_imports_no_other() -> None:
    code = (
        "import sys; from surefind.engine.files.readers import Readers; Readers().find('a.csv'); Readers().suffixes()\n"
        "prefix = 'surefind.engine.ingest.'\n"
        "print(*sorted(name for name in sys.modules if name.startswith(prefix) and '._' not in name))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["surefind.engine.ingest.csv"]


# ---------------------------------------------------------------- scanning


def names(root: Path, *exclude: str) -> list[str]:
    return [entry.relative for entry in scan(root, FileRules(exclude))]


def test_scan_ignores_hidden_names_tool_folders_and_exclusions(tmp_path: Path) -> None:
    for name in ("a.md", ".hidden.md", ".git/x.md", "node_modules/x.md", "drafts/x.md", "sub/b.md", "sub/c.tmp.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert names(tmp_path, "drafts/*", "**/*.tmp.md") == ["a.md", "sub/b.md"]


@each("pattern", ["/*.md", "sub/*.md", "**/*.md", "sub", "./sub/", "s?b/**", "[a-z].md", "sub/**/c"])
def test_exclude_and_access_rules_mean_the_same_by_a_pattern(tmp_path: Path, pattern: str) -> None:
    paths = ["[a-z].md", "a.md", "sub/b.md", "sub/deep/c.md"]
    for name in paths:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    rule = PathRule(pattern, ("staff",))
    assert sorted(names(tmp_path, pattern)) == [name for name in paths if not rule.covers(name)]


def test_scan_of_a_file_is_that_file(tmp_path: Path) -> None:
    (tmp_path / "a.md").touch()
    assert names(tmp_path / "a.md") == ["a.md"]


def test_scan_goes_deeper_than_python_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "last.md").write_text("x")
    monkeypatch.chdir(tmp_path)
    for _ in range(1200):
        Path("d").mkdir()
        os.chdir("d")
    Path("leaf.md").write_text("x")
    assert [entry.relative[-9:] for entry in scan(tmp_path)] == ["d/leaf.md", "last.md"]
    monkeypatch.chdir(tmp_path)
    subprocess.run(["rm", "-r", "d"], check=True)  # too deep for Python's own way of removing folders


def test_scan_ends_on_a_loop_of_links_and_skips_dangling_ones(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.md").touch()
    (tmp_path / "sub" / "loop").symlink_to(tmp_path)
    (tmp_path / "gone.md").symlink_to(tmp_path / "nowhere.md")
    assert names(tmp_path) == ["sub/a.md"]
