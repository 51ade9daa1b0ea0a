"""`llm(model=…)`: a language model extracts entities with their types, and the relations that the text states.

The extraction of the agentic-knowledge-base study: JSON with entity text, type and relationships, one call per passage.
An entity that does not occur in the passage is rejected with all its relations: the study found that such phantom edges
lead searches to irrelevant passages. `phrases` extracts definitions, and reads passages for which the model fails. The
study asks at `temperature=0.2`; without it, the temperature is 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from surefind.base.errors import AnswerError, SurefindError
from surefind.base.prompts.fence import Data
from surefind.base.prompts.prompt import Prompt
from surefind.base.prompts.values import Calls, Completion, Workload
from surefind.base.protocols import Progress, Services
from surefind.base.spec import Stage
from surefind.base.text.words import sentence_spans
from surefind.base.types import Extraction, Mention
from surefind.engine.extract.phrases import Phrases
from surefind.engine.llm import prices
from surefind.engine.llm.ask import ask, check_temperature, note_failures, read_object

_TOKENS = 1000
"""Tokens of an answer, at most."""
_ANSWER = 400
"""Tokens of a typical answer, used for cost estimates."""
_MAX_WORDS = 12
"""Words of a name, at most: a longer text is a copied sentence."""
_BATCH = 64
"""Passages per batch of parallel calls, between two reports of progress."""
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "entities": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "text": {"type": "string"},
                    "type": {"type": "string"},
                    "relationships": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "properties": {"relation": {"type": "string"}, "target": {"type": "string"}},
                            "required": ["relation", "target"],
                            "additionalProperties": False,
                        },
                    },
                },
                "required": ["text", "type", "relationships"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["entities"],
    "additionalProperties": False,
}


@dataclass(frozen=True)
class LLM(Stage):
    kind: ClassVar[str] = "extract"
    name: ClassVar[str] = "llm"

    model: str | None = None
    prompt: str = "v1"
    temperature: float | None = None

    def __post_init__(self) -> None:
        check_temperature(self, self.temperature)

    def extract(self, texts: Sequence[str], services: Services, progress: Progress | None = None) -> list[Extraction]:
        shaped = Phrases().extract(texts, services)
        extractions: list[Extraction] = []
        failed: list[SurefindError] = []
        for read, otherwise in zip(self.read(texts, services, progress), shaped, strict=True):
            if isinstance(read, SurefindError):
                failed.append(read)
                extractions.append(otherwise)
            else:
                extractions.append(replace(read, aliases=otherwise.aliases))
        note_failures(failed, len(texts), "entities by the shape of words")
        return extractions

    def llm_calls(self, work: Workload) -> Calls:
        return prices.calls(self.model, work.chunks, work.chunk_tokens, _ANSWER)

    def read(
        self, texts: Sequence[str], services: Services, progress: Progress | None = None
    ) -> list[Extraction | SurefindError]:
        """The model's extraction of each text, or the error if there is no usable answer."""
        template = self.template(services)
        extractions: list[Extraction | SurefindError] = []
        for start in range(0, len(texts), _BATCH):
            part = texts[start : start + _BATCH]
            prompts = [template.messages(chunk=Data("chunk", text)) for text in part]
            answers = ask(
                services, self.model, prompts, schema=_SCHEMA, max_tokens=_TOKENS, usable=_lists,
                temperature=self.temperature or 0.0,
            )  # fmt: skip
            extractions += [_read(text, answer) for text, answer in zip(part, answers, strict=True)]
            if progress:
                progress(len(extractions), len(texts))
        return extractions

    def template(self, services: Services) -> Prompt:
        return services.prompt("extract_llm", self.prompt, ("chunk",))


def _read(text: str, answer: Completion | SurefindError) -> Extraction | SurefindError:
    if isinstance(answer, SurefindError):
        return answer
    listed = _listed(answer)
    if not isinstance(listed, list):
        return AnswerError("The model's answer contains no list of entities.")
    rows = [row for row in listed if isinstance(row, dict)]
    standing = {str(row.get("text", "")).strip(): row for row in rows if _places(text, str(row.get("text", "")))}
    if rows and not standing:
        return AnswerError("The text has none of the entities that the model named.")
    mentions = tuple(
        Mention(name, place, str(row.get("type", "")).strip())
        for name, row in standing.items()
        for place in _places(text, name)
    )
    return Extraction(mentions, relations=tuple(_relations(standing)))


def _listed(answer: Completion) -> Any:
    return (read_object(answer.text) or {}).get("entities")


def _lists(at: int, answer: Completion) -> bool:
    return isinstance(_listed(answer), list)


def _places(text: str, name: str) -> list[int]:
    """The numbers of the sentences that contain a name; empty if the text does not contain it."""
    wanted = " ".join(name.casefold().split())
    if not wanted or wanted.count(" ") >= _MAX_WORDS:
        return []
    spans = sentence_spans(text, 0, len(text))
    return [i for i, (start, end) in enumerate(spans) if wanted in " ".join(text[start:end].casefold().split())]


def _relations(standing: dict[str, dict[str, Any]]) -> Iterator[tuple[str, str, str]]:
    for name, row in standing.items():
        stated = row.get("relationships")
        for entry in stated if isinstance(stated, list) else []:
            target = str(entry.get("target", "")).strip() if isinstance(entry, dict) else ""
            if target in standing and target != name:
                yield name, str(entry.get("relation", "")).strip(), target
