"""Asking for many things at once, in the way every step does: an answer for each, or the reason why there is none.

A step decides for itself what it does without an answer. Where a budget has ended, every reason says so, and the job
that runs the step stops by itself (`Meter.check`). Only what no waiting can mend is raised: a model that is not chosen,
a key or a package that is not there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from surefind.errors import BudgetError, MissingPartError, SurefindError, UsageError
from surefind.llm.chat import complete_many
from surefind.llm.values import Completion, Message
from surefind.notes import note, went_without

if TYPE_CHECKING:
    from surefind.services import Services

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
) -> list[Completion | SurefindError]:
    """The answer to each prompt, in order, or why there is none."""
    if not prompts:
        return []
    chat = services.chat(model or "")
    try:
        answers = complete_many(
            chat, prompts, schema=schema, max_tokens=max_tokens, logprobs=logprobs, temperature=temperature
        )
    except BudgetError as error:
        return [error] * len(prompts)
    for answer in answers:
        if isinstance(answer, UsageError | MissingPartError):
            raise answer
    return answers


def mention(failures: Sequence[SurefindError], asked: int, instead: str) -> None:
    """A note for the trace, and for benchmarks a count, of what went without an answer; `instead` is what was done."""
    if not failures:
        return
    several = f"{len(failures)} of {asked}: " if asked > 1 else ""
    note(f"{several}{instead}: {failures[0]}")
    went_without(len(failures))
