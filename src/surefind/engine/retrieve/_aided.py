"""Base class of graph retrievers that may call a language model.

Each has a twin that calls no model: its `inner`. Both share one index, which is built, loaded and warmed up for the
twin. So a model is called only while questions are answered. It stands alone because stages do not import each other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from surefind.base.prompts.prompt import Prompt
from surefind.base.protocols import Index, Retriever, Services
from surefind.engine.retrieve.dense import Dense
from surefind.engine.retrieve.ppr import PPR

if TYPE_CHECKING:
    from surefind.engine.graph.index import GraphIndex


class Aided(ABC):
    llm: str | None
    prompt: str
    model: str
    """The encoder."""
    extract: str
    context: bool

    @property
    @abstractmethod
    def inner(self) -> Retriever | None:
        """The twin without a language model; None if this retriever calls none itself."""

    @abstractmethod
    def template(self, services: Services) -> Prompt: ...

    @property
    def uses(self) -> tuple[Retriever, ...]:
        return (self._near(),)

    def over(self, index: Index, used: Sequence[Index]) -> Index:
        return cast("GraphIndex", index).over(self.uses, used)

    def _near(self) -> Dense:
        return Dense(self.model)

    def _graph(self) -> PPR:
        """The retriever that builds the graph. `ppr` walks on the same graph, so all share one index."""
        return PPR(seed=("bm25", str(self._near())), extract=self.extract, context=self.context)

    def wrap(self, index: Index, services: Services) -> Index:
        return index

    def stamp(self, services: Services) -> str:
        """A text that changes with the wording of the prompt and with the model chosen in surefind.toml."""
        if self.inner is None:
            return ""
        return f"{self.template(services).fingerprint} {services.chat_name(self.llm)}"
