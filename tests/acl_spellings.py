"""Ways in which people write an access list: each is a file that somebody meant to restrict to the group `hr`.

`WAYS` maps a description to (file name, content).
"""

from __future__ import annotations

import io
import json
import warnings
import zipfile
from collections.abc import Iterator, Sequence

BOM = "\ufeff"
NBSP = "\u00a0"
BODY = "# Pay\n\nThe salary grades of all staff.\n"


def _front(block: str, opening: str = "---\n", closing: str = "---\n") -> str:
    return f"{opening}{block}\n{closing}{BODY}"


ACL = "acl: [hr]"
BLOCKS = {
    "a list": "acl: [hr]",
    "one name": "acl: hr",
    "a block list": "acl:\n  - hr",
    "after other keys": "title: Pay\nacl: [hr]",
    "before other keys": "acl: [hr]\ntitle: Pay",
    "upper case": "ACL: [hr]",
    "mixed case": "Acl: [hr]",
    "a quoted key": '"acl": [hr]',
    "a single-quoted key": "'acl': [hr]",
    "a blank in the quoted key": '"acl ": [hr]',
    "a blank before the quoted key": '" acl": [hr]',
    "a no-break space in the key": f"acl{NBSP}: [hr]",
    "a zero-width space in the key": "\u200bacl: [hr]",
    "full-width letters": "ａｃｌ: [hr]",
    "upper case beside an empty one": "acl:\nACL: [hr]",
    "upper case before an empty one": "ACL: [hr]\nacl:",
    "an empty list, then upper case": "acl: []\nACL: [hr]",
    "null, then upper case": "acl: null\nACL: [hr]",
    "the same key twice, empty last": "acl: [hr]\nacl:",
    "the same key twice, empty first": "acl:\nacl: [hr]",
    "the same key twice": "acl: [hr]\nacl: [hr]",
    "two lists": "acl: [hr]\nacl: [board]",
    "no colon": "acl [hr]",
    "no blank after the colon": "acl:[hr]",
    "an equals sign": "acl = [hr]",
    "a semicolon": "acl; [hr]",
    "a full-width colon": "acl： [hr]",
    "a list without a closing bracket": "acl: [hr",
    "a mapping": "acl: {read: hr}",
    "nested in another key": "access:\n  acl: [hr]",
    "nested in metadata": "title: Pay\nmetadata:\n  acl:\n    - hr",
    "a tab before the list": "acl:\t[hr]",
    "a tab indentation": "title: Pay\n\tacl: [hr]",
    "an unknown tag": "acl: !groups [hr]",
    "a commented value": "acl: # hr",
    "a hash before the name": "acl: #hr",
    "a flow mapping": "{title: Pay, acl: [hr]}",
    "JSON in the block": '{"title": "Pay", "acl": ["hr"]}',
    "an explicit key": "? acl\n: [hr]",
    "a merged mapping": "base: &base\n  acl: [hr]\n<<: *base",
    "the plural": "acls: [hr]",
    "acl_groups": "acl_groups: [hr]",
    "access_list": "access_list: [hr]",
    "allowed_groups": "allowed_groups: [hr]",
    "a comment above": "# who may read this\nacl: [hr]",
    "a blank line above": "\nacl: [hr]",
    "in a block of text": "description: |\n  about pay\n  acl: [hr]",
    "a broken line below": "acl: [hr]\ntitle: a: b",
    "a duplicate title": "title: a\ntitle: b\nacl: [hr]",
    "an empty name": 'acl: [""]',
    "twice, public last": "acl: [hr]\nacl: [public]",
    "twice, public first": "acl: [public]\nacl: [hr]",
    "twice, in two spellings": "acl: [hr]\nACL: [public]",
    "twice, in two spellings, public first": '"acl ": public\nAcl: hr',
    "three times": "acl: [hr]\nacl: [public]\nacl: [public]",
    "twice, a mapping first": "acl: {read: hr}\nacl: [public]",
    "merged and written": "base: &base\n  acl: [hr]\n<<: *base\nacl: [public]",
    "twice in a flow mapping": "{acl: [hr], acl: [public]}",
    "a Cyrillic letter": "\u0430cl: [hr]",
    "Cyrillic letters": "\u0430\u0441\u04cf: [hr]",
    "a Cyrillic letter in capitals": "\u0410CL: [hr]",
    "Greek letters": "\u03b1\u03f2l: [hr]",
    "Cherokee letters": "\uab7a\uabaf\uabae: [hr]",
    "mathematical letters": "\U0001d41a\U0001d41c\U0001d425: [hr]",
    "letters in circles": "\u24d0\u24d2\u24db: [hr]",
    "an accent": "\u00e1cl: [hr]",
    "an accent on its own": "a\u0301cl: [hr]",
    "a stroke": "ac\u0142: [hr]",
    "a hook": "a\u0188l: [hr]",
    "small capitals": "\u1d00\u1d04\u029f: [hr]",
    "a capital I": "acI: [hr]",
    "a Cyrillic letter in the plural": "\u0430cls: [hr]",
    "a Cyrillic letter in access_list": "\u0430ccess_list: [hr]",
    "a quoted Cyrillic letter": '"\\u0430cl": [hr]',
    "a Cyrillic letter beside public": "acl: [public]\n\u0430cl: [hr]",
    "a binary key": "!!binary YWNs: [hr]",
    "a binary key beside public": "acl: [public]\n!!binary YWNs: [hr]",
    "a binary key before public": "!!binary YWNs: [hr]\nacl: [public]",
    "a binary key twice": "!!binary YWNs: [hr]\n!!binary YWNs: []",
    "a binary key in metadata": "metadata: {!!binary YWNs: [hr]}",
    "a binary value": "acl: !!binary aHI=",
    "a binary group": "acl: [!!binary aHI=]",
    "a text with a tag": "!!str acl: [hr]",
    "in a list": "access: [acl: [hr]]",
    "in a list of a list": "access: [[{x: 1, acl: [hr]}]]",
    "in pairs": "access: !!pairs [acl: [hr]]",
    "in an ordered mapping": "access: !!omap [acl: [hr]]",
    "in a repeated mapping": "acl: [hr]\nmetadata: {a: 1}\nacl: [public]\nmetadata: {b: 1}",
}
"""Spellings inside a YAML block that is opened and closed correctly."""

FENCES = {
    "a blank line before": ("\n---\n", "---\n"),
    "three blank lines before": ("\n\n\n---\n", "---\n"),
    "a blank before": (" ---\n", "---\n"),
    "a no-break space before": (f"{NBSP}---\n", "---\n"),
    "a no-break space after": (f"---{NBSP}\n", "---\n"),
    "a zero-width space before": ("\u200b---\n", "---\n"),
    "one byte order mark": (f"{BOM}---\n", "---\n"),
    "two byte order marks": (f"{BOM}{BOM}---\n", "---\n"),
    "a byte order mark and a blank line": (f"{BOM}\n---\n", "---\n"),
    "an HTML comment before": ("<!-- draft -->\n---\n", "---\n"),
    "a hash comment before": ("# draft\n---\n", "---\n"),
    "a YAML directive before": ("%YAML 1.2\n---\n", "---\n"),
    "a heading before": ("# Pay\n\n---\n", "---\n"),
    "a comment after the fence": ("--- # head\n", "---\n"),
    "four dashes": ("----\n", "----\n"),
    "four dashes at the end": ("---\n", "----\n"),
    "four dashes at the start": ("----\n", "---\n"),
    "two dashes": ("--\n", "--\n"),
    "long dashes": ("—\n", "—\n"),
    "dashes with blanks": ("- - -\n", "- - -\n"),
    "an unclosed block": ("---\n", "\n"),
    "an indented end": ("---\n", "  ---\n"),
    "a no-break space at the end": ("---\n", f"---{NBSP}\n"),
    "stars": ("***\n", "***\n"),
    "equals signs": ("===\n", "===\n"),
    "a code fence": ("```yaml\n", "```\n"),
    "a code fence around the block": ("```\n---\n", "---\n```\n"),
    "plus signs around YAML": ("+++\n", "+++\n"),
    "semicolons": (";;;\n", ";;;\n"),
    "no fence": ("", "\n"),
    "no opening fence": ("", "---\n"),
    "a second block": ("---\ntitle: Pay\n---\n---\n", "---\n"),
    "below the block": ("---\ntitle: Pay\n---\n", "\n"),
    "dots at the end": ("---\n", "...\n"),
    "a line separator": ("---\u2028", "---\u2028"),
    "an HTML comment around": ("<!--\n", "-->\n"),
    "a quote": ("> ---\n> ", "> ---\n"),
}
"""Ways to open and close a block."""

TOML = '+++\ntitle = "Pay"\nacl = ["hr"]\n+++\n' + BODY
JSON_HEAD = '{"title": "Pay", "acl": ["hr"]}\n\n' + BODY
JSON_HEAD_LONG = '{\n  "title": "Pay",\n  "acl": ["hr"]\n}\n\n' + BODY
PAGE = "<html><head><title>Pay</title>{}</head><body><h1>Pay</h1><p>The salary grades.</p></body></html>"
PAGES = {
    "a meta element": '<meta name="acl" content="hr">',
    "upper case": '<META NAME="ACL" CONTENT="hr">',
    "a blank in the name": '<meta name="acl " content="hr">',
    "a property": '<meta property="acl" content="hr">',
    "a value": '<meta name="acl" value="hr">',
    "an empty one last": '<meta name="acl" content="hr"><meta name="acl" content="">',
    "an empty one first": '<meta name="acl" content=""><meta name="acl" content="hr">',
    "two lists": '<meta name="acl" content="hr"><meta name="acl" content="board">',
    "the plural": '<meta name="acls" content="hr">',
    "a comment": "<!-- acl: hr -->",
    "a name twice": '<meta name="acl" name="x" content="hr">',
    "a name twice, the list last": '<meta name="x" name="acl" content="hr">',
    "a name in three ways": '<meta name="x" NAME="y" nAmE="acl" content="hr">',
    "a content twice": '<meta name="acl" content="public" content="hr">',
    "a content twice, public last": '<meta name="acl" content="hr" content="public">',
    "an empty content first": '<meta name="acl" content="" content="hr">',
    "a property twice": '<meta property="x" property="acl" content="hr">',
    "a name and another attribute": '<meta name="x" id="acl" content="hr">',
    "a Cyrillic letter": '<meta name="\u0430cl" content="hr">',
    "an entity": '<meta name="&#x430;cl" content="hr">',
    "an accent": '<meta name="\u00e1cl" content="hr">',
    "a capital I": '<meta name="acI" content="hr">',
    "public last": '<meta name="acl" content="hr"><meta name="acl" content="public">',
    "public first": '<meta name="acl" content="public"><meta name="ACL" content="hr">',
}
RECORDS: dict[str, object] = {
    "a list": {"text": "salary", "acl": ["hr"]},
    "one name": {"text": "salary", "acl": "hr"},
    "upper case": {"text": "salary", "ACL": ["hr"]},
    "a blank in the key": {"text": "salary", "acl ": ["hr"]},
    "upper case beside null": {"text": "salary", "acl": None, "ACL": ["hr"]},
    "in metadata": {"text": "salary", "metadata": {"acl": ["hr"]}},
    "deeper": {"text": "salary", "meta": {"access": {"acl": ["hr"]}}},
    "a Cyrillic letter": {"text": "salary", "\u0430cl": ["hr"]},
    "a Cyrillic letter beside public": {"text": "salary", "acl": ["public"], "\u0430cl": ["hr"]},
    "an accent": {"text": "salary", "\u00e1cl": ["hr"]},
    "a capital I": {"text": "salary", "acI": ["hr"]},
    "a Cyrillic letter in the plural": {"text": "salary", "\u0430cls": ["hr"]},
    "null in metadata": {"text": "salary", "acl": ["hr"], "metadata": {"acl": None}},
    "the plural": {"text": "salary", "acls": ["hr"]},
    "a mapping": {"text": "salary", "acl": {"read": ["hr"]}},
    "public beside it": {"text": "salary", "acl": ["public"], "ACL": ["hr"]},
    "public above metadata": {"text": "salary", "acl": ["public"], "metadata": {"acl": ["hr"]}},
    "public in metadata": {"text": "salary", "acl": ["hr"], "metadata": {"acl": ["public"]}},
}
REPEATED = {
    "the list": '"acl": ["hr"], "acl": ["public"]',
    "the list, public first": '"acl": ["public"], "acl": ["hr"]',
    "the list, a mapping first": '"acl": {"read": "hr"}, "acl": ["public"]',
    "metadata": '"metadata": {"acl": ["hr"]}, "metadata": {"a": 1}',
    "metadata, public last": '"metadata": {"acl": ["hr"]}, "metadata": {"acl": ["public"]}',
    "metadata, null last": '"metadata": {"acl": ["hr"]}, "metadata": null',
    "metadata, text last": '"metadata": {"acl": ["hr"]}, "metadata": "x", "acl": ["public"]',
    "metadata, three times": '"metadata": {"acl": ["hr"]}, "metadata": {}, "metadata": {}',
    "in metadata": '"metadata": {"acl": ["hr"], "acl": ["public"]}',
    "deeper": '"x": {"metadata": {"acl": ["hr"]}, "metadata": {}}',
    "in a list": '"x": [{"acl": ["hr"]}], "x": []',
    "another name": '"access_groups": ["hr"], "access_groups": []',
}
"""Keys that stand twice in one JSON object, of which a plain reader keeps the last."""
TWICE = '{"_id": "1", "text": "salary", "acl": ["hr"], "acl": []}'


def _notebook(cell: dict[str, object], metadata: dict[str, object]) -> str:
    return json.dumps({"cells": [cell, _cell("markdown", "salary")], "metadata": metadata, "nbformat": 4})


def _cell(kind: str, source: str, **metadata: object) -> dict[str, object]:
    return {"cell_type": kind, "source": source, "metadata": metadata, "outputs": []}


def _mail(head: str, body: str) -> str:
    return f"From: a@x.org\nTo: b@x.org\nSubject: Pay\n{head}\n{body}\n"


def _zipped(name: str, content: str) -> bytes:
    return _archive([(name, content)])


def _archive(members: Sequence[tuple[str, str]]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive, warnings.catch_warnings(action="ignore"):
        for name, content in members:
            archive.writestr(name, content)
    return made.getvalue()


def _ways() -> Iterator[tuple[str, str, str | bytes]]:
    for name, block in BLOCKS.items():
        yield f"md: {name}", "a.md", _front(block)
    for name, (opening, closing) in FENCES.items():
        yield f"md: {name}", "a.md", _front(ACL, opening, closing)
    for kind in ("md", "txt", "rst", "html"):
        yield f"{kind}: front matter", f"a.{kind}", _front(ACL)
        yield f"{kind}: front matter after a blank line", f"a.{kind}", "\n" + _front(ACL)
        yield f"{kind}: upper case beside an empty one", f"a.{kind}", _front("acl:\nACL: [hr]")
        yield f"{kind}: broken front matter", f"a.{kind}", _front("acl: [hr")
        yield f"{kind}: unclosed", f"a.{kind}", _front(ACL, closing="\n")
        yield f"{kind}: TOML", f"a.{kind}", TOML
        yield f"{kind}: JSON", f"a.{kind}", JSON_HEAD
        yield f"{kind}: JSON on several lines", f"a.{kind}", JSON_HEAD_LONG
        yield f"{kind}: a bare line", f"a.{kind}", f"acl: hr\n\n{BODY}"
        yield f"{kind}: a bare line below a title", f"a.{kind}", f"Pay\n\nacl: hr\n\n{BODY}"
        yield f"{kind}: old line ends", f"a.{kind}", _front(ACL).replace("\n", "\r")
        yield f"{kind}: UTF-16", f"a.{kind}", _front(ACL).encode("utf-16")
        yield f"{kind}: UTF-16 without a mark", f"a.{kind}", _front(ACL).encode("utf-16-le")
    yield "rst: a field", "a.rst", f":acl: hr\n\n{BODY}"
    yield "rst: a comment", "a.rst", f".. acl: hr\n\n{BODY}"
    yield "rst: a directive", "a.rst", f".. acl:: hr\n\n{BODY}"
    yield "rst: meta", "a.rst", f".. meta::\n   :acl: hr\n\n{BODY}"
    yield "mdx: an export", "a.mdx", 'export const meta = { title: "Pay", acl: ["hr"] }\n\n' + BODY
    yield "md: bold", "a.md", f"**ACL:** hr\n\n{BODY}"
    for name, meta in PAGES.items():
        yield f"html: {name}", "a.html", PAGE.format(meta)
    for name, record in RECORDS.items():
        yield f"json: {name}", "a.json", json.dumps(record)
        yield f"jsonl: {name}", "a.jsonl", json.dumps(record)
        row = json.dumps({"_id": name.replace(" ", "-"), **record})  # type: ignore[dict-item]
        yield f"beir: {name}", "corpus.jsonl", row
    for name, pairs in REPEATED.items():
        yield f"json: repeated: {name}", "a.json", f'{{"text": "salary", {pairs}}}'
        yield f"jsonl: repeated: {name}", "a.jsonl", f'{{"text": "salary", {pairs}}}'
        yield f"beir: repeated: {name}", "corpus.jsonl", f'{{"_id": "{name}", "text": "salary", {pairs}}}'
        cells = f'"cells": [{json.dumps(_cell("markdown", "salary"))}], "nbformat": 4'
        yield f"notebook: repeated: {name}", "a.ipynb", f'{{"metadata": {{{pairs}}}, {cells}}}'
        yield f"notebook: repeated beside: {name}", "a.ipynb", f"{{{pairs}, {cells}}}"
    yield (
        "html: front matter and public",
        "a.html",
        f"---\n{ACL}\n---\n" + PAGE.format('<meta name="acl" content="public">'),
    )
    yield "json: the same key twice", "a.json", TWICE
    yield "jsonl: the same key twice", "a.jsonl", TWICE
    yield "beir: the same key twice", "corpus.jsonl", TWICE
    yield (
        "beir: twice in metadata",
        "corpus.jsonl",
        '{"_id": "2", "text": "pay", "metadata": {"acl": ["hr"], "acl": []}}',
    )
    yield "code: a comment", "a.py", '# acl: [hr]\nsalary = "grades"\n'
    yield "code: a docstring", "a.py", f'"""\n{_front(ACL)}"""\n'
    yield "csv: a column", "a.csv", "name,acl,salary\nAda,hr,7\n"
    yield "csv: a column with a Cyrillic letter", "a.csv", "name,\u0430cl,salary\nAda,hr,7\n"
    yield "csv: front matter", "a.csv", f"---\n{ACL}\n---\nname,salary\nAda,7\n"
    yield "csv: a comment", "a.csv", f"# {ACL}\nname,salary\nAda,7\n"
    yield "mail: a header", "a.eml", _mail("ACL: hr\n", "salary")
    yield "mail: an X header", "a.eml", _mail("X-ACL: hr\n", "salary")
    yield "mail: in the body", "a.eml", _mail("", "acl: [hr]\n\nsalary")
    yield "mail: front matter in the body", "a.eml", _mail("", _front(ACL))
    yield "notebook: metadata", "a.ipynb", _notebook(_cell("markdown", "# Pay"), {"acl": ["hr"]})
    yield "notebook: metadata of a cell", "a.ipynb", _notebook(_cell("markdown", "# Pay", acl=["hr"]), {})
    yield "notebook: a raw cell", "a.ipynb", _notebook(_cell("raw", f"---\n{ACL}\n---"), {})
    yield "notebook: a Markdown cell", "a.ipynb", _notebook(_cell("markdown", f"---\n{ACL}\n---\n# Pay"), {})
    listed = _front(ACL)
    for way, members in {
        "public last": (("a.md", listed), ("a.md", BODY)),
        "public first": (("a.md", BODY), ("a.md", listed)),
        "a dot before": (("a.md", BODY), ("./a.md", listed)),
        "two slashes": (("x//a.md", listed), ("x/a.md", BODY)),
        "three times": (("a.md", BODY), ("a.md", listed), ("a.md", BODY)),
    }.items():
        yield f"zip: a member twice: {way}", "a.zip", _archive(members)
    yield "zip: a member", "a.zip", _zipped("a.md", _front(ACL))
    yield "zip: a member after a blank line", "a.zip", _zipped("a.md", "\n" + _front(ACL))


WAYS = {way: (name, content) for way, name, content in _ways()}
