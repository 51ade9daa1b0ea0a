"""What the fuzzer runs: a target makes a case from a random number and tries a function on it.

Odd inputs are made from real ones: `mutated("a: [b]", ["[", "]"], chance)` -> `a: [[[[b]`. Most inputs are a real one
with up to six changes. One in twelve is a row of the format's own tokens.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from surefind.base.errors import SurefindError

LONGEST = 20_000
"""Most characters of a made input."""
ODD = [
    "\0",
    "\x07",
    "\x1b[31m",
    "\x7f",
    "\x85",
    "\u00a0",
    "\u00ad",
    "\u0130",
    "ß",
    "\u0301" * 40,
    "\u200b",
    "\u200d",
    "\u202e",
    "\u2028",
    "\ufeff",
    "\uffff",
    "\ud800",
    "\udc80",
    "\udfff",
    "\U0001f469\u200d\U0001f680",
    "\U0010ffff",
    "ﬃ",
    "가",
    "İ",
    "\r",
    "\n",
    "\r\n",
    "\t",
    " ",
    "\\",
    '"',
    "'",
    "`",
    "%",
    "%00",
    "$",
    "&",
    "&amp;",
    "../",
    "/",
    "~",
    "*",
    "**/",
    "(?",
    "{",
    "}",
]
NUMBERS = [
    "0",
    "-0",
    "-1",
    "1e999",
    "-1e999",
    "1e-400",
    "NaN",
    "Infinity",
    "9" * 19,
    "9" * 400,
    "9" * 5000,
    "0x10",
    "1_000",
    "2147483648",
    "18446744073709551616",
    "0.1.2",
    "٣",
    "²",
    "½",
    ".",
    "1e",
    "true",
    "null",
]
_NUMBER = re.compile(r"\d+")
_PAIRS = [
    ("[", "]"),
    ("(", ")"),
    ("{", "}"),
    ('{"a":', "}"),
    ("<div>", "</div>"),
    ("- ", ""),
    ("> ", ""),
    ("a.", ""),
    ("x(y=", ")"),
]


def mutated(text: str, tokens: Sequence[str], chance: random.Random, others: Sequence[str] = ()) -> str:
    """Returns a text with some random changes. `others` are texts from which parts are taken."""
    if chance.random() < 1 / 12:
        words = [*tokens, *chance.sample(ODD, 3), *chance.sample(NUMBERS, 2)]
        return "".join(chance.choices(words, k=chance.choice((1, 3, 10, 60))))[:LONGEST]
    for _ in range(chance.choice((1, 1, 1, 2, 2, 3, 6))):
        text = chance.choice(_CHANGES)(text, tokens, others, chance)[:LONGEST]
    return text


def mutated_bytes(data: bytes, chance: random.Random) -> bytes:
    """Returns bytes with some random changes."""
    made = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 4, 16))):
        at = chance.randrange(len(made) + 1)
        kind = chance.random()
        if kind < 0.5 and at < len(made):
            made[at] = chance.choice((made[at] ^ (1 << chance.randrange(8)), 0, 0xFF, chance.randrange(256)))
        elif kind < 0.7:
            del made[at : at + chance.choice((1, 4, 64, 1024))]
        elif kind < 0.9:
            made[at:at] = chance.randbytes(chance.choice((1, 2, 8, 64)))
        else:
            other = chance.randrange(len(made) + 1)
            made[at:at] = made[other : other + chance.choice((4, 64, 512))]
    return bytes(made[: 10 * LONGEST])


def _span(text: str, chance: random.Random) -> tuple[int, int]:
    start = chance.randrange(len(text) + 1)
    return start, min(len(text), start + chance.choice((1, 2, 5, 20, 100, 1000)))


def _insert(text: str, tokens: Sequence[str], others: Sequence[str], chance: random.Random) -> str:
    at = chance.randrange(len(text) + 1)
    words = tokens if tokens and chance.random() < 0.6 else ODD
    return text[:at] + chance.choice(words) + text[at:]


def _replace(text: str, tokens: Sequence[str], others: Sequence[str], chance: random.Random) -> str:
    start, end = _span(text, chance)
    words = tokens if tokens and chance.random() < 0.6 else ODD
    return text[:start] + chance.choice(words) + text[end:]


def _remove(text: str, tokens: Sequence[str], others: Sequence[str], chance: random.Random) -> str:
    start, end = _span(text, chance)
    return text[:start] + text[end:]


def _repeat(text: str, tokens: Sequence[str], others: Sequence[str], chance: random.Random) -> str:
    start, end = _span(text, chance)
    times = min(chance.choice((2, 2, 3, 3, 10, 10, 100, 3000)), LONGEST // (end - start + 1))
    return text[:start] + text[start:end] * times + text[end:]


def _repeat_token(text: str, tokens: Sequence[str], others: Sequence[str], chance: random.Random) -> str:
    at, token = chance.randrange(len(text) + 1), chance.choice(tokens or ODD)
    return text[:at] + token * min(chance.choice((3, 5, 5, 20, 50, 50, 300, 8000)), LONGEST // len(token)) + text[at:]


def _swap(text: str, tokens: Sequence[str], others: Sequence[str], chance: random.Random) -> str:
    (a, b), (c, d) = sorted((_span(text, chance), _span(text, chance)))
    return text if b > c else text[:a] + text[c:d] + text[b:c] + text[a:b] + text[d:]


def _nest(text: str, tokens: Sequence[str], others: Sequence[str], chance: random.Random) -> str:
    start, end = _span(text, chance)
    first, last = chance.choice(_PAIRS)
    depth = min(chance.choice((2, 3, 5, 21, 21, 60, 200, 2000)), LONGEST // (len(first) + len(last)) // 2)
    return text[:start] + first * depth + text[start:end] + last * depth + text[end:]


def _number(text: str, tokens: Sequence[str], others: Sequence[str], chance: random.Random) -> str:
    found = list(_NUMBER.finditer(text))
    if not found:
        return _insert(text, NUMBERS, others, chance)
    one = chance.choice(found)
    return text[: one.start()] + chance.choice(NUMBERS) + text[one.end() :]


def _splice(text: str, tokens: Sequence[str], others: Sequence[str], chance: random.Random) -> str:
    other = chance.choice(others or (text,))
    at, (start, end) = chance.randrange(len(text) + 1), _span(other, chance)
    return text[:at] + other[start:end] + text[at:]


def _recase(text: str, tokens: Sequence[str], others: Sequence[str], chance: random.Random) -> str:
    start, end = _span(text, chance)
    return text[:start] + text[start:end].swapcase() + text[end:]


def _cut(text: str, tokens: Sequence[str], others: Sequence[str], chance: random.Random) -> str:
    at = chance.randrange(len(text) + 1)
    return text[:at] if chance.random() < 0.7 else text[at:]


_Change = Callable[[str, Sequence[str], Sequence[str], random.Random], str]
_CHANGES: list[_Change] = [
    _insert,
    _insert,
    _replace,
    _remove,
    _repeat,
    _repeat_token,
    _swap,
    _nest,
    _number,
    _number,
    _splice,
    _recase,
    _cut,
]


@dataclass(frozen=True)
class Target:
    name: str
    share: float
    """Its part of all cases, in relation to the other targets."""
    make: Callable[[random.Random], Any]
    """Makes a case."""
    run: Callable[[Any], object]
    """Tries the function; returning is right, and so is one of `allowed`."""
    seconds: float = 2.0
    """Processor time of a case."""
    allowed: tuple[type[BaseException], ...] = (SurefindError,)


def texts(seeds: Sequence[str], tokens: str | Sequence[str]) -> Callable[[random.Random], str]:
    """Makes cases that are texts. Tokens are given as a list, or as a text with blanks between them."""
    words = tokens.split() if isinstance(tokens, str) else list(tokens)
    return lambda chance: mutated(chance.choice(seeds), words, chance, seeds)


def ensure(right: bool, what: str) -> None:
    """Raises an `AssertionError` that says which promise was broken."""
    if not right:
        raise AssertionError(what)
