"""What a preview computes, it computes with the rights of the caller who sees it, and checks them on what it reads."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from exam_helpers import surefind
from helpers import WORDS, Home
from surefind import Access
from surefind.lab.bench.gate import preview
from test_http_access import Bank, serving

SECRETS = [f"{word}{n}" for n in range(11) for word in ("salary", "merger")]
"""Words, of which restricted documents have every second one."""
HELD, FREE = SECRETS[::2], SECRETS[1::2]
ISOLATED = '\n[access]\nisolation = "statistics"\n'


@pytest.fixture(params=["", ISOLATED], ids=["shared statistics", "isolated statistics"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Home:
    """Public documents with a standing exam about them, and restricted ones with secret words."""
    home = Home(tmp_path, WORDS + request.param)
    asked = ["question,document"]
    for n in range(6):
        home.write(f"docs/desk{n}.md", f"# Desk {n}\n\nThe desk{n} opens the ledger at {n} am.\n")
        asked.append(f"when does desk{n} open the ledger?,desk{n}.md")
    for word in SECRETS:
        asked += [f"{word} desk ledger,desk0.md", f"{word} rate,desk0.md"]
    for n in range(2):  # which of the two words is rarer decides the rank of desk0.md
        home.write(f"docs/rate{n}.md", f"# Desk {n}\n\nThe rate{n} opens. rate\n")
    for n, word in enumerate(HELD):
        for copy in range(5):
            text = f"---\nacl: [hr]\n---\n# Desk ledger {word}\n\n{f'The {word} of the desk ledger. ' * 3}\n"
            home.write(f"docs/hr/{n}-{copy}.md", text)
    home.write("asked.csv", "\n".join(asked) + "\n")
    home.sync("docs")
    assert surefind("exam", "import", home.folder / "asked.csv", "--name", "staff", kb=home.folder).code == 0
    return home


@pytest.fixture
def bank(home: Home) -> Iterator[Bank]:
    with serving(home) as found:
        yield found


def _effect(bank: Bank, who: str, text: str) -> dict[str, Any]:
    number = bank.upload(who, "desk0.md", text)
    found: dict[str, Any] = bank.ask(who, "GET", f"/v1/drafts/{number}/preview").json()["questions"]
    page = bank.ask(who, "GET", f"/drafts/{number}/questions").text
    assert bank.ask(who, "POST", f"/v1/drafts/{number}/discard").status_code == 200
    assert not found["reason"], found
    return {**found, "page": page.replace(f"/drafts/{number}", "")}


def test_reviewer_learns_no_word_of_a_restricted_document(bank: Bank, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The same previews as on a server that has only the public documents."""
    alone = Home(tmp_path_factory.mktemp("alone"), (bank.home.folder / "surefind.toml").read_text())
    for path in bank.home.docs.glob("*.md"):
        alone.write(f"docs/{path.name}", path.read_text())
    alone.sync("docs")
    assert surefind("exam", "import", bank.home.folder / "asked.csv", "--name", "staff", kb=alone.folder).code == 0
    with serving(alone) as other:
        for word in (*HELD[:3], *FREE[:3]):
            text = f"# Desk 0\n\nThe desk0 opens. {word}\n"
            seen, expected = _effect(bank, "ada", text), _effect(other, "ada", text)
            assert json.dumps(seen) == json.dumps(expected), word


def test_who_may_read_the_documents_sees_their_effect(bank: Bank) -> None:
    text = f"# Desk 0\n\nThe desk0 opens. {HELD[0]}\n"
    assert _effect(bank, "boss", text)["before"] != _effect(bank, "ada", text)["before"]
    again = _effect(bank, "boss", text)["before"]
    assert again == _effect(bank, "hr", text)["before"], "who may read all that there is"


# ---------------------------------------------------------------- rights that change meanwhile


def _restricting(bank: Bank, done: list[int]) -> Callable[[], None]:
    """Restricts desk1.md, once, in another process's way: by a sync."""

    def act() -> None:
        if not done:
            done.append(1)
            bank.home.write("docs/desk1.md", "---\nacl: [hr]\n---\n# Desk 1\n\nThe zebra is new.\n", age=30)
            bank.home.sync("docs")

    return act


@pytest.mark.parametrize("path", ["/v1/drafts/{}/preview", "/drafts/{}/chunks", "/v1/drafts/{}", "/drafts/{}"])
@pytest.mark.parametrize("moment", ["revision", "chunks_of", "_published"])
def test_text_that_is_restricted_while_it_is_read_is_not_shown(
    bank: Bank, monkeypatch: pytest.MonkeyPatch, path: str, moment: str
) -> None:
    number = bank.upload("ada", "desk1.md", "# Desk 1\n\nThe okapi of the draft.\n")
    done: list[int] = []
    act = _restricting(bank, done)
    owner: Any = bank.service.kb.drafts.store if moment == "revision" else bank.service.kb.drafts
    real = getattr(owner, moment)

    def late(*given: Any, **more: Any) -> Any:
        act()
        return real(*given, **more)

    assert bank.ask("bob", "GET", path.format(number)).status_code == 200
    monkeypatch.setattr(owner, moment, late)
    answer = bank.ask("bob", "GET", path.format(number))
    assert "zebra" not in answer.text
    if done and moment != "_published":
        assert answer.status_code == 404 and "okapi" not in answer.text


def test_preview_is_about_the_revision_that_the_caller_may_see(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    number = bank.upload("ada", "desk1.md", "# Desk 1\n\nThe okapi of the draft.\n")
    kb = bank.service.kb
    real = kb.drafts.trial

    def late(*given: Any, **more: Any) -> Any:
        bank.save("ada", number, 1, "---\nacl: [hr]\n---\n# Desk 1\n\nThe zebra of the desk1 opens the ledger.\n")
        return real(*given, **more)

    monkeypatch.setattr(kb.drafts, "trial", late)
    answer = bank.ask("bob", "GET", f"/v1/drafts/{number}/preview")
    found = answer.json().get("questions", {"asked": 0})
    assert found["asked"] == 0, "the newer revision is not for bob"


def test_backend_that_weighs_words_by_all_documents_asks_only_for_who_may_read_all(bank: Bank) -> None:
    number = bank.upload("ada", "desk0.md", "# Desk 0\n\nThe desk0 opens the ledger at noon.\n")
    settings = bank.kb.settings
    bank.kb.use(replace(settings, store=replace(settings.store, backend="milvus")))
    found = preview(bank.kb, number, Access.of("sales"))
    assert found.drift is None and "weighs words by all documents" in found.reason
    bank.kb.use(settings)
    assert preview(bank.kb, number, Access.of("sales")).drift is not None
