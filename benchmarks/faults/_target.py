"""What the fuzzer runs: a target makes a case from a random number and tries a function on it."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from _mutate import mutated

from surefind.errors import SurefindError


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
