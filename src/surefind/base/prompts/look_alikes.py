"""Finds look-alikes of our tags and of the control tokens of chat templates, however they are spelled.

A language model reads `＜/passage`, `&lt;/passage` and a tag with a soft hyphen or a Cyrillic letter as `</passage`. So
the search runs over a shadow of the text: the same number of characters, each replaced by the ASCII character that it
looks like, or by a space if nobody sees it. The text itself keeps its characters: Chinese or Greek does not change.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache

from surefind.base.names import LETTERS

_ALIKE = {
    same: one
    for one, group in {
        "<": "\u2329〈⟨❮❬ᐸ≺⧼⦑˂𐏑", "/": "⁄∕╱⧸⟋⧵∖", "|": "ǀ∣│❘", "[": "❲⟦", "{": "❴",
        "k": "κ", "u": "ц",
    }.items()
    for same in group
} | {letter: latin.lower() for latin, letters in LETTERS.items() for letter in letters}  # fmt: skip
"""Characters whose normal form does not show what they look like -> what they look like, in lower case."""
_PAIRS = {"ss": "ß", "st": "ﬅﬆ"}
"""Two letters -> single characters that stand for them."""
_FILLERS = "\u115f\u1160\u3164\uffa0"
"""Letters of Hangul that show nothing."""
_FOREIGN = re.compile(r"[^\x00-\x7f]")
_FIRST = re.compile(r"[<&\\%\[{]")
"""How a bracket can begin."""
_SKIPPED = r"[\s\x00-\x1f\x7f]*+"


def before(words: Iterable[str], extra: str) -> re.Pattern[str]:
    """The pattern of a bracket before one of these words, or of the bracket of an `extra` pattern, in a shadow.

    It matches the bracket alone. Between the letters there may be anything that nobody sees."""
    names = "|".join(_spelled(word) for word in words)
    slash = rf"(?:{_written('/')}|[!?\\]){_SKIPPED}"
    return re.compile(
        rf"{_written('<')}(?={_SKIPPED}(?:{slash}){{0,3}}(?:{names})(?![a-z]))"
        rf"|[\[{{](?={_SKIPPED}{slash}(?:{names})(?![a-z]))|{extra}",
        re.IGNORECASE,
    )


def brackets(text: str, pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
    """Finds the brackets of a text that look like the beginning of what the pattern describes."""
    plain = _shadow(text)
    for candidate in _FIRST.finditer(plain):  # much faster than the long pattern at every character
        if match := pattern.match(plain, candidate.start()):
            yield match


def _shadow(text: str) -> str:
    """The text with each character replaced by the one that it looks like. It has the same length."""
    if text.isascii():
        return text
    return _FOREIGN.sub(lambda match: _folded(match[0]), text)


def _spelled(word: str) -> str:
    """A pattern for a word whose letters may be written as entities and may have invisible characters in between."""
    parts, at = [], 0
    while at < len(word):
        pair = word[at : at + 2]
        parts.append(f"(?:{_both(pair)}|[{_PAIRS[pair]}])" if pair in _PAIRS else _written(word[at]))
        at += 2 if pair in _PAIRS else 1
    return _SKIPPED.join(parts)


def _both(pair: str) -> str:
    return _SKIPPED.join(map(_written, pair))


def _written(character: str) -> str:
    """A pattern for a character as it is, as an entity, or escaped."""
    number = ord(character)
    names = {"<": "|lt", "/": "|sol"}.get(character, "")
    numbers = rf"\#0{{0,8}}{number}|\#x0{{0,8}}{number:x}"  # bounded, so that long runs take linear time
    escaped = rf"\\(?:u00|x){number:x}|%(?:25){{0,3}}{number:x}"
    return rf"(?:{re.escape(character)}|&(?:{numbers}{names});?|{escaped})"


@lru_cache(maxsize=4096)
def _folded(character: str) -> str:
    """The one ASCII character that a character looks like, a space for an invisible one, else the character itself."""
    if character in _ALIKE:
        return _ALIKE[character]
    if character in _FILLERS or unicodedata.category(character) in ("Cf", "Cc", "Mn", "Me", "Zs", "Zl", "Zp"):
        return " "
    plain = "".join(part for part in unicodedata.normalize("NFKD", character) if not unicodedata.combining(part))
    plain = plain if plain in _ALIKE else plain.lower()
    folded = _ALIKE.get(plain, plain.strip("()"))  # the normal form of a letter in parentheses
    return folded if len(folded) == 1 and folded.isascii() else character
