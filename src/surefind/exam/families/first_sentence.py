"""`first_sentence`: the sentence that opens a section. Gold: the section.

If up to `MOST` documents have the same sentence, all are gold; if more do, the sentence is dropped.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from surefind.exam._documents import Candidate, ExamDocuments, plain
from surefind.exam.model import Judgment
from surefind.text.scripts import count_words

MOST = 3
_STOPS = ".:;。：；।۔។။"


def first_sentence(corpus: ExamDocuments) -> Iterator[Candidate]:
    places: dict[str, list[Judgment]] = defaultdict(list)
    shown: dict[str, str] = {}
    for document in corpus.documents:
        for section in corpus.sections(document):
            text = plain(document.text[slice(*section.sentences[0])]).rstrip(_STOPS) if section.sentences else ""
            if 6 <= count_words(text) <= 30:
                places[text.lower()].append(corpus.judge(document, section.start, section.end))
                shown.setdefault(text.lower(), text)
    for key, judgments in places.items():
        if len({judgment.document for judgment in judgments}) <= MOST:
            yield Candidate(shown[key], judgments[0].document, tuple(judgments))
