"""Rewords a heading without a language model: other words, another order, a question.

At least one content word must be replaced from the lexicon (`lexicon.txt`, sets of expressions that can replace each
other in a heading). Then phrases joined by `of`, `for` or `and` may swap places, and the result becomes a question in
a form that suits it. All choices depend on the text and the salt alone.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import TypeVar

from surefind.exam._documents import terms

T = TypeVar("T")
_LONGEST = 4
_WORD = re.compile(r"\S+")
_ASIDE = re.compile(r"\s*\([^)]*\)")
_CODE = re.compile(r"^[A-Z]+[-–]\d+\s*[—–:-]?\s*")
_EDGES = "\"'“”‘’()[],;:.?!"
_SWAPS = (
    (re.compile(r"^(\S+(?: \S+)?) (?:of|for) (?:the |an? )?(\S+(?: \S+){0,2})$"), r"\2 \1"),
    (re.compile(r"^(\S+(?: \S+)?) and (\S+(?: \S+)?)$"), r"\2 and \1"),
    (re.compile(r"^(.+?)\s*[:—–]\s+(.+)$"), r"\2 for \1"),
)
_QUESTIONS = frozenset("how what when who where why which".split())
_PREPOSITIONS = frozenset("of with for to on in at from about by".split())
_IMPERATIVE = frozenset(
    "add apply approve assign back book build call change check choose clean close collect compare complete configure "
    "confirm connect contact copy count create decide delete deploy disable do document edit enable end ensure enter "
    "escalate export file find fix follow gather generate get give handle identify import inform inspect install "
    "investigate isolate keep list log look make manage mark monitor move notify open order pay post prepare print "
    "process protect pull push query raise read rebuild receive record recover refund register reject release "
    "remove renew replace report request reset resolve restart restore restrict review revoke roll rotate run scale "
    "schedule search send set share sign silence start stop submit switch tell test transfer try turn understand "
    "uninstall unlock update upgrade use validate verify view wait watch write".split()
)
_FORMS = {
    "noun": (
        "what are the rules about {}?",
        "where can I read up on {}?",
        "I need information on {}",
        "what do we say about {}?",
    ),
    "gerund": ("what is the right way of {}?", "what are the steps for {}?", "who can help me with {}?"),
    "imperative": ("how do I {}?", "what do I need so that I can {}?", "I have to {}, how does that work?"),
    "question": ("{}?", "can you tell me {}?", "I want to know {}"),
}


@cache
def lexicon() -> dict[str, tuple[str, ...]]:
    """Expression -> the other expressions of its sets."""
    text = resources.files("surefind.exam").joinpath("lexicon.txt").read_text(encoding="utf-8")
    found: dict[str, list[str]] = defaultdict(list)
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            expressions = [part.strip() for part in line.split("|")]
            for expression in expressions:
                found[expression] += [other for other in expressions if other != expression]
    return {expression: tuple(dict.fromkeys(others)) for expression, others in found.items()}


def paraphrase(heading: str, salt: str) -> str:
    """The heading in other words; "" if the lexicon has none."""
    bare = _CODE.sub("", _ASIDE.sub("", heading))
    words = [_fold(word) for word in _WORD.findall(bare)]
    reworded, changed = _replace(words, salt)
    if not changed:
        return ""
    phrase = _reorder(" ".join(reworded), salt)
    question = _ask(phrase, salt)
    # The words must differ after stemming: "filing" for "file" would be the same question.
    return question if set(terms(heading)) - set(terms(question)) else ""


def _fold(word: str) -> str:
    """Lower case, unless the word is an identifier or an acronym."""
    return word.lower() if (word[:1].isupper() and word[1:].islower()) or len(word) == 1 else word


def _replace(words: Sequence[str], salt: str) -> tuple[list[str], bool]:
    result: list[str] = []
    changed = False
    at = 0
    while at < len(words):
        for length in range(min(_LONGEST, len(words) - at), 0, -1):
            expression = " ".join(words[at : at + length]).strip(_EDGES)
            others = _usable(lexicon().get(expression, ()), at == 0, at + length == len(words))
            if others:
                result.append(_pick(others, f"{salt}:{expression}"))
                changed = True
                at += length
                break
        else:
            result.append(words[at])
            at += 1
    return result, changed


def _usable(others: Sequence[str], opens: bool, closes: bool) -> list[str]:
    """The expressions that fit this position: `how to configure` can only open a heading, `dealing with` cannot close
    one."""
    return [
        other
        for other in others
        if (opens or other.split()[0] not in _QUESTIONS) and not (closes and other.split()[-1] in _PREPOSITIONS)
    ]


def _reorder(phrase: str, salt: str) -> str:
    if _pick((True, True, False), f"{salt}:order:{phrase}"):
        for pattern, order in _SWAPS:
            if pattern.match(phrase):
                return pattern.sub(order, phrase)
    return phrase


def _ask(phrase: str, salt: str) -> str:
    phrase = phrase.strip(_EDGES)
    first, _, rest = phrase.partition(" ")
    if phrase.startswith("how to "):
        kind, phrase = "imperative", phrase.removeprefix("how to ")
    elif first in _QUESTIONS:
        kind = "question"
    elif first in _IMPERATIVE and rest:
        kind = "imperative"
    else:
        kind = "gerund" if first.endswith("ing") and len(first) > 5 and rest else "noun"
    return _pick(_FORMS[kind], f"{salt}:form:{phrase}").format(phrase)


def _pick(options: Sequence[T], salt: str) -> T:
    return options[int.from_bytes(hashlib.blake2b(salt.encode(), digest_size=4).digest()) % len(options)]
