"""A record whose text shows an access list is left to the owner; its file and the other records are read."""

from __future__ import annotations

import json
import subprocess
import sys
from email.message import EmailMessage
from pathlib import Path

import pytest

from cases import each
from exam_helpers import surefind
from helpers import Home
from surefind import Access
from surefind.base.errors import SourceError

EXAMPLE = 'To restrict a folder, write {"path": "hr", "access_groups": ["hr"]} in the policy.'
LOOK_ALIKES = [
    EXAMPLE,
    "acl: [hr]\n\nis how a list is written",
    "# Permissions\n\n{'acl': 'hr'}",
    "x-acl: hr",
    '{\n  "allowed_groups": ["hr"]\n}',
    "ａｃｌ： hr",
]
MANY = 400


def _rows(texts: dict[int, str], **more: object) -> str:
    """Many records, some of them with other texts or fields."""
    rows = []
    for n in range(1, MANY + 1):
        row: dict[str, object] = {"_id": f"d{n}", "title": f"T{n}", "text": texts.get(n, f"The fee of wire{n} is {n}.")}
        rows.append(json.dumps(row | (more if n == 7 else {})))
    return "\n".join(rows) + "\n"


def _documents(home: Home, access: Access) -> set[str]:
    with home.open() as kb:
        return {one.id for one in kb.documents(access)}


@each("name", ["corpus.jsonl", "all.jsonl", "all.json"])
def test_one_look_alike_costs_one_document(home: Home, name: str) -> None:
    content = _rows({7: EXAMPLE})
    content = content if name.endswith("l") else f"[{','.join(content.splitlines())}]"
    home.write(f"docs/{name}", content)
    report = home.sync("docs")
    seven = "d7" if name == "corpus.jsonl" else f"{name}#d7"
    assert _documents(home, Access.owner()) - _documents(home, Access.public()) == {seven}
    assert len(_documents(home, Access.of("hr", "access_groups"))) == MANY - 1
    place = "line 7" if name.endswith("l") else "record 7"
    assert [problem.path for problem in report.problems] == [f"{name}/{place}"]
    reason = report.problems[0].reason
    assert "access_groups" in reason and f"Only the owner may read {seven}" in reason and "line 1 of its text" in reason
    assert home.found("restrict a folder policy") == [] and home.found("restrict a folder policy", groups=["*"])
    again = home.sync("docs")
    assert [problem.path for problem in again.problems] == [f"{name}/{place}"], "an unchanged file keeps its problem"


@each("text", LOOK_ALIKES)
def test_every_look_alike_in_a_record_is_closed_and_listed(home: Home, text: str) -> None:
    home.write("docs/a.jsonl", _rows({7: text, 9: text}))
    report = home.sync("docs")
    assert {problem.path for problem in report.problems} == {"a.jsonl/line 7", "a.jsonl/line 9"}
    assert _documents(home, Access.owner()) - _documents(home, Access.public()) == {"a.jsonl#d7", "a.jsonl#d9"}


@each(
    "field",
    [{"access_groups": ["hr"]}, {"meta": {"acl": ["hr"]}}, {"acl": {"read": "hr"}}, {"acl": [["hr"]]}, {"acls": "hr"}],
)
def test_field_that_cannot_be_read_as_a_list_closes_its_record(home: Home, field: dict[str, object]) -> None:
    home.write("docs/a.jsonl", _rows({}, **field))
    report = home.sync("docs")
    assert [problem.path for problem in report.problems] == ["a.jsonl/line 7"]
    assert _documents(home, Access.owner()) - _documents(home, Access.public()) == {"a.jsonl#d7"}


def test_list_of_a_record_decides_whatever_its_text_shows(home: Home) -> None:
    home.write("docs/public.jsonl", _rows({7: EXAMPLE}, acl=["public"]))
    home.write("docs/hr.jsonl", _rows({7: EXAMPLE}, metadata={"acl": ["hr"]}))
    assert home.sync("docs").problems == []
    public, hr = _documents(home, Access.public()), _documents(home, Access.of("hr"))
    assert "public.jsonl#d7" in public and hr - public == {"hr.jsonl#d7"}


def test_sync_status_and_access_list_the_document_with_its_line(home: Home) -> None:
    home.write("docs/a.jsonl", _rows({7: EXAMPLE}))
    home.write("docs/bad.json", "{")
    shown = {
        words: surefind(*words, kb=home.folder).out
        for words in (("sync", str(home.docs)), ("status",), ("access",), ("access", "check"))
    }
    for words, text in shown.items():
        assert "a.jsonl/line 7 looks restricted: line 1 of its text is" in text, words
        assert "1 documents that look restricted" in text and "bad.json" in text, words
    assert "a.jsonl#d7" in shown["access",] and "the owner  (acl)" in shown["access",]


def test_access_as_json_has_the_problems_too(home: Home) -> None:
    home.write("docs/a.jsonl", _rows({7: EXAMPLE}))
    home.write("docs/bad.json", "{")
    home.sync("docs")
    found = surefind("access", "--json", kb=home.folder).json
    readers = {row["document"]: row["readers"] for row in found["documents"]}
    assert len(readers) == MANY and readers["a.jsonl#d7"] == "the owner"
    assert sorted(problem["path"] for problem in found["problems"]) == ["a.jsonl/line 7", "bad.json"]
    assert surefind("access", "check", "--json", kb=home.folder).json["problems"] == found["problems"]
    assert surefind("access", "--as", "hr", "--json", kb=home.folder).json["problems"] == []


def _notebook(*cells: tuple[str, str], **metadata: object) -> str:
    made = [{"cell_type": kind, "source": source, "metadata": {}, "outputs": []} for kind, source in cells]
    return json.dumps({"cells": made, "metadata": metadata, "nbformat": 4})


def _mail(header: str, body: str) -> bytes:
    made = EmailMessage()
    made["From"], made["Subject"] = "ada@x.org", "Wires"
    if header:
        made[header] = "hr"
    made.set_content(body)
    made.add_attachment("The attached zebra.", filename="zebra.txt")
    return made.as_bytes()


def test_other_formats_are_left_to_the_owner_and_listed(home: Home) -> None:
    files: dict[str, str | bytes] = {
        "column.csv": "name,acl,salary\nAda,hr,7\n",
        "twice.csv": "acl,name,acl\nhr,Ada,public\n",
        "head.csv": "# acl: [hr]\nname,salary\nAda,7\n",
        "cell.ipynb": _notebook(("markdown", "---\nacl: [hr]\n---\n# Pay")),
        "header.eml": _mail("X-ACL", "The zebra."),
        "body.eml": _mail("", "acl: [hr]\n\nThe zebra."),
    }
    for name, content in files.items():
        home.write(f"docs/{name}", content)
    home.write("docs/plain.csv", "name,salary\nAda,7\n")
    home.write("docs/plain.eml", _mail("", "The zebra."))
    report = home.sync("docs")
    assert {problem.path.partition("/")[0] for problem in report.problems} == set(files)
    assert all(problem.left_to_owner for problem in report.problems)
    assert _documents(home, Access.public()) == {"plain.csv", "plain.eml", "plain.eml/zebra.txt"}
    attached = {"header.eml/zebra.txt", "body.eml/zebra.txt", "plain.eml/zebra.txt"}
    assert _documents(home, Access.owner()) == {*files, "plain.csv", "plain.eml", *attached}


SHOWN = "# Permissions\n\nA list is written so:\n\n    acl: [hr]\n\nThe zebra may read it.\n"
"""A page of a manual that shows an access list."""
SINGLE = {
    "shown.md": (SHOWN, "line 5 is 'acl: [hr]'"),
    "fenced.md": ("# Lists\n\n```yaml\nacl: [hr]\n```\n\nzebra", "line 4 is 'acl: [hr]'"),
    "open.md": ("---\nacl: [hr]\n\nThe zebra.", "line 2 is 'acl: [hr]'"),
    "broken.md": ("---\nacl: [hr\n---\nThe zebra.", "it has broken front matter at line 3"),
    "other.md": ("---\ntitle: a: b\n---\nThe zebra.", "it has broken front matter at line 2"),
    "mapping.md": ("---\nacl: {read: hr}\n---\nThe zebra.", "it has an acl that is not a list of group names"),
    "shown.txt": (SHOWN, "line 5 is 'acl: [hr]'"),
    "broken.txt": ("---\nacl: [hr\n---\nThe zebra.", "line 2 is 'acl: [hr'"),
    "shown.rst": (SHOWN, "line 5 is 'acl: [hr]'"),
    "shown.html": ("<h1>Lists</h1>\n<p>zebra</p>\n<pre>\nacl: [hr]\n</pre>", "line 4 is 'acl: [hr]'"),
    "meta.html": ('<title>zebra</title>\n<meta name="acls" content="hr">', "line 2 has a meta element 'acls'"),
    "comment.py": ("import os\n# acl: [hr]\nzebra = os\n", "line 2 is '# acl: [hr]'"),
    "index.ts": ("/* x\n * acl: [hr]\n */\nlet zebra = 1\n", "line 2 is '* acl: [hr]'"),
}
"""File name -> (content of a file of one document, its line as it is listed)."""


@each("name", SINGLE)
def test_file_of_one_document_is_read_left_to_the_owner_and_listed(home: Home, name: str) -> None:
    content, line = SINGLE[name]
    home.write(f"docs/{name}", content)
    home.write("docs/good.md", "The zebra.")
    report = home.sync("docs")
    (problem,) = report.problems
    assert problem.path == name and problem.left_to_owner
    assert (
        problem.reason.startswith(f"looks restricted: {line}") and f"Only the owner may read {name}" in problem.reason
    )
    assert _documents(home, Access.of("hr", "acl")) == {"good.md"}
    assert _documents(home, Access.owner()) == {"good.md", name}
    assert name in home.found("zebra", groups=["*"]) and home.found("zebra") == ["good.md"]
    assert home.sync("docs").problems == [problem], "an unchanged file keeps its problem"
    for words in (("status",), ("access",)):
        assert f"{name} {problem.reason}" in surefind(*words, kb=home.folder).out


def test_page_that_decides_may_show_a_list(home: Home) -> None:
    home.write("docs/a.md", f"---\nacl: [public]\n---\n{SHOWN}")
    home.write("docs/a.txt", f"---\nacl: [public]\n---\n{SHOWN}")
    home.write("docs/a.html", '<meta name="acl" content="public"><p>zebra</p>\n<pre>\nacl: [hr]\n</pre>')
    home.write("docs/b.html", '---\nacl: {read: hr}\n---\n<meta name="acl" content="public"><p>zebra</p>')
    report = home.sync("docs")
    assert [problem.path for problem in report.problems] == ["b.html"]
    assert _documents(home, Access.public()) == {"a.md", "a.txt", "a.html"}


def test_workbook_with_a_column_like_a_list_is_left_to_the_owner(home: Home) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.append(["name", "salary"])
    book.active.append(["Ada", 7])
    pay = book.create_sheet("Pay")
    for row in (["Zebra grades"], ["name", "ACL"], ["Ada", "hr"]):
        pay.append(row)
    home.docs.mkdir(exist_ok=True)
    book.save(home.docs / "pay.xlsx")
    home.write("docs/good.md", "The zebra.")
    (problem,) = home.sync("docs").problems
    assert problem.path == "pay.xlsx" and problem.left_to_owner
    assert "row 2 of the sheet Pay has the column 'ACL'" in problem.reason
    assert _documents(home, Access.of("hr")) == {"good.md"}
    assert _documents(home, Access.owner()) == {"good.md", "pay.xlsx"}


@each("beside", [{"acl": ["hr"], "data": {"rows": []}}, {"data": {"allowed_groups": "hr"}}])
def test_list_beside_the_records_of_a_file_closes_all_of_them(home: Home, beside: dict[str, object]) -> None:
    data = beside["data"]
    assert isinstance(data, dict)
    data["rows"] = [{"id": 1, "text": "one zebra"}, {"id": 2, "text": "two zebras", "acl": ["hr"]}]
    home.configure("[sync]\nreaders = ['json(records=data.rows)']\n")
    home.write("docs/a.json", json.dumps(beside))
    home.write("docs/b.json", json.dumps({"data": {"rows": [{"text": "zebra"}]}}))
    (problem,) = home.sync("docs").problems
    assert problem.left_to_owner and "beside its records" in problem.reason
    assert _documents(home, Access.of("hr")) == {"b.json"}
    assert _documents(home, Access.owner()) == {"a.json#1", "a.json#2", "b.json"}


def test_row_of_a_corpus_whose_metadata_is_no_object_is_read(home: Home) -> None:
    home.write("docs/corpus.jsonl", _rows({}, metadata="none"))
    assert home.sync("docs").problems == []
    assert len(_documents(home, Access.public())) == MANY


def test_draft_of_a_page_that_looks_restricted_is_refused_with_the_line(home: Home) -> None:
    home.write("docs/a.md", "A wire costs 20.")
    home.sync("docs")
    with home.open() as kb:
        with pytest.raises(SourceError, match=r"new\.md looks restricted: line 5 is 'acl: \[hr\]'"):
            kb.drafts.add_bytes("new.md", SHOWN.encode(), "new.md", "ada")
        assert kb.drafts.store.waiting() == []


def test_draft_that_looks_restricted_is_refused_with_the_reason(home: Home) -> None:
    home.write("docs/a.md", "A wire costs 20.")
    home.sync("docs")
    with home.open() as kb, pytest.raises(SourceError, match="looks restricted"):
        kb.drafts.add_bytes("new.json", json.dumps({"text": EXAMPLE}).encode(), "new.json", "ada")


# ---------------------------------------------------------------- benchmarks


def _collection(folder: Path, corpus: str) -> Path:
    (folder / "qrels").mkdir(parents=True)
    (folder / "corpus.jsonl").write_text(corpus)
    asked = [{"_id": f"q{n}", "text": f"fee of wire{n}"} for n in (1, 2, 7)]
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, asked)))
    judged = "".join(f"q{n}\td{n}\t1\n" for n in (1, 2, 7))
    (folder / "qrels/test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}")
    return folder


def test_bench_of_a_collection_names_the_documents_that_it_left_out(home: Home, tmp_path: Path) -> None:
    folder = _collection(tmp_path / "beir", _rows({7: EXAMPLE}))
    ran = surefind("bench", "--beir", folder, "-p", "bm25", kb=home.folder)
    assert ran.code == 0, ran.err
    assert "corpus.jsonl/line 7 looks restricted" in ran.err


def test_bench_of_a_collection_that_cannot_be_read_says_why(home: Home, tmp_path: Path) -> None:
    folder = _collection(tmp_path / "beir", _rows({}) + '{"_id": "d401", "text"\n')
    ran = surefind("bench", "--beir", folder, "-p", "bm25", kb=home.folder)
    assert ran.code != 0 and "line 401" in ran.err and "bad rows" not in ran.err


def test_import_of_an_exam_names_the_files_that_could_not_be_read(home: Home) -> None:
    home.write("docs/a.md", "A wire costs 20.")
    home.write("docs/all.jsonl", '{"_id": "d1", "text"\n')
    home.sync("docs")
    home.write("asked.csv", "question,document\nwhat is it?,all.jsonl#d1\n")
    ran = surefind("exam", "import", home.folder / "asked.csv", kb=home.folder)
    assert ran.code != 0 and "no document" in ran.err and "all.jsonl is not JSON at line 1" in ran.err


def test_study_of_a_collection_names_the_documents_that_it_left_out(home: Home, tmp_path: Path) -> None:
    home.write("docs/a.md", "A wire costs 20.")
    home.sync("docs")
    folder = _collection(tmp_path / "beir", _rows({7: EXAMPLE}))
    ran = surefind("study", "context-layer", "--beir", folder, "--offline", "--dry-run", kb=home.folder)
    assert ran.code == 0, ran.err
    assert "1 problems of its documents:" in ran.err and "corpus.jsonl/line 7 looks restricted" in ran.err


MEASURING = [
    ("bench", "-p", "words", "--dry-run"),
    ("study", "context-layer", "--offline", "--dry-run"),
    ("exam", "generate"),
    ("tune", "--exam", "known-item", "--dry-run"),
]


@pytest.fixture
def partly(home: Home) -> Home:
    """A knowledge base of which one file could not be read, and one looks restricted."""
    home.write("docs/a.jsonl", _rows({}))
    home.write("docs/shown.md", SHOWN)
    home.write("docs/bad.json", "{")
    home.sync("docs")
    return home


@pytest.mark.parametrize("words", MEASURING, ids=lambda words: words[0])
def test_commands_that_use_the_documents_name_those_that_are_missing(partly: Home, words: tuple[str, ...]) -> None:
    surefind("exam", "generate", kb=partly.folder)
    ran = surefind(*words, kb=partly.folder)
    assert "2 problems of its documents:" in ran.err
    assert "bad.json is not JSON" in ran.err and "shown.md looks restricted: line 5" in ran.err


def test_caller_of_a_job_does_not_learn_of_them(partly: Home) -> None:
    surefind("exam", "generate", kb=partly.folder)
    request = {"kind": "bench", "folder": str(partly.folder), "author": "eve", "groups": [], "options": {}}
    ran = subprocess.run(
        [sys.executable, "-m", "surefind.doors.job_process"],
        input=json.dumps(request), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "problems" not in ran.stderr and "bad.json" not in ran.stderr + ran.stdout
    assert "shown.md" not in ran.stderr + ran.stdout


def test_judged_documents_that_were_not_read_are_explained(home: Home, tmp_path: Path) -> None:
    folder = _collection(tmp_path / "beir", _rows({7: EXAMPLE}))
    with (folder / "qrels/test.tsv").open("a") as judged:
        judged.write("q1\tnone\t1\n")
    ran = surefind("bench", "--beir", folder, "-p", "bm25", kb=home.folder)
    assert ran.code != 0 and "none" in ran.err
    assert "1 problems of its documents, the first: corpus.jsonl/line 7 looks restricted" in ran.err
