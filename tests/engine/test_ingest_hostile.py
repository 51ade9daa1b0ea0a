"""Hostile and broken input: bounded in time and memory, skipped with the reason, and the rest of the sync goes on."""

from __future__ import annotations

import io
import json
import os
import signal
import struct
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import real_files
from cases import each
from helpers import WORDS, Home
from surefind.base.errors import MissingPartError, SourceError
from surefind.engine.files import readers
from surefind.engine.files.opening import FileLimits
from surefind.engine.files.readers import Readers
from surefind.engine.files.scan import FileRules, scan
from surefind.engine.write.preparing import FilePreparer

LAUGHS = (
    b'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "ha">'
    + b"".join(
        f'<!ENTITY {chr(98 + i)} "{"&" + chr(97 + i) + ";"}{("&" + chr(97 + i) + ";") * 9}">'.encode() for i in range(9)
    )
    + b"]><x>&j;</x>"
)
BROKEN = {
    "a.pdf": b"%PDF-1.7\n1 0 obj\n<< /Type /Catalog /Pages 2 0 R >>\nendobj\n",
    "b.pdf": b"plain text that calls itself PDF",
    "a.docx": b"PK\x03\x04 cut off",
    "b.docx": real_files.zipped({"hello.txt": "a zip, but no Word file"}),
    "c.docx": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600,
    "d.docx": real_files.swapped(real_files.docx(real_files.handbook), "word/document.xml", b"<w:document"),
    "e.docx": real_files.docx(real_files.handbook)[:9000],
    "a.xlsx": real_files.swapped(real_files.xlsx({"a": [("x", "y")]}), "xl/workbook.xml", b"not xml"),
    "a.pptx": real_files.swapped(real_files.pptx(), "ppt/presentation.xml", b""),
    "a.zip": real_files.zipped({"a.md": "text " * 500})[:60],
    "b.zip": real_files.zipped({"a.bin": "nothing to read"}),
    "a.json": b'{"a": ',
    "a.jsonl": b"not json\n",
    "a.ipynb": b'{"cells": 3}',
    "b.ipynb": b"[]",
    "a.csv": b"a,b\n1,\x00\n",
    "b.csv": b"PK\x03\x04\xff\xfe\x00\x00binary",
    "a.html": b"\xff\xd8\xff\xe0\x00\x10JFIF",
    "a.eml": b"not an e-mail at all",
    "a.md": b"%PDF-1.7\n\x00\xff",
    "a.py": b"\x7fELF\x02\x01\x01\x00",
    "a.rst": b"\xff\xfe\x00",
}


@pytest.fixture(scope="module")
def reading() -> Iterator[FilePreparer]:
    with FilePreparer(Readers(), FileLimits(seconds=20, unpacked_mb=6, members=50, nesting=2)) as made:
        yield made


def refusal(reading: FilePreparer, path: Path, content: bytes) -> str:
    path.write_bytes(content)
    reader = reading.find(path.name)
    assert reader is not None
    with pytest.raises(SourceError) as caught:
        reading.read(reader, path, path.name)
    return str(caught.value)


# ---------------------------------------------------------------- broken files


def test_broken_files_of_every_type_are_listed_and_the_rest_goes_on(home: Home) -> None:
    for name, content in BROKEN.items():
        home.write(f"docs/{name}", content)
    home.write("docs/good.md", "alpha")
    result = home.sync("docs")
    assert {problem.path for problem in result.problems} == set(BROKEN)
    assert home.found("alpha") == ["good.md"]
    with home.open() as kb:
        listed = {problem.path: problem.reason for problem in kb.status().problems}
    assert listed == {problem.path: problem.reason for problem in result.problems}
    assert not [reason for reason in listed.values() if "Traceback" in reason or len(reason) > 300]


def test_file_that_failed_is_not_tried_again_until_it_or_its_reader_changes(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.write("docs/a.json", "{")
    home.write("docs/good.md", "alpha")
    first = home.sync("docs")
    with monkeypatch.context() as without:
        without.delattr(FilePreparer, "read")
        assert home.sync().problems == first.problems and len(first.problems) == 1
    home.write("docs/a.json", '{"text": "beta"}', age=30)
    assert home.sync().problems == []
    assert home.found("beta") == ["a.json"]


def test_failed_file_is_tried_again_with_another_reader(home: Home) -> None:
    home.write("docs/a.csv", "name,fee\nZoë,1\n".encode("cp1252"))
    home.write("docs/good.md", "alpha")
    assert len(home.sync("docs").problems) == 1
    home.configure(WORDS + "[sync]\nreaders = ['csv(encoding=cp1252)']\n")
    assert home.sync().problems == []
    assert home.found("Zoë") == ["a.csv"]


def test_other_limits_are_another_chance(home: Home) -> None:
    home.write("docs/a.md", "alpha " * 3_000)
    home.configure(WORDS + "[sync]\nmax_file_mb = 0.015\n")
    home.write("docs/a.zip", real_files.zipped({"b.txt": "beta " * 4_000, "c.txt": "gamma"}))
    assert [p.path for p in home.sync("docs").problems] == ["a.md", "a.zip/b.txt"]
    home.configure(WORDS)
    assert home.sync().problems == []
    assert set(home.found("beta")) == {"a.zip/b.txt"}


def test_encrypted_pdf_is_refused_as_such(reading: FilePreparer, tmp_path: Path) -> None:
    def build(made: object) -> None:
        made.set_encryption(owner_password="o", user_password="u")
        real_files.policy(made)

    assert refusal(reading, tmp_path / "a.pdf", real_files.pdf(build)) == "is encrypted; save it without a password"


def test_missing_extra_is_a_problem_of_the_file_with_the_install_line(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(MissingPartError, match=r"needs no_such_module; run: pip install 'surefind\[pdf\]'"):
        readers.need(("no_such_module",), "pdf")
    home.write("docs/a.pdf", real_files.pdf(real_files.policy))
    home.write("docs/good.md", "alpha")
    hidden = home.folder / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text(
        "import importlib.util as u\nfind = u.find_spec\n"
        "u.find_spec = lambda n, *a: None if n == 'liteparse' else find(n, *a)\n"
    )
    path = os.pathsep.join([str(hidden), os.environ.get("PYTHONPATH", "")])
    monkeypatch.setenv("PYTHONPATH", path)
    (problem,) = home.sync("docs").problems
    assert problem.reason == "needs liteparse; run: pip install 'surefind[pdf]'"
    monkeypatch.undo()
    assert home.sync().problems == []  # installed in the meantime: no change of the file is needed


# ---------------------------------------------------------------- the child


def ask(reading: FilePreparer, folder: Path, order: str) -> str:
    from toy_readers import Naughty

    (folder / "a.naughty").write_text(order)
    (document,) = reading.read(Naughty(), folder / "a.naughty", "a").documents
    return document.text


def test_pdf_that_never_ends_is_given_up_once_and_the_rest_goes_on(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.configure(WORDS + "[sync]\nmax_seconds = 3\n")
    home.write("docs/a.pdf", real_files.endless_pdf())
    home.write("docs/b.json", '{"text": "alpha"}')
    (problem,) = home.sync("docs").problems
    assert problem.reason == "takes more than 3 s (max_seconds); reading was stopped"
    assert home.found("alpha") == ["b.json"]
    monkeypatch.delattr(FilePreparer, "read")
    assert [p.path for p in home.sync().problems] == ["a.pdf"]


def test_file_that_hangs_is_given_up_in_time_and_the_next_is_read(naughty: Readers, tmp_path: Path) -> None:
    with FilePreparer(naughty, FileLimits(seconds=3)) as reading:
        assert ask(reading, tmp_path, "fine").startswith("fine")
        started = time.perf_counter()
        with pytest.raises(SourceError, match=r"takes more than 3 s \(max_seconds\)"):
            ask(reading, tmp_path, "hang")
        assert 2.9 < time.perf_counter() - started < 30  # it would hang for a minute
        with pytest.raises(SourceError, match=r"its reader crashed \(SIGABRT\)"):
            ask(reading, tmp_path, "crash")


def test_file_that_eats_memory_is_stopped(naughty: Readers, tmp_path: Path) -> None:
    with FilePreparer(naughty, FileLimits(seconds=20, memory_mb=600)) as reading:
        with pytest.raises(SourceError, match=r"needs more than 600 MB of memory to be read \(max_memory_mb\)"):
            ask(reading, tmp_path, "eat")
        assert ask(reading, tmp_path, "fine").startswith("fine")


def test_second_try_in_a_new_process_has_only_the_time_that_is_left(naughty: Readers, tmp_path: Path) -> None:
    with FilePreparer(naughty, FileLimits(seconds=3.5)) as reading:
        with pytest.raises(SourceError, match=r"its reader crashed \(SIGABRT\)"):
            ask(reading, tmp_path, "late")
        ask(reading, tmp_path, "fine")
        started = time.perf_counter()
        with pytest.raises(SourceError, match=r"takes more than 3.5 s"):
            ask(reading, tmp_path, "late")
        assert time.perf_counter() - started < 10


def test_one_child_serves_many_files_and_what_it_prints_is_no_answer(naughty: Readers, tmp_path: Path) -> None:
    with FilePreparer(naughty, FileLimits()) as reading:
        first = ask(reading, tmp_path, "chatter").split()[1]
        second = ask(reading, tmp_path, "chatter").split()[1]
        assert first == second != str(os.getpid())
    with pytest.raises(ProcessLookupError):
        for _ in range(300):
            os.kill(int(first), 0)
            time.sleep(0.1)


def test_work_that_comes_in_steps_may_take_longer(naughty: Readers, tmp_path: Path) -> None:
    with FilePreparer(naughty, FileLimits(seconds=3)) as reading:
        ask(reading, tmp_path, "fine")
        assert ask(reading, tmp_path, "steps").startswith("steps")


def test_child_ends_by_itself_when_a_file_hangs_and_nobody_kills_it(naughty: Readers, tmp_path: Path) -> None:
    """As it would if its parent had died."""
    (tmp_path / "a.naughty").write_text("hang")
    settings = json.dumps({"limits": {"seconds": 0.1}, "readers": []})
    request = json.dumps({"reader": "naughty", "path": str(tmp_path / "a.naughty"), "id": "a"})
    command = [sys.executable, "-P", "-m", "surefind.engine.write.child", settings]
    done = subprocess.run(command, input=f"{request}\n".encode(), capture_output=True, timeout=300)
    assert done.returncode == -signal.SIGALRM


def test_documents_folder_is_no_place_to_import_from(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.write("json.py", "raise SystemExit('imported')")
    home.write("docs/a.json", '{"text": "alpha"}')
    monkeypatch.chdir(home.folder)
    assert home.sync("docs").problems == []


# ---------------------------------------------------------------- archives


def test_zip_bomb_by_ratio(reading: FilePreparer, tmp_path: Path) -> None:
    bomb = real_files.zipped({"a.txt": "0" * 2_000_000})
    assert len(bomb) < 10_000
    assert "like a zip bomb (max_ratio)" in refusal(reading, tmp_path / "a.zip", bomb)


def test_zip_bomb_by_total(reading: FilePreparer, tmp_path: Path) -> None:
    bomb = real_files.zipped({f"{i}.txt": "0123456789" * 100_000 for i in range(7)}, zipfile.ZIP_STORED)
    assert refusal(reading, tmp_path / "a.zip", bomb) == "unpacks to more than 6 MB (max_unpacked_mb)"


def test_zip_bomb_that_lies_about_its_sizes(reading: FilePreparer, tmp_path: Path) -> None:
    made = bytearray(real_files.zipped({"a.txt": "0123456789" * 1_000_000}))
    for mark, offset in ((b"PK\x01\x02", 24), (b"PK\x03\x04", 22)):
        at = made.index(mark) + offset
        made[at : at + 4] = struct.pack("<I", 100)
    path = tmp_path / "a.zip"
    path.write_bytes(bytes(made))
    taken = reading.read(reading.find("a.zip"), path, "a.zip")
    assert taken.documents == [] and "Bad CRC-32" in taken.complaints[0][1]


def test_zip_bomb_by_count(reading: FilePreparer, tmp_path: Path) -> None:
    bomb = real_files.zipped({f"{i}.txt": "x" for i in range(60)})
    assert refusal(reading, tmp_path / "a.zip", bomb) == "holds more than 50 files (max_members)"


def test_zip_bomb_by_nesting(reading: FilePreparer, tmp_path: Path) -> None:
    bomb = real_files.zipped({"a.txt": "deep"})
    for _ in range(4):
        bomb = real_files.zipped({"a.zip": bomb, "b.txt": "x"})
    assert refusal(reading, tmp_path / "a.zip", bomb) == "nests archives more than 2 deep (max_nesting)"


def test_zip_bomb_by_count_over_all_levels(reading: FilePreparer, tmp_path: Path) -> None:
    inner = real_files.zipped({f"{i}.txt": "x" for i in range(20)})
    bomb = real_files.zipped({f"{i}.zip": inner for i in range(20)})
    assert refusal(reading, tmp_path / "a.zip", bomb) == "holds more than 50 files (max_members)"


def test_archive_reads_its_members_and_names_those_it_cannot(home: Home) -> None:
    members = {
        "guide/a.md": "alpha words",
        "../../evil.md": "evil alpha",
        "/etc/evil.md": "evil alpha",
        "C:/evil.md": "evil alpha",
        "..\\evil.md": "evil alpha",
        ".hidden.md": "evil alpha",
        "broken.pdf": b"%PDF-1.7",
        "inner.zip": real_files.zipped({"b.txt": "alpha inside", "bad.json": "{"}),
        "picture.png": b"\x89PNG",
    }
    home.write("docs/a.zip", real_files.zipped(members))
    result = home.sync("docs")
    assert sorted(home.found("alpha")) == ["a.zip/guide/a.md", "a.zip/inner.zip/b.txt"]
    reasons = {problem.path: problem.reason for problem in result.problems}
    assert reasons.keys() == {
        *(f"a.zip/{name}" for name in ("../../evil.md", "/etc/evil.md", "C:/evil.md", "../evil.md", "broken.pdf")),
        "a.zip/inner.zip/bad.json",
    }
    assert reasons["a.zip/../../evil.md"] == "has a name that leads out of the archive"
    assert not list(home.folder.parent.rglob("evil.md"))
    assert home.sync().problems == result.problems  # remembered without reading again


def test_links_and_encrypted_members_of_an_archive_are_not_read(reading: FilePreparer, tmp_path: Path) -> None:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        link = zipfile.ZipInfo("link.md")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
        archive.writestr("a.md", "alpha")
    data = bytearray(made.getvalue())
    path = tmp_path / "a.zip"
    path.write_bytes(data)
    assert [d.id for d in reading.read(reading.find("a.zip"), path, "a.zip").documents] == ["a.zip/a.md"]
    for mark, offset in ((b"PK\x01\x02", 8), (b"PK\x03\x04", 6)):
        data[data.rindex(mark) + offset] |= 1
    path.write_bytes(data)
    assert reading.read(reading.find("a.zip"), path, "a.zip").complaints == [("a.md", "is encrypted")]


@each(
    ("name", "package", "part"),
    [
        ("a.docx", real_files.docx(real_files.handbook), "word/document.xml"),
        ("a.xlsx", real_files.xlsx({"a": [("x", "y")]}), "xl/worksheets/sheet1.xml"),
        ("a.pptx", real_files.pptx(), "ppt/slides/slide1.xml"),
    ],
)
def test_office_bombs(reading: FilePreparer, tmp_path: Path, name: str, package: bytes, part: str) -> None:
    bomb = real_files.swapped(package, part, LAUGHS)
    assert "declares XML entities" in refusal(reading, tmp_path / name, bomb)
    wide = real_files.swapped(package, part, LAUGHS.decode().encode("utf-16"))
    assert "declares XML entities" in refusal(reading, tmp_path / name, wide)
    blown = real_files.swapped(package, part, b"<x>" + b" " * 2_000_000 + b"</x>")
    assert "max_ratio" in refusal(reading, tmp_path / name, blown)


# ---------------------------------------------------------------- size, depth, links


def test_file_of_500_mb_is_skipped(home: Home) -> None:
    path = home.write("docs/huge.md", b"")
    os.truncate(path, 500_000_000)
    home.write("docs/a.md", "alpha")
    (problem,) = home.sync("docs").problems
    assert problem.reason == "is larger than 50 MB (max_file_mb): 500 MB"


def test_deeply_nested_json_and_html_are_refused_or_read(reading: FilePreparer, tmp_path: Path) -> None:
    assert refusal(reading, tmp_path / "a.json", b"[" * 100_000 + b"]" * 100_000) == "is nested too deeply to be read"
    assert refusal(reading, tmp_path / "a.html", b"<div>" * 5_000 + b"x") == "nests its tags more than 300 deep"
    deep = json.dumps({"a": 1})
    for _ in range(200):
        deep = f'{{"a": {deep}}}'
    (tmp_path / "b.json").write_text(deep)
    assert reading.read(reading.find("b.json"), tmp_path / "b.json", "b").documents


def test_text_with_characters_that_cannot_be_stored(home: Home) -> None:
    home.write(
        "docs/a.json", '{"id": "\\ud800", "title": "t\\u0000", "text": "al\\ud800pha \\u0000 beta", "x": "\\udfff"}'
    )
    assert home.sync("docs").problems == []
    assert home.found("beta") == ["a.json"]


def test_links_that_multiply_are_followed_once(tmp_path: Path) -> None:
    """Twelve folders, each with links to all others: 12! ways through them."""
    for i in range(12):
        folder = tmp_path / f"d{i}"
        folder.mkdir()
        (folder / "a.md").touch()
        for j in range(12):
            (folder / f"l{j}").symlink_to(tmp_path / f"d{j}")
    (tmp_path / "d0" / "self").symlink_to("self")
    assert [entry.relative for entry in scan(tmp_path)] == sorted(f"d{i}/a.md" for i in range(12))


def test_linked_folder_outside_is_read_once_under_its_first_name(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.md").touch()
    (outside / "back").symlink_to(tmp_path / "docs")
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "x").symlink_to(outside)
    (docs / "y").symlink_to(outside)
    assert [entry.relative for entry in scan(docs, FileRules(follow_links="anywhere"))] == ["x/a.md"]


def test_pipe_with_the_name_of_a_document_is_skipped(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.md")
    assert list(scan(tmp_path)) == []


@each("line", ["max_seconds = 0", "max_members = -1"])
def test_limits_must_be_above_zero(home: Home, line: str) -> None:
    home.configure(f"{WORDS}[sync]\n{line}\n")
    with pytest.raises(Exception, match=r"line 8: max_\w+ must be above 0"):
        home.open()
