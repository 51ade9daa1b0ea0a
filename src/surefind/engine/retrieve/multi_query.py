"""`multi_query(retriever=dense, rewrites=3)`: searches the question and rewrites of it, and fuses the rankings.

    score(d) = fuse(ranking(q), ranking(q_1), …, ranking(q_n))        q_i: rewrites of q by a model; fuse: rrf(k=60)

A rewrite whose ranking has no more in common with the question's than chance would give is left out (`related`): it
would lead the search away. One call per query, and n + 1 searches of the inner retriever. If the model returns nothing
usable, the question is searched alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

from surefind.base import spec
from surefind.base.errors import AnswerError, SurefindError
from surefind.base.prompts.fence import Data
from surefind.base.prompts.values import Calls, Workload
from surefind.base.protocols import Fuser, Index, Services
from surefind.base.spec import Stage, require
from surefind.base.types import Mask, Query, Rankings
from surefind.engine.llm import prices
from surefind.engine.llm.ask import ask, note_failures, read_object, same_words
from surefind.engine.retrieve._wrapping import Row, Wrapped, Wrapping, padded, related

_SLOTS = ("query", "rewrites")
_SCHEMA = {
    "type": "object",
    "properties": {"queries": {"type": "array", "items": {"type": "string"}}},
    "required": ["queries"],
}
_MAX_TOKENS = 300
_DEPTH = 100
"""How deep each wording is searched at least, so that a smaller k gives the head of the same ranking."""
_MAX_REWRITE_CHARS = 500
"""Most characters of a rewrite; a longer text is not a query."""


@dataclass(frozen=True)
class MultiQuery(Wrapping, Stage):
    kind: ClassVar[str] = "retrieve"
    name: ClassVar[str] = "multi_query"

    retriever: str = "dense(model=minilm)"
    model: str | None = None
    rewrites: int = 3
    fuse: str = "rrf(k=60.0)"
    prompt: str = "v1"

    def __post_init__(self) -> None:
        object.__setattr__(self, "retriever", str(spec.make("retrieve", self.retriever)))  # written out in full
        object.__setattr__(self, "fuse", str(spec.make("fuse", self.fuse)))
        require(1 <= self.rewrites <= 10, self, "rewrites must be from 1 to 10")

    @property
    def searches(self) -> int:
        """The most searches of the inner retriever for one query."""
        return 1 + self.rewrites

    @property
    def added_tokens(self) -> int:
        return _MAX_TOKENS

    def llm_calls(self, work: Workload) -> Calls:
        return prices.calls(self.model, work.queries, 0, 40 * self.rewrites)

    def stamp(self, services: Services) -> str:
        return f"{services.prompt(self.name, self.prompt, _SLOTS).fingerprint} {services.chat_name(self.model)}"

    def wrap(self, index: Index, services: Services) -> Index:
        return _Rewritten(index, services)

    def rewritten(self, queries: Sequence[Query], services: Services) -> list[list[str]]:
        """Rewrites of each query; an empty list if the model failed."""
        template = services.prompt(self.name, self.prompt, _SLOTS)
        prompts = [template.messages(query=Data("query", query.text), rewrites=self.rewrites) for query in queries]
        answers = ask(
            services, self.model, prompts, schema=_SCHEMA, max_tokens=_MAX_TOKENS,
            usable=lambda at, answer: bool(read_rewrites(answer.text, queries[at].text, self.rewrites)),
        )  # fmt: skip
        made: list[list[str]] = []
        failed: list[SurefindError] = []
        for query, answer in zip(queries, answers, strict=True):
            rewrites = (
                [] if isinstance(answer, SurefindError) else read_rewrites(answer.text, query.text, self.rewrites)
            )
            made.append(rewrites)
            if not rewrites:
                none = AnswerError("The answer contained no queries.")
                failed.append(answer if isinstance(answer, SurefindError) else none)
        note_failures(failed, len(queries), "searched the question alone")
        return made


def read_rewrites(reply: str, query: str, most: int) -> list[str]:
    """The usable queries of an answer: not empty, not too long, none with the words of the question or of another."""
    listed = (read_object(reply) or {}).get("queries")
    texts = [text.strip() for text in listed if isinstance(text, str)] if isinstance(listed, list) else []
    rewrites: list[str] = []
    for text in (text for text in texts if 0 < len(text) <= _MAX_REWRITE_CHARS):
        if not any(same_words(text, other) for other in (query, *rewrites)):
            rewrites.append(text)
    return rewrites[:most]


class _Rewritten(Wrapped):
    def search(self, retriever: Any, queries: Sequence[Query], k: int, allow: Mask) -> Rankings:
        if not queries or not len(self):
            rankings = self.plain(retriever, queries, k, allow)
            return replace(rankings, source=retriever.name, signal=retriever.signal)
        wordings = [
            [query.text, *rewrites]
            for query, rewrites in zip(queries, retriever.rewritten(queries, self.services), strict=True)
        ]
        depth = max(k, _DEPTH)
        searched = self.plain(retriever, [Query(text) for texts in wordings for text in texts], depth, allow)
        rows_left = iter(range(len(searched)))
        places = [[next(rows_left) for _ in texts] for texts in wordings]
        kept = [
            [own, *(at for at in others if related(searched.row(own)[0], searched.row(at)[0], self.population(allow)))]
            for own, *others in places
        ]
        _note_left_out(wordings, kept)
        rows: dict[int, Row] = {}
        for size in sorted({len(some) for some in kept}):  # so that a fuser gets one ranking per wording
            members = [i for i, some in enumerate(kept) if len(some) == size]
            lists = [_rows(searched, [kept[i][turn] for i in members]) for turn in range(size)]
            fused = lists[0] if size == 1 else cast(Fuser, spec.make("fuse", retriever.fuse)).fuse(lists, k)
            rows |= {i: fused.row(place) for place, i in enumerate(members)}
        width = min(k, len(self))
        return Rankings(
            *padded([(rows[i][0][:width], rows[i][1][:width]) for i in range(len(queries))], width),
            retriever.name, retriever.signal,
        )  # fmt: skip


def _rows(rankings: Rankings, rows: Sequence[int]) -> Rankings:
    return replace(rankings, ids=rankings.ids[list(rows)], scores=rankings.scores[list(rows)])


def _note_left_out(wordings: Sequence[Sequence[str]], kept: Sequence[Sequence[int]]) -> None:
    without = [len(texts) > 1 == len(some) for texts, some in zip(wordings, kept, strict=True)]
    error = AnswerError("The rewrites find nothing that the question finds.")
    note_failures([error for errors in without if errors], len(without), "searched the question alone")
