"""`auto(languages=[])`: stems each passage in its language, and a question in the languages of the passages.

An index asks it for the terms of a passage by `marked(language, text)`. Terms of English passages, and of those in a
language without a stemmer, are exactly those of `english`. A passage in another language has one more term, which marks
its language, so an index knows how many passages are in which language (`counted`).

A question is short, so its language is not always sure: `retrieve.bm25` searches it once for each language that holds a
twentieth of the passages, and for its own language; the best score of a passage counts. For each of them it asks
`auto(languages=[de])`. With several languages a word has the stems of all.

Question words are left out of a question in the languages of which we have a list (docs/languages.md). A list of stop
words in the index gained nothing in German and is not used. Accents are folded before a word is stemmed, so that people
may leave them off.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

from surefind.base.protocols import Analyzer
from surefind.base.spec import Stage, format_spec
from surefind.base.text.languages import STEMMERS, language_of, question_words
from surefind.base.text.words import CLUSTER, HAN, HANGUL, MARKS, UNSPACED_RUN, fold, pattern
from surefind.base.types import Query

# A token is an amount with thousands separators, or runs of letters and digits joined by the characters that occur in
# identifiers (or by marks and other characters inside a word), followed by clause letters as in 1020.320(d)(2). No part
# is read again from each of its characters: a run of underscores is tried only from its start.
_TOKEN = (
    r"\d{{1,3}}(?:,\d{{3}}){{1,9}}(?:\.\d+)?(?!\w|,\d)"
    r"|[^\W_]+(?:[-.*/@&+'_:{joins}]+[^\W_]+)*{marks}(?:\([^\W_]{{1,4}}\))*"
    r"|(?<!_)_++[^\W_]+(?:_+[^\W_]+)*"
)
_ASCII_TOKEN = re.compile(_TOKEN.format(joins="", marks=""), re.ASCII)
WIDE_TOKEN = _TOKEN.format(joins=f"’－．／＿\u200b{MARKS}", marks=f"[{MARKS}]*")
_RUN = re.compile(rf"[^\W_]+(?:[{MARKS}]+[^\W_]*)*")
_CAMEL = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_APOSTROPHES = re.compile(r"['’]")
_PIECE = rf"{CLUSTER}|[{HANGUL}]"
_GRAMS = rf"({UNSPACED_RUN}|[{HANGUL}]+)"


def raw_tokens(text: str) -> list[str]:
    """Words and identifiers: `CU*BASE job EOD-7 (see 31 CFR 1020.320(d))` -> CU*BASE, job, EOD-7, see, 31, CFR,
    1020.320(d)."""
    return _ASCII_TOKEN.findall(text) if text.isascii() else pattern(WIDE_TOKEN).findall(text)


def terms_of(token: str, of_word: Callable[[str], tuple[str, ...]]) -> tuple[str, ...]:
    """The terms of any token; `of_word` returns the terms of an English word or identifier.

    `ＡＭＬ－２０４の手順` -> the terms of AML-204, and pairs of characters: の手, 手順.
    """
    if token.isascii():
        return of_word(token)
    terms: list[str] = []
    for i, run in enumerate(pattern(_GRAMS).split(unicodedata.normalize("NFKC", token))):
        if i % 2:
            terms += grams(run)
        else:
            terms += [term for word in pattern(WIDE_TOKEN).findall(fold(run)) for term in of_word(word)]
    return tuple(terms)


def grams(run: str) -> list[str]:
    """Overlapping pairs of characters (clusters), for scripts that do not mark words, as in Lucene's CJKAnalyzer:
    `東京都` -> 東京, 京都. Chinese characters are also terms by themselves, since many words have only one."""
    pieces = pattern(_PIECE).findall(run)
    if len(pieces) == 1:
        return pieces
    return [a + b for a, b in pairwise(pieces)] + pattern(f"[{HAN}]").findall(run)


def split_identifier(token: str) -> tuple[str, list[str]]:
    """A token's whole form and its parts, both lower case; a plain word has no parts.

    `kube-apiserver` -> kube, apiserver; `KubeAPIErrorBudget` -> kube, api, error, budget;
    `1020.320(d)` -> 1020.320, 1020, 320, d; `member's` -> the plain word member; `10,000` -> the plain word 10000.
    """
    if "," in token:
        return token.replace(",", ""), []
    if "'" in token or "’" in token:
        token = _strip_possessive(token)
    bare, *clauses = token.split("(")
    runs = _RUN.findall(bare)
    parts = [part for run in runs for part in _camel_parts(run)] if not token.islower() else list(runs)
    parts += [clause.rstrip(")") for clause in clauses]
    if clauses and len(runs) > 1:
        parts.insert(0, bare)
    whole = token.lower()
    lowered = [part.lower() for part in parts]
    return (whole, []) if lowered == [whole] else (whole, lowered)


def _strip_possessive(token: str) -> str:
    """`member's` -> member, `members'` never reaches here, `don't` -> dont, `O'Brien` -> OBrien."""
    head, _, tail = _APOSTROPHES.sub("'", token).rpartition("'")
    return head.replace("'", "") if tail.lower() == "s" else _APOSTROPHES.sub("", token)


def _camel_parts(run: str) -> list[str]:
    """The humps of a camel-case run; digits alone do not split (`v1` and `EOD7` stay whole)."""
    if not run.isascii():
        return [run]
    humps = _CAMEL.findall(run)
    letters = [hump for hump in humps if not hump.isdigit()]
    return humps if len(letters) > 1 and not run.isupper() else [run]


QUESTION_WORDS = frozenset(
    "who whom whose what which when where why how "
    "i me my myself we our ours ourselves you your yours yourself he him his she her hers they them its itself "
    "someone anyone "
    "am is are was were be been being do does did doing done have has had having "
    "can could should would shall must".split()
)


STOPWORDS = frozenset(
    "a an and are as at be but by for if in into is it no not of on or such that the their then there these "
    "they this to was will with".split()
)
COMMON = STOPWORDS | QUESTION_WORDS
"""Words that say nothing about the subject of a question."""


def english_terms(token: str, stem: bool = True, stopwords: bool = True, parts: bool = True) -> tuple[str, ...]:
    """The terms of an English word or identifier."""
    whole, split = split_identifier(token)
    if not split:
        if stopwords and whole in STOPWORDS:
            return ()
        return (stemmer("en").stemWord(whole) if stem else whole,)
    if not parts:
        return (whole,)
    split = [part for part in split if len(part) > 1]
    return (whole, *(stemmer("en").stemWords(split) if stem else split))


def content_tokens(text: str) -> list[str]:
    """The tokens of an English query without its question words, but for those in capitals."""
    shouted = text.isupper()
    tokens = raw_tokens(text)
    return [t for t in tokens if t.lower() not in QUESTION_WORDS or (t.isupper() and len(t) > 1 and not shouted)]


_MARK = "\x1f"
"""A character that no token has."""
_MARKED = re.compile(f"({_MARK}(?:{'|'.join(STEMMERS)}){_MARK})\n")


@dataclass(frozen=True)
class Auto(Stage):
    kind: ClassVar[str] = "analyze"
    name: ClassVar[str] = "auto"

    languages: tuple[str, ...] = ()
    """The languages to stem words in, such as de; none means English, or what a text is marked with."""

    @property
    def index_form(self) -> str:
        """The spec without `languages`, which change queries only."""
        return format_spec(self.name, [])

    def tokens(self, text: str) -> list[str]:
        mark = _MARKED.match(text)
        if mark is None:
            return raw_tokens(text)
        return [mark[1], *(f"{mark[1]}{token}" for token in raw_tokens(text[mark.end() :]))]

    def terms(self, token: str) -> tuple[str, ...]:
        if token.startswith(_MARK):
            _, language, word = token.split(_MARK, 2)
            return _terms(language, word) if word else (token,)
        terms = (_terms(language, token) for language in self.languages or ("en",))
        return tuple(dict.fromkeys(term for some in terms for term in some)) if self.languages[1:] else next(terms)

    def query_tokens(self, text: str) -> list[str]:
        return self.content_tokens(text) or raw_tokens(text)

    def content_tokens(self, text: str) -> list[str]:
        """Returns the tokens of a query without the question words of its languages; empty if no token is left."""
        kept = content_tokens(text) if "en" in (self.languages or ("en",)) else raw_tokens(text)
        for language in self.languages:
            left_out = question_words(language)
            kept = [token for token in kept if fold(token.lower()) not in left_out]
        return kept if any(map(self.terms, kept)) else []


def marked(language: str, text: str) -> str:
    """A text with its language, if it is one with a stemmer of its own."""
    return f"{mark_of(language)}\n{text}" if language in STEMMERS else text


def mark_of(language: str) -> str:
    """The term that each passage in this language has."""
    return f"{_MARK}{language}{_MARK}"


def counted(term: str) -> str:
    """The language whose passages have this term; empty for a word."""
    return term[1:-1] if term.startswith(_MARK) else ""


def _terms(language: str, token: str) -> tuple[str, ...]:
    if language not in STEMMERS:
        return terms_of(token, english_terms)
    stem = stemmer(language).stemWord

    def of_word(word: str) -> tuple[str, ...]:
        whole, parts = split_identifier(word)
        return (whole, *(stem(part) for part in parts if len(part) > 1)) if parts else (stem(whole),)

    return terms_of(token, of_word)


@cache
def stemmer(language: str) -> Any:
    """The stemmer of a language; English for those that have none."""
    import Stemmer

    # No cache of its own, which makes it slower: an index stems each token only once.
    return Stemmer.Stemmer(STEMMERS.get(language, "english"), 0)


class Interpretation(NamedTuple):
    """One way to read queries."""

    analyzer: Analyzer
    queries: Sequence[Query]


_COMMON = 20
"""A question is searched in each language that one passage in so many is in."""


def interpretations(
    analyzer: Analyzer, queries: Sequence[Query], passages: int, languages: Mapping[str, int]
) -> list[Interpretation]:
    """Returns the analyzers that turn queries into terms, each with the queries, empty where it is not for a query: the
    retriever's, or one for each language that a query may be in. Rare languages count for queries in them alone."""
    if not isinstance(analyzer, Auto) or analyzer.languages or not languages:
        return [Interpretation(analyzer, queries)]
    counts = {"en": passages - sum(languages.values()), **languages}
    common = [language for language, count in counts.items() if count * _COMMON >= passages]
    asked = [Interpretation(Auto((language,)), queries) for language in common]
    own = [language_of(query.text) for query in queries] if len(common) < len(counts) else []
    for language in sorted({*own} & {*counts} - {*common}):
        there = [query if spoken == language else Query("") for query, spoken in zip(queries, own, strict=True)]
        asked.append(Interpretation(Auto((language,)), there))
    return asked
