"""Makes colloquial questions by rules, from written questions, headings and sentences: unlabelled text for a student.

People ask in lower case, leave words out, mistype, greet, and tell a situation before they ask. Written questions and
documentation have none of this, so a student that has seen only those copies its teacher badly there.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable

OPENINGS = (
    *("hey quick question, ", "hi, ", "hey, ", "quick one: ", "ok so ", "so ", "um ", "sorry, ", "hi all, ", "help - "),
    *("anyone know ", "does anyone know ", "can someone tell me ", "not sure who to ask but ", "stupid question, "),
    *("a customer is asking ", "my manager wants to know ", "someone on my team asked ", "just got a call, ", ""),
)
CLOSINGS = (
    *("?", "??", " thx", " pls", " thanks!", " any idea?", " asap", ", is that right?", ", who do i ask?", ""),
    *(" ...", " or not?", ", or am i wrong", ", what now", " - where do i find that"),
)
ASKS = (
    *("what do i do?", "is that ok?", "do i need to do anything?", "who signs off on that?", "can i do that?"),
    *("how long do i have?", "do we have a form for that?", "what's the rule here?", "is there a limit?", "why?"),
    *("how do i fix it", "who do i call", "does that count?", "which one applies", "what happens next?"),
)
STARTS = (
    *(
        "how do i ",
        "how to ",
        "where's the ",
        "whats ",
        "what's the deal with ",
        "problem with ",
        "cant find ",
        "need ",
    ),
    *("i need help with ", "is there something on ", "who knows about ", "can i ", "do we have ", "question about "),
)
SITUATIONS = ("", "i have ", "we have ", "my case: ", "so ", "i read that ", "if ", "somebody says ", "it says ")
LEFT_OUT = frozenset(
    "the a an is are was were do does did of to in on for be been being has have had that this".split()
)
KEYWORDS = LEFT_OUT | frozenset(
    "what which who when where why how can could should would i my we our it and or".split()
)
FIRST_PERSON = (
    (r"\b(?:the |an? )?(?:users?|customers?|patients?|one)['’]s?(?= )", "my"),
    (r"\b(?:the |an? )?(?:users?|customers?|patients?)\b", "i"),
    (r"\byour\b", "my"),
    (r"\byou\b", "i"),
)

_WORDS = re.compile(r"\S+")


def said(text: str, dice: random.Random) -> str:
    """One colloquial form of a question or a heading."""
    rules: tuple[Callable[[str, random.Random], str], ...] = (_opened, _opened, _keywords, _asked, _mine)
    made = dice.choice(rules)(_plain(text), dice)
    return _mistyped(made, dice) if dice.random() < 0.3 else made


def told(sentence: str, dice: random.Random) -> str:
    """A situation, in the words of a sentence of a document, and what somebody asks about it."""
    words = _plain(sentence).split()
    kept = words[: dice.randint(6, 18)]
    made = f"{dice.choice(SITUATIONS)}{' '.join(kept)}, {dice.choice(ASKS)}"
    return _mistyped(made, dice) if dice.random() < 0.3 else made


def _plain(text: str) -> str:
    return " ".join(_WORDS.findall(text)).rstrip("?.!: ").lower()


def _opened(text: str, dice: random.Random) -> str:
    return dice.choice(OPENINGS) + _without(text, LEFT_OUT, dice, 0.4) + dice.choice(CLOSINGS)


def _keywords(text: str, dice: random.Random) -> str:
    return _without(text, KEYWORDS, dice, 1.0)


def _asked(text: str, dice: random.Random) -> str:
    content = _keywords(text, dice)
    return dice.choice(STARTS) + content + dice.choice(CLOSINGS)


def _mine(text: str, dice: random.Random) -> str:
    for pattern, mine in FIRST_PERSON:
        text = re.sub(pattern, mine, text)
    text = re.sub(r"\b(the|an?)\b", "my", text, count=1)
    return dice.choice(OPENINGS) + text + dice.choice(CLOSINGS)


def _without(text: str, words: frozenset[str], dice: random.Random, share: float) -> str:
    """Leaves out some of these words, but never all of the text."""
    kept = [word for word in text.split() if word not in words or dice.random() >= share]
    return " ".join(kept) or text


def _mistyped(text: str, dice: random.Random) -> str:
    """Swaps, drops or doubles a letter of one or two longer words."""
    words = text.split()
    long = [i for i, word in enumerate(words) if len(word) > 4]
    for i in dice.sample(long, min(len(long), dice.randint(1, 2))):
        word, at = words[i], dice.randrange(1, len(words[i]) - 1)
        words[i] = dice.choice(
            (
                word[:at] + word[at + 1] + word[at] + word[at + 2 :],
                word[:at] + word[at + 1 :],
                word[:at] + word[at] + word[at:],
            )
        )
    return " ".join(words)
