"""`llm_listwise(top=50, keep=10, mode=zero_shot)`: a language model reorders the head of a ranking.

The model sees the query and `top` passages, each fenced and cut to `passage_tokens`, and names the `keep` best by
number. They come first, in its order; everything else follows in its previous order. An answer is checked and repaired
(`surefind.engine.llm.listwise`); an answer that contains no order leaves the ranking unchanged.

    mode=zero_shot    the prompt alone
    mode=one_shot     with the hardest example of an exam's tuning half
    mode=meta         with that example and a system prompt improved on failures; `surefind train prompt` makes both
    reverse=false     asks once. By default the model is asked a second time with the passages reversed, because models
                      favour what they read first, and a passage rises only as far as both answers raise it

Two calls per query (one with reverse=false), each of about top · passage_tokens tokens. The agentic-knowledge-base
study shows whole chunks at `temperature=0.2` with `max_tokens=1000`, and the support-chatbot study 512 tokens of each
passage: set `passage_tokens` to read as much. Without `temperature` it is 0. `prompt=paper` is the prompt of the
agentic-knowledge-base study word for word, `prompt=paper_cascade` what the cascade study says of its own: both ask for
a JSON array. Sun et al., 2023; the agentic-knowledge-base study, 3.4.1; the support-chatbot study, 4.6.2 and 4.7; the
cascade study, III.H.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from surefind.base.errors import SurefindError
from surefind.base.prompts.values import Calls, Workload
from surefind.base.protocols import Passages, Services
from surefind.base.spec import Stage, require
from surefind.base.types import Chunk, Query, Rankings
from surefind.engine.llm import prices
from surefind.engine.llm.ask import check_temperature, note_failures
from surefind.engine.llm.listwise import ListPrompt, Readings, ask_orders, in_order, note_agreement
from surefind.engine.llm.trained import trained_prompt
from surefind.engine.rerank._rescore import reordered


@dataclass(frozen=True)
class LLMListwise(Stage):
    kind: ClassVar[str] = "rerank"
    name: ClassVar[str] = "llm_listwise"

    model: str | None = None
    top: int = 50
    keep: int = 10
    mode: Literal["zero_shot", "one_shot", "meta"] = "zero_shot"
    trained: str | None = None
    reverse: bool = True
    passage_tokens: int = 300
    max_tokens: int = 500
    prompt: str = "v1"
    temperature: float | None = None
    repeat: int = 0
    """Another number asks the same questions again, to see how much the answers vary."""

    def __post_init__(self) -> None:
        require(self.top >= 2, self, "top must be at least 2")
        require(1 <= self.keep <= self.top, self, "keep must be from 1 to top")
        require(self.passage_tokens >= 1 and self.max_tokens >= 1, self, "token limits must be at least 1")
        check_temperature(self, self.temperature)
        made = self.mode == "zero_shot" or bool(self.trained)
        require(made, self, f"mode={self.mode} needs trained=NAME, made by: surefind train prompt --exam EXAM")

    def llm_calls(self, work: Workload) -> Calls:
        passes, shown = (2 if self.reverse else 1), (2 if self.trained else 1) * self.top
        tokens = prices.passages(work, shown, self.passage_tokens)
        return prices.calls(self.model, passes * work.queries, tokens, 20 + 5 * self.keep)

    def stamp(self, services: Services) -> str:
        return f"{self._prompt(services).fingerprint} {services.chat_name(self.model)}"

    def training_questions(self, services: Services) -> frozenset[str]:
        """Keys of the questions that its prompt was made from."""
        return frozenset(trained_prompt(services, self.trained).learnt if self.mode != "zero_shot" else ())

    def rerank(
        self, queries: Sequence[Query], rankings: Rankings, passages: Passages, k: int, services: Services
    ) -> Rankings:
        heads = [rankings.row(i)[0][: self.top].tolist() for i in range(len(queries))]
        active = [i for i, head in enumerate(heads) if len(head) > 1]
        readings = self.readings([(queries[i].text, passages[heads[i]]) for i in active], services)
        decided: list[list[tuple[int, float]]] = [[] for _ in queries]
        failed: list[SurefindError] = []
        for i, reading in zip(active, readings, strict=True):
            order = reading.order()
            if isinstance(order, SurefindError):
                failed.append(order)
            else:
                decided[i] = in_order([heads[i][place] for place in order][: self.keep])
        if active and len(failed) == len(active):
            raise failed[0]
        note_agreement(readings, self.keep)
        note_failures(failed, len(active), "kept the previous order")
        return reordered(rankings, decided, k, self.name)

    def readings(self, lists: Sequence[tuple[str, Sequence[Chunk]]], services: Services) -> list[Readings]:
        """Asks the model to order each list (query, passages)."""
        return ask_orders(
            services, self.model, self._prompt(services), lists, self.keep, reverse=self.reverse,
            passage_tokens=self.passage_tokens, max_tokens=self.max_tokens, temperature=self.temperature,
            repeat=self.repeat,
        )  # fmt: skip

    def _prompt(self, services: Services) -> ListPrompt:
        made = trained_prompt(services, self.trained) if self.mode != "zero_shot" else None
        return ListPrompt.of(
            services.prompt("llm_listwise", self.prompt, ListPrompt.SLOTS),
            made.system if made and self.mode == "meta" else "",
            made.example if made else None,
        )
