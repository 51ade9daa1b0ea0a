"""Language models that cannot do what a step asks, as functions: prompt -> answer, in the form that the step expects.

    constant      the same answer to every question: the given order, equal weights
    reversing     the given order backwards, the words of the question backwards
    random        a valid answer without any sense, decided by a hash of the prompt
    truncating    the answer of `random`, cut in the middle
    echoing       the question, the example of the prompt or a copied fence

A step that uses a model must be harmless with each of them: `tests/test_llm_harmless.py` measures it.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

_BLOCK = re.compile(r"<(\w+)(?: (\d+))? ([0-9a-f]{12})>\n(.*?)\n</\1(?: \2)? \3>", re.DOTALL)
_KINDS = {
    "most relevant passages": "order", "Steps left": "gather",
    "weight from 0 to 1": "weigh", "other queries": "rewrite", "that answers the query": "draft",
    "breaking points": "split",
    "succinct context": "place", "pairwise relationships": "extract", "Write the questions": "question",
    "behind every sentence": "answer",
}  # fmt: skip
"""What a prompt asks for, by words of it."""
_WORDS = (
    "account branch member invoice travel policy manager printer network password salary holiday contract supplier "
    "form deadline meeting office report budget training safety visitor backup server email phone parking insurance"
).split()


@dataclass(frozen=True)
class _Asked:
    """What a prompt asks for, and of what."""

    kind: str
    query: str
    count: int
    """Numbered passages."""
    names: tuple[str, ...]
    """The methods to weigh."""
    text: str


def scripted(model: str) -> Callable[[str], str]:
    """The scripted model of this name."""
    return {
        "constant": _constant, "reversing": _reversing, "random": _random, "truncating": _truncating,
        "echoing": _echoing,
    }[model]  # fmt: skip


SCRIPTED = ("constant", "reversing", "random", "truncating", "echoing")


def _asked(prompt: str) -> _Asked:
    kind = next((name for words, name in _KINDS.items() if words in prompt), "")
    blocks = _BLOCK.findall(prompt)
    query = next((text for label, _, _, text in reversed(blocks) if label == "query"), "")
    numbers = [int(number) for label, number, _, _ in blocks if label == "passage" and number]
    names = tuple(re.findall(r'"([\w.]+)": …', prompt))
    body = next((text for label, _, _, text in reversed(blocks) if label != "query"), query)
    return _Asked(kind, query, max(numbers, default=0), names, body)


def _formed(asked: _Asked, numbers: list[int], words: str, weights: list[float]) -> str:
    """An answer in the form that was asked for."""
    sentences = asked.text.count("\n") + 1
    forms: dict[str, Any] = {
        "order": {"ranking": numbers},
        "gather": {"evidence": numbers[:3], "enough": False, "searches": [words]},
        "weigh": dict(zip(asked.names, weights, strict=False)),
        "rewrite": {"queries": [words] * 3},
        "extract": {"entities": [{"text": word, "type": "thing", "relationships": []} for word in words.split()]},
        "question": {"questions": [{"question": f"{words}?", "answer": words}]},
        "answer": {"sentences": [{"text": words, "passages": [1]}]},
    }
    if asked.kind == "split":
        return ", ".join(str(1 + number % max(1, sentences - 1)) for number in numbers[:3] or [1])
    return json.dumps(forms[asked.kind]) if asked.kind in forms else words


def _constant(prompt: str) -> str:
    asked = _asked(prompt)
    equal = [round(1 / max(1, len(asked.names)), 2)] * len(asked.names)
    return _formed(asked, [*range(1, asked.count + 1)], "Please ask the help desk.", equal)


def _reversing(prompt: str) -> str:
    asked = _asked(prompt)
    only = [0.0] * (len(asked.names) - 1) + [1.0]
    words = " ".join(reversed((asked.query or asked.text).split()))
    return _formed(asked, [*range(asked.count, 0, -1)], words, only)


def _random(prompt: str) -> str:
    asked = _asked(prompt)
    dice = random.Random(hashlib.blake2b(prompt.encode("utf-8", "replace"), digest_size=8).digest())
    cuts = [0.0, *sorted(round(dice.random(), 2) for _ in asked.names[1:]), 1.0]
    weights = [round(high - low, 2) for low, high in pairwise(cuts)]
    numbers = dice.sample(range(1, asked.count + 1), asked.count) or [dice.randrange(1, 30) for _ in range(3)]
    return _formed(asked, numbers, " ".join(dice.sample(_WORDS, 6)), weights)


def _truncating(prompt: str) -> str:
    whole = _random(prompt)
    return whole[: max(1, len(whole) // 2)]


def _echoing(prompt: str) -> str:
    asked = _asked(prompt)
    spans = [(line, line.find('{"'), line.rfind("}")) for line in prompt.splitlines()]
    example = [line[start : end + 1] for line, start, end in spans if 0 <= start < end]
    if asked.kind in ("order", "gather", "extract", "question", "answer") and example:
        return example[-1]
    words = f"```\n{asked.query or asked.text}\n```"
    equal = [round(1 / max(1, len(asked.names)), 2)] * len(asked.names)
    return _formed(asked, [4, 1, 3], words, equal)
