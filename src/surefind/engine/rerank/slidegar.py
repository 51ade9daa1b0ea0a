"""`slidegar(top=50, window=20, step=10)`: listwise reranking in windows, with neighbours of good hits.

The model orders the first `window` passages. The better part is carried into the next window, which is filled
alternately with neighbours of the carried passages and with the next passages of the ranking. So a passage that no
retriever returned can reach the top, with the same number of calls as plain sliding windows:

    calls per query = (1 + ceil((top - window) / step)) · 2        once each with reverse=false

By default all windows are read a second time, with the passages of each reversed, and a passage rises only as far as
both readings raise it (`surefind.engine.llm.listwise`). Neighbours are the nearest passages by the pipeline's vectors
(by their words if it has none), and only those that the caller may read. A window without a usable answer keeps its
order. Rathee, MacAvaney and Anand, Guiding retrieval using LLM-based listwise rankers, ECIR 2025; the support-chatbot
study, 4.6.2.

The windows of `slidegar` for one query, without the model: which passages to show next, and what an answer changes.

The first window holds the head of the ranking. After each answer the better part is carried into the next window and
the rest is settled. `step` new passages join, alternately from the neighbours of the carried passages and from the
ranking, until as many passages were shown as sliding over the head alone would show. The number of calls is the same:

    calls = 1 + ceil((top - window) / step)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil
from typing import ClassVar

from surefind.base.errors import AnswerError, SurefindError
from surefind.base.prompts.values import Calls, Workload
from surefind.base.protocols import Passages, PassageSource, Services
from surefind.base.running import note
from surefind.base.spec import Stage, require
from surefind.base.types import Query, Rankings
from surefind.engine.llm import prices
from surefind.engine.llm.ask import check_temperature, note_failures
from surefind.engine.llm.listwise import ListPrompt, Readings, ask_orders, in_order, merge, note_agreement, unreversed
from surefind.engine.rerank._rescore import reordered

Near = Callable[[Sequence[int]], Sequence[int]]
"""Passages -> their neighbours, nearest first."""


def calls(candidates: int, window: int, step: int) -> int:
    return 0 if candidates < 2 else 1 + ceil(max(0, candidates - window) / step)


class Slide:
    def __init__(self, ranking: Sequence[int], top: int, window: int, step: int, near: Near) -> None:
        self._ranking = list(ranking)
        self._step = step
        self._left = max(0, min(top, len(ranking)) - window)
        """How many more passages may be shown."""
        self._near = near
        self._frontier: list[int] = []
        self._from_neighbours = True
        self.window = self._ranking[: min(top, window)]
        self._seen = set(self.window)
        self._carried: list[int] = []
        self._settled: list[int] = []
        self.adopted = 0
        """How many shown passages were not in the previous ranking, or too low in it to be shown."""

    def answer(self, order: Sequence[int]) -> bool:
        """Takes the model's order of the window (places, best first); returns whether there is another window."""
        ranked = [self.window[place] for place in order]
        size = min(self._step, self._left)
        carried = ranked[:-size] if 0 < size < len(ranked) else ranked[:1] if size else []
        self._settle(ranked, len(carried))
        self._carried = carried
        if not size:
            return False
        self._frontier = [*self._near(carried), *self._frontier]
        new = self._next(size)
        self.window = carried + new
        self._left -= size
        return True

    def stop(self) -> None:
        """Ends without an answer and without further windows: everything keeps its order."""
        self._left = 0
        self.answer(range(len(self.window)))

    def _settle(self, ranked: list[int], first: int) -> None:
        """Settles the passages of a window from place `first` on. A passage that was carried before has beaten all that
        are settled, and so have the passages ranked above it now: they go above. The others are only known to be worse
        than the carried ones: they go below."""
        proven = max((place + 1 for place, number in enumerate(ranked) if number in self._carried), default=first)
        above, below = ranked[first:proven], ranked[max(first, proven) :]
        self._settled = [*above, *self._settled, *below]

    def _next(self, size: int) -> list[int]:
        """Takes new passages alternately from the neighbours and from the ranking; if one runs out, from the other."""
        first, second = (self._frontier, self._ranking) if self._from_neighbours else (self._ranking, self._frontier)
        self._from_neighbours = not self._from_neighbours
        new: list[int] = []
        for number in (*first, *second):
            if len(new) < size and number not in self._seen:
                new.append(number)
                self._seen.add(number)
        first_seen = set(self._ranking[: len(self._seen)])
        self.adopted += sum(number not in first_seen for number in new)
        return new

    @property
    def result(self) -> list[int]:
        """The shown passages in their new order, then the others in the order of the ranking."""
        return self._settled + [number for number in self._ranking if number not in self._seen]


@dataclass(frozen=True)
class SlideGAR(Stage):
    kind: ClassVar[str] = "rerank"
    name: ClassVar[str] = "slidegar"
    reaches: ClassVar[bool] = True
    """The result depends on the retrievers behind the ranking too."""

    model: str | None = None
    top: int = 50
    window: int = 20
    step: int = 10
    neighbours: int = 8
    reverse: bool = True
    passage_tokens: int = 300
    max_tokens: int = 500
    prompt: str = "v1"
    temperature: float | None = None
    repeat: int = 0
    """Another number asks the same questions again, to see how much the answers vary."""

    def __post_init__(self) -> None:
        require(2 <= self.window <= self.top, self, "window must be from 2 to top")
        require(1 <= self.step < self.window, self, "step must be at least 1 and below window")
        require(self.neighbours >= 0, self, "neighbours must be at least 0")
        require(self.passage_tokens >= 1 and self.max_tokens >= 1, self, "token limits must be at least 1")
        check_temperature(self, self.temperature)

    def llm_calls(self, work: Workload) -> Calls:
        tokens = prices.passages(work, self.window, self.passage_tokens)
        windows = (2 if self.reverse else 1) * calls(self.top, self.window, self.step)
        return prices.calls(self.model, work.queries * windows, tokens, 20 + 5 * self.window)

    def stamp(self, services: Services) -> str:
        fingerprint = services.prompt("llm_listwise", self.prompt, ListPrompt.SLOTS).fingerprint
        return f"{fingerprint} {services.chat_name(self.model)}"

    def rerank(
        self, queries: Sequence[Query], rankings: Rankings, passages: Passages, k: int, services: Services
    ) -> Rankings:
        near = partial(self._near, passages)
        passes = 2 if self.reverse else 1
        heads = [rankings.row(i)[0].tolist() for i in range(len(queries))]
        slides = [Slide(head, self.top, self.window, self.step, near) for head in heads for _ in range(passes)]
        active = [at for at, slide in enumerate(slides) if len(slide.window) > 1]
        failed: list[SurefindError] = []
        windows = 0
        while active:  # one window of every active slide per turn, all asked together
            windows += len(active)
            active, reasons = self._turn(queries, slides, active, passages, services)
            failed += reasons
        if windows and len(failed) == windows:
            raise failed[0]
        note_failures(failed, windows, "kept the order of a window")
        adopted = sum(slide.adopted for slide in slides)
        if adopted:
            note(f"{adopted} neighbours of good hits were looked at")
        decided = [[] if len(head) < 2 else in_order(slides[i * passes].result) for i, head in enumerate(heads)]
        if self.reverse:
            merged = {i: self._merged(head, slides[2 * i : 2 * i + 2]) for i, head in enumerate(heads) if len(head) > 1}
            decided = [in_order(merged[i][0]) if i in merged else [] for i in range(len(heads))]
            note_agreement([readings for _, readings in merged.values()], self.window, lists=False)
        return reordered(rankings, decided, k, self.name)

    def _merged(self, head: Sequence[int], slides: Sequence[Slide]) -> tuple[list[int], Readings]:
        """Each passage as far up as both slides have it, and the two orders."""
        every = list(dict.fromkeys([*head[: self.top], *(number for slide in slides for number in slide.result)]))
        place = {number: at for at, number in enumerate(every)}
        first, second = ([place[number] for number in dict.fromkeys([*slide.result, *every])] for slide in slides)
        return [every[at] for at in merge(first, second, self.window, self.window)], Readings(
            (first, second), self.window
        )

    def _turn(
        self,
        queries: Sequence[Query],
        slides: Sequence[Slide],
        active: Sequence[int],
        passages: Passages,
        services: Services,
    ) -> tuple[list[int], list[SurefindError]]:
        """Asks about one window of every active slide; returns the slides with another window, and the errors. Every
        second slide of a query reads its windows backwards."""
        prompt = ListPrompt.of(services.prompt("llm_listwise", self.prompt, ListPrompt.SLOTS))
        passes = 2 if self.reverse else 1
        backwards = [at % passes == 1 for at in active]
        lists = [
            (queries[at // passes].text, passages[slides[at].window[:: -1 if back else 1]])
            for at, back in zip(active, backwards, strict=True)
        ]
        readings = ask_orders(
            services, self.model, prompt, lists, self.window, reverse=False, passage_tokens=self.passage_tokens,
            max_tokens=self.max_tokens, temperature=self.temperature, repeat=self.repeat,
        )  # fmt: skip
        failed: list[SurefindError] = []
        more: list[int] = []
        for at, back, reading in zip(active, backwards, readings, strict=True):
            order, size = reading.order(), len(slides[at].window)
            if isinstance(order, SurefindError):
                failed.append(order)
                if not isinstance(order, AnswerError):  # an endpoint that fails would fail again: no more windows
                    slides[at].stop()
                    continue
                order = list(range(size))
            elif back:
                order = unreversed(order, self.window)
            if slides[at].answer(order):
                more.append(at)
        return more, failed

    def _near(self, passages: Passages, ids: Sequence[int]) -> list[int]:
        """The neighbours of each passage in turn, nearest first."""
        if not self.neighbours or not isinstance(passages, PassageSource):
            return []
        return [other for row in passages.near(ids, self.neighbours) for other in row]
