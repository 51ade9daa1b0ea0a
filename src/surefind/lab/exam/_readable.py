"""Blanks out what nobody reads in a Markdown text: comments, template tags, code, link targets, image files.

The result is as long as the text, so offsets stay valid. What is not part of a sentence becomes spaces. What a sentence
needs but a question cannot say (a template tag, a URL, a placeholder) becomes `HOLE`; families skip texts with a hole.

An opening mark without its end is searched for once: every pattern is bounded, or runs to the end of the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable

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
_LINK = _pattern(
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
    (("](", "][", "[[", "{#", "{.", "{:"), _LINK, " "),
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
