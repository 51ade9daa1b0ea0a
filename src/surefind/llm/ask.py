"""Asking for many things at once, in the way every step does: an answer for each, or the reason why there is none.

A step decides for itself what it does without an answer. Where a budget has ended, every reason says so, and the job
that runs the step stops by itself (`Meter.check`). Only what no waiting can mend is raised: a model that is not chosen,
a key or a package that is not there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from surefind.abilities import Concurrent
from surefind.errors import BudgetError, MissingPartError, SurefindError, UsageError
from surefind.llm.chat import Usable, complete_many
from surefind.notes import note, went_without
from surefind.prompts.values import Completion, Message

if TYPE_CHECKING:
    from surefind.protocols import Services

Prompt = Sequence[Message]


def ask(
    services: Services,
    model: str | None,
    prompts: Sequence[Prompt],
    *,
    schema: Mapping[str, Any] | None = None,
    max_tokens: int = 512,
    logprobs: int = 0,
    temperature: float = 0.0,
    usable: Usable | None = None,
) -> list[Completion | SurefindError]:
    """The answer to each prompt, in order, or why there is none.

    One that was kept from an earlier run and is not `usable` is asked for again, once: whoever repeats a search or a
    sync hopes for a better one. A benchmark repeats what it did before (`Models.replaying`).
    """
    if not prompts:
        return []
    if services.replays:
        usable = None
    chat = services.chat(model or "")
    send = partial(
        complete_many, chat, schema=schema, max_tokens=max_tokens, logprobs=logprobs, temperature=temperature
    )
    # As many as go out at a time are tried first: where all of them fail, the others would only wait as long again.
    first = chat.concurrency if isinstance(chat, Concurrent) else 1
    answers: list[Completion | SurefindError] = []
    try:
        answers += send(prompts[:first], usable=usable)
        dead = all(isinstance(answer, SurefindError) for answer in answers)
        rest = (lambda i, answer: usable(first + i, answer)) if usable else None
        answers += [answers[0]] * len(prompts[first:]) if dead else send(prompts[first:], usable=rest)
    except BudgetError as refused:
        return [*answers, *[_told_again(services, refused)] * (len(prompts) - len(answers))]
    for answer in answers:
        if isinstance(answer, UsageError | MissingPartError):
            raise answer
    return answers


def _told_again(services: Services, refused: BudgetError) -> BudgetError:
    """A call is refused while others are under way; now that they are over, the sum is known."""
    try:
        services.meter.check()
    except BudgetError as error:
        return error
    return refused


def mention(failures: Sequence[SurefindError], asked: int, instead: str) -> None:
    """A note for the trace, and for benchmarks a count, of what went without an answer; `instead` is what was done."""
    if not failures:
        return
    several = f"{len(failures)} of {asked}: " if asked > 1 else ""
    note(f"{several}{instead}: {failures[0]}")
    went_without(len(failures))
