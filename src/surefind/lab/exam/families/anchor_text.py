"""`anchor_text`: the words with which a document links to another one. Gold: the document, or the section that the
link's `#anchor` names, with the sections below it.

Words that lead to more than one place ("click here", "the runbook"), generic words, URLs, file names and versions are
dropped.
"""

from __future__ import annotations

import re
from collections import defaultdict
from functools import partial

from surefind.base.text.links import linked_path, slug, without_suffix
from surefind.base.types import Document
from surefind.lab.exam._documents import Drafts, ExamDocuments, PossibleQuestion, QuestionSeed
from surefind.lab.exam._headings import subtree_ends
from surefind.lab.exam._readable import readable
from surefind.lab.exam._words import is_prose, plain, terms
from surefind.lab.exam.families.heading_direct import clean_heading

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
