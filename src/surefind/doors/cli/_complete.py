"""Shell completion: the names of pipelines, presets, exams and stages that the shell offers after Tab.

The shell waits for the answer at every Tab, so nothing heavy is imported here, and settings are read without being
checked. Unreadable settings yield no suggestions, because a shell has no place for an error message.
"""

from __future__ import annotations

import os
import re
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

from surefind.base.disk.sealed import DATA_FOLDER, FILE_NAME, nearest
from surefind.base.errors import StoreError

_SLOW = ("rich", "pydantic")
_KB = re.compile(r"(?:^|\s)--kb[ =](\S+)")


def without_slow_modules() -> None:
    """Hides rich and pydantic from typer; they take longer to import than everything else together. With rich, typer
    wraps the help of each choice, and fish takes every line for a choice. With pydantic, typer converts the values on
    the line, which completion does not need: typer continues without a value that it cannot convert."""
    for name in _SLOW:
        sys.modules[name] = None  # type: ignore[assignment]  # None counts as not installed


def pipelines() -> list[str]:
    """Names of the built-in pipelines, and of those in surefind.toml or of the default ones."""
    from surefind.kb.settings.template import BUILT_IN, TEMPLATE

    folder = _folder()
    if folder is None:
        return []
    try:
        given = tomllib.loads((folder / FILE_NAME).read_text(encoding="utf-8")).get("pipelines")
    except FileNotFoundError:
        given = None
    except (OSError, ValueError, RecursionError):
        return []
    named = given or tomllib.loads(TEMPLATE)["pipelines"]
    return sorted({*BUILT_IN, *named}) if isinstance(named, dict) else []


def exams() -> list[str]:
    from surefind.lab.exam.store import ExamStore

    folder = _folder()
    try:
        return ExamStore(folder / DATA_FOLDER / "exams").names() if folder else []
    except OSError:
        return []


def presets() -> list[str]:
    from surefind.lab.bench.presets import PRESETS

    return sorted(PRESETS)


def studies() -> list[str]:
    """The names of the modules of studies, written as commands take them."""
    import pkgutil

    from surefind.lab.study import studies as files

    return sorted(module.name.replace("_", "-") for module in pkgutil.iter_modules(files.__path__))


def stages(kind: str) -> Callable[[], list[str]]:
    def names() -> list[str]:
        from surefind.base import spec

        return spec.names(kind)

    return names


def _folder() -> Path | None:
    """The knowledge base given by --kb on the command line, by the environment, or the nearest one."""
    line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") or ""
    given = _KB.search(line)
    chosen = given[1] if given else os.environ.get("SUREFIND_KB")
    try:
        return Path(chosen).expanduser() if chosen else nearest(Path.cwd()) or Path()
    except (OSError, RuntimeError, StoreError):
        return None
