"""Has a language model reword headings as questions: `heading_paraphrase` where there is a model.

Headings, gold and the check that a question points at few documents are those of the rules
(`exam.families.heading_paraphrase`). A question must drop a word of its heading, and must not speak of its section.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import islice

from surefind.base.errors import SurefindError
from surefind.base.prompts.fence import Data
from surefind.base.prompts.values import Calls, Completion
from surefind.base.protocols import OnProgress
from surefind.base.text.words import count_words
from surefind.base.types import Document
from surefind.engine.llm.ask import ask, read_object
from surefind.kb import KnowledgeBase
from surefind.lab.exam._documents import ExamDocuments, Heading
from surefind.lab.exam.by_llm.questions import mentions_its_passage
from surefind.lab.exam.families.headings import clean_heading, judged, points
from surefind.lab.exam.model import ExamQuery, Judgment
from surefind.lab.exam.overlap import content_terms, overlap, terms

FAMILY = "heading_paraphrase"
_SLOTS = ("chunk", "title", "passage")
_SCHEMA = {"type": "object", "properties": {"question": {"type": "string"}}, "required": ["question"]}
_BEGINNING = 400
"""Characters of a section that the model sees."""
_MAX_WORDS = 30
"""Words of a question, at most."""
_TOKENS = 80
_PROMPT_TOKENS = 350
_TRIED = 2
"""Headings tried for each question wanted, at most."""
_WAVE = 64


def paraphrase_calls(model: str, wanted: int) -> Calls:
    """The most calls."""
    return Calls(model, _TRIED * wanted, _TRIED * wanted * _PROMPT_TOKENS, _TRIED * wanted * 30)


def write_paraphrases(
    kb: KnowledgeBase,
    documents: Sequence[Document],
    wanted: int,
    model: str = "",
    seed: int = 42,
    report: OnProgress | None = None,
) -> list[ExamQuery]:
    """Writes up to this many questions. Raises a `SurefindError` if the model answers nothing."""
    corpus = ExamDocuments(documents, seed)
    headings = [h for document in corpus.documents for h in corpus.headings(document) if clean_heading(h.text)]
    headings.sort(key=lambda h: hashlib.blake2b(f"{seed}\0{h.document.id}\0{h.text}".encode(), digest_size=8).digest())
    fitting = ((heading, gold) for heading in headings if (gold := judged(corpus, heading)))
    questions: dict[frozenset[str], ExamQuery] = {}
    tried = 0
    while len(questions) < wanted and tried < _TRIED * wanted:
        if report:
            report("Rewording headings", len(questions), wanted)
        wave = list(islice(fitting, min(_WAVE, wanted - len(questions), _TRIED * wanted - tried)))
        if not wave:
            break
        tried += len(wave)
        for (heading, gold), text in zip(wave, _asked(kb, [heading for heading, _ in wave], model), strict=True):
            if text and _usable(corpus, heading, text):
                questions.setdefault(frozenset(terms(text)), _query(kb, text, heading, gold, model))
    if report:
        report("Rewording headings", wanted, wanted)
    return list(questions.values())


def _asked(kb: KnowledgeBase, headings: Sequence[Heading], model: str) -> list[str]:
    """The question for each heading; "" if the answer has none."""
    template = kb.services.prompt("exam_paraphrase", "v1", _SLOTS)
    prompts = [
        template.messages(
            chunk=Data("chunk", heading.text),
            title=Data("title", heading.document.title or heading.document.id),
            passage=Data("passage", heading.document.text[heading.start : heading.end][:_BEGINNING]),
        )
        for heading in headings
    ]
    answers = ask(kb.services, model or None, prompts, schema=_SCHEMA, max_tokens=_TOKENS)
    failed = [answer for answer in answers if isinstance(answer, SurefindError)]
    if answers and len(failed) == len(answers):
        raise failed[0]
    return [_read(answer) if isinstance(answer, Completion) else "" for answer in answers]


def _read(answer: Completion) -> str:
    text = (read_object(answer.text) or {}).get("question")
    return " ".join(text.split()) if isinstance(text, str) else ""


def _usable(corpus: ExamDocuments, heading: Heading, text: str) -> bool:
    """Whether the question is another wording of its heading that points at few documents."""
    known = heading.with_title | frozenset(terms(heading.document.text[heading.start : heading.end]))
    reworded = bool(heading.own - frozenset(terms(text))) and count_words(text) <= _MAX_WORDS
    return reworded and not mentions_its_passage(text) and points(corpus, content_terms(text) & known)


def _query(kb: KnowledgeBase, text: str, heading: Heading, gold: tuple[Judgment, ...], model: str) -> ExamQuery:
    digest = hashlib.blake2b(f"{text}\0{heading.document.id}".encode(), digest_size=5).hexdigest()
    own = [judgment for judgment in gold if judgment.document == heading.document.id]
    shared = max(overlap(text, heading.document.text, judgment.start, judgment.end) for judgment in own)
    metadata = {"source": heading.text, "model": kb.services.chat_name(model or None)}
    return ExamQuery(f"{FAMILY}-{digest}", text, gold, FAMILY, shared, metadata)
