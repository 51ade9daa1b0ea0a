"""Sends many prompts at once and returns, for each, an answer or the reason why there is none.

Every step that uses a model calls `ask`, and decides itself what to do without an answer. If the budget is spent, every
reason says so, and the job that runs the step stops (`Meter.check`). Only errors that waiting cannot fix are raised: no
model is chosen, a key or a package is missing.

Reads JSON from a model's answer, wherever it is in the text.

Endpoints that can enforce a schema answer with JSON alone. Others wrap it in prose or in a code block, and some write
their reasoning before it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from surefind.base.errors import BudgetError, MissingPartError, SurefindError, UsageError
from surefind.base.prompts.values import Completion, Message
from surefind.base.protocols import Services
from surefind.base.running import count_without_model, note
from surefind.base.spec import Stage, require
from surefind.engine.llm.chat import Usable, complete_many

Prompt = Sequence[Message]


def ask(
    services: Services,
    model: str | None,
    prompts: Sequence[Prompt],
    *,
    schema: Mapping[str, Any] | None = None,
    max_tokens: int = 512,
    temperature: float = 0.0,
    usable: Usable | None = None,
    repeat: int = 0,
) -> list[Completion | SurefindError]:
    """Returns the answer to each prompt, in order, or the error that says why there is none.

    A cached answer of an earlier run that is not `usable` is asked for again, once: whoever repeats a search or a sync
    hopes for a better one. A benchmark repeats what it did before (`Models.replaying`).
    """
    if not prompts:
        return []
    if services.replays:
        usable = None
    chat = services.chat(model or "")
    send = partial(
        complete_many,
        chat,
        schema=schema,
        max_tokens=max_tokens,
        temperature=temperature,
        repeat=repeat,
    )
    # The first batch is one round of concurrent calls. If all of them fail, the rest would only wait as long again.
    first = int(getattr(chat, "concurrency", 1))
    answers: list[Completion | SurefindError] = []
    try:
        answers += send(prompts[:first], usable=usable)
        all_failed = all(isinstance(answer, SurefindError) for answer in answers)
        rest = (lambda i, answer: usable(first + i, answer)) if usable else None
        answers += [answers[0]] * len(prompts[first:]) if all_failed else send(prompts[first:], usable=rest)
    except BudgetError as refused:
        return [*answers, *[_with_final_sum(services, refused)] * (len(prompts) - len(answers))]
    for answer in answers:
        if isinstance(answer, UsageError | MissingPartError):
            raise answer
    return answers


def check_temperature(stage: Stage, temperature: float | None) -> None:
    """Refuses a temperature that no service takes."""
    require(temperature is None or 0 <= temperature <= 2, stage, "temperature must be from 0 to 2")


def _with_final_sum(services: Services, refused: BudgetError) -> BudgetError:
    """The budget error with the final sum. The call was refused while others were running, and these are over now."""
    try:
        services.meter.check()
    except BudgetError as error:
        return error
    return refused


def note_failures(failures: Sequence[SurefindError], total: int, instead: str) -> None:
    """If prompts failed, adds a note to the trace and a count for benchmarks; `instead` says what was done."""
    if not failures:
        return
    several = f"{len(failures)} of {total}: " if total > 1 else ""
    note(f"{several}{instead}: {failures[0]}")
    count_without_model(len(failures))


_THOUGHTS = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)
_TRAILING_COMMA = re.compile(r",(?=\s*[\]}])")
_FENCE = re.compile(r"</?[a-z]{1,12}(?: \d{1,6})?(?: [0-9a-f]{12})?>|```\w{0,20}")
_WORD = re.compile(r"\w+")
_START = re.compile(r'\{(?=\s*+")')
"""The start of an object that is not empty."""
_REPEATED = 8
"""Words from which on a piece of a text is a repetition."""
_SHORT_LETTERS = 3
"""Letters of a word that says little."""
_MAX_READ_CHARS = 100_000
_MAX_FAILURES = 1000
"""Starts that turn out to be no object, at most: each costs a time that grows with the length of the text before it."""


def read_object(text: str) -> dict[str, Any] | None:
    """Returns the last JSON object of an answer that is not inside another one, or None."""
    plain = without_reasoning(text)[:_MAX_READ_CHARS]
    return _last_object(plain) or _last_object(_TRAILING_COMMA.sub("", plain))


def without_reasoning(text: str) -> str:
    """Removes the reasoning that some models write before the answer."""
    return _THOUGHTS.sub("", text).strip()


def unfenced(text: str) -> str:
    """An answer in prose, without reasoning and without lines that it copied from the prompt's fences or that are those
    of a code block."""
    lines = [line for line in without_reasoning(text).splitlines() if not _FENCE.fullmatch(line.strip())]
    return "\n".join(lines).strip()


def same_words(first: str, second: str) -> bool:
    """Whether two texts have the same words, in any order."""
    return sorted(_WORD.findall(first.casefold())) == sorted(_WORD.findall(second.casefold()))


def repeats(text: str, source: str) -> bool:
    """Whether a text is only a piece of another one, word by word; a few words, such as a name, are no repetition."""
    words, others = (f" {' '.join(_WORD.findall(words_of.casefold()))} " for words_of in (text, source))
    return words.count(" ") > _REPEATED and words in others


def shares_words(text: str, other: str) -> bool:
    """Whether two texts have a word of some length in common."""
    first, second = (
        {word for word in _WORD.findall(side.casefold()) if len(word) > _SHORT_LETTERS} for side in (text, other)
    )
    return bool(first & second)


def _last_object(text: str) -> dict[str, Any] | None:
    decoder = json.JSONDecoder()
    last_object: dict[str, Any] | None = None
    failures = 0
    start = _START.search(text)
    while start and failures < _MAX_FAILURES:
        try:
            value, end = decoder.raw_decode(text, start.start())
        except RecursionError:  # no real answer nests so deeply, and trying every level would take seconds
            return last_object
        except ValueError:
            end, failures = start.end(), failures + 1
        else:
            last_object = value
        start = _START.search(text, end)
    return last_object
