"""Base class of graph retrievers that may call a language model.

Each has a twin that calls no model: its `inner`. Both share one index, which is built, loaded and warmed up for the
twin. So a model is called only while questions are answered.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from surefind.prompts.prompt import Prompt
from surefind.protocols import Index, Retriever, Services


class Aided(ABC):
    llm: str | None
    prompt: str

    @property
    @abstractmethod
    def inner(self) -> Retriever | None:
        """The twin without a language model; None if this retriever calls none itself."""

    @abstractmethod
    def template(self, services: Services) -> Prompt: ...

    def wrap(self, index: Index, services: Services) -> Index:
        return index

    def stamp(self, services: Services) -> str:
        """A text that changes with the wording of the prompt and with the model chosen in surefind.toml."""
        if self.inner is None:
            return ""
        return f"{self.template(services).fingerprint} {services.chat_name(self.llm)}"
