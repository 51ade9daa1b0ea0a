"""Finding words and identifiers in text, and the parts of an identifier."""

from __future__ import annotations

import re

# An amount with thousands separators, or
# a run of letters and digits, then any number of runs joined by one of the characters that hold identifiers
# together, then clause letters as in 1020.320(d)(2).
TOKEN = re.compile(
    r"\d{1,3}(?:,\d{3})+(?:\.\d+)?(?!\w|,\d)"
    r"|[^\W_]+(?:[-.*/@&+'’_:]+[^\W_]+)*(?:\([^\W_]{1,4}\))*"
    r"|_+[^\W_]+(?:_+[^\W_]+)*"
)
_RUN = re.compile(r"[^\W_]+")
_CAMEL = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_APOSTROPHES = re.compile(r"['’]")


def raw_tokens(text: str) -> list[str]:
    """`CU*BASE job EOD-7 (see 31 CFR 1020.320(d))` -> CU*BASE, job, EOD-7, see, 31, CFR, 1020.320(d)."""
    return TOKEN.findall(text)


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
