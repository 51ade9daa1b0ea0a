"""Decides when two names are the same, and finds known names in text."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import lru_cache

from surefind.base.text.scripts import MARKS, spaced

_RUN = re.compile(rf"[^\W_]+(?:[{MARKS}]+[^\W_]*)*")
_POSSESSIVE = re.compile(r"['’]s\b|['’](?=\W|$)")
_BRACKET = re.compile(r"(?<!\s)\s*\([^)]{0,500}\)\s*$")
_ARTICLES = ("the", "a", "an")


@lru_cache(maxsize=1 << 17)
def key_of(name: str) -> str:
    """The key of a name: `The Rolling Stones'` and `ROLLING STONES` -> rolling stones. A lower-case phrase is also put
    into the singular."""
    words = _RUN.findall(_POSSESSIVE.sub("", name).casefold())
    while len(words) > 1 and words[0] in _ARTICLES:
        words = words[1:]
    if words and name.islower():
        words[-1] = _singular(words[-1])
    return " ".join(words)


def _singular(word: str) -> str:
    if len(word) < 4 or not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    return f"{word[:-3]}y" if word.endswith("ies") else word[:-1]


def title_forms(title: str) -> list[str]:
    """A title and its short form: `Rush (band)` is also called `Rush`."""
    short = _BRACKET.sub("", title)
    return list({key_of(form): form for form in (short, title) if key_of(form)}.values())


class Lexicon:
    """Finds names in running text by bisection in their sorted keys, without any other table."""

    def __init__(self, keys: Sequence[str]) -> None:
        self.keys = keys

    def find(self, text: str) -> Iterator[tuple[int, int, int]]:
        """Every run of words that is a known name: (first word, end, number of the name). Runs may overlap.

        A single word must be written like a name, with a capital or a digit, unless the whole text is in lower case.
        The last word of a longer run is looked up as written and in the singular; both may be found, so that one known
        name never hides another.
        """
        words = _RUN.findall(_POSSESSIVE.sub("", spaced(text)))
        lower = [word.casefold() for word in words]
        plain = lower == words
        for start, word in enumerate(lower):
            at, run, end = self._at(word), word, start + 1
            if self._is(at, word) and (plain or not words[start].islower()):
                yield start, end, at
            # In sorted order, longer keys that begin with this run come right after it. While there are any, extend it.
            while end < len(lower) and self._goes_on(run):
                last = lower[end]
                end += 1
                for form in sorted({f"{run} {last}", f"{run} {_singular(last)}"}):
                    at = self._at(form)
                    if self._is(at, form):
                        yield start, end, at
                run = f"{run} {last}"

    def _at(self, key: str) -> int:
        return bisect_left(self.keys, key)

    def _is(self, at: int, key: str) -> bool:
        return at < len(self.keys) and self.keys[at] == key

    def _goes_on(self, run: str) -> bool:
        at = self._at(f"{run} ")
        return at < len(self.keys) and self.keys[at].startswith(f"{run} ")
