"""`agentic(steps=3)`: a model reads what was found, searches again, and stops when there is enough evidence.

    bm25 + dense >> convex(alpha=0.5) >> agentic(steps=3)

Each step is one call. The model sees the question, the evidence so far and the best new passages. It names the passages
that help, and either says that they suffice or asks for up to `branch` searches, one for each missing fact. These run
through the same retrievers and fuser as the question, under the same access mask, so the model sees nothing that the
caller may not read. The result is the ranking with the evidence raised, then what only the model's searches found, by
reciprocal rank: such a passage rises if the model calls it evidence. By default each step is asked twice, the second
time with the passages reversed: evidence is what both answers name, and it rises only as far as both raise it, behind
the first passage of the ranking (`surefind.engine.llm.listwise`): two answers about so few passages often agree by
chance. With reverse=false evidence comes first. At most 2 · `steps` calls per query. An answer that names every passage
in the order given, or backwards, names none. A step without a usable answer ends the search with what was found; the
trace shows every step. Yao et al., ReAct, ICLR 2023; Sun et al., DynamicRAG, 2025.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

from surefind.base import spec
from surefind.base.errors import AnswerError, SurefindError
from surefind.base.prompts.fence import Data
from surefind.base.prompts.values import Calls, Message, Workload
from surefind.base.protocols import Fuser, Passages, PassageSource, Services
from surefind.base.running import note
from surefind.base.spec import Stage, require
from surefind.base.types import Query, Rankings
from surefind.engine.llm import prices
from surefind.engine.llm.ask import ask, note_failures, read_object
from surefind.engine.llm.listwise import both, chance_of, in_a_row, in_order, raise_to, shown
from surefind.engine.rerank._rescore import reordered

_SLOTS = ("query", "searches", "passages", "left", "branch")
_SCHEMA = {
    "type": "object",
    "properties": {
        "evidence": {"type": "array", "items": {"type": "integer"}},
        "enough": {"type": "boolean"},
        "searches": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["evidence", "enough", "searches"],
}
_FUSE = "rrf(k=60.0)"
_CHANCE = 0.25
"""Two answers that would have so much in common by chance name no evidence."""
_MAX_CHARS = 300
"""Most characters of a search; longer ones are ignored."""


@dataclass
class _Progress:
    """The progress of one query."""

    lists: list[Rankings]
    """The previous ranking and that of each search; one row each."""
    look: list[int]
    """Passages to show next."""
    searches: list[str]
    evidence: list[int] = field(default_factory=list)
    places: dict[int, int] = field(default_factory=dict)
    """The place to which each evidence rises."""
    seen: set[int] = field(default_factory=set)
    log: list[str] = field(default_factory=list)
    failed: SurefindError | None = None


@dataclass(frozen=True)
class Agentic(Stage):
    kind: ClassVar[str] = "rerank"
    name: ClassVar[str] = "agentic"
    reaches: ClassVar[bool] = True
    """The result depends on the retrievers behind the ranking too."""

    model: str | None = None
    steps: int = 3
    look: int = 8
    branch: int = 3
    reverse: bool = True
    passage_tokens: int = 200
    max_tokens: int = 500
    prompt: str = "v1"

    def __post_init__(self) -> None:
        require(1 <= self.steps <= 10, self, "steps must be from 1 to 10")
        require(self.look >= 1, self, "look must be at least 1")
        require(1 <= self.branch <= 10, self, "branch must be from 1 to 10")
        require(self.passage_tokens >= 1 and self.max_tokens >= 1, self, "token limits must be at least 1")

    @property
    def more_searches(self) -> int:
        return (self.steps - 1) * self.branch

    def llm_calls(self, work: Workload) -> Calls:
        tokens = prices.passages(work, 2 * self.look, self.passage_tokens)
        passes = 2 if self.reverse else 1
        return prices.calls(self.model, passes * work.queries * self.steps, tokens, 40 + 20 * self.branch)

    def stamp(self, services: Services) -> str:
        return f"{services.prompt(self.name, self.prompt, _SLOTS).fingerprint} {services.chat_name(self.model)}"

    def rerank(
        self, queries: Sequence[Query], rankings: Rankings, passages: Passages, k: int, services: Services
    ) -> Rankings:
        states = [self._start(query, rankings, i) for i, query in enumerate(queries)]
        active = [i for i, state in enumerate(states) if state.look]
        total = len(active)
        for step in range(1, self.steps + 1):  # all queries take each step together
            wanted = self._step(step, queries, states, active, passages, services)
            active = list(wanted)
            if not active or not isinstance(passages, PassageSource):
                break
            if step < self.steps:
                self._search(states, wanted, passages, rankings.ids.shape[1])
        failed = [state.failed for state in states if state.failed]
        if total and len(failed) == total and not any(state.evidence for state in states):
            raise failed[0]
        note_failures(failed, total, "stopped early")
        self._add_notes(states)
        return reordered(rankings, [_decided(state, self.reverse) for state in states], k, self.name)

    def _start(self, query: Query, rankings: Rankings, row: int) -> _Progress:
        before = _row(rankings, row)
        return _Progress([before], before.row(0)[0][: self.look].tolist(), [query.text])

    def _step(
        self,
        step: int,
        queries: Sequence[Query],
        states: Sequence[_Progress],
        active: Sequence[int],
        passages: Passages,
        services: Services,
    ) -> dict[int, list[str]]:
        """Makes one call for each active query; returns the next searches of the queries that go on."""
        views = {i: [*states[i].evidence, *states[i].look] for i in active}
        orders = [view for i in active for view in self._orders(views[i])]
        owners = [i for i in active for _ in self._orders(views[i])]
        prompts = [
            self._messages(queries[i], states[i], view, step, passages, services)
            for i, view in zip(owners, orders, strict=True)
        ]
        sizes = [len(view) for view in orders]
        answers = ask(
            services, self.model, prompts, schema=_SCHEMA, max_tokens=self.max_tokens,
            usable=lambda at, answer: not isinstance(read_step(answer.text, sizes[at]), SurefindError),
        )  # fmt: skip
        read = [
            answer if isinstance(answer, SurefindError) else read_step(answer.text, size)
            for answer, size in zip(answers, sizes, strict=True)
        ]
        wanted: dict[int, list[str]] = {}
        passes = 2 if self.reverse else 1
        for turn, i in enumerate(active):
            state, mine = states[i], slice(turn * passes, (turn + 1) * passes)
            replies = [reply for reply in read[mine] if not isinstance(reply, SurefindError)]
            if len(replies) < passes:  # an answer whose second is missing has nothing to agree with
                state.failed = next(reply for reply in read[mine] if isinstance(reply, SurefindError))
                continue
            named = [[view[n - 1] for n in reply[0]] for reply, view in zip(replies, orders[mine], strict=True)]
            common = [number for number in named[0] if number in named[-1]]
            if (
                self.reverse
                and common
                and chance_of(len(common), len(named[0]), len(named[1]), len(views[i])) > _CHANCE
            ):
                common = []
            places = {
                number: 1 + both(*(answer_places.index(number) for answer_places in (named[0], named[-1])))
                for number in common
            }
            common.sort(key=lambda number: places[number])
            state.seen |= set(views[i])
            state.evidence = list(dict.fromkeys(common + state.evidence))
            state.places |= places
            enough = all(reply[1] for reply in replies)
            new = [] if enough else self._new([text for reply in replies for text in reply[2]], state)
            last = step == self.steps
            state.log.append(_describe(step, len(common), enough, [] if last else new))
            if new and not last:
                wanted[i] = new
        return wanted

    def _orders(self, view: list[int]) -> list[list[int]]:
        """The orders in which passages are shown."""
        return [view, view[::-1]] if self.reverse else [view]

    def _messages(
        self,
        query: Query,
        state: _Progress,
        view: Sequence[int],
        step: int,
        passages: Passages,
        services: Services,
    ) -> list[Message]:
        made = [Data("query", text) for text in state.searches[1:]]
        return services.prompt(self.name, self.prompt, _SLOTS).messages(
            query=Data("query", query.text), searches=made or "only the question itself",
            passages=shown(passages[view], self.passage_tokens), left=self.steps - step, branch=self.branch,
        )  # fmt: skip

    def _new(self, searches: Sequence[str], state: _Progress) -> list[str]:
        known = {text.casefold() for text in state.searches}
        new = {text.casefold(): text for text in reversed(searches) if text.casefold() not in known}
        return list(new.values())[::-1][: self.branch]

    def _search(
        self, states: Sequence[_Progress], wanted: dict[int, list[str]], source: PassageSource, depth: int
    ) -> None:
        """Runs all searches in one batch; each query then looks at unseen passages, the best of each search first."""
        owners = [(i, text) for i, texts in wanted.items() for text in texts]
        rankings = source.search([Query(text) for _, text in owners], depth)
        fresh: dict[int, list[list[int]]] = {i: [] for i in wanted}
        for row, (i, text) in enumerate(owners):
            states[i].lists.append(_row(rankings, row))
            states[i].searches.append(text)
            fresh[i].append([o for o in rankings.row(row)[0].tolist() if o not in states[i].seen])
        for i, rows in fresh.items():
            turns = [row[place] for place in range(self.look) for row in rows if place < len(row)]
            states[i].look = list(dict.fromkeys(turns))[: self.look]

    def _add_notes(self, states: Sequence[_Progress]) -> None:
        if len(states) == 1:
            for sentence in states[0].log:
                note(sentence)
        else:
            more = sum(len(state.searches) - 1 for state in states)
            note(f"{more} more searches for {len(states)} questions")


def read_step(reply: str, count: int) -> tuple[list[int], bool, list[str]] | AnswerError:
    """Returns the evidence, whether it is enough, and the searches; or what is wrong with the answer."""
    answer: dict[str, Any] | None = read_object(reply)
    if answer is None:
        return AnswerError("The answer contained no JSON object.")
    if not answer.keys() & {"evidence", "enough", "searches"}:
        return AnswerError("The answer's object contained neither evidence nor searches.")
    numbers, searches = answer.get("evidence", []), answer.get("searches", [])
    if not isinstance(numbers, list) or not isinstance(searches, list):
        return AnswerError("The answer's evidence and searches were not lists.")
    inside = [n for n in numbers if isinstance(n, int) and not isinstance(n, bool) and 1 <= n <= count]
    if in_a_row(inside):  # it repeats what it was given
        inside = []
    texts = [" ".join(text.split()) for text in searches if isinstance(text, str)]
    return list(dict.fromkeys(inside)), answer.get("enough") is True, [t for t in texts if 0 < len(t) <= _MAX_CHARS]


def _describe(step: int, evidence: int, enough: bool, searches: Sequence[str]) -> str:
    then = (
        "enough" if enough else f"searched {', '.join(map(repr, searches))}" if searches else "nothing more to search"
    )
    return f"step {step}: {evidence} passages are evidence, {then}"


def _decided(state: _Progress, reverse: bool) -> list[tuple[int, float]]:
    """The ranking with the evidence raised, then what only the searches found; empty if there is neither."""
    if not state.evidence and len(state.lists) == 1:
        return []
    fuser = cast(Fuser, spec.make("fuse", _FUSE))
    width = sum(ranking.ids.shape[1] for ranking in state.lists)
    fused = fuser.fuse(state.lists, width) if len(state.lists) > 1 else state.lists[0]
    every = list(dict.fromkeys([*state.lists[0].row(0)[0].tolist(), *fused.row(0)[0].tolist()]))
    if reverse:
        return in_order(raise_to(every, state.places))
    return in_order([*state.evidence, *(number for number in every if number not in set(state.evidence))])


def _row(rankings: Rankings, row: int) -> Rankings:
    return Rankings(rankings.ids[row : row + 1], rankings.scores[row : row + 1], rankings.source, rankings.signal)
