"""The share of a question's content terms that are in its gold passage.

    overlap = max over windows w of WINDOW words:  |terms(question) ∩ terms(w)| / |terms(question)|

A long passage contains more of any question's words than a sentence does. So a gold passage or document that is longer
than the window is read window by window, and a shorter one with the words around it: every question of every exam is
compared with the same amount of text, whatever its gold. For the staff questions of the sample, the overlap with the
gold sentence and with its document was 17% and 63% of all words; by windows it is 39% and 50%. A window of 100 words is
a short passage of a search. In a longer one, common words of a question are found by chance.

Question words and the words of question templates ("where can I find information about …") are not counted.

The words and terms of questions and documents, and Markdown as plain text.

Measures how many of a question's words are in its gold passage, and says how this affects the scores.

Guesses from letters and common words whether texts are English.

The bundled encoder and reranker were trained on English, so users with other documents are warned.

Blanks out what nobody reads in a Markdown text: comments, template tags, code, link targets, image files.

The result is as long as the text, so offsets stay valid. What is not part of a sentence becomes spaces. What a sentence
needs but a question cannot say (a template tag, a URL, a placeholder) becomes `HOLE`; families skip texts with a hole.

An opening mark without its end is searched for once: every pattern is bounded, or runs to the end of the text.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from surefind.engine.analyze.english import English
from surefind.lab.exam.model import Exam, ExamQuery

HOLE = "\ufffc"
"""Stands for each character of a template tag, URL or placeholder."""

_NAMES = (
    "a|abbr|address|article|aside|audio|b|blockquote|body|br|button|center|cite|code|col|colgroup|dd|del|details|dfn|div|"
    "dl|dt|em|embed|figcaption|figure|font|footer|form|h[1-6]|head|header|hr|html|i|iframe|img|input|ins|kbd|label|li|"
    "link|main|mark|meta|nav|object|ol|option|p|path|picture|pre|q|s|samp|script|section|select|small|source|span|"
    "strong|style|sub|summary|sup|svg|table|tbody|td|textarea|tfoot|th|thead|time|title|tr|u|ul|var|video|wbr"
)
_UP_TO = r"[^{0}]{{0,500}}+(?:{0}(?!{1})[^{0}]{{0,500}}+){{0,5}}{0}{1}"
_ENDINGS = tuple(".png .jpg .jpeg .gif .svg .webp .bmp .tif .tiff .ico .avif .mp4 .PNG .JPG .JPEG .GIF .SVG".split())
_ENDING = f"(?:{'|'.join(map(re.escape, _ENDINGS))})"
_FILE = rf"[^\s\].]{{1,100}}+(?:\.[^\s\].]{{1,100}}+){{0,3}}?{_ENDING}"
_GOAL = r"(?:\((?:[^()\n]|\([^()\n]*\)){0,1000}+\)|\[[^\]\n]{0,200}\])"
"""The second half of a link: `(page.md "title")` or `[reference]`."""


def _pattern(*alternatives: str) -> re.Pattern[str]:
    return re.compile("|".join(alternatives), re.DOTALL | re.MULTILINE)


_COMMENT = _pattern(
    r"<!--(?:(?!-->).)*+(?:-->)?",
    r"\{%-?\s*comment\b(?:(?!\{%-?\s*endcomment).)*+(?:\{%-?\s*endcomment\s*-?%\})?",
    r"\{#" + _UP_TO.format("#", r"\}"),
    r"\{/\*" + _UP_TO.format(r"\*", r"/\}"),
    r"%%(?=[^%\n]*%%)[^%\n]*%%",
)
_TEMPLATE = _pattern(
    r"\{\{(?:[^{}]|\{[^{}]{0,200}\}){0,500}+\}\}+",
    r"\{%" + _UP_TO.format("%", r"\}"),
    r"<%" + _UP_TO.format("%", ">"),
    r"<\?" + _UP_TO.format(r"\?", ">"),
    r"[$#]\{[^{}\n]{0,200}\}",
)
_FENCED = _pattern(r"^[ \t>]*(?P<fence>`{3,}(?=[^`\n]*$)|~{3,})(?:(?!^[ \t>]*(?P=fence)[`~]*[ \t]*$).)*+(?:^[^\n]*$)?")
_SCRIPT = _pattern(r"<(?P<tag>(?i:script|style|pre))\b(?:(?!</(?P=tag)\s*>).)*+(?:</(?P=tag)\s*>)?")
_DEFINITION = _pattern(r"^ {0,3}\[[^\]\n]{1,200}\]:[^\n]*$")
_IMAGE = _pattern(rf"!\[\s*+(?:(?:{_FILE}|[Ii]mage|[Ss]creenshot)\s*+)?\]{_GOAL}", r"!\[\[[^\]\n]{0,200}\]\]")
_MARKED_LINK = _pattern(
    rf"!?\[(?P<kept>[^\[\]]{{1,300}})\]{_GOAL}",
    r"\[\[(?:[^\[\]|\n]{1,200}\|)?(?P<shown>[^\[\]|\n]{1,200})\]\]",
    r"\{[#.:][\w:-][^{}\n]{0,200}\}",
)
_TAG = _pattern(rf"</?(?i:{_NAMES})(?=[\s/>])[^<>]{{0,1000}}>")
_PLACEHOLDER = _pattern(r"<[^<>\s][^<>\n]{0,200}>")
_ADDRESS = _pattern(r"(?:https?|ftp|file)://[^\s<>|`]+", r"mailto:[^\s<>|`]+")
_PICTURE = _pattern(rf"(?<![^\s\].])[^\s\].]++(?:\.[^\s\].]++){{0,3}}?{_ENDING}\b")

_STEPS: tuple[tuple[tuple[str, ...], re.Pattern[str], str], ...] = (
    (("<!--", "{%", "{#", "{/*", "%%"), _COMMENT, " "),
    (("```", "~~~"), _FENCED, " "),
    (("<",), _SCRIPT, " "),
    (("{{", "{%", "<%", "<?", "${", "#{"), _TEMPLATE, HOLE),
    (("]:",), _DEFINITION, " "),
    (("![",), _IMAGE, " "),
    (("](", "][", "[[", "{#", "{.", "{:"), _MARKED_LINK, " "),
    (("<",), _TAG, " "),
    (("<",), _PLACEHOLDER, HOLE),
    (("://", "mailto:"), _ADDRESS, HOLE),
    (_ENDINGS, _PICTURE, HOLE),
)
"""What must be in the text for a step to matter, the pattern, and what replaces each matched character."""


def readable(text: str) -> str:
    """The text with the same length and lines, without what is not prose."""
    for marks, pattern, blank in _STEPS:
        if any(mark in text for mark in marks):
            text = pattern.sub(_blank(blank), text)
    return text


def _blank(fill: str) -> Callable[[re.Match[str]], str]:
    """Replaces every character except line ends and the text of a link."""

    def replace(match: re.Match[str]) -> str:
        groups = match.groupdict()
        kept = "kept" if groups.get("kept") else "shown" if groups.get("shown") else ""
        if not kept:
            return _filled(match.group(), fill)
        start, end = (at - match.start() for at in match.span(kept))
        text = match.group()
        return _filled(text[:start], fill) + text[start:end] + _filled(text[end:], fill)

    return replace


def _filled(text: str, fill: str) -> str:
    return "\n".join(fill * len(line) for line in text.split("\n"))


_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^)]{0,500}\)")
# Each alternative begins with a character, which is faster.
_MARKUP = re.compile(r"[*`]+|_(?<!\w_)_*|_(?<!__)_*+(?!\w)|<[^>]{1,500}>")
_ANALYZER = English()


def plain(text: str) -> str:
    """Turns Markdown into one line of plain text."""
    return " ".join(_MARKUP.sub("", _LINK.sub(r"\1", text)).split())


def is_prose(text: str) -> bool:
    """Whether the plain text can be a question: no template tag, URL or placeholder is in it, and no table cell."""
    return HOLE not in text and "|" not in text


def words(text: str) -> list[str]:
    return _ANALYZER.tokens(text)


def query_words(text: str) -> list[str]:
    """The words of a question without question words, such as "how" and "do"."""
    return _ANALYZER.query_tokens(text)


def terms(text: str) -> list[str]:
    return [term for token in words(text) for term in of_token(token)]


@lru_cache(maxsize=1 << 16)  # writing an exam analyses the same words again and again
def of_token(token: str) -> tuple[str, ...]:
    return _ANALYZER.terms(token)


BANDS = ("0–33%", "33–67%", "67–99%", "100%")


def band(query: ExamQuery) -> str | None:
    """The band of the query's lexical overlap."""
    if query.overlap is None:
        return None
    edges = (1 / 3, 2 / 3, 1.0)
    return BANDS[sum(query.overlap >= edge for edge in edges)]


@dataclass(frozen=True)
class Leakage:
    text: str
    families: dict[str, dict[str, float]]
    bands: dict[str, int]


def leakage(exam: Exam) -> Leakage | None:
    """The leakage of an exam; None if the overlap of no question is known."""
    known = [query for query in exam.queries if query.overlap is not None]
    if not known:
        return None
    families: dict[str, list[float]] = defaultdict(list)
    for query in known:
        families[query.family].append(query.overlap or 0.0)
    means = {
        name: {"queries": len(values), "overlap": sum(values) / len(values)}
        for name, values in sorted(families.items())
    }
    bands = {name: sum(band(query) == name for query in known) for name in BANDS}
    return Leakage(_words(known, bands), means, bands)


def _words(known: Sequence[ExamQuery], bands: dict[str, int]) -> str:
    mean = sum(query.overlap or 0.0 for query in known) / len(known)
    whole = bands["100%"] / len(known)
    verdict = (
        "This exam favours lexical retrieval: compare the results by overlap band, and trust the low bands most."
        if mean > 0.8
        else "These questions share about as many words with their passages as questions that people ask."
        if mean > 0.45
        else "The questions share few words with their passages, which is hard for lexical retrieval."
    )
    return (
        f"On average {mean:.0%} of a question's words are in its gold passage, and {whole:.0%} of the questions "
        f"have all of their words there. {verdict}"
    )


WINDOW = 100
"""Words of a window."""
_CHARS_PER_WORD = 30
"""Characters per word that are read around a short passage."""
FRAME_WORDS = frozenset(
    "about best details explain find help information know need needs please question read show steps tell want way "
    "with".split()
)
"""Words with which templates and people make a question of a subject, besides question words."""


def content_terms(question: str) -> frozenset[str]:
    """The terms of a question without question words and words of templates; all terms if there are no others."""
    kept = [word for word in query_words(question) if word.lower() not in FRAME_WORDS]
    return frozenset(term for word in kept for term in of_token(word)) or frozenset(terms(question))


def overlap(question: str, text: str, start: int | None = None, end: int | None = None) -> float:
    """The overlap with the passage text[start:end] of a document, or with the whole document."""
    wanted = content_terms(question)
    return _best(wanted, _passage(text, start or 0, len(text) if end is None else end)) / len(wanted) if wanted else 0.0


@lru_cache(maxsize=256)  # several questions have the same gold
def _passage(text: str, start: int, end: int) -> dict[str, list[int]]:
    """Term -> the numbers of the words that contain it, of the passage and as much around it as a window needs."""
    inside = words(text[start:end])
    missing = WINDOW - len(inside)
    if missing > 0:
        before = words(text[max(0, start - WINDOW * _CHARS_PER_WORD) : start])
        after = words(text[end : end + WINDOW * _CHARS_PER_WORD])
        left = min(len(before), max(missing // 2, missing - len(after)))
        inside = before[len(before) - left :] + inside + after[: missing - left]
    places: dict[str, list[int]] = defaultdict(list)
    for at, word in enumerate(inside):
        for term in of_token(word):
            places[term].append(at)
    return dict(places)


def _best(wanted: Iterable[str], places: dict[str, list[int]]) -> int:
    """The most wanted terms in any window."""
    positions = [places[term] for term in wanted if term in places]
    starts = {at for term in positions for at in term}
    return max((sum(_within(term, start) for term in positions) for start in starts), default=0)


def _within(places: Sequence[int], start: int) -> bool:
    at = bisect_left(places, start)
    return bisect_right(places, start + WINDOW - 1) > at
