"""A graph retriever that may ask a language model, and its twin that never does.

The twin is its `inner`: they share an index, which is built, loaded and warmed up for the twin, so that a model is
asked for questions and for nothing else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from surefind.prompts.prompt import Prompt
from surefind.protocols import Index, Retriever

if TYPE_CHECKING:
    from surefind.protocols import Services


class Aided(ABC):
    llm: str | None
    prompt: str

    @property
    @abstractmethod
    def inner(self) -> Retriever | None:
        """The twin, or None for one that asks no model."""

    @abstractmethod
    def template(self, services: Services) -> Prompt: ...

    def wrap(self, index: Index, services: Services) -> Index:
        return index

    def stamp(self, services: Services) -> str:
        """Changes with the words of the prompt, and with the model that surefind.toml chooses."""
        if self.inner is None:
            return ""
        return f"{self.template(services).fingerprint} {services.chat_name(self.llm)}"
