"""Summaries of communities in a language model's words.

The model is shown what extractive summaries are made of, the main names and how central passages begin, only more of
it. All of that comes from the graph, and a graph is of the chunks that its caller may read: who may read less gets
summaries of their own. Where no answer comes, a community keeps its extractive summary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from surefind.errors import AnswerError, SurefindError
from surefind.graph.communities import Communities
from surefind.graph.derive import Graph
from surefind.graph.summaries import Outline, Summary, outlines
from surefind.llm.ask import ask
from surefind.llm.reply import read_object
from surefind.prompts.fence import Data
from surefind.prompts.prompt import Prompt
from surefind.prompts.values import Completion

if TYPE_CHECKING:
    from surefind.protocols import Services

SLOTS = ("names", "passages")
ENTITIES = LEADS = 20
"""What the model is shown of a community at most."""
TOKENS = 300
_LONGEST = 2000
"""Characters of an answer: a longer one is no summary."""
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"summary": {"type": "string"}},
    "required": ["summary"],
    "additionalProperties": False,
}


@dataclass(frozen=True)
class Writer:
    """Who writes, and how they are asked."""

    model: str | None
    prompt: Prompt

    def write(
        self, graph: Graph, found: Communities, plain: Sequence[Summary], services: Services
    ) -> tuple[list[Summary], list[SurefindError]]:
        """The summary of every small community, and why some are still `plain`."""
        prompts = [self._asked(outline) for outline in outlines(graph, found, ENTITIES, LEADS)]
        said = ask(
            services, self.model, prompts, schema=_SCHEMA, max_tokens=TOKENS,
            usable=lambda at, answer: isinstance(_read(answer), str),
        )  # fmt: skip
        answers = [_read(answer) for answer in said]
        failures = [answer for answer in answers if isinstance(answer, SurefindError)]
        pairs = zip(plain, answers, strict=True)
        return [replace(one, text=text) if isinstance(text, str) else one for one, text in pairs], failures

    def _asked(self, outline: Outline) -> Any:
        passages = [Data("passage", lead, number) for number, lead in enumerate(outline.leads, 1)]
        return self.prompt.messages(names=Data("names", "\n".join(outline.names)), passages=passages)


def _read(answer: Completion | SurefindError) -> str | SurefindError:
    if isinstance(answer, SurefindError):
        return answer
    text = (read_object(answer.text) or {}).get("summary")
    if not isinstance(text, str) or not text.strip() or len(text) > _LONGEST:
        return AnswerError("The model gave no summary.")
    return " ".join(text.split())
