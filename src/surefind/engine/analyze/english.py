"""`english(stem=true, stopwords=true, parts=true, question_words=false)`: stems English words, keeps identifiers whole
and in parts, and searches without the question words of a query.

Terms of `Filing under 31 CFR 1020.320(d)`: file · under · 31 · cfr · 1020.320(d), 1020.320, 1020, 320.
So an exact identifier in a query matches its whole form (rare, so decisive) as well as its parts. Parts of one
character are left out: indexing them cost 0.4 to 0.6 points of nDCG@10 on SciFact and on source code.

Stemmer: Snowball English (Porter2). Stop words: only the 33 of Lucene's StandardAnalyzer, because a longer list would
drop words that matter in policies ("before", "without", "over").

Question words (how, do, I, my, what, can …) are indexed, but a query is searched without them,
because they match passages that happen to be written in the first person or as questions. On nine collections this
raised nDCG@10 of BM25 significantly on five, and lowered it significantly on none. They are kept in capitals (`WHO`),
and if nothing else is left (`to be or not to be`, `The Who`).

Left out of them on purpose, because they are also nouns, months or names: may, mine, will, might, us, it.

Other scripts (`text.fold`): pairs of characters for scripts without spaces between words; accents are folded. ASCII
text skips this part.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, ClassVar

from surefind.base.spec import Stage, format_spec
from surefind.base.text.words import CLUSTER, HAN, HANGUL, MARKS, UNSPACED_RUN, fold, pattern

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


@cache
def _stemmer() -> Any:
    import Stemmer

    return Stemmer.Stemmer("english", 0)  # no cache: its own makes it slower, and an index stems each token only once


@dataclass(frozen=True)
class English(Stage):
    kind: ClassVar[str] = "analyze"
    name: ClassVar[str] = "english"

    stem: bool = True
    stopwords: bool = True
    parts: bool = True
    """Also index the parts of `kube-apiserver` and `KubeAPIDown`."""
    question_words: bool = False
    """Also search for the question words of a query."""

    @property
    def index_form(self) -> str:
        """The spec without `question_words`, which changes queries only."""
        return format_spec(self.name, [("stem", self.stem), ("stopwords", self.stopwords), ("parts", self.parts)])

    def tokens(self, text: str) -> list[str]:
        return raw_tokens(text)

    def query_tokens(self, text: str) -> list[str]:
        kept = self.content_tokens(text)
        return kept if kept and not self.question_words else raw_tokens(text)

    def content_tokens(self, text: str) -> list[str]:
        """Returns the tokens of a query without its question words; empty if no token with terms is left."""
        shouted = text.isupper()
        tokens = raw_tokens(text)
        kept = [t for t in tokens if t.lower() not in QUESTION_WORDS or (t.isupper() and len(t) > 1 and not shouted)]
        return kept if any(map(self.terms, kept)) else []

    def terms(self, token: str) -> tuple[str, ...]:
        return terms_of(token, self._of_word)

    def _of_word(self, token: str) -> tuple[str, ...]:
        whole, parts = split_identifier(token)
        if not parts:
            if self.stopwords and whole in STOPWORDS:
                return ()
            return (_stemmer().stemWord(whole) if self.stem else whole,)
        if not self.parts:
            return (whole,)
        parts = [part for part in parts if len(part) > 1]
        return (whole, *(_stemmer().stemWords(parts) if self.stem else parts))
