"""Finds names in text by rules: citations, identifiers, acronyms, CamelCase, capitalised phrases in a sentence."""

from __future__ import annotations

import re
from collections.abc import Iterator

from surefind.base.text.scripts import HANGUL, UNSPACED, pattern

_CITE = r"\b\d+ (?:CFR|USC|U\.S\.C\.) (?:Part )?\d+(?:\.\d+)*(?:\([a-z0-9]{1,3}\))*"
_CODE = r"\b[A-Za-z]+(?:[-_*/.][A-Za-z0-9]+){0,40}[-_*/]?\d[\w-]*(?:\.\d+)*\b|\b[A-Z]{2,}\*[A-Z]+\b"
_ACRONYM = r"\b[A-Z][A-Z0-9]{2,9}\b"
_CAMEL = r"\b[A-Z][a-z0-9]+[A-Z][A-Za-z0-9]*\b"
_NAME = r"\b[A-Z][a-z]+(?: (?:of |and )?[A-Z][a-z]+\b){1,3}"
_INSIDE = re.compile(r"[a-z,;] $")
_TARGET = re.compile(r"\]\([^)\n]{0,500}\)|https?://\S+|<[^>\n]{1,500}>")
_ENTITY = re.compile("|".join((_CITE, _CODE, _ACRONYM, _CAMEL, _NAME)))
_NOISE = re.compile(r"^(?:[0-9a-f]{12,}|\d{4}-\d\d(?:-\d\d)?|https?.*|.*@.*|[A-Za-z]\d)$")


def named(text: str) -> Iterator[tuple[str, int]]:
    """Each name and its offset. Link targets and tags are ignored."""
    bare = _TARGET.sub(lambda m: " " * len(m.group()), text)  # same length: offsets stay
    if not bare.isascii():
        bare = pattern(f"[{UNSPACED}{HANGUL}]").sub(
            "\u3000", bare
        )  # so that `AML-204` ends in `AML-204の`, where another script begins
    for match in _ENTITY.finditer(bare):
        entity = match.group()
        # A capital at the start of a sentence or heading does not make a name.
        inside = _INSIDE.search(bare, max(0, match.start() - 2), match.start())
        if 3 < len(entity) <= 60 and (" " not in entity or entity[0].isdigit() or inside) and not _NOISE.match(entity):
            yield entity, match.start()
