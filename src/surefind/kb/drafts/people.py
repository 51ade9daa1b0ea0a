"""Who is who at the desk: nobody approves what they wrote, however their name is spelled."""

from __future__ import annotations

import re
import unicodedata

_GAPS = re.compile(r"[\s_.-]+")


def same_person(one: str, other: str) -> bool:
    """Returns whether two names mean the same person: case, accents, width, blanks and hyphens do not count. To take
    two people for one costs an approval by a third; to take one for two lets people approve their own drafts."""
    return _plain(one) == _plain(other)


def _plain(name: str) -> str:
    letters = unicodedata.normalize("NFKD", name).casefold()
    shown = "".join(letter for letter in letters if unicodedata.category(letter) not in ("Mn", "Cf", "Cc"))
    return _GAPS.sub(" ", shown).strip()
