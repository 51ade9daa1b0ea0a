"""Hostile documents and filters in Milvus: what a document says is data, in expressions, names and limits."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("milvus_lite", reason="surefind[milvus] is not installed: make milvus")

from helpers import Home
from surefind.base.access import Access
from surefind.base.errors import SurefindError

PIPELINES = """
[search]
pipeline = "both"
[pipelines.both]
retrieve = ["bm25", "tfidf"]
fuse = "rrf"
"""
MILVUS = f'[store]\nbackend = "milvus"\nuri = "kb.db"\n{PIPELINES}'
INJECTED = ['x" or 1 == 1 or "', "x' or true or '", "x\\", 'x\\" in ["', "%", "board)", "$meta", "{{acl}}", "public]"]
"""Values that would change an expression, if one was made of them by joining texts."""


def written(home: Home) -> None:
    home.write("docs/plain.md", "# Plain\n\nThe cash report of the teller.\n")
    home.write("docs/secret.md", "---\nacl: [board]\n---\n# Secret\n\nThe cash report of the board, okapi.\n")
    for number, text in enumerate(INJECTED):
        quoted = "'" + text.replace("'", "''") + "'"
        head = f"---\nstatus: {quoted}\ntitle: {quoted}\nowner: [{quoted}, ada]\n---\n"
        home.write(f"docs/{number}.md", f"{head}# Note {number}\n\nThe cash report {number}: {text}\n")
    home.write("docs/names/a' or 1==1.md", "# Name\n\nThe cash report of a name.\n")
    home.write('docs/names/b" in [] or "x.md', "# Name\n\nThe cash report of another name.\n")
    home.write("docs/names/" + "n" * 200 + ".md", "# Long name\n\nThe cash report of a long name.\n")
    home.write("docs/long.md", f"---\nnote: {'m' * 90_000}\n---\n# Long\n\n{'cash' * 30_000} report of a long word.\n")
    home.write("docs/many.md", "# Many\n\n" + " ".join(f"word{n} cash report" for n in range(30_000)))
    home.write("docs/odd.md", "# Odd\n\ncash report \x00 \ufffe \u202e \U0010ffff \x1b[31m 𝒸𝒶𝓈𝒽\n")
    home.write("docs/keys.md", '---\n"$meta": 1\n"a.b": 2\n"id": 9\n"vector": [1]\n---\n# Keys\n\nThe cash report.\n')


def found(home: Home, access: Access) -> list[str] | str:
    with home.open() as kb:
        try:
            return sorted(hit.document for hit in kb.search("cash report okapi", access, 60).hits)
        except SurefindError as error:
            return type(error).__name__


def test_hostile_documents_are_found_as_with_the_local_backend(home: Home, tmp_path: Path) -> None:
    callers = [Access.owner(), Access.public(), Access.of("board")]
    callers += [Access.of(group) for group in INJECTED if group.isprintable() and "*" not in group]
    callers += [Access.public([f"status={text}"]) for text in INJECTED]
    callers += [Access.public([f"owner={text}", "status!=x"]) for text in INJECTED]
    home.configure(MILVUS)
    written(home)
    report = home.sync("docs")
    here = [found(home, access) for access in callers]
    home.configure(PIPELINES)
    assert len(home.sync("docs").problems) == len(report.problems)
    assert here == [found(home, access) for access in callers]
    assert [("secret.md" in names) for names in here] == [True, False, True, *[False] * (len(callers) - 3)]
