"""A store with every kind of row, and all that can be read from it, for the tests of damage."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from drafts_editor import content
from surefind.base.errors import DamagedError, StoreError
from surefind.kb.drafts import review
from surefind.kb.drafts.store import DraftStore
from surefind.kb.drafts.values import Base

DRAFTS = 24


def fill(store: DraftStore, drafts: int = DRAFTS) -> None:
    """Makes drafts in every state, with revisions, comments, approvals and events."""
    for at in range(1, drafts + 1):
        text = "\n".join(f"Line {line} of draft {at} says that a wire costs {at * line}." for line in range(20))
        number = store.add(
            f"docs/{at}.md", content(text), f"author {at % 5}", Base(at, "c" * 64, f"Before {at}.")
        ).number
        store.save(number, 1, content(f"{text}\nMore."), f"author {(at + 1) % 5}")
        first = review.comment(store, number, 2, 3, "bob", f"Is {at} right?")
        review.comment(store, number, 2, 3, "ada", f"Yes, {at} is.", reply_to=first.number)
        review.resolve(store, number, first.number, "bob")
        store.set_state(number, "in review", "ada", "submitted")
        review.approve(store, number, 2, f"reviewer {at % 3}")
        if at % 3 == 0:
            store.published(number, 2, Base(100 + at, "d" * 64, "Now."), at, "ada")
        elif at % 3 == 1:
            store.set_state(number, "draft" if at % 2 else "discarded", "ada", "changed its state")


READS: dict[str, Callable[[DraftStore], Any]] = {
    "texts": lambda store: [store.revision(at, number).text for at in range(1, DRAFTS + 1) for number in (1, 2)],
    "files": lambda store: [store.revision(at, number).data for at in range(1, DRAFTS + 1) for number in (1, 2)],
    "access": lambda store: [store.revision(at, 2).acl for at in range(1, DRAFTS + 1)],
    "authors": lambda store: [store.revision(at, 2).author for at in range(1, DRAFTS + 1)],
}
"""What has a checksum: the revisions. Titles, states and comments have none."""


def read_all(data: Path) -> dict[str, str]:
    """What each read returns, each from a store that was just opened; "damaged" if it says so."""
    found = {}
    for name, read in READS.items():
        store = DraftStore(data)
        try:
            found[name] = repr(read(store))
        except DamagedError as error:
            found[name] = "damaged"
            assert "drafts.db" in str(error) and "Restore" in str(error), error
        except StoreError:  # the number of the format has changed
            found[name] = "damaged"
        finally:
            store.close()
    return found


def damage(whole: bytes, chance: random.Random) -> bytes:
    """Flips a bit; sometimes changes some bytes, a page, or cuts the end off."""
    at, how = chance.randrange(len(whole)), chance.random()
    if how < 0.05:
        return whole[:at]
    if how < 0.1:
        return whole[: at // 4096 * 4096] + bytes(4096) + whole[at // 4096 * 4096 + 4096 :]
    if how < 0.8:
        return whole[:at] + bytes([whole[at] ^ 1 << chance.randrange(8)]) + whole[at + 1 :]
    return (whole[:at] + chance.randbytes(8) + whole[at + 8 :])[: len(whole)]
