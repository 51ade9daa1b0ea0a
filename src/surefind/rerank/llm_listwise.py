"""`llm_listwise(top=50, keep=10, mode=zero_shot)`: a language model reorders the head of a ranking.

The model sees the query and `top` passages, each fenced and cut to `passage_tokens`, and names the `keep` best by
number. They come first, in its order; everything else follows in its previous order. An answer is checked and repaired
(`surefind.llm.permutation`); an answer that contains no order leaves the ranking unchanged.

    mode=zero_shot    the prompt alone
    mode=one_shot     with the hardest example of an exam's tuning half
    mode=meta         with that example and a system prompt improved on failures; `surefind train prompt` makes both
    reverse=true      asks a second time with the passages reversed, because models favour what they read first, and
                      trusts the two answers as far as they agree (two calls per query instead of one)

One call per query, of about top · passage_tokens tokens. The agentic-knowledge-base study shows whole chunks at
`temperature=0.2` with `max_tokens=1000`, and the support-chatbot study 512 tokens of each passage: set `passage_tokens`
to read as much. Without `temperature` it is 0. `prompt=paper` is the prompt of the agentic-knowledge-base study word
for word, `prompt=paper_cascade` what the cascade study says of its own: both ask for a JSON array. Sun et al., 2023;
the agentic-knowledge-base study, 3.4.1; the support-chatbot study, 4.6.2 and 4.7; the cascade study, III.H.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from surefind.errors import AnswerError, SurefindError
from surefind.llm import estimate
from surefind.llm.ask import ask, check_temperature, note_failures
from surefind.llm.listwise import ListPrompt
from surefind.llm.permutation import NO_ORDER, in_order, merge, read_order
from surefind.llm.trained import trained_prompt
from surefind.prompts.values import Calls, Message, Workload
from surefind.protocols import Passages, Services
from surefind.rerank._order import reordered
from surefind.running.notes import note
from surefind.spec import Stage, require
from surefind.types import Query, Rankings


@dataclass(frozen=True)
class LLMListwise(Stage):
    kind: ClassVar[str] = "rerank"
    name: ClassVar[str] = "llm_listwise"

    model: str | None = None
    top: int = 50
    keep: int = 10
    mode: Literal["zero_shot", "one_shot", "meta"] = "zero_shot"
    trained: str | None = None
    reverse: bool = False
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
        tokens = estimate.passages(work, shown, self.passage_tokens)
        return estimate.calls(self.model, passes * work.queries, tokens, 20 + 5 * self.keep)

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
        prompt = self._prompt(services)
        prompts: list[list[Message]] = []
        for i in active:
            chunks = passages[heads[i]]
            prompts.append(prompt.messages(queries[i].text, chunks, self.keep, self.passage_tokens))
            if self.reverse:
                prompts.append(prompt.messages(queries[i].text, chunks[::-1], self.keep, self.passage_tokens))
        passes = 2 if self.reverse else 1
        sizes = [len(heads[i]) for i in active for _ in range(passes)]
        answers = ask(
            services, self.model, prompts, schema=prompt.schema, max_tokens=self.max_tokens,
            temperature=self.temperature or 0.0, repeat=self.repeat,
            usable=lambda at, answer: read_order(answer.text, sizes[at], self.keep) is not None,
        )  # fmt: skip
        decided: list[list[tuple[int, float]]] = [[] for _ in queries]
        failed: list[SurefindError] = []
        for turn, i in enumerate(active):
            mine = answers[turn * passes : (turn + 1) * passes]
            order = self.order([None if isinstance(a, SurefindError) else a.text for a in mine], len(heads[i]))
            if order is None:
                failed.append(next((a for a in mine if isinstance(a, SurefindError)), AnswerError(NO_ORDER)))
            else:
                decided[i] = in_order([heads[i][place] for place in order][: self.keep])
        if active and len(failed) == len(active):
            raise failed[0]
        note_failures(failed, len(active), "kept the previous order")
        return reordered(rankings, decided, k, self.name)

    def order(self, replies: Sequence[str | None], count: int) -> list[int] | None:
        """Merges the orders of the passes that gave one; None if none did."""
        orders = []
        for turn, reply in enumerate(replies):
            found = read_order(reply, count, self.keep) if reply is not None else None
            if found is None or not found.informs:
                continue
            if found.repaired:
                note(f"order repaired: {'; '.join(found.repaired)}")
            orders.append(found.places if turn == 0 else _unreversed(found.places, count, self.keep))
        if len(replies) > len(orders) > 0:
            note("one of two passes gave no order")
        if len(orders) < 2:
            return orders[0] if orders else None
        merged, agreement = merge(orders[0], orders[1], self.keep)
        note(f"the two readings agree: τ {agreement:.2f}")
        return merged

    def _prompt(self, services: Services) -> ListPrompt:
        made = trained_prompt(services, self.trained) if self.mode != "zero_shot" else None
        return ListPrompt.of(
            services.prompt("llm_listwise", self.prompt, ListPrompt.SLOTS),
            made.system if made and self.mode == "meta" else "",
            made.example if made else None,
        )


def _unreversed(order: Sequence[int], count: int, keep: int) -> list[int]:
    """Turns places in the reversed list into places in the list; unnamed passages follow in list order."""
    named = [count - 1 - place for place in order[: min(keep, count)]]
    return named + sorted(set(range(count)) - set(named))
