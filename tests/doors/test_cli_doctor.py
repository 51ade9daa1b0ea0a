"""What the doctor says of a check, and what it exits with."""

from __future__ import annotations

import re
import shutil
from collections import namedtuple

import pytest

from exam_helpers import surefind
from helpers import Home
from surefind.doors.cli import doctor

GERMAN = (
    "Die Bank öffnet um neun Uhr, und der Kassierer zählt das Geld zweimal, bevor der Tresor geöffnet wird. "
    "Jeder Mitarbeiter muss wissen, wie man eine Überweisung prüft und wann sie nicht ausgeführt werden darf. "
)


@pytest.fixture(autouse=True)
def no_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bundled models have tests of their own, and take seconds."""
    monkeypatch.setattr(doctor, "_encode", lambda name: "not asked")
    monkeypatch.setattr(doctor, "_rerank", lambda name: "not asked")


def test_a_warning_is_not_called_ok_and_exits_0(home: Home) -> None:
    """The bundled encoder is for English."""
    for number in range(5):
        home.write(f"docs/{number}.md", f"# Handbuch {number}\n\n{GERMAN * 5}")
    home.configure('[search]\npipeline = "both"\n[pipelines.both]\nretrieve = ["bm25", "dense"]\n')
    home.sync("docs")
    ran = surefind("doctor", kb=home.folder)
    assert ran.code == 0
    assert re.search(r"(?m)^warning  language +\d+% of .* passages are in other languages than English", ran.out)
    assert ", 1 warning, 0 failed." in ran.out


def test_little_room_on_the_disk_is_a_warning(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**12, 10**12, 10**8))
    found = surefind("doctor", "--json", kb=home.folder).json
    assert [(check["name"], check["status"]) for check in found["checks"] if check["status"] != "ok"] == [
        ("disk", "warning")
    ]


def test_what_is_said_stands_in_one_column(home: Home) -> None:
    home.configure("[serch]\n")
    ran = surefind("doctor", kb=home.folder)
    rows = ran.out.partition("\n\n")[0].splitlines()
    assert ran.code == 1 and {row[:9] for row in rows} == {"ok       ", "failed   "}
    assert re.search(r"\d+ checks: \d+ ok, 0 warning, [1-9] failed\.", ran.out)


def test_a_folder_without_a_knowledge_base_is_told_how_to_make_one(home: Home) -> None:
    ran = surefind("doctor", kb=home.folder)
    assert ran.code == 0
    assert re.search(r"(?m)^ok       knowledge base +There is no knowledge base in .* surefind sync FOLDER", ran.out)
