"""Readers of documents with the default chunker, other chunkers, and the structure of text."""

from __future__ import annotations

import io
import json
import random
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

from _target import Target, ensure, mutated, mutated_bytes, texts

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

import real_files
from surefind.base.access import EVERYTHING, access_lists
from surefind.base.errors import SurefindError
from surefind.base.text.languages import language_of
from surefind.base.text.words import count_words, fold, sentence_spans, token_spans, words
from surefind.base.types import Document
from surefind.engine.extract.phrases import Phrases
from surefind.engine.files.inside import reading
from surefind.engine.files.opening import FileLimits
from surefind.engine.files.readers import Readers
from surefind.engine.ingest._access_list import access_groups, record_groups, with_front_matter
from surefind.engine.services import LocalServices
from surefind.engine.write.prepare import Prepared, PrepareTask, from_data, prepare, to_data

MARKDOWN = [
    (
        "---\ntitle: Wires\ntags: [a, b]\nacl: [hr, staff]\ndate: 2025-01-01\n---\n\n# Wires\n\nA wire costs "
        "$25.\n\n## Recall\n\n"
        "- one\n- two\n  - three\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```python\nx = 1\n```\n\n> quoted\n"
        "\n[link](b.md) and `code`.\n"
    ),
    (
        "Title\n=====\n\nText with *emphasis* and a [ref].\n\n[ref]: http://example.org\n\n1. one\n2. two\n"
        "\n<div>html</div>\n\n***\n"
    ),
    "+++\nacl = ['hr']\n+++\n\n# A\n\n" + "Sentence one. Sentence two! Is it three? " * 20,
]
HTML = [
    (
        "<html><head><title>Title</title><meta name=acl content=hr></head><body><h1>Head</h1><p>Text <b>bold</b>"
        "</p><table><tr><th>a"
        "<th colspan=2>b</tr><tr><td rowspan=3>1<td>2</table><ul><li>x<ul><li>y</ul></ul><pre>code</pre><script>"
        "1</script></body></html>"
    ),
    (
        "<!doctype html><main><article><h2>A &amp; B</h2><p>One<br>two &#x41; &nbsp;</p><a href='b.html'>"
        "b</a></article></main>"
    ),
]
CODE = [
    (
        "import os\n\n\ndef f(a, b):\n    '''Doc.'''\n    return a\n\n\nclass A:\n    x = 1\n\n    def g(self):\n"
        "        pass\n"
    ),
    "/* acl: x */\nint main(void) {\n  return 0;\n}\n\nstruct a { int b; };\n",
    "function f() { return 1 }\nexport class B {}\n",
]
JSON = [
    (
        '[{"id": 1, "title": "One", "text": "a b", "acl": ["hr"]}, {"id": 1, "text": "same", "metadata": '
        '{"x": [1, {"y": 2}]}}]'
    ),
    '{"title": "T", "body": "text of it", "items": [{"a": 1.5, "b": null}, {"c": true}]}',
    '{"text": "x"}',
]
BEIR = [
    (
        '{"_id": "1", "title": "Title", "text": "Text"}\n\n{"_id": "2", "text": "More", "metadata": {"acl": '
        '"hr", "a": [1]}}\n'
    )
]
CSV = [
    "name;fee\r\nwire;25\r\n",
    'id,title,text\n1,One,"a, b"\n2,Two,"c\nd"\n',
    "a\tb\n1\t2\n",
    "acl,text\nhr,secret\n",
]
RST = [real_files.RST]
TEXT = [
    "\ufeffText\r\nand more\n\nA paragraph. Another sentence.\n",
    "acl: hr\n\nnothing",
    "日本語の文章です。次の文。\n한국어 문장입니다.",
]
MARKDOWN_TOKENS = [
    "---\n",
    "# ",
    "## ",
    "- ",
    "  - ",
    "> ",
    "```",
    "|",
    "|---|",
    "\n",
    "\n\n",
    "[",
    "](",
    ")",
    "*",
    "**",
    "_",
    "`",
    "<div>",
    "&amp;",
    "![",
    "acl:",
    "acl: [hr]\n",
    "&a ",
    "*a",
    "<<: ",
    "!!python/object",
    "? ",
    ": ",
    "{",
    "}",
    "\t",
    "    ",
    "1. ",
    "[^1]",
    "2025-13-45",
    "0o17",
    "1:2:3",
    "~",
    "~~~",
    "\\",
]
HTML_TOKENS = (
    "< > </ <p> <div> </div> <table> <tr> <td colspan=9999> <td rowspan=99999> <ul> <li> <h1> <pre> <!-- "
    "--> <![CDATA[ &#x110000; "
    "&#0; &lt; <script> <meta <title> <svg> <a href= = \" ' <br/> <!doctype"
).split()
CODE_TOKENS = [
    "def ",
    "class ",
    "{",
    "}",
    "(",
    ")",
    "/*",
    "*/",
    "//",
    "#",
    '"""',
    "'''",
    "\n",
    "    ",
    ";",
    "=>",
    "fn ",
    "func ",
]
JSON_TOKENS = [
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    '"',
    "null",
    "true",
    "\n",
    '"text":',
    '"acl":',
    '"id":',
    "1",
    "-1",
    "\\ud800",
    "\\u0000",
    "1e999",
]
CSV_TOKENS = [",", ";", "\t", '"', '""', "\n", "\r\n", "\r", "text", "acl", "id"]
RST_TOKENS = [
    "=====\n",
    "-----\n",
    ".. ",
    "::",
    ".. include:: /etc/passwd\n",
    ".. raw:: html\n",
    "`",
    "``",
    ":ref:",
    "|a|",
    "* ",
    "\n\n",
    "  ",
    ".. csv-table::\n",
    ":acl: x\n",
    "_",
    "[1]_",
    "+--+",
]
MAIL_TOKENS = [
    "Content-Type: ",
    "multipart/mixed; boundary=",
    "--",
    "\r\n",
    "base64",
    "quoted-printable",
    "=?utf-8?b?",
    "?=",
    "charset=",
    "utf-7",
    "Subject: ",
    "filename*=",
    "=\r\n",
    "text/html",
    "idna",
]
LAYOUTS = (
    "markdown(tokens=20, min_tokens=5) + headings",
    "fixed(tokens=10, overlap=3) + neighbors",
    "hierarchical",
    "sentence_window",
    "whole + headings + neighbors",
    "fixed(tokens=1, overlap=0)",
)
DEFAULT = "markdown + headings"
_LIMITS, _READERS = FileLimits(), Readers()


def targets(folder: Path) -> list[Target]:
    def file(
        name: str, share: float, make: Callable[[random.Random], bytes], seconds: float = 2.0, *more: type[Exception]
    ) -> Target:
        reader = str(_READERS.find(name))
        path = folder / name
        allowed = (SurefindError, RecursionError, *more)
        return Target(f"read {name}", share, make, lambda data: _read(reader, path, data), seconds, allowed)

    package = {
        "a.docx": real_files.docx(real_files.handbook),
        "a.pptx": real_files.pptx(),
        "a.xlsx": real_files.xlsx({"Fees": [("service", "fee"), ("wire", 25)]}),
        "a.zip": real_files.zipped(
            {"a.md": MARKDOWN[0], "b/c.json": JSON[0], "d.eml": real_files.mail("x", {"n.txt": b"y"})}
        ),
    }
    markdown = texts(MARKDOWN, MARKDOWN_TOKENS)
    return [
        file("a.md", 2, _file(MARKDOWN, MARKDOWN_TOKENS)),
        file("a.txt", 2, _file(TEXT, MARKDOWN_TOKENS)),
        file("a.html", 0.4, _file(HTML, HTML_TOKENS)),
        file("a.py", 1.5, _file(CODE, CODE_TOKENS)),
        file("a.json", 3, _file(JSON, JSON_TOKENS)),
        file("corpus.jsonl", 4, _file(BEIR, JSON_TOKENS)),
        file("a.csv", 0.8, _file(CSV, CSV_TOKENS)),
        file(
            "a.eml",
            0.3,
            _file([real_files.mail("body\r\nmore", {"note.txt": b"attached"}).decode("latin-1")], MAIL_TOKENS),
            30,
        ),
        file("a.ipynb", 3, _file([real_files.notebook()], JSON_TOKENS)),
        # Libraries read these. The child process stops them after a minute, and reports any error of theirs.
        file("a.rst", 0.05, _file(RST, RST_TOKENS), 30, Exception),
        *(file(name, 0.04, _package(data), 30, Exception) for name, data in package.items()),
        file("a.pdf", 0.02, _binary(real_files.pdf(real_files.policy)), 30, Exception),
        Target("chunkers", 1, lambda chance: (chance.choice(LAYOUTS), markdown(chance)), _cut),
        Target("text", 2, texts([*TEXT, *MARKDOWN], MARKDOWN_TOKENS), _text),
        Target("front matter", 12, texts(MARKDOWN[:1], MARKDOWN_TOKENS), _front_matter),
        Target("access list", 12, texts(JSON, [*JSON_TOKENS, '"Acl":', '"access_groups":', '[""]']), _record),
    ]


def _file(seeds: list[str], tokens: list[str]) -> Callable[[random.Random], bytes]:
    make = texts(seeds, tokens)

    def case(chance: random.Random) -> bytes:
        text = make(chance)
        kind = chance.random()
        data = text.encode("utf-16" if kind < 0.03 else "utf-8", "surrogatepass" if kind < 0.2 else "replace")
        return mutated_bytes(data, chance) if chance.random() < 0.2 else data

    return case


def _binary(data: bytes) -> Callable[[random.Random], bytes]:
    return lambda chance: mutated_bytes(data, chance)


def _package(data: bytes) -> Callable[[random.Random], bytes]:
    """Changes the bytes of a package, or the text of one of its members."""
    with zipfile.ZipFile(io.BytesIO(data)) as opened:
        members = {name: opened.read(name) for name in opened.namelist()}

    def case(chance: random.Random) -> bytes:
        if chance.random() < 0.4:
            return mutated_bytes(data, chance)
        name = chance.choice(list(members))
        changed = mutated(members[name].decode("utf-8", "replace")[:20_000], HTML_TOKENS, chance)
        return real_files.zipped({**members, name: changed.encode("utf-8", "replace")})

    return case


def _read(reader: str, path: Path, data: bytes) -> None:
    path.write_bytes(data)
    with reading(_LIMITS, _READERS) as here:
        _promises(prepare(PrepareTask(reader, str(path), path.name, DEFAULT), here))


def _promises(prepared: Prepared) -> None:
    """Checks what the catalogue and the indexes rely on."""
    again = from_data(json.loads(json.dumps(to_data(prepared))))
    ensure(again.chunks == prepared.chunks, "the chunks do not survive JSON")
    for document, chunks in zip(prepared.documents, prepared.chunks, strict=True):
        (
            document.text + document.title + document.id + json.dumps(dict(document.metadata), ensure_ascii=False)
        ).encode()
        ensure(all(isinstance(group, str) and group.strip() for group in document.acl), "a group has no name")
        for chunk in chunks:
            ensure(document.text[chunk.start : chunk.end] == chunk.text, "a chunk is not where it says")


def _cut(case: tuple[str, str]) -> None:
    from surefind.engine.write.prepare import _layout, storable

    document = storable(Document("a.md", case[1], "A"))
    chunks = _layout(case[0]).cut(document, LocalServices())
    _promises(Prepared([document], [chunks], []))


def _text(text: str) -> None:
    fold(text), words(text), language_of(text), count_words(text)
    for spans in (token_spans(text), sentence_spans(text, 0, len(text))):
        ensure(all(0 <= a < b <= len(text) for a, b in spans), "a span is empty or outside the text")
    Phrases().extract([text], LocalServices())


def _front_matter(text: str) -> None:
    metadata, body, groups = with_front_matter(text, "a.md")
    ensure(body in text.replace("\r\n", "\n") or body in text, "the body is not part of the text")
    access_lists(groups, ["a.md"], [])
    if groups != (EVERYTHING,):  # left to the owner
        ensure(access_groups(metadata) == groups, "the groups are not those of the metadata")


def _record(text: str) -> None:
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return
    for one in record if isinstance(record, list) else [record]:
        if isinstance(one, dict):
            record_groups(one, "x")
