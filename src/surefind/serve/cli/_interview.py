"""Asks a person at the terminal which passages answer each question."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from rich.padding import Padding
from rich.text import Text

from surefind.errors import ExamError
from surefind.serve.cli._common import console
from surefind.serve.cli._hits import emphasise, snippet
from surefind.serve.words import sought

_PASSAGE_CHARS = 700
"""Characters of a passage that are shown."""


@dataclass(frozen=True)
class OnScreen:
    """A passage on the screen."""

    title: str
    text: str
    place: str = ""
    """Where it is; empty if the judge should not know."""


class Sitting(Protocol):
    """What is asked, and what becomes of the answers. Every answer is saved at once."""

    what: str
    """Which passages are wanted, and in which order."""
    rejects: bool
    """Whether a question may be rejected."""

    def __len__(self) -> int: ...

    def question(self, at: int) -> tuple[str, str, Sequence[OnScreen]]:
        """Returns the text of a question, what is known about it, and its passages."""
        ...

    def answer(self, at: int, numbers: Sequence[int] | None) -> None:
        """Saves the numbers of the passages, as they were written: empty if no passage answers the question, None if
        the question is rejected."""
        ...

    def undo(self, at: int) -> None:
        """Takes the last answer back."""
        ...

    @property
    def add(self) -> Callable[[int, str, str], None] | None:
        """Adds a passage to a question, by its document and exact words; it is then shown with the others. None if
        nothing can be added."""
        ...


def interview(sitting: Sitting) -> None:
    """Asks the questions in order, until the person stops."""
    screen = console()
    keys = ["n = none", "s = skip", *(["r = reject the question"] if sitting.rejects else []), "u = undo", "q = stop"]
    more = ["+ DOCUMENT: WORDS = another passage"] if sitting.add else []
    prompt = f"{sitting.what}, {', '.join([*keys, *more])}: "
    answered: list[bool] = []  # for each question before the current one; else it was skipped
    while len(answered) < len(sitting):
        at = len(answered)
        text, about, passages = sitting.question(at)
        screen.rule(f"{at + 1} of {len(sitting)}{about}", align="left")
        _show(text, passages)
        key = _key(prompt, [key_help[0] for key_help in keys], len(passages), sitting.add is not None)
        if key == "q":
            return
        if key.startswith("+") and sitting.add:
            document, _, words = key[1:].partition(":")
            try:
                sitting.add(at, document.strip(), words.strip())
            except ExamError as error:
                screen.print(f"No passage was added: {error}")
            continue
        if key == "u":
            if not answered:
                screen.print("There is nothing to undo.")
            elif answered.pop():
                sitting.undo(len(answered))
            continue
        if key != "s":
            sitting.answer(at, None if key == "r" else _numbers(key))
        answered.append(key != "s")


def _show(text: str, passages: Sequence[OnScreen]) -> None:
    screen, words = console(), sought(text)
    screen.print(Text(text, style="bold"))
    screen.print()
    if not passages:
        screen.print("No passage was found.")
    for number, passage in enumerate(passages, 1):
        screen.print(Text.assemble((f"{number:>2}. ", "bold"), (passage.title, "bold")))
        if passage.place:
            screen.print(Padding(Text(passage.place, style="dim"), (0, 0, 0, 4), expand=False))
        screen.print(
            Padding(emphasise(snippet(passage.text, words, _PASSAGE_CHARS), words), (0, 0, 1, 4), expand=False)
        )


def _key(prompt: str, letters: Sequence[str], passages: int, adds: bool) -> str:
    """Reads lines until one can be understood; the end of the input means stop."""
    screen = console()
    while True:
        screen.print(prompt, end="")
        line = sys.stdin.readline()
        if not line:
            return "q"
        if adds and line.strip().startswith("+"):
            return line.strip()
        key = line.strip().lower()
        numbers = _numbers(key)
        if key in letters or (numbers and all(1 <= number <= passages for number in numbers)):
            return key
        screen.print(f"Cannot read {line.strip()!r}. Write numbers from 1 to {passages} (1 3), or one letter.")


def _numbers(key: str) -> list[int]:
    """Returns the numbers of a line such as `1 3` or `1,3`, each once; none if anything else stands there."""
    return list(dict.fromkeys(map(int, re.findall(r"\d+", key)))) if re.fullmatch(r"[\d\s,;]+", key) else []
