"""The parts of `llm_weights` that need no model: checking weights, the fallback rules, the numbers in the prompt."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from surefind.base.types import PAD, Floats, Rankings, Signal

NUMERIC = {"dense": 0.30, "sparse": 0.55, "graph": 0.15}
OTHER = {"dense": 0.55, "sparse": 0.30, "graph": 0.15}
"""The cascade study's fallback for finance or numeric queries, and for all others."""
EVEN = {"dense": 0.425, "sparse": 0.425, "graph": 0.15}
"""What two readings move. The study's fallback lost nDCG@10 with models that answer at random."""

_FINANCE = re.compile(
    r"\d|[$€£%]|\b(?:price|cost|fee|rate|tax|interest|loan|mortgage|stock|share|bond|dividend|fund|ira|401k|credit|debit"
    r"|payment|invoice|budget|revenue|profit|margin|dollar|euro|bank|deposit|account|insurance|audit)s?\b",
    re.IGNORECASE,
)
_DESCRIBED: Mapping[Signal, str] = {
    "dense": "dense search by meaning: strong on concepts and paraphrases, weak on rare words and numbers",
    "sparse": "lexical search by shared words: strong on exact terms, names, codes and numbers, weak on paraphrases",
    "graph": "search by entities and their links: strong when the query names several entities",
    "mixed": "a mixture of methods",
}


def labels(rankings: Sequence[Rankings]) -> list[str]:
    """The name of each ranking in a prompt: its source; a second one of the same name becomes `dense_2`."""
    seen: dict[str, int] = {}
    made = []
    for ranking in rankings:
        name = ranking.source or ranking.signal
        seen[name] = seen.get(name, 0) + 1
        made.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return made


def methods(rankings: Sequence[Rankings], names: Sequence[str]) -> str:
    return "\n".join(f"- {name}: {_DESCRIBED[ranking.signal]}." for name, ranking in zip(names, rankings, strict=True))


def agreed(first: Sequence[float], second: Sequence[float], otherwise: Sequence[float]) -> list[float]:
    """The weights that two readings support: half of what both move the weights `otherwise` in the same direction.

        w_i = o_i + ½ · m_i        m_i: the smaller of first_i - o_i and second_i - o_i, 0 if their signs differ

    scaled to sum to 1. Two readings by a model that answers at random mostly differ, and half of a mistake costs less.
    """
    moved = []
    for one, two, own in zip(first, second, otherwise, strict=True):
        a, b = one - own, two - own
        moved.append(own + (min(a, b, key=abs) / 2 if a * b > 0 else 0.0))
    return [weight / sum(moved) for weight in moved]


def check_weights(reply: Any, names: Sequence[str]) -> list[float] | str:
    """The weights in the order of `names`, scaled to sum to 1, which small models often miss; or a text that says what
    is wrong with them."""
    if not isinstance(reply, Mapping):
        return "the reply contained no JSON object"
    missing = [name for name in names if name not in reply]
    if missing:
        return f"no weight for {missing[0]}"
    values = [reply[name] for name in names]
    for name, value in zip(names, values, strict=True):
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
            return f"the weight of {name} is {value!r}, not a number from 0 to 1"
    total = float(sum(values))
    if not total:
        return "all weights are 0"
    return [float(value) / total for value in values]


def rule_weights(query: str, signals: Sequence[Signal]) -> list[float]:
    """The weights by the cascade study's rules, which it uses when its model fails."""
    return _shared_out(NUMERIC if _FINANCE.search(query) else OTHER, signals)


def even_weights(signals: Sequence[Signal]) -> list[float]:
    return _shared_out(EVEN, signals)


def _shared_out(table: Mapping[str, float], signals: Sequence[Signal]) -> list[float]:
    """Rankings of one signal share its weight; the weight of signals without a ranking is distributed in proportion."""
    raw = [table.get(signal, 1 / 3) / signals.count(signal) for signal in signals]
    return [weight / sum(raw) for weight in raw]


def distributions(rankings: Sequence[Rankings], row: int, names: Sequence[str] | None = None) -> str:
    """One line per ranking: its scores for this query, and how far it agrees with the others."""
    heads = [{int(o) for o in ranking.ids[row, :10] if o != PAD} for ranking in rankings]
    lines = []
    for i, (label, ranking) in enumerate(zip(names or labels(rankings), rankings, strict=True)):
        _, scores = ranking.row(row)
        others = set().union(*(head for j, head in enumerate(heads) if j != i))
        if not len(scores):
            lines.append(f"- {label}: found nothing.")
            continue
        lines.append(
            f"- {label}: {len(scores)} passages; highest scores {_listed(scores[:3])}; tenth {_at(scores, 9)}; "
            f"median {float(np.median(scores)):.3f}; first stands {_gap(scores)} of the range above the tenth; "
            f"{len(heads[i] & others)} of its first ten are also among the others' first ten."
        )
    return "\n".join(lines)


def _listed(scores: Any) -> str:
    return ", ".join(f"{score:.3f}" for score in scores.tolist())


def _at(scores: Any, place: int) -> str:
    return f"{float(scores[min(place, len(scores) - 1)]):.3f}"


def _gap(scores: Any) -> str:
    spread = float(scores[0] - scores[-1])
    return f"{100 * float(scores[0] - scores[min(9, len(scores) - 1)]) / spread:.0f}%" if spread > 0 else "0%"


def as_table(rows: Sequence[Sequence[float]], width: int) -> Floats:
    return np.array(rows, dtype=np.float64).reshape(-1, width)
