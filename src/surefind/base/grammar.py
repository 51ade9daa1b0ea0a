"""The grammar of stage specs: `rrf(k=60)` <-> `("rrf", {"k": 60})`.

    spec  :=  name [ "(" key "=" value { "," key "=" value } ")" ]
    value :=  number | true | false | null | "text" | word | spec | "[" value { "," value } "]"

Formatting a parsed spec gives its canonical form; parsing and formatting that gives the same text again.
`surefind.base.spec` builds stages from specs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from surefind.base.errors import SpecError

Value = Any  # int | float | bool | None | str | tuple[Value, ...]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WORD = re.compile(r"[A-Za-z_./][A-Za-z0-9_./:@-]*")
_NUMBER = re.compile(r"[+-]?(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][+-]?\d++)?(?![\w.])")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_DEEPEST = 20
"""The most levels of nested values in a spec."""
_MAX_NUMBER_CHARS = 100
"""The most characters of a number in a spec."""
_CONSTANTS: dict[str, Value] = {"true": True, "false": False, "null": None}


class _Nested(str):
    """A spec inside a spec, known to be in canonical form, so that formatting need not parse it again."""


def parse_spec(text: str) -> tuple[str, dict[str, Value]]:
    """`rrf(k=60)` -> `("rrf", {"k": 60})`."""
    reader = _SpecParser(text)
    parsed = reader.spec()
    reader.end()
    return parsed


def format_spec(name: str, parameters: Iterable[tuple[str, Value]]) -> str:
    inside = ", ".join(f"{key}={format_value(value)}" for key, value in parameters)
    return f"{name}({inside})" if inside else name


def format_value(value: Value) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, tuple | list):
        return "[" + ", ".join(map(format_value, value)) + "]"
    if isinstance(value, _Nested):
        return str(value)
    return value if _reads_back_bare(value) else json.dumps(value, ensure_ascii=False)


def _reads_back_bare(value: str) -> bool:
    """Whether a string can be written without quotes: a plain word, or a spec in its canonical form."""
    try:
        reader = _SpecParser(value)
        parsed = reader.value()
        reader.end()
    except SpecError:
        return False
    return isinstance(parsed, str) and parsed == value


class _SpecParser:
    """Parses one spec from left to right; every error shows the text and the column."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.depth = 0

    def fail(self, expected: str) -> SpecError:
        next_character = repr(self.text[self.at]) if self.at < len(self.text) else "the end"
        return SpecError(
            f"Cannot read the spec {self.text!r}: expected {expected} at column {self.at + 1}, found {next_character}. "
            f"Write it like 'rrf(k=60)'."
        )

    def take(self, pattern: re.Pattern[str]) -> str | None:
        self.skip_space()
        match = pattern.match(self.text, self.at)
        if not match:
            return None
        self.at = match.end()
        return match.group()

    def skip_space(self) -> None:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1

    def peek(self) -> str:
        self.skip_space()
        return self.text[self.at : self.at + 1]

    def accept(self, char: str) -> bool:
        if self.peek() != char:
            return False
        self.at += 1
        return True

    def expect(self, char: str) -> None:
        if not self.accept(char):
            raise self.fail(repr(char))

    def end(self) -> None:
        if self.peek():
            raise self.fail("the end")

    def spec(self) -> tuple[str, dict[str, Value]]:
        name = self.take(_NAME)
        if name is None:
            raise self.fail("a stage name")
        parameters: dict[str, Value] = {}
        if self.accept("(") and not self.accept(")"):
            while True:
                key = self.take(_NAME)
                if key is None:
                    raise self.fail("a parameter name")
                if key in parameters:
                    raise SpecError(f"The spec {self.text!r} gives {key!r} twice. Keep one of them.")
                if self.peek() == "-":
                    raise self.fail("'=' (names are written with '_', not with '-')")
                self.expect("=")
                parameters[key] = self.value()
                if not self.accept(","):
                    break
            self.expect(")")
        return name, parameters

    def value(self) -> Value:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise SpecError(f"The spec {self.text[:60]!r}… is nested deeper than {_DEEPEST} levels.")
        try:
            return self.items() if self.accept("[") else self.simple_value()
        finally:
            self.depth -= 1

    def simple_value(self) -> Value:
        number = self.take(_NUMBER)
        if number is not None:
            return self.number(number)
        quoted = self.take(_STRING)
        if quoted is not None:
            try:
                return json.loads(quoted)
            except ValueError:
                raise SpecError(f"The spec {self.text!r} contains a string with a bad escape: {quoted}.") from None
        return self.word_or_spec()

    def number(self, text: str) -> int | float:
        value = float(text)
        if len(text) > _MAX_NUMBER_CHARS or value in (float("inf"), float("-inf")):
            raise SpecError(f"The number {text[:30]}… in a spec is too large.")
        return int(text) if re.fullmatch(r"[+-]?\d+", text) else value

    def items(self) -> tuple[Value, ...]:
        items: list[Value] = []
        if not self.accept("]"):
            while True:
                items.append(self.value())
                if not self.accept(","):
                    break
            self.expect("]")
        return tuple(items)

    def word_or_spec(self) -> Value:
        start = self.at
        word = self.take(_WORD)
        if word is None:
            raise self.fail("a value")
        if self.text[self.at : self.at + 1] == "(":
            self.at = start
            name, parameters = self.spec()
            return _Nested(format_spec(name, parameters.items()))
        return _CONSTANTS.get(word, word)


def split_outside(text: str, separator: str) -> list[str]:
    """Splits at separators outside parentheses, brackets and quotes."""
    parts: list[str] = []
    depth, start = 0, 0
    for match in re.finditer(rf'"(?:[^"\\]|\\.)*"|[()\[\]]|{re.escape(separator)}', text):
        token = match.group()
        if token in "([":
            depth += 1
        elif token in ")]":
            depth -= 1
        elif token == separator and depth == 0:
            parts.append(text[start : match.start()].strip())
            start = match.end()
    return [*parts, text[start:].strip()]
