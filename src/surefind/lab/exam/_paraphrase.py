"""Rewords a heading as a question without a language model.

At least one content word is replaced from the lexicon (`lexicon.txt`), and only where its part of speech is certain: a
verb that opens the heading, the last noun of a phrase, an adjective before a noun, a term that is one thing with two
names. Names, identifiers and the parts of compounds stay as they are. In a heading of capitalised words, the document
tells which words are names. Then the heading becomes a question of a form
that suits it: an instruction, a condition, a question or a subject. A heading that is none of these is left out, and
so is one with punctuation inside. All choices depend on the text and the salt alone.

Reads the lexicon (`lexicon.txt`): which expressions may replace which others, and in which place of a heading.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from importlib import resources
from typing import Literal, TypeVar

from surefind.lab.exam.overlap import terms

Place = Literal["verbs", "nouns", "adjectives", "terms", "phrases"]
Replacements = Mapping[str, tuple[str, ...]]
_DOUBLED = frozenset(
    "begin chop commit cut drop forget get let log map plan put refer reset rid run set shop shut ship "
    "stop submit swap transfer trim unplug".split()
)
_OTHER_VERBS = (
    "add allow apply ask audit authenticate block book build call cancel check clean clear close compare confirm "
    "connect count decide define disconnect document draft end enforce ensure enter escalate export extend follow "
    "give import inject isolate join keep list look make mark measure merge mute open order pay perform post "
    "prepare print process produce protect provide publish query raise read rebuild receive record recover refer "
    "register release report reset restart restrict reuse save search send serve share sign start stop switch tell "
    "track turn unblock understand undo unlock update upload write"
)
"""Verbs without a replacement: they open an instruction, too."""


@cache
def lexicon(place: Place) -> Replacements:
    """Expression -> what may replace it in this place."""
    replacements: dict[str, list[str]] = defaultdict(list)
    current = ""
    text = resources.files("surefind.lab.exam").joinpath("lexicon.txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        if line.startswith("["):
            current = line.strip("[]")
        elif current == place and "->" in line:
            before, after = ([part.strip() for part in side.split(",")] for side in line.split("->"))
            for expression in before:
                replacements[expression] += after
    return {expression: tuple(others) for expression, others in replacements.items()}


@cache
def gerunds() -> Mapping[str, str]:
    """`deleting` -> delete, `setting up` -> set up: for the verbs of the lexicon and others like them."""
    return {gerund(verb): verb for verb in (*_OTHER_VERBS.split(), *lexicon("verbs"))}


@cache
def imperatives() -> frozenset[str]:
    return frozenset(gerunds().values())


def gerund(verb: str) -> str:
    """`delete` -> deleting, `set up` -> setting up."""
    first, space, rest = verb.partition(" ")
    if first in _DOUBLED:
        first += first[-1]
    elif re.search(r"[^eo]e$", first):
        first = first[:-1]
    return f"{first}ing{space}{rest}"


T = TypeVar("T")
FORMS = {
    "instruction": ("how do I {}?", "how can I {}?", "how should I {}?", "what is the best way to {}?"),
    "condition": ("what should I do if {}?", "what do I have to do if {}?"),
    "question": ("{}?", "can you tell me {}?", "I want to know {}"),
    "subject": ("what should I know about {}?", "where can I find information about {}?", "can you explain {}?"),
}
_MAX_PHRASE_WORDS = 4
_ASIDE = re.compile(r"(?<!\s)\s*\([^)]{0,500}\)")
_CODE = re.compile(r"^[A-Z]+[-–]\d+\w*\s*[—–:-]?\s*")
_INSIDE = re.compile(r"[^\w\s'’.&/?-]|[./]\s|\s[./&-]\s|\.\w+$|_|\d{4}-\d\d")
_CLAUSE = re.compile(r"\b(?:is|are|was|were|has|have|will|cannot|can|does|do|did|must|should|fails|gets|goes|runs)\b")
_ARTICLE = re.compile(r"\b(an?) (?=([a-z]))")
_CAPITAL = re.compile(r"(?<=[a-z,] )[A-Z][a-z]+")
_PLAIN = re.compile(r"\b[a-z]+")
_DETERMINERS = frozenset(
    "a an the this that these those your our my their its all any each every some no one two three "
    "four five which what".split()
)
_STOP = _DETERMINERS | frozenset(
    "about across after against and as at before between but by during for from if in into of off on or out over "
    "per since so than through to under until up via vs when while with within without".split()
)
_UNCOUNTED = re.compile(
    r"(?:ss|s|ing|ity|[^c]y|ion|ment|ance|ence|ware)$|^(?:access|advice|cash|data|email|equipment|fraud|help|info|leave|"
    r"mail|money|news|overtime|pay|privacy|research|search|staff|support|time|traffic|use|work)$"
)
_ALSO_NOUNS = frozenset(
    "access audit block book build call change check contact copy count document download draft end export file fix "
    "import increase list log mark measure monitor order plan post print process purchase query record refund release "
    "report request reset restart review run scale schedule search share sign start stop store switch test track "
    "transfer update upgrade upload use view".split()
)
"""Verbs that open a heading as a noun, too: "Upgrade practices" and "Access policies" are no instructions."""
_CONTEXT = frozenset(
    "above afterwards again also below here instead it its that then there these this those too".split()
)
"""Words that refer to what was said before."""
_WH = frozenset("how what when where who why which whose".split())


def paraphrase(heading: str, salt: str, text: str = "") -> str:
    """The heading as a question in other words; "" if the lexicon has none, or if no form of question suits it. `text`
    is that of its document."""
    bare = _CODE.sub("", _ASIDE.sub("", heading)).rstrip("?").strip()
    words = bare.split()
    # A heading that begins in lower case begins with the name of a command.
    if not bare or bare[0].islower() or _INSIDE.search(bare) or _CONTEXT & set(map(str.lower, words)):
        return ""
    titled = sum(word[:1].isupper() for word in words[1:]) > len(words[1:]) / 2
    question = _question([_fold(word, titled or at == 0, text) for at, word in enumerate(words)], salt)
    # The words must differ after stemming: "filing" for "file" would be the same question.
    return question if set(terms(heading)) - set(terms(question)) else ""


def _fold(word: str, anyhow: bool, text: str) -> str:
    """Lower case, unless the word is a name, an identifier or an acronym. In a heading of capitalised words, no capital
    makes a name; there, a word is a name if the text has it with a capital inside sentences, and never without one."""
    if not anyhow or not (word[1:].islower() or word in ("A", "I")):
        return word
    return word if word in _names(text) else word.lower()


@lru_cache(maxsize=2)
def _names(text: str) -> frozenset[str]:
    """The words that the text has with a capital inside sentences, and never without one."""
    plain = set(_PLAIN.findall(text))
    return frozenset(word for word in _CAPITAL.findall(text) if word.lower() not in plain)


def _question(words: list[str], salt: str) -> str:
    how_to = words[:2] == ["how", "to"]
    words = words[2:] if how_to else words
    first = words[0] if words else ""
    verb, rest = _opening_verb(words)
    if how_to and not verb:
        verb, rest = first, words[1:]
    if verb:
        return _instruction(verb, rest, salt)
    if first in ("if", "when") and len(words) > 3:
        clause, changed = _replaced(words[1:], salt)
        return _asked("condition", clause, salt) if changed else ""
    replaced, changed = _replaced(words, salt)
    if not changed:
        return ""
    if first in _WH:
        return _inverted(replaced, salt)
    if _CLAUSE.search(" ".join(words)) or first in _STOP - _DETERMINERS:
        return ""
    if "and" in words and len(set(terms(" ".join(words)))) < 3:
        return ""  # "Confidence and thresholds": of what?
    return _asked("subject", _with_article(replaced), salt)


def _opening_verb(words: Sequence[str]) -> tuple[str, list[str]]:
    """The verb with which an instruction opens, in its base form, and the other words; "" if none does."""
    for length in (3, 2, 1):
        opening = " ".join(words[:length])
        rest = list(words[length:])
        if not rest or rest[0] in _STOP - _DETERMINERS:
            continue  # "Use of force" and "Schedule and cost" are nouns
        if opening in imperatives() and not (opening in _ALSO_NOUNS and _continues_noun(rest[0])):
            return opening, rest
        if opening in gerunds() and _is_gerund(opening, rest):
            return gerunds()[opening], rest
    if len(words) > 2 and words[1] in _DETERMINERS and words[0] not in _STOP | _WH and not words[0].endswith("ing"):
        return words[0], list(words[1:])  # "Sort the mail": only a verb stands before an article
    return "", []


def _continues_noun(word: str) -> bool:
    """Whether the word can be the second part of a compound noun. A name and a word after an article cannot."""
    return word.islower() and word not in _DETERMINERS


def _is_gerund(opening: str, rest: Sequence[str]) -> bool:
    """Whether the word names an action: "opening an account" does, "opening hours" does not."""
    return rest[0] in _STOP or opening in _PLAIN_GERUNDS or (" " in opening and rest[-1].endswith("s"))


_PLAIN_GERUNDS = frozenset(
    "accessing changing choosing configuring creating deleting deploying disabling enabling finding handling "
    "identifying installing managing modifying preventing removing renaming replacing requesting resolving "
    "restarting restoring retrieving revoking submitting troubleshooting uninstalling updating upgrading using "
    "verifying viewing".split()
)


def _instruction(verb: str, rest: list[str], salt: str) -> str:
    if not rest:
        return ""
    clause = _CLAUSE.search(" ".join(rest)) is not None or rest[0] in ("that", "whether", "if")
    if clause and verb in ("check", "confirm", "ensure", "verify"):
        return _asked("instruction", ["make", "sure", *(["that"] if rest[0] != "that" else []), *_after_if(rest)], salt)
    if clause or ("and" in rest and any(word in imperatives() for word in rest[rest.index("and") + 1 :][:1])):
        return ""
    others = lexicon("verbs").get(verb, ()) if rest[0] not in ("and", "or") else ()
    if verb == "use" and {"for", "to"} & set(rest):
        others = ()  # "Using the server to store keys" is about storing keys
    phrase, changed = _replaced(rest, salt)
    if others:
        verb, changed = _pick(others, f"{salt}:{verb}"), True
    return _asked("instruction", [*verb.split(), *_with_article(phrase)], salt) if changed else ""


def _after_if(rest: list[str]) -> list[str]:
    return rest[1:] if rest[0] in ("whether", "if") else rest


def _replaced(words: Sequence[str], salt: str) -> tuple[list[str], bool]:
    """The words with replacements where they are safe, and whether there was one."""
    result: list[str] = []
    changed = False
    at = 0
    while at < len(words):
        for length in range(min(_MAX_PHRASE_WORDS, len(words) - at), 0, -1):
            expression = " ".join(words[at : at + length])
            after = words[at + length] if at + length < len(words) else ""
            others = _usable(expression, words[at - 1] if at else "", after)
            if others:
                result += _pick(others, f"{salt}:{expression}").split()
                changed, at = True, at + length
                break
        else:
            result.append(words[at])
            at += 1
    return result, changed


def _usable(expression: str, before: str, after: str) -> tuple[str, ...]:
    """What may replace the expression between these words."""
    closes = not after or after in _STOP
    opens = not before or before in _STOP
    places: list[Place] = ["terms"]
    if closes:
        places += ["nouns"] if before not in imperatives() else []
        places += ["phrases"] if opens and before not in _DETERMINERS else []
    elif opens and after.islower():
        places += ["adjectives"]
    return next((others for place in places if (others := lexicon(place).get(expression))), ())


def _inverted(words: list[str], salt: str) -> str:
    """`what is a buddy` is a question; `how the queue works` needs "can you tell me" before it."""
    direct = len(words) > 1 and words[1] in ("is", "are", "do", "does", "can", "should", "must", "did", "was", "were")
    forms = FORMS["question"][:1] if direct else FORMS["question"][1:]
    return _article(_pick(forms, f"{salt}:form").format(" ".join(words)))


def _with_article(words: list[str]) -> list[str]:
    """`the yearly review calendar`, but `lien changes`: a single thing needs an article."""
    head = next((at for at, word in enumerate(words) if word in _STOP and at), len(words)) - 1
    single = words[head].islower() and words[head].isalpha() and not _UNCOUNTED.search(words[head])
    plain = (
        "and" not in words
        and words[0] not in _DETERMINERS
        and not words[0].endswith("ing")
        and words[0] not in ("how", "getting")
    )
    return ["the", *words] if single and plain else words


def _asked(kind: str, words: Sequence[str], salt: str) -> str:
    return _article(_pick(FORMS[kind], f"{salt}:form:{' '.join(words)}").format(" ".join(words)))


def _article(text: str) -> str:
    """`a incorrect rate` -> an incorrect rate."""
    return _ARTICLE.sub(lambda m: "an " if m[2] in "aeio" else "a " if m[2] != "u" and m[2] != "h" else m[0], text)


def _pick(options: Sequence[T], salt: str) -> T:
    return options[int.from_bytes(hashlib.blake2b(salt.encode(), digest_size=4).digest()) % len(options)]
