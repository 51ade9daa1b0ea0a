"""`first_sentence`: the sentence that opens a section. Gold: the section.

If up to `MOST` documents have the same sentence, all are gold; if more do, the sentence is dropped.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from surefind.exam._documents import Candidate, ExamDocuments, is_prose, plain
from surefind.exam.model import Judgment
from surefind.text.scripts import count_words
from surefind.text.sections import Section

MOST = 3
_STOPS = ".:;。：；।۔។။"


def first_sentence(corpus: ExamDocuments) -> Iterator[Candidate]:
    places: dict[str, list[Judgment]] = defaultdict(list)
    texts: dict[str, str] = {}
    for document in corpus.documents:
        shown = corpus.readable(document)
        for section in corpus.sections(document):
            text = plain(_opening(shown, section)).rstrip(_STOPS)
            if 6 <= count_words(text) <= 30 and is_prose(text):
                places[text.lower()].append(corpus.judge(document, section.start, section.end))
                texts.setdefault(text.lower(), text)
    for key, judgments in places.items():
        if len({judgment.document for judgment in judgments}) <= MOST:
            yield Candidate(texts[key], judgments[0].document, tuple(judgments))


def _opening(shown: str, section: Section) -> str:
    """The first sentence that is not blank: a comment or an image is not a sentence."""
    return next((text for start, end in section.sentences if (text := shown[start:end]).strip()), "")
