"""`pointwise(top=20, keep=10)`: scores each passage by how likely the model is to answer yes.

    score(d) = P(yes) / (P(yes) + P(no))        from the log-probabilities of the first token of the answer

By default each passage is judged twice, with the passage before the query and after it, and a passage rises only as far
as both readings raise it (`surefind.llm.readings`); scores are then places. With reverse=false it is judged once, and
the scores are comparable between queries. If all passages get the same score, nothing was judged and the ranking stays
unchanged; so it does if the endpoint gives no log-probabilities. Two calls per passage (2 · `top` per query), each of
about passage_tokens tokens and one token of answer. Nogueira et al., Findings of EMNLP 2020; Liang et al.,
HELM, 2022.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from surefind.errors import AnswerError, SurefindError
from surefind.llm import estimate
from surefind.llm.ask import ask, note_failures
from surefind.llm.permutation import describe, in_order
from surefind.llm.readings import Readings, note_agreement
from surefind.prompts.fence import Data
from surefind.prompts.values import Calls, Completion, Message, Workload
from surefind.protocols import Passages, Services
from surefind.rerank._order import reordered
from surefind.spec import Stage, require
from surefind.types import Chunk, Query, Rankings

_ALTERNATIVES = 10
_SLOTS = ("passage", "query")
_ALIKE = 1e-6
"""Likelihoods that differ by less are the same."""


@dataclass(frozen=True)
class Pointwise(Stage):
    kind: ClassVar[str] = "rerank"
    name: ClassVar[str] = "pointwise"

    model: str | None = None
    top: int = 20
    keep: int = 10
    passage_tokens: int = 300
    reverse: bool = True
    prompt: str = "v1"

    def __post_init__(self) -> None:
        require(1 <= self.keep <= self.top, self, "keep must be from 1 to top")
        require(self.passage_tokens >= 1, self, "passage_tokens must be at least 1")

    def llm_calls(self, work: Workload) -> Calls:
        passes = 2 if self.reverse else 1
        tokens = estimate.passages(work, 1, self.passage_tokens)
        return estimate.calls(self.model, passes * work.queries * self.top, tokens, 1)

    def stamp(self, services: Services) -> str:
        return f"{services.prompt(self.name, self.prompt, _SLOTS).fingerprint} {services.chat_name(self.model)}"

    def rerank(
        self, queries: Sequence[Query], rankings: Rankings, passages: Passages, k: int, services: Services
    ) -> Rankings:
        heads = [rankings.row(i)[0][: self.top].tolist() for i in range(len(queries))]
        active = [i for i, head in enumerate(heads) if len(head) > 1]
        scored = self.likelihoods([(queries[i].text, passages[heads[i]]) for i in active], services)
        decided: list[list[tuple[int, float]]] = [[] for _ in queries]
        failed: list[SurefindError] = []
        read: list[Readings] = []
        for i, readings in zip(active, scored, strict=True):
            reading = Readings(tuple(_order(values) for values in readings), len(heads[i]))
            order = reading.order()
            if isinstance(order, SurefindError):
                failed.append(order)
                continue
            read.append(reading)
            ids = [heads[i][place] for place in order]
            (values, *_) = readings
            once = [(heads[i][place], float(values[place])) for place in order]  # type: ignore[arg-type]
            decided[i] = (in_order(ids) if self.reverse else once)[: self.keep]
        if active and len(failed) == len(active):
            raise failed[0]
        note_agreement(read, self.keep, lists=False)
        note_failures(failed, len(active), "kept the previous order")
        return reordered(rankings, decided, k, self.name)

    def likelihoods(
        self, lists: Sequence[tuple[str, Sequence[Chunk]]], services: Services
    ) -> list[list[list[float | SurefindError]]]:
        """For each list (query, passages) and each reading of it, how likely each passage answers the query."""
        template = services.prompt(self.name, self.prompt, _SLOTS)
        templates = [template, template.swapped("passage", "query")] if self.reverse else [template]
        prompts: list[list[Message]] = [
            wording.messages(passage=Data("passage", describe(chunk, self.passage_tokens)), query=Data("query", query))
            for query, chunks in lists
            for wording in templates
            for chunk in chunks
        ]
        answers = iter(
            ask(
                services, self.model, prompts, max_tokens=1, logprobs=_ALTERNATIVES,
                usable=lambda at, answer: isinstance(likelihood(answer), float),
            )
        )  # fmt: skip
        return [[[likelihood(next(answers)) for _ in chunks] for _ in templates] for _, chunks in lists]


def _order(values: Sequence[float | SurefindError]) -> list[int] | SurefindError:
    """The places by likelihood; an error if one is unknown, since scored and unscored passages cannot be compared, or
    if all are alike."""
    known = [value for value in values if not isinstance(value, SurefindError)]
    if len(known) < len(values):
        return next(value for value in values if isinstance(value, SurefindError))
    if max(known) - min(known) < _ALIKE:
        return AnswerError("Every passage got the same score.")
    return sorted(range(len(known)), key=lambda place: (-known[place], place))


def likelihood(answer: Completion | SurefindError) -> float | SurefindError:
    """P(yes) / (P(yes) + P(no)), or the error that says why it is unknown."""
    if isinstance(answer, SurefindError):
        return answer
    if not answer.logprobs or not answer.logprobs[0]:
        return AnswerError("The endpoint gave no log-probabilities. Use llm_listwise, or a model that gives them.")
    yes, no = _mass(answer.logprobs[0], "yes"), _mass(answer.logprobs[0], "no")
    if not yes + no:
        return AnswerError(f"Neither yes nor no was likely; the answer was {answer.text[:20]!r}.")
    return yes / (yes + no)


def _mass(tokens: Mapping[str, float], word: str) -> float:
    """The probability of a word in all its spellings: ` Yes`, `yes`, `▁YES`."""
    return sum(math.exp(value) for token, value in tokens.items() if token.strip(" ▁Ġ\n\"'.").lower() == word)
