"""What the tests of the LLM steps share: a small corpus in memory, and models on the loopback."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence

from llm_server import LLMServer
from memory_view import MemoryView
from surefind.base.access import Access
from surefind.base.protocols import Services
from surefind.base.types import BoolArray, Chunk, Mask, Query
from surefind.engine.llm.address import LLMSettings
from surefind.engine.search.pipeline import Pipeline, Reading, Run
from surefind.engine.services import LocalServices

BLOCK = re.compile(r"<(\w+)(?: (\d+))? ([0-9a-f]{12})>\n(.*?)\n</\1(?: \2)? \3>", re.DOTALL)
TEXTS = (
    "The cash report is due on Monday.",
    "Cash is counted twice by the teller.",
    "A cash drawer is locked at night.",
    "Cash advances need a form.",
    "Petty cash is kept in the safe.",
    "The safe is opened by two people.",
    "Two people sign the vault log.",
    "The vault log is kept for seven years.",
)
CHUNKS = [Chunk(f"{i}.md", 0, len(text), text, (f"Title {i}",)) for i, text in enumerate(TEXTS)]

BROKEN = ["malformed", "truncated", "garbage", "empty", "html", "drop", "drip", "hang", "500", "401", "tomorrow"]
"""Every way in which the loopback server fails for good."""


def services_for(llm: LLMServer, **settings: object) -> Services:
    return LocalServices(llm=LLMSettings(model=llm.model, **{"retries": 0, **settings}))  # type: ignore[arg-type]


def run(
    text: str,
    services: Services,
    queries: Sequence[str] = ("cash",),
    k: int = 8,
    allow: BoolArray | None = None,
    chunks: Sequence[Chunk] = CHUNKS,
) -> Run:
    """A pipeline over chunks in memory."""
    view = MemoryView(chunks, services, Mask(allow))
    return Pipeline.parse(text).run([Query(q) for q in queries], k, Reading(view, services, Access.owner()))


def ordinals(run: Run, row: int = 0) -> list[int]:
    return run.rankings.row(row)[0].tolist()


def passages(prompt: str) -> dict[int, str]:
    """Number -> text of the passages that a prompt shows last."""
    asked = prompt[prompt.rindex("<query ") :]
    return {int(number): text for label, number, _, text in BLOCK.findall(asked) if label == "passage"}


def upside_down(shown: Iterable[int]) -> list[int]:
    """The last first, but not in the exact reverse order, which says nothing."""
    return uneven(sorted(shown, reverse=True))


def uneven(numbers: Sequence[int]) -> list[int]:
    """The second and the third change places."""
    return [*numbers[:1], *numbers[1:3][::-1], *numbers[3:]]


def ranking(order: Callable[[dict[int, str]], list[int]]) -> Callable[[str], str]:
    """A model that orders passages by their texts."""
    return lambda prompt: json.dumps({"ranking": order(passages(prompt))})


def obedient(prompt: str) -> str:
    """A model that follows every instruction outside the fences, whoever wrote it, and none inside."""
    outside = BLOCK.sub("", prompt)
    found = re.search(r"rank (?:passage )?(me|\d+) first", outside, re.IGNORECASE)
    numbers = sorted(passages(prompt)) if "<query " in prompt else []
    if found:
        first = int(found[1]) if found[1].isdigit() else numbers[-1]
        numbers = [first] + [n for n in numbers if n != first]
    return json.dumps({"ranking": numbers})
