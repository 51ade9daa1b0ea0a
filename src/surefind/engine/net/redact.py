"""Removes a key from what a server sends back.

A server may repeat the request in its answer, and answers are stored. The key is found as it is, with escaped
characters (JSON, URL, HTML), and in base64. A server that wants to hide it in another way has it already.
"""

from __future__ import annotations

import base64
import re
from functools import lru_cache
from typing import Any

SHORTEST = 8
"""Fewest characters of a real key. Shorter ones are placeholders for servers that want any key ("none"), and may be
words of an answer."""
_INSTEAD = "[key]"


def without(key: str, text: str) -> str:
    """The text without the key."""
    return _spellings(key).sub(_INSTEAD, text) if len(key) >= SHORTEST else text


def without_in(key: str, value: Any) -> Any:
    """Decoded JSON whose strings do not contain the key."""
    if len(key) < SHORTEST:
        return value
    if isinstance(value, str):
        return without(key, value)
    if isinstance(value, list):
        # Vectors are long lists of numbers, so a number costs no call.
        return [item if isinstance(item, float) else without_in(key, item) for item in value]
    if isinstance(value, dict):
        return {without(key, name): without_in(key, item) for name, item in value.items()}
    return value


@lru_cache(maxsize=16)
def _spellings(key: str) -> re.Pattern[str]:
    escaped = "".join(map(_character, key))
    encoded = [re.escape(part) for part in _base64_parts(key.encode())]
    return re.compile("|".join([escaped, *encoded]))


def _character(character: str) -> str:
    """A pattern for a character of the key, as it is or escaped."""
    number = ord(character)
    digits = "".join(f"[{digit}{digit.upper()}]" if digit.isalpha() else digit for digit in f"{number:02x}")
    entity = rf"&#0{{0,8}}{number};|&#[xX]0{{0,8}}{digits};"
    return rf"(?:\\{{0,8}}{re.escape(character)}|\\{{1,8}}(?:u00|x){digits}|%(?:25){{0,3}}{digits}|{entity})"


def _base64_parts(key: bytes) -> list[str]:
    """What base64 makes of the key after 0, 1 or 2 other bytes, without the characters that also depend on others."""
    made = []
    for before in range(3):
        text = base64.b64encode(b"\0" * before + key).decode().rstrip("=")
        first = (0, 2, 3)[before]
        last = len(text) - (1 if (before + len(key)) % 3 else 0)
        made += [text[first:last], text[first:last].translate(str.maketrans("+/", "-_"))]
    return list(dict.fromkeys(made))
