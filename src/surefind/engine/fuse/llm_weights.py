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
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from surefind.base.errors import AnswerError, SpecError, SurefindError
from surefind.base.prompts.fence import Data
from surefind.base.prompts.prompt import Prompt
from surefind.base.prompts.values import Calls, Completion, Message, Workload
from surefind.base.protocols import Services
from surefind.base.running.notes import note
from surefind.base.spec import Stage, require
from surefind.base.types import Query, Rankings
from surefind.engine.fuse.support.weighing import (
    agreed,
    as_table,
    check_weights,
    distributions,
    even_weights,
    labels,
    methods,
    rule_weights,
)
from surefind.engine.llm import estimate
from surefind.engine.llm.ask import ask, note_failures
from surefind.engine.llm.reply import read_object
from surefind.engine.llm.trained import Weighed, trained_prompt

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
        return estimate.calls(self.model, calls, 150 * shown if self.mode == "informed" else 0, 40)

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
        shown: dict[str, Any] = {
            "query": Data("query", query.text),
            "methods": methods(rankings, names),
            "format": "{" + ", ".join(f'"{name}": …' for name in names) + "}",
        }
        if self.mode == "informed":
            shown["scores"] = distributions(rankings, row, names)
            shown["examples"] = [
                Data("example", _written(example)) for example in self._examples(services, names[::turn])
            ]
        return self._template(services).messages(**shown)

    def _template(self, services: Services) -> Prompt:
        return services.prompt(self.name, self.prompt or _BUILT_IN[self.mode], _SLOTS[self.mode])

    def _examples(self, services: Services, names: Sequence[str] | None = None) -> tuple[Weighed, ...]:
        if not self.examples:
            return ()
        given = trained_prompt(services, self.examples, self.name).weighed
        for example in given[:1] if names else ():
            weighed = [name for name, _ in example.weights]
            if weighed != names:
                raise SpecError(
                    f"The examples {self.examples!r} are for {' + '.join(weighed)}, not {' + '.join(names or ())}. "
                    "Make new ones with: surefind train prompt --step llm_weights."
                )
        return given


def _written(example: Weighed) -> str:
    best = ", ".join(f'"{name}": {weight:g}' for name, weight in example.weights)
    return f"Query: {example.query}\n{example.scores}\nBest weights: {{{best}}}"


def _read(answer: Completion | SurefindError, names: Sequence[str]) -> list[float] | SurefindError:
    weights = answer if isinstance(answer, SurefindError) else check_weights(read_object(answer.text), names)
    return AnswerError(weights) if isinstance(weights, str) else weights


def _schema(names: Sequence[str]) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {"type": "number"} for name in names}, "required": list(names)}
