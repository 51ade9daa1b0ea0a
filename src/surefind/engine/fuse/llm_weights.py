"""`llm_weights(mode=informed)`: a language model sets the weight of each ranking, for each query.

    score(d) = Σ_i  w_i(q) · norm_i(d)        Σ w_i = 1,  norm: min-max

    mode=query       the model sees the query alone (Algorithm 2 of the cascade study, where static weights beat it on
                     every set: it repeated the example values of its prompt)
    mode=informed    the model also sees the score distribution of each ranking for this query, as the study's
                     conclusion recommends; with examples=NAME it sees such distributions from this corpus together
                     with the weights that worked best (`surefind train prompt --step llm_weights`)

The weights are checked: one for each ranking, each from 0 to 1; they are scaled to sum to 1.

By default the model is asked twice, the second time with the rankings in the reverse order, and moves even weights
(dense .425, lexical .425, graph .15) half as far as both answers do (`support.weighing.agreed`): two calls per
query. If one of them has no weights, the even ones apply. With reverse=false the model is asked once, as in the study:
its weights are used as they are, and if they are wrong, the study's rules apply: (dense .30, lexical .55, graph .15)
for finance or numeric queries, (.55, .30, .15) for others.

The parts of `llm_weights` that need no model: checking weights, the fallback rules, the numbers in the prompt.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from surefind.base.errors import AnswerError, SpecError, SurefindError
from surefind.base.prompts.fence import Data
from surefind.base.prompts.prompt import Prompt
from surefind.base.prompts.values import Calls, Completion, Message, Workload
from surefind.base.protocols import Services
from surefind.base.running import note
from surefind.base.spec import Stage, require
from surefind.base.types import PAD, Floats, Query, Rankings, Signal
from surefind.engine.llm import prices
from surefind.engine.llm.ask import ask, note_failures, read_object
from surefind.engine.llm.trained import Weighed, trained_prompt

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


_SLOTS = {
    "query": ("query", "methods", "format"),
    "informed": ("query", "methods", "format", "scores", "examples"),
}
_BUILT_IN = {"query": "v1", "informed": "informed"}
_MAX_TOKENS = 200
_EXAMPLES = 6
"""Assumed number of examples, used for cost estimates."""


@dataclass(frozen=True)
class LLMWeights(Stage):
    kind: ClassVar[str] = "fuse"
    name: ClassVar[str] = "llm_weights"
    reads_queries: ClassVar[bool] = True

    model: str | None = None
    mode: Literal["query", "informed"] = "informed"
    examples: str | None = None
    missing: Literal["score"] | None = None
    reverse: bool = True
    prompt: str | None = None

    def __post_init__(self) -> None:
        require(self.mode == "informed" or not self.examples, self, "examples are shown with mode=informed only")

    def fuse(self, rankings: Sequence[Rankings], k: int) -> Rankings:
        raise SpecError(
            f"{self} reads the queries, so it works only inside a pipeline of a knowledge base. "
            "Use rrf, convex or weighted to fuse rankings without queries."
        )

    def llm_calls(self, work: Workload) -> Calls:
        shown = 1 + (_EXAMPLES if self.examples else 0)
        calls = (2 if self.reverse else 1) * work.queries
        return prices.calls(self.model, calls, 150 * shown if self.mode == "informed" else 0, 40)

    def stamp(self, services: Services) -> str:
        words = f"{self._template(services).fingerprint}{self._examples(services)}"
        return f"{words} {services.chat_name(self.model)}"

    def training_questions(self, services: Services) -> frozenset[str]:
        """The keys of the questions that the examples were chosen from."""
        return frozenset(trained_prompt(services, self.examples, self.name).learnt if self.examples else ())

    def fuse_for(self, queries: Sequence[Query], rankings: Sequence[Rankings], k: int, services: Services) -> Rankings:
        from surefind.engine.fuse.support.predictors import blend

        weights = self.weights(queries, rankings, services)
        return blend(rankings, as_table(weights, len(rankings)), "minmax", k, self.name)

    def weights(self, queries: Sequence[Query], rankings: Sequence[Rankings], services: Services) -> list[list[float]]:
        """The weight of each ranking, for each query."""
        names = labels(rankings)
        signals = [ranking.signal for ranking in rankings]
        turns = [1, -1] if self.reverse else [1]
        prompts = [
            self._messages(query, rankings, i, turn, services) for i, query in enumerate(queries) for turn in turns
        ]
        answers = ask(
            services, self.model, prompts, schema=_schema(names), max_tokens=_MAX_TOKENS,
            usable=lambda at, answer: isinstance(check_weights(read_object(answer.text), names), list),
        )  # fmt: skip
        made: list[list[float]] = []
        failed: list[SurefindError] = []
        for i, query in enumerate(queries):
            own = even_weights(signals) if self.reverse else rule_weights(query.text, signals)
            read = [_read(answer, names) for answer in answers[i * len(turns) : (i + 1) * len(turns)]]
            failed += [reading for reading in read if isinstance(reading, SurefindError)][:1]
            weights_read = [reading for reading in read if isinstance(reading, list)]
            whole = len(weights_read) == len(turns)  # an answer whose second is missing has nothing to agree with
            made.append(
                own
                if not whole
                else weights_read[0]
                if len(weights_read) == 1
                else agreed(weights_read[0], weights_read[1], own)
            )
        note_failures(failed, len(queries), "even weights" if self.reverse else "weights by rule")
        if len(queries) == 1:
            note("weights " + ", ".join(f"{name} {weight:.2f}" for name, weight in zip(names, made[0], strict=True)))
        return made

    def _messages(
        self, query: Query, rankings: Sequence[Rankings], row: int, turn: int, services: Services
    ) -> list[Message]:
        """The prompt for a query; `turn` is -1 if the rankings are shown backwards."""
        names, rankings = labels(rankings)[::turn], rankings[::turn]
        slots: dict[str, Any] = {
            "query": Data("query", query.text),
            "methods": methods(rankings, names),
            "format": "{" + ", ".join(f'"{name}": …' for name in names) + "}",
        }
        if self.mode == "informed":
            slots["scores"] = distributions(rankings, row, names)
            slots["examples"] = [
                Data("example", _written(example)) for example in self._examples(services, names[::turn])
            ]
        return self._template(services).messages(**slots)

    def _template(self, services: Services) -> Prompt:
        return services.prompt(self.name, self.prompt or _BUILT_IN[self.mode], _SLOTS[self.mode])

    def _examples(self, services: Services, names: Sequence[str] | None = None) -> tuple[Weighed, ...]:
        if not self.examples:
            return ()
        examples = trained_prompt(services, self.examples, self.name).weighed
        for example in examples[:1] if names else ():
            weighed = [name for name, _ in example.weights]
            if weighed != names:
                raise SpecError(
                    f"The examples {self.examples!r} are for {' + '.join(weighed)}, not {' + '.join(names or ())}. "
                    "Make new ones with: surefind train prompt --step llm_weights."
                )
        return examples


def _written(example: Weighed) -> str:
    best = ", ".join(f'"{name}": {weight:g}' for name, weight in example.weights)
    return f"Query: {example.query}\n{example.scores}\nBest weights: {{{best}}}"


def _read(answer: Completion | SurefindError, names: Sequence[str]) -> list[float] | SurefindError:
    weights = answer if isinstance(answer, SurefindError) else check_weights(read_object(answer.text), names)
    return AnswerError(weights) if isinstance(weights, str) else weights


def _schema(names: Sequence[str]) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {"type": "number"} for name in names}, "required": list(names)}
