"""Writes the report of a benchmark as JSON and reads it again, for every door.

A configuration can be called by its name in a saved report. A report is data that may come from anywhere: its specs go
through the same parsers as those of surefind.toml, so a report can do no more than a line of surefind.toml.

What readers may see of a report. It quotes documents as they were readable when it was made, so a reader sees the
quotes of those that they may read today.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from surefind.base.disk.sealed import Record, from_json, read_sealed, to_json, write_sealed
from surefind.base.errors import ReportVersionError, SpecError, UsageError
from surefind.engine.search.pipeline import Pipeline
from surefind.engine.write.layout import Layout
from surefind.kb import KnowledgeBase
from surefind.kb.integrity import RepairedError, check_all, listed
from surefind.lab.bench.answers import ANSWERS_FILE, AnswersReport, read_answers
from surefind.lab.bench.plan import Contender, label
from surefind.lab.bench.report import FORMAT, BenchReport, ExamFacts, QuotedChunk, ReportRow, RerankChange
from surefind.lab.bench.reranking import RunCache

REPORTS = "reports"
"""The folder of the reports, in the data folder of a knowledge base."""
REPORT_FILE = "report.json"


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
    """The configurations of a report, by name."""

    path: Path
    rows: tuple[NamedConfig, ...]
    recommended: str
    """The name of the recommended row."""


def report_folder(data: Path, exam: str, created: str) -> Path:
    """Returns the folder that a report of a knowledge base is written to."""
    return data / REPORTS / f"{exam}-{created[:19].replace(':', '')}"


def write_report(report: BenchReport, file: Path) -> None:
    """Writes a report as JSON."""
    write_sealed(file, to_json(report))


def read_report(path: Path) -> BenchReport:
    """Reads a report: a folder that `surefind bench` wrote, or a JSON file that it wrote. Raises `ReportVersionError`
    if it has another format, and `UsageError` if it is damaged or cannot be read."""
    return _read(BenchReport, path)


def saved_configs(path: Path) -> SavedReport:
    """Reads the configurations of a report, as `read_report` does."""
    return _configs(_read(_ConfigPart, path), path)


def reports_in(data: Path) -> Iterator[SavedReport]:
    """Reads the configurations of the reports of a knowledge base, newest first. Reports of other versions are left
    out. Raises `UsageError` for a damaged one: an earlier report must not take its place."""
    by_time = [(path.stat().st_mtime_ns, path) for path in (data / REPORTS).glob(f"*/{REPORT_FILE}") if path.is_file()]
    for _, path in sorted(by_time, reverse=True):
        with contextlib.suppress(ReportVersionError):
            yield saved_configs(path.parent)


def reports_on(data: Path, exam: str, versions: Collection[int]) -> tuple[list[Path], list[Path]]:
    """Finds the folders of the reports that used these versions of an exam, and the files of damaged reports."""
    used, damaged = [], []
    for path in sorted((data / REPORTS).glob(f"*/{REPORT_FILE}")):
        try:
            asked = _read(_ExamPart, path).exam
            if asked.name == exam and asked.version in versions:
                used.append(path.parent)
        except ReportVersionError:
            continue
        except UsageError:
            damaged.append(path)
    return used, damaged


def recommended_by(report: BenchReport) -> Contender:
    """Builds the recommended configuration of a report."""
    made = _configs(report, Path("this report"))
    return next(row for row in made.rows if row.names[0] == made.recommended).contender()


def _read(kind: type[Record], path: Path) -> Record:
    file = path / REPORT_FILE if path.is_dir() else path
    try:
        data = read_sealed(file)
    except OSError as error:
        raise UsageError(
            f"{file} cannot be read ({error.strerror}). Name a folder that surefind bench wrote."
        ) from None
    except ValueError as error:
        raise UsageError(
            f"{file} is damaged or was edited ({error}). Restore it from a backup, or remove it and write a new report "
            "with: surefind bench."
        ) from None
    try:
        if data.get("format") != FORMAT:
            raise ValueError(f"its format is {data.get('format', 'not given')}, not {FORMAT}")
        return from_json(kind, data)
    except ValueError as error:
        raise _of_another_version(file, error) from None


def _of_another_version(file: Path, error: ValueError) -> ReportVersionError:
    return ReportVersionError(
        f"{file} is not a report of this version of surefind bench ({error}). Write a new one with: surefind bench."
    )


@dataclass(frozen=True)
class _ExamPart:
    exam: ExamFacts


@dataclass(frozen=True)
class _ConfigRow:
    name: str
    aliases: tuple[str, ...]
    pipeline: str
    spec: str
    layout: str


@dataclass(frozen=True)
class _ConfigPart:
    """The fields of a report that configurations are taken from. A search by name reads no others: a whole report takes
    twice the time."""

    compares_layouts: bool
    rows: tuple[_ConfigRow, ...]
    recommended: str


def _configs(report: BenchReport | _ConfigPart, path: Path) -> SavedReport:
    try:
        rows = tuple(_entry(row, f"the report {path}", report.compares_layouts) for row in report.rows)
        return SavedReport(path, rows, _printable(report.recommended))
    except ValueError as error:
        raise _of_another_version(path, error) from None


def _entry(row: ReportRow | _ConfigRow, where: str, compares_layouts: bool) -> NamedConfig:
    name, aliases = _printable(row.name), [_printable(alias) for alias in row.aliases]
    names = dict.fromkeys((name, *aliases, label(name, aliases)))
    layout = _printable(row.layout) if compares_layouts else ""
    return NamedConfig(tuple(names), where, _printable(row.pipeline), _printable(row.spec), layout)


def _printable(text: str) -> str:
    """Returns a text without control characters, which could write anything on a terminal."""
    if not text.isprintable():
        raise ValueError(f"{text!r} is not a name or a spec")
    return text


_HIDDEN_CHUNK = QuotedChunk("", "", (), "")
"""Stands for a passage that may not be shown: others are known by their place in the list."""


def readable_report(report: BenchReport, readable: Collection[str] = ()) -> BenchReport:
    """Returns a report without what its readers may not know: how many documents, passages and questions were left out
    or are there in all, fingerprints and sizes that depend on these, where the server keeps its files, and quotes of
    documents that are not `readable`. Questions stay if all their documents are readable."""
    shown = [all(name in readable for name in names) for names in report.query_documents]
    every = list(zip(report.query_ids, shown, strict=True))
    asked = {query for query, may in every if may} - {query for query, may in every if not may}
    queries = tuple(query for query in report.queries if query.id in asked)
    chunks = tuple(chunk if chunk.document in readable else _HIDDEN_CHUNK for chunk in report.chunks)
    quoted = [(chunk.document, chunk.title) for chunk in chunks]
    quoted += [(gold.document, gold.title) for query in queries for gold in query.gold]
    titles = {name for names in quoted for name in names}
    return replace(
        report,
        command=without_folder(report.command),
        exam=replace(report.exam, dropped=None, restricted=None, fingerprint=None),
        corpus=replace(report.corpus, withheld=None, chunks=None, fingerprint=None),
        rows=tuple(_row(row, asked, titles) for row in report.rows),
        query_ids=tuple(query_id if may else "" for query_id, may in every),
        query_texts=tuple(text if may else "" for text, may in zip(report.query_texts, shown, strict=True)),
        query_documents=tuple(
            documents if may else () for documents, may in zip(report.query_documents, shown, strict=True)
        ),
        queries=queries,
        chunks=chunks,
    )


def readable_answers(report: AnswersReport) -> AnswersReport:
    """Returns a report without what its readers may not know; it has no quotes."""
    exam = replace(report.exam, dropped=None, restricted=None, fingerprint=None)
    return replace(report, command=without_folder(report.command), exam=exam)


def without_folder(command: str) -> str:
    """Returns a command without the folder of the knowledge base, and what follows it."""
    return command.partition(" --kb ")[0]


def _row(row: ReportRow, asked: Collection[str], titles: Collection[str]) -> ReportRow:
    """Returns a row without the size of its indexes, whose rerankers show only the questions of `asked` and these
    `titles`."""
    steps = tuple(_step(step, asked, titles) for step in row.reranking)
    return replace(row, chunks=None, index_bytes=None, reranking=steps)


def _step(step: RerankChange, asked: Collection[str], titles: Collection[str]) -> RerankChange:
    if step.worst is None:
        return step
    questions = (question for question in step.worst if question.id in asked)
    return replace(step, worst=tuple(replace(question, top=_readable(question.top, titles)) for question in questions))


def _readable(top: tuple[str, str], titles: Collection[str]) -> tuple[str, str]:
    before, after = (title if title in titles else "" for title in top)
    return before, after


def check_reports(kb: KnowledgeBase) -> str:
    """Reads all reports and cached runs, for `surefind doctor`. Returns what was checked; raises an error if something
    is damaged."""
    paths = sorted((kb.data / REPORTS).glob(f"*/{REPORT_FILE}"))
    answers = sorted((kb.data / REPORTS).glob(f"*/{ANSWERS_FILE}"))
    check_all(
        [*(partial(read_report, path.parent) for path in paths), *(partial(read_answers, path) for path in answers)]
    )
    runs = 0
    for cache in (RunCache(kb.data / "runs"), RunCache(kb.data / "studies" / "stages")):
        files = [path for path in sorted(cache.folder.glob("[!.]*")) if path.suffix in (".npz", ".json")]
        kept = [(path, cache.rankings if path.suffix == ".npz" else cache.data) for path in files]
        broken = listed(path.name for path, read in kept if read(path.stem) is None)
        if broken:
            raise RepairedError(f"damaged in {cache.folder}: {broken}. The next run computes them again.")
        runs += len(kept)
    return f"{len(paths) + len(answers)} reports and {runs} cached runs match their checksums"
