r"""Writing systems: marks that belong to a letter, scripts without spaces between words, and counts of words.

- *Marks* (vowel signs of Hindi, tones of Thai, accents typed on their own) belong to the letter before them, although
  Python's `\w` does not match them.
- *Unspaced* scripts put no spaces between words: Chinese, Japanese, and the scripts of Unicode's line-break class SA
  (Thai, Lao, Khmer, Burmese and related ones). Their smallest unit is a `cluster`: a character with its marks, with a
  consonant stacked below it, and with a vowel that is written before but spoken after it (like the Thai character
  clusters of Theeramunkong et al., 2000).

The constants are for use inside a character class of a regular expression.

Folds different spellings of the same letter: accents, ß, Turkish ı, Arabic vowel signs, digits of other scripts.

Follows Lucene: ICUFoldingFilter and ASCIIFoldingFilter for Latin and Greek letters (`é` -> e, `ß` -> ss, `ø` -> o,
`ı` -> i, `ς` -> σ), ArabicNormalizationFilter and PersianNormalizationFilter for Arabic letters, DecimalDigitFilter for
digits. Unlike ICU's folding, it keeps marks that make a different letter: Russian й (but ё -> е, as Russians write),
vowel signs of Indic scripts, Japanese が.

Tokens for counting: a word, a single punctuation mark, or a single character of a script without spaces.

Tokens do not depend on a model, so documents are cut in the same way for every encoder. A letter and its marks are
never separated. A very long run of letters (encoded data) counts one token per hundred characters, so that passages
stay bounded in size.

Splits text into sentences, without cutting `31 CFR 1020.320(d)`, `e.g.`, `U.S.`, initials, versions or inline code.

A sentence ends at `.`, `!`, `?`, `…` or a stop of another script (`।`, `؟`, `።`; Greek `;`) if white space follows and
then a character that may begin a sentence: a digit, a capital, a letter of a script without capitals, or any letter in
a text that has no capitals. It ends at `。`, `！` and `？` whatever follows. It never ends inside code or a link.

Finds the delimiter of a table in a text, in linear time. Python's own detection takes minutes on a row of quotes.
"""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Callable, Iterator
from functools import cache
from itertools import groupby, pairwise

_MARKED_BLOCKS = ((0x0300, 0x1DFF), (0x20D0, 0x20F0), (0x302A, 0x309A), (0xA66F, 0xABED), (0xFB1E, 0xFE2F))


def _marks() -> Iterator[str]:
    for first, last in _MARKED_BLOCKS:
        codes = range(first, last + 1)
        for is_mark, run in groupby(codes, key=lambda code: unicodedata.category(chr(code))[0] == "M"):
            if is_mark:
                of_run = list(run)
                yield f"{chr(of_run[0])}-{chr(of_run[-1])}"


UNSEEN = "\u00ad\u200c\u200d\u2060\ufeff"
"""Invisible characters inside words: soft hyphen and joiners."""
MARKS = "".join(_marks()) + UNSEEN
HAN = "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
KANA = "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"
HANGUL = "\u1100-\u11ff\u3131-\u318e\ua960-\ua97c\uac00-\ud7fb"
SOUTHEAST = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ece\u0edc-\u0edf"  # Thai, Lao (not their digits, which make numbers)
    "\u1000-\u103f\u1050-\u108f\u109a-\u109d\ua9e0-\ua9ef\ua9fa-\ua9fe\uaa60-\uaa76\uaa7a-\uaa7f"  # Burmese
    "\u1780-\u17d3\u17d7\u17dc\u17dd"  # Khmer
    "\u1950-\u19c9\u1a20-\u1a7c\uaa80-\uaadd"  # Tai Le, New Tai Lue, Tai Tham, Tai Viet
)
UNSPACED = HAN + KANA + SOUTHEAST

_BEFORE = "\u0e40-\u0e44\u0ec0-\u0ec4"
_AFTER = "\u0e30\u0e32\u0e33\u0e45\u0eb0\u0eb2\u0eb3"
_STACKED = r"[\u17d2\u1039]."  # Khmer coeng and Burmese virama put the next consonant below
_CLOSING = r"[\u1000-\u1021]\u1037?\u103a"  # a Burmese consonant with asat ends the syllable before
CLUSTER = rf"(?:[{_BEFORE}]?[{UNSPACED}](?:{_STACKED}|{_CLOSING}|[{_AFTER}{MARKS}])*)"
UNSPACED_RUN = rf"[{UNSPACED}][{UNSPACED}{MARKS}\u200b]*"
_WORD = rf"{CLUSTER}|[^\W{UNSPACED}]+(?:[{MARKS}]+[^\W{UNSPACED}]*)*"
_BORDER = rf"(?<=[A-Za-z0-9])(?=[{UNSPACED}{HANGUL}])|(?<=[{UNSPACED}{HANGUL}])(?=[A-Za-z0-9])"
_ASCII_WORD = re.compile(r"\w+")
_PER_WORD = 2
"""Approximate number of clusters per word in an unspaced script."""


@cache
def pattern(expression: str) -> re.Pattern[str]:
    """The compiled expression, compiled on first use: these large character classes take milliseconds, and English text
    never needs them."""
    return re.compile(expression)


def clusters(run: str) -> list[str]:
    """The clusters of a run: `ที่นี่` -> ที่, นี่; `東京` -> 東, 京."""
    return pattern(CLUSTER).findall(run)


def spaced(text: str) -> str:
    """Puts a space where the script changes, since a name ends there: `LibreOfficeの設定` -> LibreOffice, の設定."""
    return text if text.isascii() else pattern(_BORDER).sub("\u3000", text)


def words(text: str) -> list[str]:
    """The words of a text in lower case, with their marks; for unspaced scripts, the clusters."""
    if text.isascii():
        return _ASCII_WORD.findall(text.lower())
    return pattern(_WORD).findall(text.lower())


def count_words(text: str) -> int:
    """The number of words: runs without white space, or half the number of clusters for unspaced scripts."""
    if text.isascii():
        return len(text.split())
    pieces = [len(clusters(run)) for run in pattern(UNSPACED_RUN).findall(text)]
    return (
        len(pattern(UNSPACED_RUN).sub(" ", text).split()) + -(-sum(pieces) // _PER_WORD)
        if pieces
        else len(text.split())
    )


# Every alternative reads a character only once, so a line of a million dots takes no longer than one of letters.
_STOP = ".!?…؟۔।॥։።፧។៕။"
_END = re.compile(
    rf"[{_STOP}](?<![{_STOP}]{{2}})[{_STOP}]*+[\"'”’“»)\]*_]*+(?=\s)|;(?<=[\u0370-\u03ff\u1f00-\u1fff]{{2}};)(?=\s)"
    r"|[。！？｡]++[」』）】〉》”’\"')\]*_]*+|`[^`\n]+`|\]\([^()\s]*\)"
)
_ASCII_END = re.compile(r"[.!?](?<![.!?]{2})[.!?]*+[\"')\]*_]*+(?=\s)|`[^`\n]+`|\]\([^()\s]*\)")
"""The same as `_END` for ASCII text, but faster, with fewer alternatives."""
_OPENS = re.compile(r"\s+[\"'“‘«„¿¡(\[*_`]*(\w)|\s*[^\x00-\u2fff]")
_ABBREVIATION = re.compile(
    r"(?:\b(?:e\.g|i\.e|etc|vs|cf|al|approx|incl|excl|ext|no|nos|sec|para|paras|subsec|fig|figs|eq|art|ch|"
    r"vol|pp|eds|dept|inc|ltd|llc|corp|co|bros|mr|mrs|ms|mx|dr|prof|st|jr|sr|gov|gen|rep|sen|hon|sgt|capt|"
    r"(?-i:Pub|Stat|Reg|Fed|Rev|Proc|Supp|Treas|Nr|Abs|Tel)|"
    r"a\.m|p\.m|u\.s|u\.k|e\.u|ph\.d|b\.v|n\.v|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec|"
    r"bzw|ggf|evtl|usw|vgl|inkl|zzgl|гг|рис|стр|см|др|им|ул|руб|тыс|млн|млрд)|\b[A-Za-zА-Яа-я]|\d)\.$",
    re.IGNORECASE,
)
_LONGEST_ABBREVIATION = 6
"""Letters in a row of an abbreviation, at most. Most words before a stop are longer, and this is seen at once."""
_NUMBERED = re.compile(r"(?:^|\n)[^\S\n]*\d+\.$")
_FULL = frozenset("。！？｡")
"""Stops that need no white space after them and never end an abbreviation."""
_CAPITAL = re.compile(r"[A-ZÀ-ÞΑ-ΩА-Я]")


def sentence_spans(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """The sentences of text[start:end] as spans without gaps: each includes the white space after it."""
    capitals = _CAPITAL.search(text, start, end) is not None
    cuts = [start]
    for match in (_ASCII_END if text.isascii() else _END).finditer(text, start, end):
        at = match.end()
        if match.group()[0] in "`]" or at == end:
            continue
        ends = _opens(text, at, end, capitals) and not _abbreviates(text[max(start, at - 12) : at])
        if ends or match.group()[0] in _FULL:
            cuts.append(at)
    cuts.append(end)
    return [(a, b) for a, b in pairwise(cuts) if a < b]


def _opens(text: str, at: int, end: int, capitals: bool) -> bool:
    """Whether a sentence may begin here. In a text with capitals, none begins with a small letter."""
    first = _OPENS.match(text, at, end)
    return first is not None and not (capitals and first[1] and (first[1].islower() or first[1] == "_"))


def _abbreviates(tail: str) -> bool:
    """Whether the stop at the end of `tail` belongs to an abbreviation or a number. After a digit it ends the sentence
    (`in 2024. The` is two sentences) unless the number begins a list item (`2. Next`)."""
    if tail[-8:-1].isalpha() and len(tail) > _LONGEST_ABBREVIATION + 1:
        return False
    match = _ABBREVIATION.search(tail)
    if not match:
        return False
    return bool(_NUMBERED.search(tail)) if match.group()[0].isdigit() else True


DELIMITERS = ",;\t|"
_LOOKED_AT = 50
"""Rows that decide."""
_SAMPLE = 1 << 20
"""Characters that are looked at."""


def find_delimiter(text: str, is_usual: Callable[[str], bool] = lambda name: False) -> str:
    """Returns the delimiter with which the header has a usual name, most rows have as many cells as the header, and
    there are most cells, in this order. Empty if the text is no table."""
    scored = []
    for delimiter in DELIMITERS:
        rows = _first_rows(text, delimiter)
        width = len(rows[0]) if rows else 0
        if width > 1:
            alike = sum(len(row) == width for row in rows) / len(rows)
            named = any(is_usual(cell) for cell in rows[0])
            scored.append((named, round(alike, 1), width, -DELIMITERS.index(delimiter), delimiter))
    best = max(scored, default=None)
    return best[-1] if best and (best[0] or best[1] > 0.5) else ""


def _first_rows(text: str, delimiter: str) -> list[list[str]]:
    rows: list[list[str]] = []
    try:
        for row in csv.reader(io.StringIO(text[:_SAMPLE], newline=""), delimiter=delimiter):
            if row:
                rows.append(row)
            if len(rows) == _LOOKED_AT:
                break
    except csv.Error:
        pass
    return rows


_ACCENTS = re.compile(r"(?<=[A-Za-z\u00c6-\u024f\u0370-\u03ff])[\u0300-\u036f]+")
_POINTS = re.compile("[\u0591-\u05bd\u05bf-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed]")
_DIGIT = re.compile(r"[^\D0-9]")
_SAME = str.maketrans(
    {
        "ß": "ss", "ẞ": "SS", "æ": "ae", "Æ": "AE", "œ": "oe", "Œ": "OE", "ø": "o", "Ø": "O", "ł": "l", "Ł": "L",
        "đ": "d", "Đ": "D", "ð": "d", "Ð": "D", "þ": "th", "Þ": "TH", "ħ": "h", "Ħ": "H", "ı": "i", "ς": "σ", "Σ": "σ",
        "ё": "е", "Ё": "Е", "ـ": "", "ى": "ي", "ی": "ي", "ک": "ك", "ة": "ه",
        **dict.fromkeys([*UNSEEN, *map(chr, range(0xFE00, 0xFE10))], ""),
        "\u200b": " ",
    }
)  # fmt: skip


def fold(text: str) -> str:
    """`Straße` -> Strasse, `ΑΘΉΝΑ` -> ΑΘΗΝΑ, `٢٠٤` -> 204; upper case stays."""
    if text.isascii():
        return text
    bare = _POINTS.sub("", _ACCENTS.sub("", unicodedata.normalize("NFD", text)))
    folded = unicodedata.normalize("NFC", bare).translate(_SAME)
    return _DIGIT.sub(lambda digit: str(unicodedata.decimal(digit[0])), folded)


_ASCII_TOKEN = re.compile(r"\w{1,100}|[^\w\s]")
_LETTERS = rf"[^\W{UNSPACED}]"
_TOKEN = rf"(?:{_LETTERS}{{1,100}}(?:[{MARKS}]{{1,4}}{_LETTERS}{{0,9}}){{0,20}}|{CLUSTER}|[^\w\s])\u200b*"
_RUN = re.compile(r"\S+")


def token_spans(text: str, start: int = 0, end: int | None = None) -> list[tuple[int, int]]:
    """The (start, end) of every token."""
    return [m.span() for m in _pattern(text).finditer(text, start, len(text) if end is None else end)]


def word_spans(text: str) -> list[tuple[int, int]]:
    """The (start, end) of every run without white space."""
    return [m.span() for m in _RUN.finditer(text)]


def count_tokens(text: str) -> int:
    return len(_pattern(text).findall(text))


def _pattern(text: str) -> re.Pattern[str]:
    return _ASCII_TOKEN if text.isascii() else pattern(_TOKEN)
