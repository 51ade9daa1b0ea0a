"""`phrases(nouns=true)`: extracts entities by the shape of words alone; free, fast, for any subject.

    identifiers   31 CFR 1020.320(d), EOD-7, KubeAPIErrorBudgetBurn, kube-apiserver, v1.2
    names         runs of capitalised words, joined by `of`, `de`, `van` …: Bank of England, J. K. Rowling
    quotations    "Katy Lied", `restart-agent`
    acronyms      CTR, SAR
    noun phrases  runs of two or three lower-case words between stop words: beneficial ownership (`nouns`)
    definitions   Suspicious Activity Report (SAR): both names mean the same, which the initials must confirm

A single capitalised word at the start of a sentence is a name only if it is neither a common word nor a contraction
(it's, you'll). Noun phrases follow RAKE (Rose et al., Automatic keyword extraction from individual documents, 2010)
without its scores: the graph keeps phrases that recur. Two names are related if one sentence contains both; the graph
weights these relations.

Common English words. None of them alone is a name, and none of `COMMON` is part of a noun phrase.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from surefind.base.protocols import Progress, Services
from surefind.base.spec import Stage
from surefind.base.text.words import sentence_spans, spaced
from surefind.base.types import Extraction, Mention

COMMON = frozenset(
    """
a about above according across after afterwards again against ago all almost alone along already also although always
am among an and another any anybody anyone anything are around as ask asked at away back based be became because become
becomes been before began behind being below best better between both but by call called came can cannot check
click come comes could current currently did do does doing done down due during each early either else enough ensure
especially etc even ever every everyone everything example except few find finally first five follow followed following
for former formerly found four from full further gave general get gets give given gives go goes going gone good
got had has have having he hence her here hers herself high him himself his how however if in include included
includes including indeed instead into is it its itself just keep known large last late later latter least less let
like likely list little long look made main mainly make makes making many may maybe me meanwhile might mine more
moreover most mostly much must my myself near need needs neither never nevertheless new next no nobody none nor not
note nothing now number of off often old on once one ones only onto open or originally other others otherwise our ours
out over own part per perhaps please prior put rather re real really same saw say second see seem seemed seems
several shall she should show shown since six small so some somehow someone something sometimes somewhere soon start
started still such take taken takes ten than that the their theirs them themselves then there thereafter thereby
therefore these they thing this those though three through throughout thus to together too took toward towards two
under unless unlike until up upon us use used uses using usually various very via was we well went were what whatever
when whenever where whereas wherever whether which while who whoever whole whom whose why will with within without work
would yes yet you your yours yourself
""".split()
)
INSTRUCTIONS = frozenset(
    """
accept add allow apply approve assign avoid cancel change choose close complete configure confirm connect contact copy
create define delete deploy describe disable download edit enable enter execute export fill fix go help hi ignore import
install log login logout manage mark merge monitor move navigate no ok okay optional paste press print proceed provide
publish pull push read record refresh reject release remember remove rename replace report request require reset resolve
restart restore retry return review rotate run save scroll search select send set setup sign skip sort stop store submit
switch sync tell test tick tip todo try turn type uncheck undo update upgrade upload use using verify view visit wait
warning watch write yes
""".split()
)
"""Words that begin an instruction or label a button. They are no names, but may be part of a noun phrase."""


_UP = "A-ZÀ-ÖØ-ÞĀĆČĎĐĒĘĚĞĪİŁŃŇŌŐŘŚŞŠŤŪŮŰŹŻŽΑ-ΩА-Я"
_WORD = rf"(?:[{_UP}][\w&]*(?:['’.-][\w&]+)*)"
_TITLE = rf"(?:[{_UP}]\.|St\.|Mr\.|Mrs\.|Dr\.|Jr\.|Sr\.|No\.|Vol\.)"
_PIECE = rf"(?:{_TITLE}|{_WORD})"
_JOIN = r"(?: (?:of|of the|de|de la|del|della|di|da|do|du|van|van der|von|der|al|bin|ibn|for|for the|&|–|-))?"
_NAME = re.compile(rf"(?<![\w]){_PIECE}(?:{_JOIN} (?:{_PIECE}|\d+(?!\w|\.\d)))*")
_CITE = r"\b\d+ (?:CFR|USC|U\.S\.C\.) (?:Part )?\d+(?:\.\d+)*(?:\([a-z0-9]{1,3}\))*"
_CODE = r"\b[A-Za-z]+(?:[-_*/.][A-Za-z0-9]+){0,40}[-_*/]?\d[\w-]*(?:\.\d+)*\b|\b[A-Z]{2,}\*[A-Z]+\b"
_IDENTIFIER = re.compile(f"{_CITE}|{_CODE}")
_QUOTED = re.compile(r"[\"“](\w[^\"“”\n]{1,80}?)[,.]?[\"”]|`([^`\n]{2,60})`")
_DEFINED = re.compile(r" \(([A-Z][A-Za-z&]{1,9}?)s?\)")
_BEFORE = re.compile(r"(?<![\w&'’-])(?:[\w&'’-]++ ){0,15}+[\w&'’-]++$")
_MARKUP = re.compile(
    r"!?\[([^\[\]\n]*)\]\([^)\n]{0,500}\)|https?://\S+|<[^>\n]{1,200}>"
    r"|\*{2,}|(?<!\w)[*_]+|(?<![*_])[*_]++(?!\w)|[#|>]+"
)
_RUN = re.compile(r"(?<!\w)[a-z][a-z-]{1,60}+(?: [a-z][a-z-]+)+")
_CONTRACTION = re.compile(r"([a-z]+)['’ʼ](?:s|ll|re|ve|d|m|(t))")
_SOME_WORD = re.compile(r"\w\w")
_MAX_NAME_WORDS = 8


@dataclass(frozen=True)
class Phrases(Stage):
    kind: ClassVar[str] = "extract"
    name: ClassVar[str] = "phrases"

    nouns: bool = True

    def extract(self, texts: Sequence[str], services: Services, progress: Progress | None = None) -> list[Extraction]:
        extractions = []
        for i, text in enumerate(texts):
            extractions.append(self._one(text))
            if progress and i % 500 == 0:
                progress(i, len(texts))
        return extractions

    def _one(self, text: str) -> Extraction:
        plain = spaced(_MARKUP.sub(lambda m: m.group(1) or " ", text))
        mentions = []
        for number, (start, end) in enumerate(sentence_spans(plain, 0, len(plain))):
            mentions += [Mention(name, number) for name in _names(plain[start:end], self.nouns)]
        return Extraction(tuple(mentions), tuple(_definitions(plain)))


def _names(sentence: str, nouns: bool) -> Iterator[str]:
    yield from (a or b for a, b in _QUOTED.findall(sentence) if len((a or b).split()) <= _MAX_NAME_WORDS)
    yield from _IDENTIFIER.findall(sentence)
    opening = len(sentence) - len(sentence.lstrip(" \n\t-–•\"'“‘(["))
    for match in _NAME.finditer(sentence):
        name = match.group()
        if match.start() <= opening or " " not in name:
            name = _without_opener(name)
        if _SOME_WORD.search(name) and len(name.split()) <= _MAX_NAME_WORDS:
            yield name
    if nouns:
        for run in _RUN.findall(sentence):
            yield from _noun_phrases(run)


def _without_opener(name: str) -> str:
    """The name without a common word or an instruction at its start, which is capitalised only because it begins the
    sentence; empty if nothing is left but the label of a button."""
    first, _, rest = name.partition(" ")
    if not _is_common(first.lower()) and first.lower() not in INSTRUCTIONS:
        return name
    return rest if rest[:1].isupper() and rest.lower() not in INSTRUCTIONS else ""


def _is_common(word: str) -> bool:
    """Returns whether a lower-case word is common, or a contraction of common words: it's, you'll, don't. Moody's and
    O'Brien are neither."""
    match = _CONTRACTION.fullmatch(word)
    first, negated = match.groups() if match else (word, None)
    return first in COMMON or (match is not None and (first == "i" or (negated is not None and first.endswith("n"))))


def _noun_phrases(run: str) -> Iterator[str]:
    words: list[str] = []
    for word in [*run.split(), "the"]:
        if word in COMMON or len(word) < 3 or word.endswith("ly"):
            if 2 <= len(words) <= 3:
                yield " ".join(words)
            words = []
        else:
            words.append(word)


def _definitions(text: str) -> Iterator[tuple[str, str]]:
    """Pairs (short, long): the letters in brackets, and the words before the bracket that have these initials."""
    for match in _DEFINED.finditer(text):
        short = match.group(1)
        before = _BEFORE.search(text[max(0, match.start() - _MAX_NAME_WORDS * 12) : match.start()])
        letters = [letter.lower() for letter in short if letter.isalpha()]
        words = before.group().split() if before else []
        for count in range(len(letters), min(len(words), len(letters) + 3) + 1):
            tail = words[-count:]
            initials = [word[0].lower() for word in tail if word.lower() not in COMMON or count == len(letters)]
            if initials == letters and len(tail) > 1 and tail[0].lower() not in COMMON:
                yield short, " ".join(tail)
                break
