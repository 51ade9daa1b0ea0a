"""The reports of a knowledge base, as far as a caller may see them: benchmarks, answers, studies and calibrations.

All but calibrations are for callers who are in every group that they were made for; one without a list of groups is
for the owner. A calibration has figures only, and is for everybody who may see reports. A benchmark quotes documents as
they were readable then, so a caller sees the quotes of those that they may read today (`reduced`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, get_args

from surefind.access import EVERYTHING
from surefind.bench.saved import REPORTS
from surefind.confidence.answering import FOLDER as CONFIDENCE
from surefind.disk.sealed import read_sealed
from surefind.errors import NotFoundError, UsageError
from surefind.redact import without_folders
from surefind.serve.auth.caller import Caller
from surefind.store.version import FileVersion, file_version
from surefind.study.run import FOLDER as STUDIES

Kind = Literal["benchmark", "answers", "study", "calibration"]
KINDS: tuple[Kind, ...] = get_args(Kind)
_NO_CHUNK: dict[str, Any] = {"document": "", "title": "", "headings": [], "text": ""}
"""Stands for a passage that may not be shown: others are known by their place in the list."""


@dataclass(frozen=True)
class Rating:
    """A configuration of a benchmark, and its quality by the measure that decides."""

    name: str
    spec: str
    layout: str
    mean: float
    low: float | None
    high: float | None
    p50: float | None


@dataclass(frozen=True)
class Saved:
    """What a list shows of a report."""

    kind: Kind
    id: str
    path: Path
    created: str
    title: str
    """The exam of a benchmark or calibration, the title of a study."""
    questions: int
    groups: frozenset[str] | None
    """The groups that it was made for; None if only the owner may see it."""
    measure: str = ""
    recommended: str = ""
    rows: tuple[Rating, ...] = ()
    says: str = ""
    audience: str = ""
    damaged: str = ""
    """Why the report cannot be read; empty if it can be."""

    @property
    def best(self) -> Rating | None:
        """The row with the highest mean."""
        return max(self.rows, key=lambda row: row.mean, default=None)

    def row(self, spec: str, layout: str) -> Rating | None:
        """Returns the row of this configuration."""
        return next((row for row in self.rows if (row.spec, row.layout) == (spec, layout)), None)

    def admits(self, caller: Caller) -> bool:
        """Returns whether a caller may see the report."""
        return EVERYTHING in caller.groups or (self.groups is not None and self.groups <= caller.groups)


def saved_reports(data: Path, caller: Caller) -> list[Saved]:
    """Returns the reports that a caller may see, newest first. The groups of a damaged one are not known, so the owner
    sees it."""
    return sorted((one for one in _all(data) if one.admits(caller)), key=lambda one: one.created, reverse=True)


def saved_report(
    data: Path, caller: Caller, kind: str, report_id: str, readable: Callable[[], Collection[str]]
) -> tuple[Saved, dict[str, Any]]:
    """Returns a report and its data, with quotes of the documents that are `readable` to the caller now. Raises
    `NotFoundError` if there is no report that the caller may see."""
    for one in _all(data):
        if (one.kind, one.id) == (kind, report_id) and one.admits(caller):
            if one.damaged:
                raise UsageError(one.damaged)
            content = read_sealed(one.path)
            return one, content if EVERYTHING in caller.groups else reduced(content, readable())
    raise NotFoundError(f"There is no report {report_id!r} for your groups.")


def reduced(content: dict[str, Any], readable: Collection[str] = ()) -> dict[str, Any]:
    """Returns a report without what its readers may not know: how many documents, passages and questions were left out
    or are there in all, fingerprints and sizes that depend on these, where the server keeps its files, and quotes of
    documents that are not `readable`."""
    kept = {key: value for key, value in content.items() if key not in ("page", "results")}
    kept |= _quotes(content, readable)
    for part, hidden in (
        ("corpus", ("withheld", "chunks", "fingerprint")),
        ("exam", ("dropped", "restricted", "fingerprint")),
    ):
        if isinstance(content.get(part), dict):
            kept[part] = {key: value for key, value in content[part].items() if key not in hidden}
    if isinstance(content.get("command"), str):
        kept["command"] = content["command"].partition(" --kb ")[0]
    return kept


def _quotes(content: dict[str, Any], readable: Collection[str]) -> dict[str, Any]:
    """Returns the parts of a benchmark that quote, with what was written from `readable` documents only. Questions stay
    if all their documents are readable. Reports of earlier versions do not name these, so theirs are left out."""
    ids, texts = content.get("query_ids", ()), content.get("query_texts", ())
    sources = content.get("query_documents") or [None] * len(ids)
    shown = [names is not None and all(name in readable for name in names) for names in sources]
    asked = set(_where(ids, shown)) - set(_where(ids, [not one for one in shown]))
    queries = [one for one in content.get("queries", ()) if one["id"] in asked]
    chunks = [one if one.get("document") in readable else _NO_CHUNK for one in content.get("chunks", ())]
    quoted = [*chunks, *(gold for one in queries for gold in one.get("gold", ()))]
    titles = {name for one in quoted for name in (one.get("document"), one.get("title"))}
    quotes = {
        "query_ids": [one if open_now else "" for one, open_now in zip(ids, shown, strict=False)],
        "query_texts": [one if open_now else "" for one, open_now in zip(texts, shown, strict=False)],
        "query_documents": [names if open_now else [] for names, open_now in zip(sources, shown, strict=True)],
        "queries": queries,
        "chunks": chunks,
        "rows": [_row(row, asked, titles) for row in content.get("rows", ())],
    }
    return {key: value for key, value in quotes.items() if key in content}


def _where(values: Sequence[Any], chosen: Sequence[bool]) -> list[Any]:
    return [value for value, wanted in zip(values, chosen, strict=False) if wanted]


def _row(row: dict[str, Any], asked: Collection[str], titles: Collection[str]) -> dict[str, Any]:
    """Returns a row without the size of its indexes, whose rerankers show only the questions of `asked` and these
    `titles`."""
    row = {key: value for key, value in row.items() if key not in ("chunks", "index_bytes")}
    if "reranking" not in row:
        return row
    steps = []
    for step in row["reranking"]:
        worst = [
            {**one, "top": [title if title in titles else "" for title in one.get("top", ())]}
            for one in step.get("worst", ())
            if one["id"] in asked
        ]
        steps.append({**step, "worst": worst} if "worst" in step else step)
    return {**row, "reranking": steps}


def _all(data: Path) -> Iterator[Saved]:
    places: tuple[tuple[Kind, Path, str], ...] = (
        ("benchmark", data / REPORTS, "*/report.json"),
        ("answers", data / REPORTS, "*/answers.json"),
        ("study", data / STUDIES, "*/study.json"),
        ("calibration", data / "models" / CONFIDENCE, "*.json"),
    )
    for kind, folder, pattern in places:
        for path in sorted(folder.glob(pattern)):
            try:
                yield _summary(kind, path, file_version(path))
            except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
                yield _damaged(kind, path, data, error)


def _damaged(kind: Kind, path: Path, data: Path, error: Exception) -> Saved:
    """Returns what a list shows of a report that is damaged, or that another version of Surefind wrote."""
    report_id = path.stem if kind == "calibration" else path.parent.name
    reason = (
        f"{type(error).__name__}: {error}" if isinstance(error, LookupError | TypeError | AttributeError) else error
    )
    says = (
        f"{path.relative_to(data)} is damaged, or another version of Surefind wrote it ({reason}). Restore it from a "
        f"backup, or remove it and make the {kind} again."
    )
    made = time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(_modified(path)))
    return Saved(kind, report_id, path, made, report_id, 0, None, damaged=without_folders(says))


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


@lru_cache(maxsize=500)
def _summary(kind: Kind, path: Path, version: FileVersion) -> Saved:
    """Reads a report once; `version` is part of the key, so that a file that changed is read again."""
    content = read_sealed(path)
    readers = {"benchmark": _benchmark, "answers": _answers, "study": _study, "calibration": _calibration}
    return readers[kind](content, path)


def _benchmark(content: dict[str, Any], path: Path) -> Saved:
    """Reads what is there: reports of other versions lack some of it."""
    measure = content.get("primary", "")
    rows = []
    for row in content.get("rows", ()):
        quality = row.get("measures", {}).get(measure)
        if quality:
            where = row["name"], row["spec"], row["layout"]
            rows.append(Rating(*where, quality["mean"], quality["low"], quality["high"], row["latency_ms"].get("p50")))
    exam = content.get("exam", {})
    return Saved(
        "benchmark", path.parent.name, path, str(content.get("created", "")), exam.get("name", ""),
        exam.get("queries", 0), _groups(content), measure, content.get("recommended", ""), tuple(rows),
        content.get("verdict", "").partition("\n")[0], content.get("audience", ""),
    )  # fmt: skip


def _answers(content: dict[str, Any], path: Path) -> Saved:
    exam, best = content["exam"], max(content["rows"], key=lambda row: row["right"]["mean"])
    return Saved(
        "answers", path.parent.name, path, content["created"], exam["name"], exam["queries"], _groups(content),
        says=f"The quote has the answer for {best['right']['mean']:.0%} of the questions with {best['name']}.",
        audience=content["audience"],
    )  # fmt: skip


def _study(content: dict[str, Any], path: Path) -> Saved:
    asked = sum(one["questions"] for one in content["collections"])
    verdicts = [one["outcome"] for table in content["tables"] for f in table["findings"] for one in f["verdicts"]]
    says = ", ".join(f"{verdicts.count(one)} {one}" for one in dict.fromkeys(verdicts))
    return Saved(
        "study", path.parent.name, path, content["created"], content["title"], asked, _groups(content),
        says=f"Findings of the paper: {says}" if says else "",
    )  # fmt: skip


def _calibration(content: dict[str, Any], path: Path) -> Saved:
    error = content["held_out"]["error"]
    return Saved(
        "calibration", path.stem, path, content["created"], content["exam"]["name"], content["questions"]["exam"],
        frozenset(), says=f"The confidence is off by {error:.3f} on average.",
    )  # fmt: skip


def _groups(content: dict[str, Any]) -> frozenset[str] | None:
    groups = content.get("groups")
    return frozenset(map(str, groups)) if isinstance(groups, list) else None
