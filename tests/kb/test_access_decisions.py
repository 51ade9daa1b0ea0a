"""The default of surefind.toml, the group `public`, and `surefind access`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cases import each
from helpers import WORDS, Home
from surefind import Access
from surefind.base.errors import ConfigError
from surefind.doors.cli import app
from surefind.kb.settings.config import parse_settings

ACCESS = """
[access]
default = {default}

[[access.rules]]
path = "pay/**"
groups = ["hr"]

[[access.rules]]
path = "open/**"
groups = ["public"]
"""


def configured(home: Home, default: str) -> None:
    home.configure(WORDS + ACCESS.format(default=default))


@pytest.fixture
def office(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    home.write("docs/plain.md", "salary")
    home.write("docs/board.md", "---\nacl: [board]\n---\nsalary")
    home.write("docs/everybody.md", "---\nacl: [public]\n---\nsalary")
    home.write("docs/pay/grades.csv", "name,salary\nAda,7\n")
    home.write("docs/pay/board.md", "---\nacl: [board, audit]\n---\nsalary")
    home.write("docs/open/a.md", "salary")
    configured(home, '["staff"]')
    home.sync("docs")
    return home


def seen(home: Home, *groups: str) -> set[str]:
    with home.open() as kb:
        return {document.id for document in kb.documents(Access.of(*groups))}


def test_default_restricts_documents_that_neither_a_list_nor_a_rule_covers(office: Home) -> None:
    everybody = {"everybody.md", "open/a.md"}
    assert seen(office) == everybody
    assert seen(office, "staff") == {*everybody, "plain.md"}
    assert seen(office, "hr") == {*everybody, "pay/grades.csv"}
    assert seen(office, "hr", "board") == {*everybody, "pay/grades.csv", "pay/board.md", "board.md"}


@pytest.mark.parametrize(("default", "readers"), [("[]", set()), ('["public"]', {"plain.md"})])
def test_default_may_close_or_open_the_rest(office: Home, default: str, readers: set[str]) -> None:
    configured(office, default)
    assert seen(office) == {"everybody.md", "open/a.md", *readers}
    assert len(seen(office, "*")) == 6


@each(
    ("written", "message"),
    [
        ('[access]\ndefault = "staff"\n', "default must be a list, not 'staff'"),
        ('[access]\ndefault = [" "]\n', "1 to 255 printable characters"),
        ('[access]\ndefautl = ["staff"]\n', "has no setting 'defautl'. Did you mean default?"),
        ('[access]\nrules = "hr"\n', "access rules are written as"),
        ('[[access.rules]]\npath = "hr/**"\n', "a rule needs a path and groups"),
        ('[[access.rules]]\npath = "hr/**"\ngroup = ["hr"]\n', "Did you mean groups?"),
    ],
)
def test_access_table_that_cannot_be_read_stops_every_command(written: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_settings(WORDS + written, "surefind.toml")
    assert message in str(caught.value)


def run(home: Home, *arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["access", *arguments, "--kb", str(home.folder)])
    return result.exit_code, result.output


def test_access_lists_who_may_read_what_and_why(office: Home) -> None:
    code, output = run(office)
    assert code == 0
    rows = {line.split()[0]: line.split(maxsplit=1)[1] for line in output.splitlines()}
    assert rows["plain.md"] == "staff  (default)"
    assert rows["board.md"] == "board  (acl)"
    assert rows["everybody.md"] == "everybody  (acl)"
    assert rows["pay/grades.csv"] == "hr  (pay/**)"
    assert rows["pay/board.md"] == "(audit or board) and hr  (acl and pay/**)"
    assert rows["open/a.md"] == "everybody  (open/**)"


def test_access_of_a_group_lists_what_a_search_of_the_group_can_find(office: Home) -> None:
    code, output = run(office, "--as", "hr", "--json")
    assert code == 0
    assert {row["document"] for row in json.loads(output)["documents"]} == seen(office, "hr")


def test_access_check_fails_on_a_document_without_a_decision(office: Home) -> None:
    assert run(office, "check")[0] == 0
    office.configure(WORDS)
    code, output = run(office, "check")
    assert code == 1
    assert "plain.md" in output and "board.md" not in output.replace("pay/board.md", "")
    assert "3 of 6 documents have no decision" in output


def test_access_refuses_an_unknown_action(office: Home) -> None:
    result = CliRunner().invoke(app, ["access", "chek", "--kb", str(office.folder)])
    assert result.exit_code != 0
    assert "There is no action 'chek'" in str(result.exception)
