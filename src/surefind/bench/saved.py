"""Reads the rows of saved reports, so that a configuration can be called by its name in a report.

A report is data that may come from anywhere. Only names and specs are read from it, and the specs go through the same
parsers as those of surefind.toml, so a report can do no more than a line of surefind.toml.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from surefind.bench.plan import Contender, label
from surefind.disk.sealed import read_sealed
from surefind.errors import SpecError, UsageError
from surefind.search.pipeline import Pipeline
from surefind.write.layout import Layout

REPORTS = "reports"
"""The folder of the reports, in the data folder of a knowledge base."""
_FILE = "report.json"


@dataclass(frozen=True)
class NamedConfig:
    """A configuration that has a name: a row of a report, or a contender of a preset."""

    names: tuple[str, ...]
    where: str
    """Where the name comes from, for messages."""
    pipeline: str
    """The name of its pipeline, without that of the layout."""
    spec: str
    layout: str = ""
    """The spec of its layout; empty if the name stands for a pipeline only."""

    def contender(self) -> Contender:
        """Builds the configuration. Raises `SpecError` if a stage does not exist here."""
        try:
            layout = Layout.read(self.layout) if self.layout else None
            return Contender(self.names[0], Pipeline.parse(self.spec, self.pipeline), layout)
        except SpecError as error:
            raise SpecError(f"{self.names[0]!r} of {self.where} cannot be used here. {error}") from None


@dataclass(frozen=True)
class SavedReport:
    path: Path
    rows: tuple[NamedConfig, ...]
    recommended: str
    """The name of the recommended row."""


def reports_in(data: Path) -> Iterator[SavedReport]:
    """Reads the reports of a knowledge base, newest first. Those of other versions are left out. Raises `UsageError`
    for a damaged one: an earlier report must not take its place."""
    found = [(path.stat().st_mtime_ns, path) for path in (data / REPORTS).glob(f"*/{_FILE}") if path.is_file()]
    for _, path in sorted(found, reverse=True):
        content = _intact(path)
        with contextlib.suppress(ValueError, KeyError, TypeError):
            yield report_of(content, path.parent)


def report_folder(data: Path, report: dict[str, Any]) -> Path:
    """Returns the folder that a report of a knowledge base is written to."""
    return data / REPORTS / f"{report['exam']['name']}-{report['created'][:19].replace(':', '')}"


def read_report(path: Path) -> SavedReport:
    """Reads a report: a folder that `surefind bench` wrote, or a JSON file that it wrote."""
    file = path / _FILE if path.is_dir() else path
    data = _intact(file)
    try:
        return report_of(data, path)
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{file} is not a report of this version of surefind bench ({type(error).__name__}: {error}). "
            "Write a new one with: surefind bench."
        ) from None


def _intact(file: Path) -> dict[str, Any]:
    try:
        return read_sealed(file)
    except OSError as error:
        raise UsageError(
            f"{file} cannot be read ({error.strerror}). Name a folder that surefind bench wrote."
        ) from None
    except ValueError as error:
        raise UsageError(
            f"{file} is damaged or was edited ({error}). Restore it from a backup, or remove its folder and write a "
            "new report with: surefind bench."
        ) from None


def report_of(data: dict[str, Any], path: Path) -> SavedReport:
    """Takes names and specs from the data of a report."""
    rows = tuple(_entry(row, f"the report {path}", data["compares_layouts"]) for row in data["rows"])
    return SavedReport(path, rows, _printable(data["recommended"]))


def _entry(row: dict[str, Any], where: str, compares_layouts: bool) -> NamedConfig:
    name, aliases = _printable(row["name"]), [_printable(alias) for alias in row["aliases"]]
    names = dict.fromkeys((name, *aliases, label(name, aliases)))
    layout = _printable(row["layout"]) if compares_layouts else ""
    return NamedConfig(tuple(names), where, _printable(row["pipeline"]), _printable(row["spec"]), layout)


def _printable(value: Any) -> str:
    """Returns a string without control characters, which could write anything on a terminal."""
    if not isinstance(value, str) or not value.isprintable():
        raise ValueError(f"{value!r} is not a name or a spec")
    return value
