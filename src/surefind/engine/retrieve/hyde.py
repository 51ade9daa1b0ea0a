"""`hyde(retriever=dense, drafts=1)`: searches with the question and a passage that a language model made up.

    v = mean(embed(q), embed(d_1), …, embed(d_n))        d_i: hypothetical passages that answer q

A made-up answer uses the words of documents, which a question often does not. `query=false` leaves the question itself
out, as the support-chatbot study did (its recall fell by 3.6 points: measure it on your own questions). Around a
lexical retriever, the words of the drafts are added to those of the question. A draft whose own ranking has no more in
common with the question's than chance would give is left out (`related`): it would lead the search away. If the model
returns nothing usable, the question is searched as it is. Costs `drafts` calls per query. Gao et al., Precise zero-shot
dense retrieval without relevance labels, ACL 2023.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from surefind.base import spec
from surefind.base.abilities import implements
from surefind.base.errors import AnswerError, SpecError, SurefindError
from surefind.base.prompts.fence import Data
from surefind.base.prompts.values import Calls, Completion, Workload
from surefind.base.protocols import Index, ScoringIndex, Services, VectorIndex
from surefind.base.spec import Stage, require
from surefind.base.types import FloatArray, IdArray, Mask, Query, Rankings
from surefind.engine.llm import prices
from surefind.engine.llm.ask import ask, note_failures, same_words, unfenced
from surefind.engine.retrieve._wrapping import Wrapped, Wrapping, related

_SLOTS = ("query",)
_VARIED = 0.7
"""Temperature when there are several drafts per question, so that they differ."""
_MAX_TOKENS = 300
_HEAD = 10
"""Passages of a draft's own ranking that are compared with the question's."""


@dataclass(frozen=True)
class HyDE(Wrapping, Stage):
    kind: ClassVar[str] = "retrieve"
    name: ClassVar[str] = "hyde"

    retriever: str = "dense(model=minilm)"
    model: str | None = None
    drafts: int = 1
    query: bool = True
    prompt: str = "v1"

    def __post_init__(self) -> None:
        object.__setattr__(self, "retriever", str(spec.make("retrieve", self.retriever)))  # written out in full
        require(1 <= self.drafts <= 8, self, "drafts must be from 1 to 8")

    @property
    def searches(self) -> int:
        """The question and each draft, whose rankings are compared, and the question with its drafts."""
        return 2 + self.drafts

    @property
    def added_tokens(self) -> int:
        return self.drafts * _MAX_TOKENS

    def llm_calls(self, work: Workload) -> Calls:
        return prices.calls(self.model, work.queries * self.drafts, 0, _MAX_TOKENS)

    def stamp(self, services: Services) -> str:
        return f"{services.prompt(self.name, self.prompt, _SLOTS).fingerprint} {services.chat_name(self.model)}"

    def wrap(self, index: Index, services: Services) -> Index:
        return _Drafted(index, services)

    def drafted(self, queries: Sequence[Query], services: Services) -> list[list[str]]:
        """The made-up passages for each query; an empty list if the model failed."""
        template = services.prompt(self.name, self.prompt, _SLOTS)
        prompts = []
        for query in queries:
            system, *rest = template.messages(query=Data("query", query.text))
            # Numbered, so that the cache of answers does not return the first draft for the second.
            several = [system._replace(content=f"{system.content}\n\nDraft {n + 1}.") for n in range(self.drafts)]
            prompts += [[head, *rest] for head in (several if self.drafts > 1 else [system])]
        warmth = _VARIED if self.drafts > 1 else 0.0
        answers = ask(
            services, self.model, prompts, max_tokens=_MAX_TOKENS, temperature=warmth,
            usable=lambda at, answer: bool(_draft(answer, queries[at // self.drafts].text)),
        )  # fmt: skip
        texts = [_draft(answer, queries[at // self.drafts].text) for at, answer in enumerate(answers)]
        made = [[t for t in texts[at : at + self.drafts] if t] for at in range(0, len(texts), self.drafts)]
        nothing = AnswerError("The draft was empty, or the question itself.")
        failed = [a if isinstance(a, SurefindError) else nothing for a in answers]
        reasons = [failed[i * self.drafts] for i, drafts in enumerate(made) if not drafts]
        note_failures(reasons, len(queries), "searched the question as it is")
        return made


def _draft(answer: Completion | SurefindError, question: str) -> str:
    """The passage that a model made up; "" if it made up none."""
    text = "" if isinstance(answer, SurefindError) else unfenced(answer.text)
    return "" if same_words(text, question) else text


class _Drafted(Wrapped):
    """Searches with drafts. The last drafts are kept, because the same queries are scored after they are searched."""

    _last: tuple[tuple[object, ...], list[list[str]]] | None = None

    def search(self, retriever: Any, queries: Sequence[Query], k: int, allow: Mask) -> Rankings:
        drafts = self._drafts(retriever, queries, allow) if queries and len(self) else []
        if not any(drafts):
            rankings = self.plain(retriever, queries, k, allow)
        elif implements(self.inner, VectorIndex):
            rankings = self.inner.nearest(self._points(retriever, queries, drafts), k, allow)
        else:
            rankings = self.plain(retriever, _worded(retriever, queries, drafts), k, allow)
        return replace(rankings, source=retriever.name, signal=retriever.signal)

    def score(self, retriever: Any, queries: Sequence[Query], ids: IdArray, allow: Mask) -> FloatArray:
        drafts = self._drafts(retriever, queries, allow)
        if implements(self.inner, VectorIndex):
            return self.inner.similarity(self._points(retriever, queries, drafts), ids)
        if not implements(self.inner, ScoringIndex):
            raise SpecError(f"{retriever.retriever} cannot score single passages. Remove missing=score or {retriever}.")
        scores: FloatArray = self.inner.score(retriever.inner, _worded(retriever, queries, drafts), ids, allow)
        return scores

    def _drafts(self, retriever: HyDE, queries: Sequence[Query], allow: Mask) -> list[list[str]]:
        key = (retriever, allow.key, *(query.text for query in queries))
        known = self._last  # a server searches from several threads
        if known is None or known[0] != key:
            drafts = self._related(retriever, queries, retriever.drafted(queries, self.services), allow)
            known = self._last = (key, drafts)
        return known[1]

    def _related(
        self, retriever: HyDE, queries: Sequence[Query], drafts: list[list[str]], allow: Mask
    ) -> list[list[str]]:
        """The drafts whose rankings have something in common with those of their questions."""
        texts = [Query(draft) for some in drafts for draft in some]
        if not texts:
            return drafts
        own, drafted = (self.plain(retriever, given, _HEAD, allow) for given in (queries, texts))
        rows = iter(range(len(texts)))
        count = self.population(allow)
        kept = [
            [draft for draft in some if related(own.row(i)[0], drafted.row(next(rows))[0], count)]
            for i, some in enumerate(drafts)
        ]
        without = [bool(some) and not left for some, left in zip(drafts, kept, strict=True)]
        error = AnswerError("The draft finds nothing that the question finds.")
        note_failures([error for errors in without if errors], len(queries), "searched the question as it is")
        return kept

    def _points(self, retriever: Any, queries: Sequence[Query], drafts: Sequence[Sequence[str]]) -> FloatArray:
        embedder = self.services.embedder(retriever.inner.model)
        questions = embedder.embed_queries([query.text for query in queries])
        vectors = iter(embedder.embed([draft for some in drafts for draft in some]))
        rows = []
        for question, some in zip(questions, drafts, strict=True):
            made_up = [next(vectors) for _ in some]
            mean = np.mean([question, *made_up] if retriever.query or not made_up else made_up, axis=0)
            rows.append(mean / max(float(np.linalg.norm(mean)), 1e-12))
        return np.asarray(rows, np.float32)


def _worded(retriever: HyDE, queries: Sequence[Query], drafts: Sequence[Sequence[str]]) -> list[Query]:
    """Queries for a lexical retriever: the words of each question and of its drafts."""
    return [
        Query("\n".join(([query.text] if retriever.query or not some else []) + list(some)), query.id)
        for query, some in zip(queries, drafts, strict=True)
    ]
