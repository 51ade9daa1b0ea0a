"""`llm_context(model=…)`: a language model writes a few sentences that place a chunk within its document.

The context is indexed with the chunk's text ("agentic-1" of the agentic-knowledge-base study, on any chunker). In the
prompt the document is first and the chunk last, so that the prompts of all chunks of a document begin alike; endpoints
with a prefix cache charge less for that. One call per chunk, of about document_tokens + chunk tokens. If the model
fails, the chunk gets no context and the sync reports it; so it does if the answer repeats the chunk or the document, or
is the same for every chunk of a document without a word of its title. The study asks at `temperature=0.2` (without it,
the temperature is 0), with its own words (`prompt=paper`), the whole document (`document_tokens=null`) and up to 1,000
tokens of an answer, all of which it keeps (`max_tokens=1000, context_tokens=1000`). Anthropic, Introducing contextual
retrieval, 2024.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

from surefind.base.errors import AnswerError, SurefindError
from surefind.base.prompts.fence import Data
from surefind.base.prompts.values import Calls, Completion, Workload
from surefind.base.protocols import Services
from surefind.base.spec import Stage, require
from surefind.base.text.words import token_spans
from surefind.base.types import Chunk, Document
from surefind.engine.llm import prices
from surefind.engine.llm.ask import ask, check_temperature, note_failures, repeats, shares_words, unfenced

_SLOTS = ("document", "chunk")
_ANSWER = 150
"""Tokens of a typical answer, at most, used for cost estimates."""
_ALIKE = 3
"""Chunks with the same context, from which on it is no coincidence."""


@dataclass(frozen=True)
class LLMContext(Stage):
    kind: ClassVar[str] = "enrich"
    name: ClassVar[str] = "llm_context"

    model: str | None = None
    document_tokens: int | None = 8000
    prompt: str = "v1"
    temperature: float | None = None
    context_tokens: int = 150
    """Tokens of context per chunk, at most: more would outweigh the chunk's own words in its vector."""
    max_tokens: int = 300
    """Tokens of an answer, at most."""

    def __post_init__(self) -> None:
        whole = self.document_tokens is None
        require(whole or (self.document_tokens or 0) >= 100, self, "document_tokens must be at least 100")
        require(1 <= self.context_tokens <= self.max_tokens, self, "context_tokens must be from 1 to max_tokens")
        check_temperature(self, self.temperature)

    def llm_calls(self, work: Workload) -> Calls:
        most = work.document_tokens if self.document_tokens is None else prices.text(self.document_tokens)
        document = min(work.document_tokens, most)
        return prices.calls(self.model, work.chunks, document + work.chunk_tokens, _ANSWER)

    def enrich(self, document: Document, chunks: list[Chunk], services: Services) -> list[Chunk]:
        template = services.prompt(self.name, self.prompt, _SLOTS)
        prompts = [
            template.messages(
                document=Data("document", around(document, chunk, self.document_tokens)),
                chunk=Data("chunk", chunk.text),
            )
            for chunk in chunks
        ]
        # The first prompt goes alone: it fills the endpoint's prefix cache, and if it fails, so would the others.
        send = partial(ask, services, self.model, max_tokens=self.max_tokens, temperature=self.temperature or 0.0)
        answers = send(prompts[:1])
        if answers and isinstance(answers[0], SurefindError):
            answers *= len(prompts)
        else:
            answers += send(prompts[1:])
        texts = [
            _read(answer, document, chunk, self.context_tokens) for chunk, answer in zip(chunks, answers, strict=True)
        ]
        if _one_for_all(texts, document):
            texts = [AnswerError("Every context was the same.")] * len(texts)
        failed = [text for text in texts if isinstance(text, SurefindError)]
        note_failures(failed, len(chunks), f"no context in {document.id}")
        return [
            chunk if isinstance(text, SurefindError) else replace(chunk, context=f"{chunk.context}\n{text}".strip())
            for chunk, text in zip(chunks, texts, strict=True)
        ]


def around(document: Document, chunk: Chunk, tokens: int | None) -> str:
    """The document; if it is too long, half of the tokens from its beginning and half from around the chunk. None means
    that no document is too long.

    The second half starts at a multiple of a quarter of `tokens`, so that the prompts of neighbouring chunks still
    begin alike.
    """
    titled = f"{document.title}\n\n{document.text}" if document.title else document.text
    spans = token_spans(document.text)
    if tokens is None or len(spans) <= tokens:
        return titled
    half, grid = tokens // 2, max(1, tokens // 4)
    beginning = document.text[: spans[half - 1][1]]
    place = next((i for i, (start, _) in enumerate(spans) if start >= chunk.start), len(spans) - 1)
    first = min(max(half, place // grid * grid), max(half, len(spans) - half))
    part = document.text[spans[first][0] : spans[min(first + half, len(spans)) - 1][1]]
    return "\n\n".join(filter(None, [document.title, beginning, "[…]", part]))


def _read(answer: Completion | SurefindError, document: Document, chunk: Chunk, most: int) -> str | SurefindError:
    """The context that a model wrote, or the error that says why there is none."""
    if isinstance(answer, SurefindError):
        return answer
    text = " ".join(unfenced(answer.text).split())
    spans = token_spans(text)
    if len(spans) > most:
        text = text[: spans[most - 1][1]]
    if not text or repeats(text, chunk.text) or repeats(text, f"{document.title} {document.text}"):
        return AnswerError("The context was empty, or repeated the text.")
    return text


def _one_for_all(texts: Sequence[str | SurefindError], document: Document) -> bool:
    """Whether several chunks got one text that does not even name the document."""
    answers = {text for text in texts if isinstance(text, str)}
    return len(texts) >= _ALIKE and len(answers) == 1 and not shares_words(answers.pop(), document.title)
