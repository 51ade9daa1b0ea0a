"""Edits a draft in a process of its own. It imports little, because it is started many times."""

from __future__ import annotations

from pathlib import Path

from surefind.base.errors import ConflictError
from surefind.kb.drafts.store import Content, DraftStore
from surefind.kb.drafts.values import Base


def content(text: str, name: str = "fees.md") -> Content:
    return Content(name, text.encode(), text, "Fees", (), len(text))


def edit(data: Path, number: int, name: str, times: int) -> None:
    """Saves `times` texts, each on the newest revision, again and again until it is taken."""
    store = DraftStore(data)
    for count in range(times):
        while True:
            newest = store.revision(number)
            try:
                store.save(number, newest.number, content(f"{newest.data.decode()} {name}{count}"), name)
                break
            except ConflictError:
                continue
        store.add(f"{name}.md", content(f"{name}{count}"), name, Base())
    store.close()
