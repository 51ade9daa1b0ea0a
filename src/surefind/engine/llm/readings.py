"""Reads a list twice, the second time in the reverse order, and keeps what both readings say.

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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import combinations, product
from math import comb, perm
from statistics import mean

from surefind.base.errors import SurefindError
from surefind.base.running.notes import note

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
