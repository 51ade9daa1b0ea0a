"""`llm_segments(words=1000)`: cuts a document where a language model says that the topic changes.

    S = sentences of D,  B = breaking points,  C_1 = S[0:b_1], C_2 = S[b_1:b_2], …
    number of chunks in [max(2, τ - 3), τ + 3],  τ = round(|D| / words)

If an answer is outside that range, or is not a list of sentence numbers, the model is asked again and told what was
wrong, `tries` times in all; then `base` cuts the document. A document of more than `part_words` words is sent in parts.
With `llm_context` as enricher this is "agentic-2" of the agentic-knowledge-base study (3.1.4.2). One call per part if
the first answer is valid. The study asks at `temperature=0.2` (without it, the temperature is 0), with its own words
(`prompt=paper`), about the whole document (`part_words=null`), for at most 1,000 tokens (`max_tokens=1000`).

The limits of `llm_segments`: how many chunks a text may become, and whether an answer respects this.

    τ = round(words / per_chunk)        chunks in [max(2, τ - 3), τ + 3]

(Section 3.1.4.2 of the agentic-knowledge-base study, which has per_chunk = 1,000.)
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, cast

from surefind.base import spec
from surefind.base.errors import SurefindError
from surefind.base.prompts.fence import Data
from surefind.base.prompts.values import Calls, Completion, Workload
from surefind.base.protocols import Chunker, Services
from surefind.base.running import count_without_model, note
from surefind.base.spec import Stage, require
from surefind.base.text.blocks import Section, sections
from surefind.base.text.words import count_words, sentence_spans
from surefind.base.types import Chunk, Document
from surefind.engine.chunk._pieces import make_chunk
from surefind.engine.llm import prices
from surefind.engine.llm.ask import ask, check_temperature, without_reasoning
from surefind.engine.llm.listwise import in_a_row

_SLACK = 3
_MIN_CHUNKS = 2


def chunk_range(words: int, per_chunk: int) -> tuple[int, int]:
    """The smallest and the largest allowed number of chunks. Halves round up, so that 500 words at 1,000 per chunk give
    a target of one chunk, not zero."""
    target = int(words / per_chunk + 0.5)
    return max(_MIN_CHUNKS, target - _SLACK), target + _SLACK


def read_breakpoints(reply: str, sentences: int, low: int, high: int) -> list[int] | str:
    """The numbers of the sentences that begin a chunk, without the first; or a text that says what is wrong with the
    reply. That text becomes part of the next prompt."""
    numbers = re.findall(r"-?\d+", reply)
    if not numbers:
        return "it held no sentence numbers"
    if len(reply) > 12 * len(numbers) + 200:
        return "it held more than a list of sentence numbers"
    points = sorted({int(number[:9]) for number in numbers})
    outside = [point for point in points if not 0 < point < sentences]
    if outside:
        return f"{outside[0]} is not a sentence number from 1 to {sentences - 1}"
    if in_a_row(points):
        return "it named sentences one after another, not where topics change"
    if not low - 1 <= len(points) <= high - 1:
        return f"it gave {len(points)} breaking points instead of {low - 1} to {high - 1}"
    return points


_SLOTS = ("n_sentences", "word_count", "sentences", "min_breakpoints", "max_breakpoints", "correction")

Span = tuple[int, int]


@dataclass(frozen=True)
class LLMSegments(Stage):
    kind: ClassVar[str] = "chunk"
    name: ClassVar[str] = "llm_segments"

    model: str | None = None
    words: int = 1000
    tries: int = 3
    base: str = "markdown(tokens=250, min_tokens=50)"
    part_words: int | None = 8000
    prompt: str = "v1"
    temperature: float | None = None
    max_tokens: int = 500
    """Tokens of an answer, at most."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "base", str(spec.make("chunk", self.base)))  # written out in full
        require(self.words >= 10, self, "words must be at least 10")
        require(self.tries >= 1, self, "tries must be at least 1")
        require(self.part_words is None or self.part_words >= self.words, self, "part_words must be at least words")
        require(self.max_tokens >= 1, self, "max_tokens must be at least 1")
        check_temperature(self, self.temperature)

    def llm_calls(self, work: Workload) -> Calls:
        """An upper bound: `tries` calls per part, though only an invalid answer is asked for again."""
        parts = 1 if self.part_words is None else max(1, -(-work.document_tokens // prices.text(self.part_words)))
        return prices.calls(self.model, work.documents * parts * self.tries, work.document_tokens // parts, 60)

    def chunk(self, document: Document, services: Services) -> list[Chunk]:
        outline = sections(document)
        # Split each section by itself, so that no sentence crosses a heading.
        tiles = [span for s in outline for span in sentence_spans(document.text, s.start, s.end)]
        sentences = [span for span in tiles if document.text[slice(*span)].strip()]
        if not sentences:
            return []
        starts: list[int] = []
        for first, last in self._parts(document, sentences):
            breaks = self._ask(document, sentences[first:last], services)
            if not isinstance(breaks, list):
                note(f"{document.id} was cut by {self.base}: {breaks}")
                # Count errors only, so that they are tried again: an invalid answer would stay invalid.
                count_without_model(isinstance(breaks, SurefindError))
                return cast(Chunker, spec.make("chunk", self.base)).chunk(document, services)
            starts += [first, *(first + point for point in breaks)]
        edges = [*starts, len(sentences)]
        spans = [(sentences[a][0], sentences[b - 1][1]) for a, b in pairwise(edges)]
        return [make_chunk(document, *span, _headings(outline, span[0])) for span in spans]

    def _parts(self, document: Document, sentences: list[Span]) -> list[tuple[int, int]]:
        """Splits the sentences into runs of about equal length, of about `part_words` words at most."""
        counts = [count_words(document.text[slice(*span)]) for span in sentences]
        parts = 1 if self.part_words is None else -(-sum(counts) // self.part_words) or 1
        share = sum(counts) / parts
        cuts, so_far = [0], 0
        for i, count in enumerate(counts):
            if so_far >= share * len(cuts) and i > cuts[-1]:
                cuts.append(i)
            so_far += count
        return list(pairwise([*cuts, len(sentences)]))

    def _ask(self, document: Document, sentences: list[Span], services: Services) -> list[int] | str | SurefindError:
        """The numbers of the sentences that begin a chunk, without the first; or why there is no valid answer."""
        texts = [" ".join(document.text[slice(*span)].split()) for span in sentences]
        words = sum(map(count_words, texts))
        low, high = chunk_range(words, self.words)
        if len(sentences) < low:
            return f"it has {len(sentences)} sentences, fewer than the least number of chunks, {low}"
        listed = Data("sentences", "\n".join(f"{i}: {text}" for i, text in enumerate(texts)))
        template = services.prompt(self.name, self.prompt, _SLOTS)
        complaint = ""

        def read(answer: Completion) -> list[int] | str:
            return read_breakpoints(without_reasoning(answer.text), len(sentences), low, high)

        def right(at: int, answer: Completion) -> bool:
            return isinstance(read(answer), list)

        for turn in range(self.tries):
            asked = template.messages(
                n_sentences=len(sentences), word_count=words, sentences=listed, min_breakpoints=low - 1,
                max_breakpoints=min(high, len(sentences)) - 1,
                correction=f"\nTry {turn + 1}: the answer before was wrong, since {complaint}." if complaint else "",
            )  # fmt: skip
            (answer,) = ask(
                services, self.model, [asked], max_tokens=self.max_tokens, temperature=self.temperature or 0.0,
                usable=right,
            )  # fmt: skip
            if isinstance(answer, SurefindError):
                return answer
            breaks = read(answer)
            if not isinstance(breaks, str):
                return breaks
            complaint = breaks
        return f"after {self.tries} tries, {complaint}"


def _headings(outline: list[Section], start: int) -> tuple[str, ...]:
    """The headings above the position where a chunk begins."""
    return next((section.path for section in outline if section.start <= start < section.end), ())
