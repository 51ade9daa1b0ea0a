"""`heading_direct`: a heading, a caption or a title, word for word. Gold: the section and all sections below it.

Which sections are gold follows three rules:

- A section is gold if its heading has the same terms as the question, or if its heading has at least two of them and
  its document's title has the rest, and neither has any other.
- A question is dropped if gold is in more than `MAX_DOCUMENTS` documents, or if it is generic ("Next steps").
- A question is dropped if a section of another document might answer it too: its heading and title contain all the
  terms, but also others. Nothing in the words says whether it does.

`heading_paraphrase`: a heading as a question in other words.

Gold: as for `heading_direct`. A heading is left out if the lexicon has no other word for any of its words, because
"what is" before the heading would not be a paraphrase. It is also left out if the words that stay do not point at few
documents ("how do I look at the alerts?" fits any of them): one word must be rare, and if it is the only one, very
rare. So is one whose section says next to nothing besides its links. The lexicon is English, so only English
documents are used.

`heading_paraphrase_titled` keeps a heading that points at too many documents: it names the document in the question,
"…, in Vendor Management Policy?". Studies that want a certain share of paraphrases use it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache, partial

from surefind.base.text.languages import language_of
from surefind.base.text.words import count_words
from surefind.base.types import Document
from surefind.lab.exam._documents import Drafts, ExamDocuments, Heading, PossibleQuestion, QuestionSeed
from surefind.lab.exam._paraphrase import paraphrase
from surefind.lab.exam.model import Judgment
from surefind.lab.exam.overlap import content_terms, terms

MAX_DOCUMENTS = 3
_GENERIC = (
    "about additional advice alternative answers appendix applies approach audience authority background basics "
    "before begin benefits best bibliography can cause caveats change changelog checklist commands common conclusion "
    "conditions configuration consequences contact contents context contribution control current date definition "
    "description details diagnosis diagram discussion document during effective example exception expected "
    "explanation extra faq fields files final first follow follow-up format further future gather general get "
    "glossary goal goes guide guidelines happens help history how impact implementation important info information "
    "input instructions intro introduction issue item key know knowledge known last learn level limitation links list "
    "main manual many material meaning method misc miscellaneous mitigation monitoring more need new next note "
    "objective open option other our outcome output overview owner page part people points policy possible practice "
    "preparation prerequisite problem procedure process purpose question quick read reason record reference related "
    "report required resource responsibilities result review revision risks role rule sample scope section see setup "
    "severity short simple some something source standard start statement status step summary support symptom table "
    "task team term test thing tip title tool topic troubleshooting type understand usage use value version what when "
    "where who why work wrong you your"
)
"""Words that say what kind of section this is, and nothing of its subject."""


@cache
def generic_terms() -> frozenset[str]:
    return frozenset(terms(_GENERIC))


def heading_direct(corpus: ExamDocuments) -> Drafts:
    def drafts(document: Document) -> Iterator[QuestionSeed]:
        for heading in corpus.headings(document):
            text = clean_heading(heading.text)
            if text:
                yield QuestionSeed(text, partial(_ask_heading, corpus, text, heading))

    return drafts


def _ask_heading(corpus: ExamDocuments, text: str, heading: Heading) -> PossibleQuestion | None:
    judgments = judged(corpus, heading)
    return PossibleQuestion(text, heading.document.id, judgments) if judgments else None


def clean_heading(heading: str) -> str:
    """The heading; "" if it is generic, or too short or too long for a question."""
    own = set(terms(heading))
    fits = len(own) >= 2 and count_words(heading) <= 15 and "|" not in heading
    return heading if fits and not own <= generic_terms() else ""


def judged(corpus: ExamDocuments, heading: Heading) -> tuple[Judgment, ...]:
    """Judgments of the heading's own section and all others that it fits; none if the question is ambiguous."""
    fitting = _fitting(corpus, heading.own)
    headings = {(h.document.id, h.start): h for h in (heading, *fitting)} if fitting else {}
    spans = [corpus.judge(h.document, h.start, h.end) for h in headings.values()]
    return tuple(sorted(spans, key=lambda j: (j.document, j.start or 0)))


def _fitting(corpus: ExamDocuments, wanted: frozenset[str]) -> Sequence[Heading]:
    """The headings that these terms fit; none if the question is ambiguous. Documents are read only until more than
    `MAX_DOCUMENTS` are found: then either too many fit, or one does not."""
    near: list[list[Heading]] = []
    for document in corpus.headed(wanted):
        headings = corpus.headings_with(document, wanted)
        near += [headings] if headings else []
        if len(near) > MAX_DOCUMENTS:
            return ()
    fitting_by_list = [[heading for heading in headings if _fits(heading, wanted)] for headings in near]
    return [heading for headings in fitting_by_list for heading in headings] if all(fitting_by_list) else ()


def _fits(heading: Heading, wanted: frozenset[str]) -> bool:
    return heading.own == wanted or (heading.with_title == wanted and len(heading.own) >= 2)


_MIN_SECTION_WORDS = 12
"""Words of a section that answers a question."""
_LINK = re.compile(r"\[[^\]\n]{0,200}\]\([^)\n]{0,500}\)")


def heading_paraphrase(corpus: ExamDocuments) -> Drafts:
    return _drafts(corpus, False)


def heading_paraphrase_titled(corpus: ExamDocuments) -> Drafts:
    return _drafts(corpus, True)


def _drafts(corpus: ExamDocuments, titled: bool) -> Drafts:
    def drafts(document: Document) -> Iterator[QuestionSeed]:
        possible = any(_reworded(corpus, document, text) for text in corpus.possible_headings[document.id])
        for heading in corpus.headings(document) if possible and language_of(document.text) in ("", "en") else ():
            reworded = _reworded(corpus, document, heading.text)
            reworded = reworded and _reworded(corpus, document, heading.text, document.text)
            if reworded:
                yield QuestionSeed(heading.text, partial(_ask_paraphrase, corpus, reworded, heading, titled))

    return drafts


def _reworded(corpus: ExamDocuments, document: Document, heading: str, text: str = "") -> str:
    """The question; without the document's text, only whether there may be one."""
    return paraphrase(heading, f"{corpus.seed}:{document.id}", text) if clean_heading(heading) else ""


def _ask_paraphrase(
    corpus: ExamDocuments, reworded: str, heading: Heading, titled: bool = False
) -> PossibleQuestion | None:
    kept = content_terms(reworded) & frozenset(terms(heading.text))
    title = frozenset(terms(heading.document.title))
    if titled and not points(corpus, kept) and not title <= heading.own:
        reworded, kept = f"{reworded.rstrip('?')}, in {heading.document.title}?", kept | title
    judgments = judged(corpus, heading) if points(corpus, kept) and _answers(heading) else ()
    return PossibleQuestion(reworded, heading.document.id, judgments, source=heading.text) if judgments else None


def _answers(heading: Heading) -> bool:
    """Whether the section has text of its own: "See the page about …" answers nothing."""
    section = heading.document.text[heading.start : heading.end]
    return count_words(_LINK.sub("", section)) - count_words(heading.text) >= _MIN_SECTION_WORDS


def points(corpus: ExamDocuments, kept: frozenset[str]) -> bool:
    """Whether the terms that the question shares with its heading point at few documents."""
    fewest = min((corpus.frequency[term] for term in kept), default=0)
    return 0 < fewest <= MAX_DOCUMENTS or (len(kept) > 1 and any(map(corpus.is_rare, kept)))
