"""Has a language model write the summaries of communities.

The model sees the material of extractive summaries (the main names and the beginnings of central passages), only more
of it. All of it comes from the graph of the chunks that the caller may read, so a caller with restricted access gets
their own summaries. A community without an answer keeps its extractive summary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from surefind.base.errors import AnswerError, SurefindError
from surefind.base.prompts.fence import Data
from surefind.base.prompts.prompt import Prompt
from surefind.base.prompts.values import Completion
from surefind.base.protocols import Services
from surefind.engine.graph.communities import Communities
from surefind.engine.graph.derive import Graph
from surefind.engine.graph.summaries import Outline, Summary, outlines
from surefind.engine.llm.ask import ask
from surefind.engine.llm.reply import read_object

SLOTS = ("names", "passages")
ENTITIES = LEADS = 20
"""Most names and beginnings of passages of a community in the prompt."""
TOKENS = 300
"""Most tokens of an answer."""
_MAX_SUMMARY_CHARS = 2000
"""Most characters of an answer; a longer text is not a summary."""
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"summary": {"type": "string"}},
    "required": ["summary"],
    "additionalProperties": False,
}


@dataclass(frozen=True)
class SummaryWriter:
    """The language model that writes summaries, and its prompt."""

    model: str | None
    prompt: Prompt

    def write(
        self, graph: Graph, partition: Communities, plain: Sequence[Summary], services: Services
    ) -> tuple[list[Summary], list[SurefindError]]:
        """The summary of every small community, and the errors of those that keep their `plain` summary."""
        prompts = [self._messages(outline) for outline in outlines(graph, partition, ENTITIES, LEADS)]
        replies = ask(
            services, self.model, prompts, schema=_SCHEMA, max_tokens=TOKENS,
            usable=lambda at, answer: isinstance(_read(answer), str),
        )  # fmt: skip
        answers = [_read(reply) for reply in replies]
        failures = [answer for answer in answers if isinstance(answer, SurefindError)]
        pairs = zip(plain, answers, strict=True)
        return [replace(summary, text=text) if isinstance(text, str) else summary for summary, text in pairs], failures

    def _messages(self, outline: Outline) -> Any:
        passages = [Data("passage", lead, number) for number, lead in enumerate(outline.leads, 1)]
        return self.prompt.messages(names=Data("names", "\n".join(outline.names)), passages=passages)


def _read(answer: Completion | SurefindError) -> str | SurefindError:
    if isinstance(answer, SurefindError):
        return answer
    text = (read_object(answer.text) or {}).get("summary")
    if not isinstance(text, str) or not text.strip() or len(text) > _MAX_SUMMARY_CHARS:
        return AnswerError("The model gave no summary.")
    return " ".join(text.split())
