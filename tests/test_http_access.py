"""Who may read what through the server: drafts, earlier generations and access rules that changed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from helpers import Home
from surefind.kb import KnowledgeBase
from surefind.serve.auth.keys import Keys
from surefind.serve.http.app import create_app

PEOPLE: dict[str, tuple[list[str], list[str]]] = {
    "ada": (["read", "write", "review"], []),
    "bob": (["read", "write", "review"], []),
    "writer": (["read", "write"], []),
    "hr": (["read", "write", "review"], ["hr"]),
    "boss": (["admin"], ["*"]),
}
"""Callers by name: their scopes and groups."""
PAY = "---\nacl: [hr]\n---\n# Pay\n\nThe zebra is 9,000.\n"


class Bank:
    """A knowledge base with a public and a restricted document, and a server of it in this process."""

    def __init__(self, home: Home, kb: KnowledgeBase, client: TestClient, keys: dict[str, str]) -> None:
        self.home, self.kb, self.client, self._keys = home, kb, client, keys

    def ask(self, name: str, method: str, path: str, **more: Any) -> Any:
        """Returns the answer to a request of this caller."""
        headers = {"Authorization": f"Bearer {self._keys[name]}", **more.pop("headers", {})}
        return self.client.request(method, path, headers=headers, follow_redirects=False, **more)

    def upload(self, name: str, document: str, text: str) -> int:
        made = self.ask(name, "POST", f"/v1/documents?name=new.md&document={document}", content=text.encode())
        assert made.status_code == 201, made.text
        return int(made.json()["number"])

    def save(self, name: str, number: int, edited: int, text: str) -> None:
        saved = self.ask(name, "PUT", f"/v1/drafts/{number}", content=text.encode(), headers={"If-Match": str(edited)})
        assert saved.status_code == 200, saved.text

    def publish(self, number: int) -> None:
        with self.home.open() as kb:
            kb.publish(number)
        self.kb.refresh()

    def sync(self) -> None:
        self.home.sync("docs")
        self.kb.refresh()


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    home.write("docs/wires.md", "# Wires\n\nThe cutoff of wires is 3 pm.\n")
    home.write("docs/hr/pay.md", PAY)
    home.sync("docs")
    return home


@pytest.fixture
def bank(home: Home) -> Iterator[Bank]:
    with serving(home) as found:
        yield found


@contextlib.contextmanager
def serving(home: Home) -> Iterator[Bank]:
    with home.open() as kb:
        keys = {name: Keys(kb.data).create(name, *given)[1] for name, given in PEOPLE.items()}
        with TestClient(create_app(kb)) as client:
            yield Bank(home, kb, client, keys)


# ---------------------------------------------------------------- drafts


def test_errors_do_not_list_the_drafts_of_others(bank: Bank) -> None:
    hidden = bank.upload("hr", "hr/layoffs.md", "---\nacl: [hr]\n---\nThe plan.\n")
    gone = bank.upload("writer", "idea.md", "An idea.\n")
    assert bank.ask("writer", "POST", f"/v1/drafts/{gone}/discard").status_code == 200
    for what in ("submit", "discard", "rebase"):
        answer = bank.ask("writer", "POST", f"/v1/drafts/{gone}/{what}")
        assert answer.status_code == 400 and "not a draft" in answer.text
        assert "layoffs" not in answer.text and str(hidden) not in answer.json()["detail"]
