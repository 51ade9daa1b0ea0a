"""`pointwise(top=20, keep=10)`: scores each passage by how likely the model is to answer yes.

    score(d) = P(yes) / (P(yes) + P(no))        from the log-probabilities of the first token of the answer

Scores are comparable between queries, unlike places in a list, and a passage's position cannot influence the others.
The endpoint must give log-probabilities; without them the ranking stays unchanged. One call per passage (`top` per
query), of about passage_tokens tokens and one token of answer. Nogueira et al., Findings of EMNLP 2020; Liang et al.,
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
from surefind.llm.permutation import describe
from surefind.prompts.fence import Data
from surefind.prompts.values import Calls, Completion, Message, Workload
from surefind.protocols import Passages, Services
from surefind.rerank._order import reordered
from surefind.spec import Stage, require
from surefind.types import Query, Rankings

_ALTERNATIVES = 10
_SLOTS = ("passage", "query")


@dataclass(frozen=True)
class Pointwise(Stage):
    kind: ClassVar[str] = "rerank"
    name: ClassVar[str] = "pointwise"

    model: str | None = None
    top: int = 20
    keep: int = 10
    passage_tokens: int = 300
    prompt: str = "v1"

    def __post_init__(self) -> None:
        require(1 <= self.keep <= self.top, self, "keep must be from 1 to top")
        require(self.passage_tokens >= 1, self, "passage_tokens must be at least 1")

    def llm_calls(self, work: Workload) -> Calls:
        return estimate.calls(self.model, work.queries * self.top, estimate.passages(work, 1, self.passage_tokens), 1)

    def stamp(self, services: Services) -> str:
        return f"{services.prompt(self.name, self.prompt, _SLOTS).fingerprint} {services.chat_name(self.model)}"

    def rerank(
        self, queries: Sequence[Query], rankings: Rankings, passages: Passages, k: int, services: Services
    ) -> Rankings:
        template = services.prompt(self.name, self.prompt, _SLOTS)
        heads = [rankings.row(i)[0][: self.top].tolist() for i in range(len(queries))]
        active = [i for i, head in enumerate(heads) if len(head) > 1]
        prompts: list[list[Message]] = [
            template.messages(
                passage=Data("passage", describe(chunk, self.passage_tokens)), query=Data("query", queries[i].text)
            )
            for i in active
            for chunk in passages[heads[i]]
        ]
        answers = iter(
            ask(
                services, self.model, prompts, max_tokens=1, logprobs=_ALTERNATIVES,
                usable=lambda at, answer: isinstance(likelihood(answer), float),
            )
        )  # fmt: skip
        decided: list[list[tuple[int, float]]] = [[] for _ in queries]
        failed: list[SurefindError] = []
        for i in active:
            scored = [(number, likelihood(next(answers))) for number in heads[i]]
            reasons = [value for _, value in scored if isinstance(value, SurefindError)]
            if reasons:  # scored and unscored passages cannot be compared: keep the ranking
                failed.append(reasons[0])
                continue
            pairs = [(number, value) for number, value in scored if isinstance(value, float)]
            decided[i] = sorted(pairs, key=lambda pair: (-pair[1], pair[0]))[: self.keep]
        if active and len(failed) == len(active):
            raise failed[0]
        note_failures(failed, len(active), "kept the previous order")
        return reordered(rankings, decided, k, self.name)


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
