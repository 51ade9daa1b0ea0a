"""Finds every regular expression of the package, and texts on which a careless one takes quadratic time."""

from __future__ import annotations

import ast
import contextlib
import importlib
import importlib.util
import pkgutil
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from pathlib import Path
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any

import surefind

_WHOLE = ("finditer", "findall", "sub", "subn", "split")
_CALLS = ("match", "fullmatch", "search", *_WHOLE)
_STRAY = ("a", "A", "1", "_", " ", "\n", "\t", "!", "é", "中", "\u0301")
"""Characters that are tried with every pattern, because texts are full of them."""
LINEAR = 9.0
"""Work of linear time takes 4 times longer on a text of 4 times the length, work of quadratic time 16 times."""
_NOTHING = 0.005
"""Seconds that are too short to compare."""
_MOST = 14
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
    every = list(sources())
    called: dict[str, set[str]] = {}
    for node in (node for _, tree, _ in every for node in ast.walk(tree)):
        if isinstance(node, ast.Attribute) and node.attr in _CALLS and isinstance(node.value, ast.Name):
            called.setdefault(node.value.id, set()).add(node.attr)
    for module, tree, space in every:
        names = {
            id(n.value): n.targets[0].id
            for n in ast.walk(tree)
            if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name)
        }
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
            _add(found, where, made, called.get(name, set()) if call == "compile" else {call})
    return list(found.values()), unknown


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
    """Makers of texts of n characters: runs of one or two units of the pattern, after a beginning that lets the match
    start and before an end that lets it fail."""
    tree = _parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG)
    units = list(dict.fromkeys([*_words(tree), *_characters(tree), *_STRAY]))[:_MOST]
    binary = isinstance(pattern.pattern, bytes)
    opening = ["", *units[:4]]
    for first, second in product(units, ["", *units]):
        for begin in opening if not second else ("",):
            yield _maker(begin, first + second, binary)


def _maker(begin: str, unit: str, binary: bool) -> Callable[[int], Any]:
    def make(size: int) -> Any:
        text = begin + unit * (size // len(unit)) + "\x01"
        return text.encode() if binary else text

    make.__name__ = f"{begin!r} + n × {unit!r}"
    return make


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


def _words(tree: Any) -> Iterator[str]:
    """Runs of two or more literals."""
    run = ""
    for kind, value in [*tree, (None, None)]:
        if kind is sre.LITERAL:
            run += chr(value)
            continue
        if len(run) > 1:
            yield run
            yield run + " "
        run = ""
        for part in _parts(value):
            yield from _words(part)


def _parts(value: Any) -> Iterator[Any]:
    if isinstance(value, _parser.SubPattern):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _parts(item)


# ---------------------------------------------------------------- time


def growth(work: Callable[[Any], object], make: Callable[[int], Any], sizes: Sequence[int]) -> float:
    """How many times longer the work takes on a text of four times the length: the most of all neighbours in `sizes`.
    Work of less than five milliseconds counts as none."""
    for small, large in pairwise(sizes):
        text, shorter = make(large), make(small)
        if _least(work, text, 1) < _NOTHING:
            continue
        for tries in (1, 3, 9):  # others use the machine too: look again before calling it slow
            ratio = _least(work, text, tries) / max(_least(work, shorter, tries), _NOTHING / 10)
            if ratio < LINEAR:
                break
        else:
            return ratio
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
