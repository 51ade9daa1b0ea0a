"""Asks a model to order lists of passages: instructions, an example if there is one, and the passages.

With `reverse` each list is shown twice, the second time in the reverse order (`surefind.engine.llm.listwise`).

Reads the order that a model returns, and repairs its mistakes.

    numbers out of range          dropped
    numbers named twice           the first counts
    numbers not named             follow in their previous order

An answer that names fewer than half of the numbers asked for is not an order: the previous order is kept. One that
names neighbours in a row, such as `1 2 3 4` or `10 9 8 7 6`, says nothing: models that cannot rank answer so.

Reads a list twice, the second time in the reverse order, and keeps what both readings say.

Models favour what they read first, and some answer at random. So two readings count only if they agree: by the average
overlap of their first five, better than chance would in 98 of 100 lists. Then a passage rises as far as both raise it:

    overlap     = 1/5 · Σ_{d=1..5} |first d of one ∩ first d of the other| / d
    position(p) = min(p, 3 · max(first(p), second(p)))        p: the place before; ties: raised passages first

Else the list stays as it was. So it does with fewer than five passages, about which chance agrees too often. The two
figures that the trace shows:

    τ       Kendall's τ of the two readings over the first `keep` of both: 1 if they agree, 0 by chance
    bias    (second(first choice) - first(first choice)) / (n - 1): 1 if the passage that is shown first is always
            preferred, -1 if the last one is, 0 if the place does not matter
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import combinations, pairwise, product
from math import comb, perm
from statistics import mean
from typing import Any, ClassVar, NamedTuple

from surefind.base.errors import AnswerError, SurefindError
from surefind.base.prompts.fence import Data
from surefind.base.prompts.prompt import Prompt
from surefind.base.prompts.values import Completion, Message
from surefind.base.protocols import Services
from surefind.base.running import note
from surefind.base.text.words import token_spans
from surefind.base.types import Chunk
from surefind.engine.llm.ask import ask, read_object, without_reasoning
from surefind.engine.llm.trained import RankedExample

_CHANCE = 0.02
"""Two readings that chance would make agree so well more often change nothing."""
_DEPTH = 5
"""Places at which two readings are compared."""


@dataclass(frozen=True)
class Readings:
    """The orders that a model gave to one list: one, or two if it was shown the list reversed as well. Each has the
    places of the list, best first, or is the error that says why there is no order."""

    orders: tuple[list[int] | SurefindError, ...]
    keep: int
    """How many passages the model was asked to name; the others follow in the order of the list."""

    @property
    def complete(self) -> list[list[int]]:
        """The orders, if none is missing: a reading whose second is missing has nothing to agree with."""
        orders = [order for order in self.orders if not isinstance(order, SurefindError)]
        return orders if len(orders) == len(self.orders) else []

    def order(self) -> list[int] | SurefindError:
        """The order that both readings support; the first error if one of them failed."""
        orders = self.complete
        if not orders:
            return next(order for order in self.orders if isinstance(order, SurefindError))
        return orders[0] if len(orders) == 1 else merge(orders[0], orders[1], self.keep)


def merge(first: Sequence[int], second: Sequence[int], keep: int, among: int = 0) -> list[int]:
    """Merges two orders of the same places, of which the first `keep` were named. `among` is how many passages were
    compared for the first places, if not all of them were."""
    depth = min(_DEPTH, keep, len(first))
    if chance_of_overlap(overlap(first, second, depth), depth, min(len(first), among or len(first))) > _CHANCE:
        return sorted(first)
    one, two = _positions(first), _positions(second)
    return raise_to(sorted(first), {place: both(one[place], two[place]) for place in one})


def overlap(first: Sequence[int], second: Sequence[int], depth: int) -> Fraction:
    """The average overlap of the first 1, 2, … `depth` of two orders, from 0 to 1."""
    return sum(Fraction(len({*first[:d]} & {*second[:d]}), d) for d in range(1, depth + 1)) / Fraction(depth)


def chance_of_overlap(least: Fraction, depth: int, count: int) -> float:
    """How likely two random orders of `count` passages overlap at least so much."""
    return sum(chance for value, chance in _overlaps(depth, count) if value >= least)


@cache
def _overlaps(depth: int, count: int) -> list[tuple[Fraction, float]]:
    """The average overlap of (0, 1, 2, …) with each possible start of another order, and how likely that start is. The
    passages of the start that are not among the first `depth` are alike."""
    made = []
    for start in product(range(depth + 1), repeat=depth):  # `depth` stands for any other passage
        known = [place for place in start if place < depth]
        if len(set(known)) == len(known) and depth - len(known) <= count - depth:
            ways = perm(count - depth, depth - len(known))
            made.append((overlap(range(depth), start, depth), ways / perm(count, depth)))
    return made


def both(first: int, second: int) -> int:
    """The place to which two readings raise a passage that they put at these places."""
    return 3 * max(first, second)


def chance_of(shared: int, first: int, second: int, count: int) -> float:
    """How likely two random choices of `first` and `second` out of `count` have so many in common: the upper tail of
    the hypergeometric distribution."""
    ways = [comb(first, i) * comb(count - first, second - i) for i in range(shared, min(first, second) + 1)]
    return sum(ways) / comb(count, second)


def raise_to(ranking: Sequence[int], places: Mapping[int, int]) -> list[int]:
    """Raises passages of a ranking to these places, unless they are higher already; nothing falls by itself."""

    def key(at: int) -> tuple[int, bool, int]:
        place = places.get(ranking[at], at)
        return min(at, place), place >= at, at

    return [ranking[at] for at in sorted(range(len(ranking)), key=key)]


def unreversed(order: Sequence[int], keep: int) -> list[int]:
    """Turns places of the reversed list into places of the list; unnamed passages follow in the order of the list."""
    named = [len(order) - 1 - place for place in order[:keep]]
    return named + sorted(set(range(len(order))) - set(named))


def agreement(first: Sequence[int], second: Sequence[int], keep: int) -> float:
    """Kendall's τ of two orders, over the first `keep` of both."""
    one, two = _positions(first), _positions(second)
    pairs = list(combinations(sorted({*first[:keep], *second[:keep]}), 2))
    same = sum(1 if (one[a] < one[b]) == (two[a] < two[b]) else -1 for a, b in pairs)
    return same / max(1, len(pairs))


def position_bias(first: Sequence[int], second: Sequence[int]) -> float:
    """How far the first choice follows the place in the list, from -1 to 1."""
    return (second[0] - first[0]) / max(1, len(first) - 1)


def note_agreement(readings: Sequence[Readings], keep: int, lists: bool = True) -> None:
    """Adds to the trace how far two readings agree, on average over the lists that were read twice. Passages that were
    not shown as `lists` had no place that could matter."""
    pairs = [orders for reading in readings if len(orders := reading.complete) == 2]
    if pairs:
        tau = mean(agreement(first, second, keep) for first, second in pairs)
        bias = mean(position_bias(first, second) for first, second in pairs)
        note(f"the two readings agree: τ {tau:.2f}" + (f", position bias {bias:+.2f}" if lists else ""))


def _positions(order: Sequence[int]) -> dict[int, int]:
    return {place: at for at, place in enumerate(order)}


NO_ORDER = "The answer contained no order of the passages, or only the one given, its reverse, or the prompt's example."

_MAX_READ_CHARS = 100_000
"""Most characters of an answer that are read, from its end."""
_ROW = 4
"""Numbers that are neighbours in a row, from which on they say nothing: with fewer it may be chance."""
_ARRAY = re.compile(r"\[(?=[\s,]*\d)[\s\d,]*+\]")
_RANKGPT = re.compile(r"\[\s*\d+\s*\](?:\s*[>,]\s*\[\s*\d+\s*\])+")
"""`[3] > [1] > [2]`, which models trained on RankGPT's prompt write in any case."""


class Order(NamedTuple):
    places: list[int]
    """The places of all passages, from 0."""
    repaired: list[str]
    """The repairs that were needed."""
    informs: bool
    """Whether it says anything."""


def read_order(reply: str, count: int, asked: int) -> Order | None:
    """Returns the order of the reply over all `count` passages; None if the reply has no order. `asked` is how many
    numbers the reply should have named."""
    numbers = _numbers(reply)
    inside = [number for number in numbers if 1 <= number <= count]
    named = list(dict.fromkeys(number - 1 for number in inside))
    if not named or 2 * len(named) < min(asked, count):
        return None
    repaired = []
    if len(inside) < len(numbers):
        repaired.append(f"{len(numbers) - len(inside)} numbers out of range dropped")
    if len(named) < len(inside):
        repaired.append(f"{len(inside) - len(named)} repeated numbers dropped")
    if len(named) < min(asked, count):
        repaired.append(f"{min(asked, count) - len(named)} missing numbers appended")
    rest = sorted(set(range(count)) - set(named))
    return Order(named + rest, repaired, not in_a_row(named))


def _numbers(reply: str) -> list[int]:
    """The numbers of the requested object, or else of the last list: models that think aloud end with the answer."""
    text = without_reasoning(reply)[-_MAX_READ_CHARS:]
    listed = (read_object(text) or {}).get("ranking")
    if isinstance(listed, list):
        return [int(value) for value in listed if re.fullmatch(r"-?\d{1,18}", str(value))]
    orders = [match.group() for match in (*_ARRAY.finditer(text), *_RANKGPT.finditer(text))]
    chains = [order for order in orders if ">" in order]
    last = chains[-1] if chains else orders[-1] if orders else ""
    return [int(number) for number in re.findall(r"\d{1,9}", last)]


def in_a_row(named: Sequence[int]) -> bool:
    """Whether numbers are neighbours in a row, up or down: they repeat a list, and say nothing about it."""
    steps = {second - first for first, second in pairwise(named)}
    return len(named) >= _ROW and steps in ({1}, {-1})


def in_order(ids: Sequence[int]) -> list[tuple[int, float]]:
    """Gives scores to passages that have only an order: 1 for the first, then evenly decreasing."""
    return [(number, 1 - place / len(ids)) for place, number in enumerate(ids)]


def shown(chunks: Sequence[Chunk], tokens: int) -> list[Data]:
    """Passages for a prompt, numbered from 1, each with its context or headings and at most `tokens` of its text."""
    return [Data("passage", describe(chunk, tokens), number) for number, chunk in enumerate(chunks, 1)]


def describe(chunk: Chunk, tokens: int) -> str:
    title = chunk.context or " > ".join(chunk.headings)
    text = clip(chunk.text, tokens)
    return f"{title}\n{text}" if title else text


def clip(text: str, tokens: int) -> str:
    spans = token_spans(text)
    return text if len(spans) <= tokens else f"{text[: spans[tokens - 1][1]]} …"


_LISTED = re.compile(r"\[\d+(?:, \d+)+")
"""The beginning of a list of numbers."""
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"ranking": {"type": "array", "items": {"type": "integer"}}},
    "required": ["ranking"],
}


@dataclass(frozen=True)
class ListPrompt:
    SLOTS: ClassVar[tuple[str, ...]] = ("query", "passages", "count?", "keep?")

    template: Prompt
    example: RankedExample | None = None

    @classmethod
    def of(cls, template: Prompt, system: str = "", example: RankedExample | None = None) -> ListPrompt:
        """Makes a prompt; `system`, if given, replaces the system part of the template."""
        return cls(template.with_system(system) if system else template, example)

    @property
    def system(self) -> str:
        """The system part of the prompt, which meta-prompting improves."""
        return next(text for role, text in self.template.parts if role == "system").replace("$$", "$").strip()

    @property
    def schema(self) -> dict[str, Any] | None:
        """The form of the answer; None if the prompt asks for a JSON array, which no server enforces."""
        return None if any("JSON array" in text for _, text in self.template.parts) else _SCHEMA

    @property
    def examples(self) -> list[list[int]]:
        """The orders that the prompt itself shows; a model that returns one has not read the passages."""
        shown = [match for role, text in self.template.parts if role == "user" for match in _LISTED.findall(text)]
        ranked = [list(self.example.ranking)] if self.example else []
        return [[int(number) for number in re.findall(r"\d+", digits)] for digits in shown] + ranked

    @property
    def fingerprint(self) -> str:
        return hashlib.blake2b(f"{self.template.fingerprint}{self.example}".encode(), digest_size=6).hexdigest()

    def messages(self, query: str, chunks: Sequence[Chunk], keep: int, tokens: int) -> list[Message]:
        return self.over(query, shown(chunks, tokens), keep)

    def over(self, query: str, passages: Sequence[Data], keep: int) -> list[Message]:
        system, *question = self._rendered(query, passages, keep)
        if self.example is None:
            return [system, *question]
        given = [Data("passage", text, number) for number, text in enumerate(self.example.passages, 1)]
        _, *before = self._rendered(self.example.query, given, keep)
        order = list(self.example.ranking)
        answer = Message("assistant", f'{{"ranking": {order}}}' if self.schema else str(order))
        return [system, *before, answer, *question]

    def _rendered(self, query: str, passages: Sequence[Data], keep: int) -> list[Message]:
        count = len(passages)
        return self.template.messages(query=Data("query", query), passages=passages, count=count, keep=min(keep, count))


def ask_orders(
    services: Services,
    model: str | None,
    prompt: ListPrompt,
    lists: Sequence[tuple[str, Sequence[Chunk]]],
    keep: int,
    *,
    reverse: bool,
    passage_tokens: int,
    max_tokens: int,
    temperature: float | None = None,
    repeat: int = 0,
) -> list[Readings]:
    """Asks for the `keep` best of each list (query, passages); all prompts are sent together."""
    prompts: list[list[Message]] = []
    for query, chunks in lists:
        prompts.append(prompt.messages(query, chunks, keep, passage_tokens))
        if reverse:
            prompts.append(prompt.messages(query, chunks[::-1], keep, passage_tokens))
    passes = 2 if reverse else 1
    sizes = [len(chunks) for _, chunks in lists for _ in range(passes)]
    answers = ask(
        services, model, prompts, schema=prompt.schema, max_tokens=max_tokens, temperature=temperature or 0.0,
        repeat=repeat,
        usable=lambda at, answer: read_order(answer.text, sizes[at], keep) is not None,
    )  # fmt: skip
    shown = prompt.examples
    orders = [order_of(answer, size, keep, shown) for answer, size in zip(answers, sizes, strict=True)]
    for at in range(1, len(orders), 2) if reverse else ():
        backwards = orders[at]
        orders[at] = backwards if isinstance(backwards, SurefindError) else unreversed(backwards, keep)
    return [Readings(tuple(orders[at : at + passes]), keep) for at in range(0, len(orders), passes)]


def order_of(
    answer: Completion | SurefindError, count: int, keep: int, examples: Sequence[Sequence[int]] = ()
) -> list[int] | SurefindError:
    """The places of all passages in the order of an answer, repaired; or the error that says why there is none. An
    order of the prompt's `examples` is none."""
    if isinstance(answer, SurefindError):
        return answer
    order = read_order(answer.text, count, keep)
    if order is None or not order.informs or any(_copies(order.places, example) for example in examples):
        return AnswerError(NO_ORDER)
    if order.repaired:
        note(f"order repaired: {'; '.join(order.repaired)}")
    return order.places


def _copies(places: Sequence[int], example: Sequence[int]) -> bool:
    """Whether an order names the numbers of an example, as far as there are so many passages, and no other."""
    shown = [number - 1 for number in example if number <= len(places)]
    rest = list(places[len(shown) :])
    return list(places[: len(shown)]) == shown and rest == sorted(rest)
