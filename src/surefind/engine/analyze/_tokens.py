"""Finds words and identifiers in text, splits identifiers into parts, and makes terms for other scripts."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from itertools import pairwise

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
