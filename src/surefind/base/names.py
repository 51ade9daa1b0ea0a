"""The names of documents: each has one spelling, and none looks like another.

A document is named by a path inside its source, such as `policies/fees.md`. `./policies/fees.md`, `policies//fees.md`
and the same letters with an invisible one between them would be other names of the same file, for which nobody has
decided who may read it. `document_name` refuses them, wherever a name comes in.

    document_name("policies/./fees.md")    SourceError: …
    one_spelling("policies /fees.md")        policies/fees.md: for files, which may have any name on disk
    look_alikes("POLICIES/fееs.md")        has a form in common with look_alikes("policies/fees.md")
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from urllib.parse import unquote

from surefind.base.errors import SourceError

LETTERS = {
    "I": "ƖǀΙІӀ۱ᛁⲒⵏꓲ𐊊𐌉𐌠𖼨ӏ", "a": "ɑΑαАаᎪᗅꓮ𐊠𖽀ꭺ", "b": "ƄΒВЬᏏᏴᑲᖯᗷꓐꞴ𐊂𐊡𐌁ꮟ", "c": "ϲϹСсᏟᴄⲤⲥꓚꮯ𐊢𐌂𐐕𐐽𐔜𑣩𑣲", "d": "ԁᎠᏧᑯᗞᗪꓒꓓꭰꮷ",
    "e": "ΕεЕеҽᎬⴹꓰꬲ𐊆𑢦𑢮ꭼ", "f": "ϜքᖴẝꓝꞘꞙꬵ𐊇𐊥𐔥𑢢𑣂", "g": "ƍɡԌցᏀᏳᶃꓖꮐ", "h": "ΗНһհᎻᏂᕼⲎꓧ𐋏ꮋꮒ", "i": "ıɩɪιіᎥꙇꭵ𑣃",
    "j": "ͿϳЈјᎫᒍꓙꞲꭻ", "k": "ΚκКкᏦᛕⲔꓗ𐔘ꮶ", "l": "ᏞᒪⳐꓡ𐐛𐔦𑢣𑢲𖼖ꮮ", "m": "ΜϺМмᎷᗰᛖⲘꓟ𐊰𐌑ꮇ", "n": "ΝηпոռⲚꓠ𐔓",
    "o": "ΟοσОоՕօ۵०০੦૦ଠ୦௦౦೦ഠ൦๐໐ဝ၀ჿዐᴏᴑⲞⲟⵔ〇ꓳꬽ𐊒𐊫𐐄𐐬𐓂𐓪𐔖𑓐𑢵𑣈𑣗𑣠", "p": "ΡρРрᏢᑭⲢⲣꓑ𐊕ꮲ", "q": "ԛգզⵕ", "r": "ƦгᎡᏒᖇᴦⲅꓣꭇꭈꮁ𐒴𖼵ꭱꮢ",
    "s": "ƽЅѕՏᏕᏚꓢꜱꮪ𐊖𐐠𐑈𑣁𖼺ꮥ", "t": "ΤτТтᎢⲦꓔ𐊗𐊱𐌕𑢼𖼊ꭲ", "u": "ʋυцՍսሀᑌᴜꓴꞟꭎꭒ𐓎𐓶𑢸𑣘𖽂", "v": "νѴѵ۷Ꮩᐯᴠⴸꓦꛟꮩ𐔝𑜆𑢠𑣀𖼈",
    "w": "ɯѡԜԝաᎳᏔᴡꓪꮃ𑜊𑜎𑜏𑣦𑣯ꮤ", "x": "ΧχХхᕁᕽᚷⲬⵝꓫꞳ𐊐𐊴𐌗𐌢𐔧𑣬", "y": "ɣʏΥγУуҮүყᎩᎽᶌỿⲨꓬꭚ𐊲𑢤𑣜𖽃ꭹꮍ", "z": "ΖᏃᴢꓜꮓ𐋵𑢩𑣄𑣥",
}  # fmt: skip
"""Latin letter -> the letters of other scripts that look like it. From Unicode's confusables.txt (UTS #39), without
those that NFKC turns into the Latin letter. `I` has those that look like a vertical line."""
LATIN = str.maketrans({letter: latin for latin, letters in LETTERS.items() for letter in letters})
_ALIKE = str.maketrans({"I": "l", "1": "l", "0": "o"})
_LATIN_LETTER = re.compile(r"LATIN (?:SMALL |CAPITAL )?LETTER (?:SMALL CAPITAL )?([A-Z])(?: WITH .*)?")
_LATIN_BLOCKS = ((0xC0, 0x2B0), (0x1D00, 0x1DC0), (0x1E00, 0x1F00), (0x2C60, 0x2C80), (0xA720, 0xAB70))
_UNSEEN = ("Cf", "Mn", "Me")
_MAX_QUOTES = 3
"""How often a name may be written as the part of a URL, one inside the other."""


def document_name(raw: str) -> str:
    """Returns the name of a document. Raises `SourceError` unless it is spelled in the one way: a relative path without
    empty parts, `.` and `..`, in Unicode's NFC, without invisible characters, backslashes, and blanks at the ends of a
    part."""
    if why := wrong_name(raw):
        shown = f"{raw[:100]!a}{'…' if len(raw) > 100 else ''}"
        raise SourceError(f"A document cannot be called {shown} ({why}). Name it as in hits, such as policies/fees.md.")
    return raw


def wrong_name(raw: str) -> str:
    """Returns why no document can have this name; empty if one can."""
    parts = raw.split("/")
    if "" in parts:
        return "it begins or ends with /, or has two in a row" if raw else "it is empty"
    if "." in parts or ".." in parts:
        return "a part of it is . or .."
    if any(part != part.strip() for part in parts):
        return "a part of it begins or ends with a blank"
    if "\\" in raw:
        return "it has a backslash"
    if raw.isascii() and raw.isprintable():
        return ""
    kinds = {unicodedata.category(character) for character in raw}
    if kinds & {"Cc", "Cs", "Zl", "Zp"}:
        return "it has control characters"
    if "Cf" in kinds:
        return "it has characters that nobody sees"
    return "" if unicodedata.is_normalized("NFC", raw) else "its accents are not in Unicode's form NFC"


def one_spelling(path: str) -> str:
    """Returns the path of a file in the spelling that a document's name has: in NFC, without characters that nobody
    sees and blanks at the ends of a part. `document_name` says whether the result is a name."""
    if path.isascii() and " " not in path:
        return path
    shown = "".join(character for character in path if unicodedata.category(character) != "Cf")
    return "/".join(part.strip() for part in unicodedata.normalize("NFC", shown).split("/"))


def record_name(raw: str) -> str:
    """Returns the id of a record, which may be any text, such as a URL, without what nobody sees."""
    if raw.isascii() and raw.isprintable():
        return one_spelling(raw)
    return one_spelling("".join(" " if unicodedata.category(char) in ("Cc", "Cs") else char for char in raw))


def look_alikes(name: str) -> frozenset[str]:
    """Returns the forms of a name that people may take it for, whatever its case, width and script, or as the part of a
    URL: two names that have one in common look alike. In one of them, a capital I is the small one; in the other, it
    looks like an l."""
    for _ in range(_MAX_QUOTES if "%" in name else 0):
        name = unquote(name)
    if not name.isascii():
        plain = unicodedata.normalize("NFKC", name.translate(LATIN)).translate(LATIN)
        name = "".join(char for char in plain if unicodedata.category(char) not in ("Cf", "Cc"))
    return frozenset((_in_one_case(name), _in_one_case(name.translate(_ALIKE)).replace("rn", "m")))


def _in_one_case(name: str) -> str:
    folded = name.casefold()
    return "/".join(" ".join(part.split()) for part in folded.split("/")) if " " in folded else folded


def plain_letters(text: str) -> str:
    """Returns a text with each letter replaced by the Latin one that it looks like, without accents, and without what
    nobody sees: `ác\u200bӏ` becomes acI."""
    return text if text.isascii() else _NOT_ASCII.sub(_plain, text)


_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")


def _plain(match: re.Match[str]) -> str:
    apart = unicodedata.normalize("NFKD", match.group().translate(LATIN)).translate(LATIN).translate(_latin_letters())
    return "".join(char for char in apart if char.isascii() or unicodedata.category(char) not in _UNSEEN)


@cache
def _latin_letters() -> dict[int, str]:
    """Latin letters with strokes, hooks and the like -> the letter of the alphabet."""
    letters = ((code, unicodedata.name(chr(code), "")) for block in _LATIN_BLOCKS for code in range(*block))
    matches = ((code, _LATIN_LETTER.fullmatch(name), " SMALL " in name) for code, name in letters)
    return {code: match[1].lower() if small else match[1] for code, match, small in matches if match}
