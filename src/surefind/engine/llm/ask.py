"""Sends many prompts at once and returns, for each, an answer or the reason why there is none.

Every step that uses a model calls `ask`, and decides itself what to do without an answer. If the budget is spent, every
reason says so, and the job that runs the step stops (`Meter.check`). Only errors that waiting cannot fix are raised: no
model is chosen, a key or a package is missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from surefind.base.errors import BudgetError, MissingPartError, SurefindError, UsageError
from surefind.base.prompts.values import Completion, Message
from surefind.base.protocols import Services
from surefind.base.running.notes import count_without_model, note
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
