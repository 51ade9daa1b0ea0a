"""Picks the reader for a file."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

from surefind import spec
from surefind.errors import MissingPartError
from surefind.protocols import Reader


@dataclass(frozen=True)
class Readers:
    """All readers, built in or from plugins. Each of `specs`, such as `json(text=[question, answer])`, replaces the
    reader of the same name."""

    specs: tuple[str, ...] = ()

    @cached_property
    def by_name(self) -> dict[str, Reader]:
        made = {name: cast(Reader, spec.make("read", name)) for name in spec.names("read")}
        for text in self.specs:
            made[spec.parse_spec(text)[0]] = cast(Reader, spec.make("read", text))
        return made

    @cached_property
    def _by_suffix(self) -> dict[str, Reader]:
        return {suffix: reader for reader in self.by_name.values() for suffix in reader.suffixes}

    def find(self, name: str) -> Reader | None:
        """Returns the reader for the file's whole name, or else for the longest known suffix of the name, or None."""
        base = name.lower().rpartition("/")[2]
        found, dot = self._by_suffix.get(base), base.find(".")
        while found is None and dot >= 0:
            found, dot = self._by_suffix.get(base[dot:]), base.find(".", dot + 1)
        return found

    def suffixes(self) -> list[str]:
        return sorted(self._by_suffix)


def need(modules: Sequence[str], extra: str) -> None:
    """Raises `MissingPartError` if a module that an extra installs is missing. Readers call it before the import."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingPartError(f"needs {', '.join(missing)}; run: pip install 'surefind[{extra}]'")
