"""Training pairs from questions that a language model writes about passages (the support-chatbot study, appendix D).

- `questions`: a few questions that the passage answers; negatives are mined, as for every other pair.
- `triplets`: a question, and a passage that looks like an answer but is not, both written by the model. In the study,
  such negatives, taken near the positive, made the encoder worse, and questions made it better; try questions first.

Passages that answer held-out questions are not used. Answers are cached, so a stopped run repeats no call.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Literal

from surefind.base.errors import SurefindError
from surefind.base.prompts.fence import Data
from surefind.base.prompts.values import Calls
from surefind.base.protocols import OnProgress, Services
from surefind.base.text.scripts import count_words
from surefind.engine.llm.chat import complete_many
from surefind.engine.llm.reply import read_object
from surefind.lab.train.pairs import Pair, PassageSet

Form = Literal["questions", "triplets"]
PER_PASSAGE = 3
_MIN_PASSAGE_CHARS = 120
"""Fewest characters of a passage that questions are written about."""
_MAX_PASSAGE_CHARS = 4_000
"""Most characters of a passage in the prompt."""
_ANSWER = 400
"""Most tokens of an answer."""
_SCHEMA = {
    "questions": {
        "type": "object",
        "properties": {"questions": {"type": "array", "items": {"type": "string"}}},
        "required": ["questions"],
        "additionalProperties": False,
    },
    "triplets": {
        "type": "object",
        "properties": {"query": {"type": "string"}, "negative": {"type": "string"}},
        "required": ["query", "negative"],
        "additionalProperties": False,
    },
}


def passages_to_ask(shelf: PassageSet, most: int, form: Form) -> list[int]:
    """The ordinals of as many passages as `most` pairs need, in a random order that is the same each time."""
    free = [o for o, chunk in enumerate(shelf.chunks) if len(chunk.text) >= _MIN_PASSAGE_CHARS and shelf.free("", o)]
    lots = {o: hashlib.blake2b(shelf.chunks[o].id.encode(), digest_size=8).digest() for o in free}
    each = PER_PASSAGE if form == "questions" else 1
    return sorted(free, key=lambda o: lots[o])[: -(-most // each)]


def calls_for(shelf: PassageSet, ordinals: Sequence[int], model: str) -> Calls:
    """Estimates the calls for these passages."""
    tokens = sum(min(len(shelf.chunks[o].text), _MAX_PASSAGE_CHARS) // 4 + 250 for o in ordinals)
    return Calls(model, len(ordinals), tokens, 100 * len(ordinals))


def from_llm(
    shelf: PassageSet, ordinals: Sequence[int], services: Services, model: str, form: Form, report: OnProgress
) -> list[Pair]:
    """Has the model write pairs. Answers that cannot be read, or that copy their passage, are skipped."""
    prompt = services.prompt(f"train_{form}", "v1", ("passage", "count") if form == "questions" else ("passage",))
    given = {"count": PER_PASSAGE} if form == "questions" else {}
    prompts = [prompt.messages(passage=_data(shelf, o), **given) for o in ordinals]
    answers = complete_many(
        services.chat(model), prompts, schema=_SCHEMA[form], max_tokens=_ANSWER,
        progress=lambda done, total: report("Asking for questions", done, total),
    )  # fmt: skip
    made: list[Pair] = []
    for ordinal, answer in zip(ordinals, answers, strict=True):
        if isinstance(answer, SurefindError):
            continue
        made += _pairs(shelf, ordinal, read_object(answer.text) or {}, form)
    if ordinals and not made:
        first = next((str(a) for a in answers if isinstance(a, SurefindError)), "none of its answers could be read")
        raise SurefindError(f"The language model wrote no usable question: {first}. Try another model.")
    return made


def _data(shelf: PassageSet, ordinal: int) -> Data:
    return Data("passage", shelf.chunks[ordinal].searchable[:_MAX_PASSAGE_CHARS])


def _pairs(shelf: PassageSet, ordinal: int, reply: dict[str, object], form: Form) -> list[Pair]:
    chunk = shelf.chunks[ordinal]
    if form == "triplets":
        texts, negative = [reply.get("query")], reply.get("negative")
        if not isinstance(negative, str) or count_words(negative) < 5 or negative in chunk.text:
            return []
    else:
        listed = reply.get("questions")
        texts, negative = listed[:PER_PASSAGE] if isinstance(listed, list) else [], ""
    questions = [" ".join(text.split()) for text in texts if isinstance(text, str)]
    return [
        Pair(text, chunk.context, chunk.text, chunk.document, "llm", str(negative))
        for text in questions
        if 2 < count_words(text) < 60 and text not in chunk.text and shelf.free(text, ordinal)
    ]
