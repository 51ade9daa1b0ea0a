"""`alias`: another name of a document, from the `aliases` (or `alias`) of its front matter. Gold: the document.

Tags are not aliases: they name a topic, not a document. An alias that is the title, that several documents have, or
that is a path is dropped.

`anchor_text`: the words with which a document links to another one. Gold: the document, or the section that the
link's `#anchor` names, with the sections below it.

Words that lead to more than one place ("click here", "the runbook"), generic words, URLs, file names and versions are
dropped.

`entity_lookup`: an identifier, form number, code, acronym or name that occurs in few documents.

Gold: the sentences that contain it, in every document. An entity in more than `MAX_DOCUMENTS` documents is too
ambiguous and is dropped.

`faq`: questions that the documents themselves ask and answer. Gold: the answer.

Two forms are read: a heading that ends in a question mark, with its section as the answer, and a paragraph that begins
with `Q:` (or `Question:`), followed by one that begins with `A:` (or `Answer:`). A question that more than one document
asks is dropped. The question stays in the index, so these questions are a regression exam and no measure of quality.

Finds names in text by rules: citations, identifiers, acronyms, CamelCase, capitalised phrases in a sentence.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache, partial
from operator import itemgetter

from surefind.base.text.blocks import linked_path, slug, without_suffix
from surefind.base.text.words import HANGUL, UNSPACED, count_words, pattern, sentence_spans
from surefind.base.types import Document
from surefind.lab.exam._documents import Drafts, ExamDocuments, PossibleQuestion, QuestionSeed, subtree_ends
from surefind.lab.exam.families.headings import clean_heading
from surefind.lab.exam.model import Judgment
from surefind.lab.exam.overlap import is_prose, plain, readable, terms


def alias(corpus: ExamDocuments) -> Drafts:
    by_terms: dict[frozenset[str], dict[str, tuple[str, Document]]] = defaultdict(dict)
    for document in corpus.documents:
        for name in _names(document):
            own = frozenset(terms(name))
            if own and own != frozenset(terms(document.title)) and "/" not in name and is_prose(name):
                by_terms[own].setdefault(document.id, (name, document))
    titles = {frozenset(terms(document.title)) for document in corpus.documents}
    drafts: dict[str, list[QuestionSeed]] = defaultdict(list)
    for own, documents in by_terms.items():
        if len(documents) == 1 and own not in titles:
            ((name, document),) = documents.values()
            judgment = corpus.judge(document, 0, len(document.text))
            drafts[document.id].append(QuestionSeed.of(PossibleQuestion(name, document.id, (judgment,))))
    return lambda document: drafts[document.id]


def _names(document: Document) -> list[str]:
    given = document.metadata.get("aliases") or document.metadata.get("alias") or ()
    names = [given] if isinstance(given, str) else given if isinstance(given, list | tuple) else ()
    return [plain(name) for name in names if isinstance(name, str)]


_LINK = re.compile(r"(?<!!)\[([^\[\]]{5,120})\]\(<?([^\s()<>#]{0,300})(?:#([^\s()<>]{1,200}))?>?(?:\s+[\"'][^)\n]*)?\)")
_WORD = re.compile(r"[^\W\d_]{2}")
_Target = tuple[str, str]
"""The id of a document, and the slug of a section or ""."""


def anchor_text(corpus: ExamDocuments) -> Drafts:
    pages = {without_suffix(document.id): document for document in corpus.documents}
    by_terms: dict[frozenset[str], dict[_Target, str]] = defaultdict(dict)
    for document in corpus.documents:
        for match in _LINK.finditer(document.text) if "](" in document.text else ():
            text = clean_heading(plain(readable(match[1])))
            target = pages.get(without_suffix(linked_path(document.id, match[2]))) if match[2] else None
            if text and target and target.id != document.id and _can_ask(text):
                by_terms[frozenset(terms(text))].setdefault((target.id, (match[3] or "").lower()), text)
    by_id = {document.id: document for document in corpus.documents}
    drafts: dict[str, list[QuestionSeed]] = defaultdict(list)
    for targets in by_terms.values():
        if len({document_id for document_id, _ in targets}) == 1:
            (document_id, anchor), text = max(targets.items())  # a section before the whole document
            drafts[document_id].append(QuestionSeed(text, partial(_ask, corpus, text, by_id[document_id], anchor)))
    return lambda document: drafts[document.id]


def _ask(corpus: ExamDocuments, text: str, target: Document, anchor: str) -> PossibleQuestion:
    return PossibleQuestion(text, target.id, (corpus.judge(target, *_span(corpus, target, anchor)),))


def _can_ask(text: str) -> bool:
    return is_prose(text) and "/" not in text and without_suffix(text) == text and _WORD.search(text) is not None


def _span(corpus: ExamDocuments, document: Document, anchor: str) -> tuple[int, int]:
    """The section whose heading gives this anchor, with those below it; the whole document if there is none."""
    document_sections = corpus.sections(document) if anchor else []
    for section, end in zip(document_sections, subtree_ends(document_sections), strict=True):
        if slug(section.title) == anchor:
            return section.start, end
    return 0, len(document.text)


_CITE = r"\b\d+ (?:CFR|USC|U\.S\.C\.) (?:Part )?\d+(?:\.\d+)*(?:\([a-z0-9]{1,3}\))*"
_CODE = r"\b[A-Za-z]+(?:[-_*/.][A-Za-z0-9]+){0,40}[-_*/]?\d[\w-]*(?:\.\d+)*\b|\b[A-Z]{2,}\*[A-Z]+\b"
_ACRONYM = r"\b[A-Z][A-Z0-9]{2,9}\b"
_CAMEL = r"\b[A-Z][a-z0-9]+[A-Z][A-Za-z0-9]*\b"
_NAME = r"\b[A-Z][a-z]+(?: (?:of |and )?[A-Z][a-z]+\b){1,3}"
_INSIDE = re.compile(r"[a-z,;] $")
_TARGET = re.compile(r"\]\([^)\n]{0,500}\)|https?://\S+|<[^>\n]{1,500}>")
_ENTITY = re.compile("|".join((_CITE, _CODE, _ACRONYM, _CAMEL, _NAME)))
_NOISE = re.compile(r"^(?:[0-9a-f]{12,}|\d{4}-\d\d(?:-\d\d)?|https?.*|.*@.*|[A-Za-z]\d)$")


def named(text: str) -> Iterator[tuple[str, int]]:
    """Each name and its offset. Link targets and tags are ignored."""
    bare = _TARGET.sub(lambda m: " " * len(m.group()), text)  # same length: offsets stay
    if not bare.isascii():
        bare = pattern(f"[{UNSPACED}{HANGUL}]").sub(
            "\u3000", bare
        )  # so that `AML-204` ends in `AML-204の`, where another script begins
    for match in _ENTITY.finditer(bare):
        entity = match.group()
        # A capital at the start of a sentence or heading does not make a name.
        inside = _INSIDE.search(bare, max(0, match.start() - 2), match.start())
        if 3 < len(entity) <= 60 and (" " not in entity or entity[0].isdigit() or inside) and not _NOISE.match(entity):
            yield entity, match.start()


_Q, _A = (rf"[ \t>*_-]*(?:{word})[ \t]?\d*[*_]*[:.]" for word in ("Q|Question", "A|Answer"))
_PAIR = re.compile(
    rf"^{_Q}[*_]*[ \t]*(?P<question>[^\n]{{5,300}}\?)[*_ \t]*\n\s*(?P<answer>{_A}[^\n]*(?:\n(?!\s*\n|{_Q})[^\n]*)*)",
    re.MULTILINE,
)
_QUESTION = re.compile(rf"^{_Q}", re.MULTILINE)
_MARK = re.compile(r"[?？؟]$")
_MIN_QUESTION_WORDS = 3


def faq(corpus: ExamDocuments) -> Drafts:
    by_terms: dict[frozenset[str], list[tuple[str, Judgment]]] = defaultdict(list)
    for text, judgment in _asked(corpus):
        if count_words(text) >= _MIN_QUESTION_WORDS and is_prose(text):
            by_terms[frozenset(terms(text))].append((text, judgment))
    drafts: dict[str, list[QuestionSeed]] = defaultdict(list)
    for asked in by_terms.values():
        if len({judgment.document for _, judgment in asked}) == 1:
            text, judgment = asked[0]
            candidate = PossibleQuestion(text, judgment.document, tuple(judgment for _, judgment in asked))
            drafts[judgment.document].append(QuestionSeed.of(candidate))
    return lambda document: drafts[document.id]


def _asked(corpus: ExamDocuments) -> Iterator[tuple[str, Judgment]]:
    for document in corpus.documents:
        if any(_MARK.search(text) for text in corpus.possible_headings[document.id]):
            for heading in corpus.headings(document):
                if _MARK.search(heading.text):
                    yield heading.text, corpus.judge(document, heading.start, heading.end)
        if _QUESTION.search(document.text):
            for match in _PAIR.finditer(corpus.readable(document)):
                yield plain(match["question"]), corpus.judge(document, *match.span("answer"))


MAX_DOCUMENTS = 3
_SPANS = 5
"""Most occurrences per document whose sentences become gold."""
_PART = rf"[^\W{UNSPACED}{HANGUL}]"

Spans = list[tuple[int, int]]


def entity_lookup(corpus: ExamDocuments) -> Drafts:
    asking = _EntityQuestions(corpus)

    def drafts(document: Document) -> Iterator[QuestionSeed]:
        for entity in asking.places(document):
            yield QuestionSeed(entity, partial(asking.ask, document, entity))

    return drafts


class _EntityQuestions:
    """Remembers the names and lines of the documents it has read."""

    def __init__(self, corpus: ExamDocuments) -> None:
        self._corpus = corpus
        self._places: dict[str, dict[str, list[int]]] = {}
        self._lines: dict[tuple[str, int], Spans] = {}

    def places(self, document: Document) -> dict[str, list[int]]:
        """Entity -> where it is in the document, as whole words."""
        if document.id not in self._places:
            found: dict[str, list[int]] = defaultdict(list)
            shown = self._corpus.readable(document)
            for entity, start in named(shown):
                if _is_whole(shown, start, start + len(entity)):
                    found[entity].append(start)
            self._places[document.id] = dict(found)
        return self._places[document.id]

    def ask(self, document: Document, entity: str) -> PossibleQuestion | None:
        # Every document that contains the words, in any case, fits the question: either all are judged, or none.
        documents = holders(self._corpus, document, entity)
        if not 0 < len(documents) <= MAX_DOCUMENTS or any(entity not in self.places(one) for one in documents):
            return None
        judgments = tuple(
            self._corpus.judge(one, *span)
            for one in documents
            for span in self._sentences(one, self.places(one)[entity])
        )
        return PossibleQuestion(entity, documents[0].id, judgments)

    def _sentences(self, document: Document, starts: list[int]) -> Spans:
        """The sentences around the given offsets, each once; a sentence never crosses a line. A line may contain many
        entities, so its sentences are remembered."""
        spans_seen: dict[tuple[int, int], None] = {}
        for at in starts[:_SPANS]:
            left = document.text.rfind("\n", 0, at) + 1
            if (document.id, left) not in self._lines:
                right = document.text.find("\n", at)
                end = len(document.text) if right < 0 else right
                self._lines[document.id, left] = sentence_spans(document.text, left, end)
            spans = self._lines[document.id, left]
            spans_seen[spans[bisect_right(spans, at, key=itemgetter(0)) - 1]] = None
        return list(spans_seen)


def holders(corpus: ExamDocuments, document: Document, entity: str) -> list[Document]:
    """The documents that contain the entity of a document as whole words, in their text or title, in any case; no more
    than MAX_DOCUMENTS + 1."""
    documents = []
    for other in corpus.containing(entity, document):
        if other is document or any(_contains(_lowered(text), entity.lower()) for text in (other.title, other.text)):
            documents.append(other)
            if len(documents) > MAX_DOCUMENTS:
                break
    return documents


@lru_cache(maxsize=16)  # many names of one document are looked for in the same others
def _lowered(text: str) -> str:
    return text.lower()


def _contains(text: str, words: str) -> bool:
    at = text.find(words)
    while at >= 0 and not _is_whole(text, at, at + len(words)):
        at = text.find(words, at + 1)
    return at >= 0


def _is_whole(text: str, start: int, end: int) -> bool:
    """Whether no word goes on before or after this part of the text."""
    return not _is_part(text[start - 1 : start]) and not _is_part(text[end : end + 1])


def _is_part(character: str) -> bool:
    """Whether this is a character of a word. Scripts without spaces and Hangul end a word."""
    if character.isascii():
        return character.isalnum() or character == "_"
    return pattern(_PART).match(character) is not None
