"""Matches paths against a pattern with wildcards.

    Wildcards("hr/**/*.md").cover("hr/pay/may/a.md")    True

`*` matches anything within one folder, `?` one character of a name, `**` anything, and `**/` any folders or none.

A regular expression matches ordinary patterns and paths, because it is fast. With several wildcards it tries all ways
to share a path among them, which can take for ever. So for many wildcards, or a very long path, all ways are followed
at the same time: a state is the set of places in the pattern that the characters so far can lead to. States are made
when they are first needed. Then the time grows with the length of the path alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_PARTS = re.compile(r"(\*\*/|\*\*|\*|\?)")
_MAX_REGEX_WILDCARDS = 2
"""Wildcards up to which the regular expression is used: its time then grows at most with the square of the path."""
_MAX_REGEX_CHARS = 1000
"""Characters of a path up to which the regular expression is used."""
_MAX_STATES = 10_000
"""States that are kept."""
_EXPRESSIONS = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}

_Token = tuple[str, str]
_ANY, _NAME, _ONE, _SKIP, _CHARACTER = "any", "name", "one", "skip", "character"
_OPTIONAL_FOLDERS: list[_Token] = [(_SKIP, ""), (_ANY, ""), (_CHARACTER, "/")]
_REST: list[_Token] = [(_SKIP, ""), (_CHARACTER, "/"), (_ANY, "")]
"""What may follow the pattern: everything below a folder that matches it."""
_TOKENS: dict[str, list[_Token]] = {
    "**/": _OPTIONAL_FOLDERS, "**": [(_ANY, "")], "*": [(_NAME, "")], "?": [(_ONE, "")],
}  # fmt: skip


class _MatchState(dict[str, "_MatchState"]):
    """A set of places in the pattern, and the state after each character that was met there."""

    def __init__(self, pattern: Wildcards, places: frozenset[int]) -> None:
        super().__init__()
        self.pattern = pattern
        self.places = places

    def __missing__(self, character: str) -> _MatchState:
        state = self[character] = self.pattern.after(self.places, character)
        return state


class Wildcards:
    """A pattern with wildcards."""

    def __init__(self, pattern: str) -> None:
        parts = _PARTS.split(pattern)
        expression = "".join(_EXPRESSIONS.get(part) or re.escape(part) for part in parts)
        self._expression = re.compile(f"(?:{expression})(?:/.*)?", re.DOTALL)
        self._has_few = sum(part.startswith("*") for part in parts) <= _MAX_REGEX_WILDCARDS
        tokens = [
            token for part in parts for token in _TOKENS.get(part) or [(_CHARACTER, character) for character in part]
        ]
        self._tokens = [*tokens, *_REST]
        self._states: dict[frozenset[int], _MatchState] = {}

    def cover(self, path: str) -> bool:
        """Returns whether a path matches the pattern, or lies in a folder that does."""
        if self._has_few and len(path) <= _MAX_REGEX_CHARS:
            return self._expression.fullmatch(path) is not None
        return self.cover_in_linear_time(path)

    def cover_in_linear_time(self, path: str) -> bool:
        """Does what `cover` does, for any pattern and path."""
        state = self._state([0])
        for character in path:
            state = state[character]
        return len(self._tokens) in state.places

    def after(self, places: frozenset[int], character: str) -> _MatchState:
        """Returns the state that a character leads to."""
        return self._state(place for at in places for place in self._next(at, character))

    def _next(self, at: int, character: str) -> tuple[int, ...]:
        if at == len(self._tokens):
            return ()
        kind, wanted = self._tokens[at]
        if kind == _ANY or (kind == _NAME and character != "/"):
            return (at,)
        fits = character == wanted if kind == _CHARACTER else kind == _ONE and character != "/"
        return (at + 1,) if fits else ()

    def _state(self, places: Iterable[int]) -> _MatchState:
        whole, waiting = set[int](), list(places)
        while waiting:
            at = waiting.pop()
            if at not in whole:
                whole.add(at)
                waiting += self._without_character(at)
        key = frozenset(whole)
        if key not in self._states:
            if len(self._states) >= _MAX_STATES:
                self._states.clear()
            self._states[key] = _MatchState(self, key)
        return self._states[key]

    def _without_character(self, at: int) -> list[int]:
        """The places that are reached from a place without a character of the path."""
        kind = self._tokens[at][0] if at < len(self._tokens) else ""
        if kind == _SKIP:
            return [at + 1, at + 3]
        return [at + 1] if kind in (_ANY, _NAME) else []
