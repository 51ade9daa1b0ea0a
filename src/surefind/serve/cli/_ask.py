"""Asks a person at the terminal which passages answer a question."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.text import Text

from surefind.exam.growing import Answer, Growing
from surefind.serve.cli._common import console
from surefind.serve.cli._hits import emphasise, snippet
from surefind.serve.words import sought
from surefind.types import Hit

if TYPE_CHECKING:
    from surefind.exam.asking import Ask, Asking

_KEYS = "Which passages answer it? Numbers, n = none, s = skip, r = reject the question, u = undo, q = stop: "
_SHOWN = 700
"""Characters of a passage that are shown."""


class Interview:
    """Asks the questions in order. Every answer is saved before the next question."""

    def __init__(self, session: Growing, asking: Asking, asks: Sequence[Ask], size: int, seed: int) -> None:
        self._session = session
        self._asking = asking
        self._asks = asks
        self._size = size
        self._seed = seed
        self._screen = console()
        self._done: list[bool] = []
        """For each question before the current one, whether it was answered (else skipped)."""

    def run(self) -> None:
        while len(self._done) < len(self._asks):
            ask = self._asks[len(self._done)]
            hits = self._asking.pool(ask.candidate.text, self._size, self._seed)
            self._show(ask, hits)
            key = self._key(len(hits))
            if key == "q":
                return
            if key == "u":
                self._undo()
            elif key == "s":
                self._done.append(False)
            else:
                self._session.answer(self._answer(ask, key, hits))
                self._done.append(True)

    def _answer(self, ask: Ask, key: str, hits: Sequence[Hit]) -> Answer:
        text, chosen_by = ask.candidate.text, "random" if ask.value is None else "disagreement"
        if key == "n":
            return Answer(text, verdict="none")
        if key == "r":
            return Answer(text, verdict="rejected")
        chosen = [hits[number - 1] for number in sorted(_numbers(key))]
        judgments = tuple(self._session.judge(hit.document, hit.start, hit.end) for hit in chosen)
        return Answer(text, judgments, "", chosen_by, ask.value, ask.typical)

    def _undo(self) -> None:
        if not self._done:
            self._screen.print("There is nothing to undo.")
        elif self._done.pop():
            self._session.undo()

    def _key(self, hits: int) -> str:
        """Reads lines until one can be understood; the end of the input means stop."""
        while True:
            self._screen.print(_KEYS, end="")
            line = sys.stdin.readline()
            if not line:
                return "q"
            key = line.strip().lower()
            if key in ("n", "s", "r", "u", "q"):
                return key
            numbers = _numbers(key)
            if numbers and all(1 <= number <= hits for number in numbers):
                return key
            self._screen.print(f"Cannot read {line.strip()!r}. Write numbers from 1 to {hits} (1 3), or one letter.")

    def _show(self, ask: Ask, hits: Sequence[Hit]) -> None:
        candidate, words = ask.candidate, sought(ask.candidate.text)
        often = f", asked {candidate.asked} times" if candidate.asked > 1 else ""
        self._screen.rule(f"{len(self._done) + 1} of {len(self._asks)}  ({candidate.source}{often})", align="left")
        self._screen.print(Text(candidate.text, style="bold"))
        self._screen.print()
        if not hits:
            self._screen.print("No passage was found.")
        for number, hit in enumerate(hits, 1):
            self._screen.print(Text.assemble((f"{number:>2}. ", "bold"), (hit.title or hit.document, "bold")))
            trail = " > ".join(heading for heading in hit.headings if heading != hit.title)
            place = f"{hit.document}  {hit.location}".rstrip()
            self._screen.print(Padding(Text(f"{place}  {trail}".rstrip(), style="dim"), (0, 0, 0, 4), expand=False))
            shown = emphasise(snippet(hit.text, words, _SHOWN), words)
            self._screen.print(Padding(shown, (0, 0, 1, 4), expand=False))


def _numbers(key: str) -> set[int]:
    """Returns the numbers of a line such as `1 3` or `1,3`; none if anything else stands there."""
    return set(map(int, re.findall(r"\d+", key))) if re.fullmatch(r"[\d\s,;]+", key) else set()
