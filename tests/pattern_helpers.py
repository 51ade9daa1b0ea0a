"""Finds every regular expression of the package, and texts on which a careless one takes quadratic time."""

from __future__ import annotations

import ast
import contextlib
import importlib
import importlib.util
import pkgutil
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise, product
from pathlib import Path
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any

import surefind

_WHOLE = ("finditer", "findall", "sub", "subn", "split")
_CALLS = ("match", "fullmatch", "search", *_WHOLE)
_PASSED_ON = {"surefind.base.spec": "match"}
"""How the patterns of a module are called that only hands them on."""
_STRAY = ("a", "A", "1", "_", " ", "\n", "\t", "!", "é", "中", "\u0301")
"""Characters that are tried with every pattern, because texts are full of them."""
_SIZES = (100, 400, 1600, 6400)
"""Characters of the texts that are compared."""
_LINEAR = 9.0
"""Work of linear time takes 4 times longer on a text of 4 times the length, work of quadratic time 16 times."""
_NOTHING = 0.001
"""Seconds that are too short to compare."""
_SLOWEST = 20e-6
"""Seconds for each character, at most."""
_FEW = 20
"""Repetitions that cost little however they fail."""
_MOST = 10
"""Units of which texts are made, at most."""
_CATEGORIES = {
    sre.CATEGORY_DIGIT: "1", sre.CATEGORY_SPACE: " \n", sre.CATEGORY_WORD: "a_1",
    sre.CATEGORY_NOT_DIGIT: "a", sre.CATEGORY_NOT_SPACE: "a", sre.CATEGORY_NOT_WORD: " -",
}  # fmt: skip


@dataclass(frozen=True)
class Found:
    """A pattern, where it is, and how it is called: `match`, `fullmatch`, `search` or `finditer`."""

    where: str
    pattern: re.Pattern[Any]
    calls: tuple[str, ...]


def sources() -> Iterator[tuple[str, ast.Module, dict[str, Any]]]:
    """The name, the syntax tree and the globals of every module. A module that needs a missing package has none."""
    for info in pkgutil.walk_packages(surefind.__path__, "surefind."):
        spec = importlib.util.find_spec(info.name)
        assert spec is not None and spec.origin is not None
        space: dict[str, Any] = {"re": re}
        if not info.name.endswith("__main__"):
            with contextlib.suppress(ModuleNotFoundError):
                space = vars(importlib.import_module(info.name))
        yield info.name, ast.parse(Path(spec.origin).read_text(encoding="utf-8")), space


def patterns() -> tuple[list[Found], list[str]]:
    """All patterns of the package, and the places of those that are made from values known only at run time."""
    found: dict[tuple[str, int], Found] = {}
    unknown: list[str] = []
    for module, tree, space in sources():
        called: dict[str, set[str]] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr in _CALLS and isinstance(node.value, ast.Name):
                called.setdefault(node.value.id, set()).add(node.attr)
        for name, value in space.items():
            if isinstance(value, re.Pattern):
                _add(found, f"{module}.{name}", value, _calls(module, name, called))
        assigned = [n for n in ast.walk(tree) if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name)]
        names = {id(n.value): ast.unparse(n.targets[0]) for n in assigned}
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or not (call := _expression(node)):
                continue
            name = names.get(id(node), "")
            where = f"{module}.{name}" if name else f"{module}: {ast.unparse(node.args[0])[:60]}"
            try:
                made = re.compile(eval(ast.unparse(node.args[0]), space), _flags(node))
            except NameError:
                unknown.append(where)
                continue
            _add(found, where, made, _calls(module, name, called) if call == "compile" else {call})
    return list(found.values()), unknown


def _calls(module: str, name: str, called: dict[str, set[str]]) -> set[str]:
    return called.get(name) or {_PASSED_ON.get(module, "finditer")}


def _add(found: dict[tuple[str, int], Found], where: str, pattern: re.Pattern[Any], calls: set[str]) -> None:
    key = (str(pattern.pattern), pattern.flags)
    before = found.get(key)
    ways = {"finditer" if call in _WHOLE else call for call in calls} | set(before.calls if before else ())
    found[key] = Found(before.where if before else where, pattern, tuple(sorted(ways or {"finditer"})))


def _expression(node: ast.Call) -> str:
    """The way in which a call uses the expression that is its first argument; empty if it does not."""
    if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name) and node.func.value.id == "re":
        return node.func.attr if node.func.attr in (*_CALLS, "compile") else ""
    return "finditer" if isinstance(node.func, ast.Name) and node.func.id == "pattern" and node.args else ""


def _flags(node: ast.Call) -> int:
    names = [n for n in ast.walk(node) if isinstance(n, ast.Attribute) and n.attr.isupper()]
    chosen = [getattr(re, n.attr) for n in names if isinstance(n.value, ast.Name) and n.value.id == "re"]
    return sum(set(map(int, chosen)))


# ---------------------------------------------------------------- texts


def texts(pattern: re.Pattern[Any]) -> Iterator[Callable[[int], Any]]:
    """Makers of texts of n characters. Each text repeats something that the pattern looks for, after a beginning that
    lets a match start, and before an end at which it fails."""
    tree = _parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG)
    if not _repeats(tree):
        return
    units = list(dict.fromkeys([*_characters(tree), *_STRAY]))[:_MOST]
    pairs = [(begin, unit) for example in _examples(tree) for begin, unit in _pumped(example)]
    pairs += [("", first + second) for first, second in product(units, ["", *units])]
    for begin, unit in dict.fromkeys(pairs):
        for end in ("\x01", "a"):
            yield _maker(begin, unit, end, isinstance(pattern.pattern, bytes))


def _repeats(tree: Any) -> bool:
    """Whether the pattern repeats anything without a small limit. If not, it cannot be slow."""
    for kind, value in tree:
        if kind in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT) and int(value[1]) > _FEW:
            return True
        if any(map(_repeats, _parts(value))):
            return True
    return False


def _pumped(example: list[str]) -> Iterator[tuple[str, str]]:
    """A matching text, with one, two or all of the parts so far repeated."""
    for i in range(len(example)):
        before = "".join(example[:i])
        yield before, example[i]
        yield before, "".join(example[i : i + 2])
        yield "", "".join(example[: i + 1])


def _maker(begin: str, unit: str, end: str, binary: bool) -> Callable[[int], Any]:
    def make(size: int) -> Any:
        text = begin + unit * (size // len(unit)) + end
        return text.encode() if binary else text

    make.__name__ = f"{begin!r} + n × {unit!r} + {end!r}"
    return make


def _examples(tree: Any) -> list[list[str]]:
    """Short texts that the pattern may match, each as a list of parts; one for every choice that it offers."""
    made: list[list[str]] = [[]]
    for kind, value in tree:
        if kind is sre.BRANCH:
            options = [example for option in value[1] for example in _examples(option)]
        elif kind in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
            options = _examples(value[2])
        elif kind is sre.SUBPATTERN:
            options = _examples(value[3])
        elif kind is sre.ATOMIC_GROUP:
            options = _examples(value)
        elif kind in (sre.LITERAL, sre.NOT_LITERAL):
            options = [[chr(value) if kind is sre.LITERAL else "a"]]
        elif kind is sre.IN:
            negated = value[0][0] is sre.NEGATE
            options = [[char] for char in (["a", " "] if negated else list(_of_class(value))[:2])]
        elif kind is sre.ANY:
            options = [["a"]]
        else:  # an assertion or a reference to a group
            continue
        options = options[:_MOST]
        # Vary one part at a time: the first choice everywhere else.
        made = [[*made[0], *option] for option in options] + [[*one, *options[0]] for one in made[1:]]
        made = made[:_MOST]
    return [example for example in made if example]


def _characters(tree: Any) -> Iterator[str]:
    """Characters that the pattern treats in different ways."""
    for kind, value in tree:
        if kind in (sre.LITERAL, sre.NOT_LITERAL):
            yield chr(value)
        elif kind is sre.IN:
            yield from _of_class(value)
        else:
            for part in _parts(value):
                yield from _characters(part)


def _of_class(items: Any) -> Iterator[str]:
    for kind, value in items:
        if kind is sre.LITERAL:
            yield chr(value)
        elif kind is sre.RANGE:
            yield chr(value[0])
        elif kind is sre.CATEGORY:
            yield from _CATEGORIES[value]


def _parts(value: Any) -> Iterator[Any]:
    if isinstance(value, _parser.SubPattern):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _parts(item)


# ---------------------------------------------------------------- time


def growth(work: Callable[[Any], object], make: Callable[[int], Any]) -> float:
    """How many times longer the work takes on a text of four times the length, if that is more than linear; else 0.
    Returns infinity if it takes too long for each character."""
    if _least(work, make(_SIZES[-2]), 1) < _NOTHING:
        return 0.0
    for small, large in pairwise(_SIZES):
        text, shorter = make(large), make(small)
        for tries in (1, 3, 9):  # others use the machine too: look again before calling it slow
            seconds = _least(work, text, tries)
            ratio = seconds / max(_least(work, shorter, tries), _NOTHING / 10)
            if (ratio < _LINEAR or seconds < 5 * _NOTHING) and seconds < _SLOWEST * large:
                break
        else:
            return ratio if ratio >= _LINEAR else float("inf")
    return 0.0


def _least(work: Callable[[Any], object], text: Any, tries: int) -> float:
    """The processor time of the fastest try. One try is enough if it is long."""
    shortest = float("inf")
    for _ in range(tries):
        started = time.process_time()
        work(text)
        shortest = min(shortest, time.process_time() - started)
        if shortest > 1:
            break
    return shortest


def runner(pattern: re.Pattern[Any], call: str) -> Callable[[Any], object]:
    if call == "finditer":
        return lambda text: sum(1 for _ in pattern.finditer(text))
    method: Callable[[Any], object] = getattr(pattern, call)
    return method
