"""Tests of many cases: `each` runs them in one test, `mostly_long` leaves most of them to `make long`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from helpers import Home

Test = Callable[..., None]


def each(names: str | Sequence[str], cases: Iterable[Any], ids: Callable[[Any], str] = repr) -> Callable[[Test], Test]:
    """Calls a test with each case, and names every case that fails. Called as `pytest.mark.parametrize`, for cases that
    cost so little that a test of pytest for each would cost more.

    Each case has a `tmp_path`, a `home` and a `monkeypatch` of its own; all other fixtures are those of the whole
    test, so no case may change what they give."""
    words = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    rows = [(case,) if len(words) == 1 else tuple(case) for case in cases]
    assert rows, f"{names} has no case"

    def decorate(test: Test) -> Test:
        signature = inspect.signature(test)

        @functools.wraps(test)
        def run(*given: Any, **fixtures: Any) -> None:
            __tracebackhide__ = True
            failed: list[tuple[str, BaseException]] = []
            for number, row in enumerate(rows):
                try:
                    with pytest.MonkeyPatch.context() as patch:
                        test(*given, **_own(fixtures, number, patch), **dict(zip(words, row, strict=True)))
                except (Exception, pytest.fail.Exception) as error:
                    failed.append((", ".join(str(ids(value))[:80] for value in row), error))
            if failed:
                lines = [f"  {case}: {' '.join(str(error).split())[:400]}" for case, error in failed]
                said = [f"{len(failed)} of {len(rows)} cases fail; the first of them as above:", *lines]
                raise AssertionError("\n".join(said)) from failed[0][1]

        kept = [parameter for name, parameter in signature.parameters.items() if name not in words]
        run.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        return run

    return decorate


def _own(fixtures: Mapping[str, Any], number: int, patch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The fixtures, with those that a case has for itself."""
    own = dict(fixtures)
    for name in own:
        if name == "tmp_path":
            own[name] = _folder(own[name] / str(number))
        elif name == "home":
            own[name] = Home(_folder(own[name].folder / str(number)))
        elif name == "monkeypatch":
            own[name] = patch
    return own


def _folder(path: Path) -> Path:
    path.mkdir(exist_ok=True)
    return path


def mostly_long(cases: Iterable[Any], small: int) -> list[Any]:
    """Cases for `pytest.mark.parametrize`: the first `small` always run, and the others in `make long`."""
    rows = list(cases)
    every = (row if isinstance(row, tuple) else (row,) for row in rows[small:])
    return [*rows[:small], *(pytest.param(*row, marks=pytest.mark.long) for row in every)]
