"""`surefind exam label`: several judges label the same pooled passages, and their labels become an exam."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from surefind.errors import ExamError, UsageError
from surefind.serve.cli import _complete
from surefind.serve.cli._common import HERE, Folder, Json, Readers, print_json, progress

if TYPE_CHECKING:
    from surefind.exam.judging import Judging
    from surefind.exam.labels import Agreement, PooledPassage
    from surefind.serve.cli._interview import OnScreen


def register(app: typer.Typer) -> None:
    app.command("label")(label)


def label(
    name: Annotated[str, typer.Argument(help="The exam; its questions are the candidates of `exam collect NAME`.")],
    judge: Annotated[str, typer.Option("--judge", help="Who judges; the labels of each judge are kept apart.")],
    number: Annotated[int, typer.Option("-n", help="The most questions of the pool.")] = 50,
    size: Annotated[int, typer.Option("--hits", help="The most passages of a question.")] = 10,
    pipeline: Annotated[
        list[str] | None,
        typer.Option(
            "--pipeline",
            "-p",
            help="A configuration whose passages are pooled; may be repeated.",
            show_default="the pipelines of surefind.toml, bm25, dense and their fusion",
            autocompletion=_complete.pipelines,
        ),
    ] = None,
    labels: Annotated[
        Path | None, typer.Option("--labels", help="Take the labels from this JSONL file instead of asking.")
    ] = None,
    group: Readers = None,
    kb: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Label pooled passages with several judges, and see how far they agree.

    The first judge's call pools the best passages of several configurations for each question. Later judges see the
    same passages; every judge sees them in another order, without the configurations that found them. Every label is
    saved at once. A passage that at least half of the judges marked is gold, and the exam NAME gets a new version.
    --json prints the pool as this judge sees it; a label in --labels is {"query": "…", "relevant": [2, 1]}, with the
    numbers of that list, best first: the order gives grades. A passage from outside the pool is {"document": "…",
    "text": "…"} in place of a number, with its exact words.
    """
    from surefind.access import Access
    from surefind.bench.names import find_pipeline
    from surefind.exam.judging import NO_QUESTIONS, Judging
    from surefind.exam.store import ExamStore, check_name
    from surefind.kb import KnowledgeBase
    from surefind.serve.cli._interview import interview
    from surefind.store.lock import growing_lock

    if number < 1 or size < 2:
        raise UsageError("-n must be at least 1, and --hits at least 2.")
    if not (labels or as_json or sys.stdin.isatty()):
        raise UsageError("This asks questions at a terminal. In a script, give the labels with --labels FILE.")
    check_name(name)
    with KnowledgeBase.open(kb) as base:
        if name not in ExamStore(base.data / "exams").collected():
            raise ExamError(NO_QUESTIONS.format(name))
        with growing_lock(base.data, name):
            session = Judging(base, name, judge, Access.of(*(group or [])))
            mine = session.mine  # checks the judge's name before the work of pooling
            with progress() as report:
                chosen = [str(find_pipeline(base, text)) for text in pipeline or []]
                session.make_pool(chosen, number, size, report)
            if labels:
                _take(session, labels)
            elif as_json:
                print_json(_as_data(session))
                return
            else:
                interview(
                    _Labelling(session, [at for at, pooled in enumerate(session.pool) if pooled.query not in mine])
                )
            _finish(session)


def _as_data(session: Judging) -> dict[str, Any]:
    rows = []
    for at, pooled in enumerate(session.pool):
        shown = [{"document": p.document, "title": p.title, "text": p.text} for p in session.passages(at)]
        rows.append({"query": pooled.query, "labelled": pooled.query in session.mine, "passages": shown})
    return {"name": session.name, "judge": session.judge, "questions": rows}


class _Labelling:
    """The questions that a judge has not labelled yet, and the judge's labels."""

    what = "Which passages are relevant? Numbers, best first"
    rejects = False

    def __init__(self, session: Judging, places: Sequence[int]) -> None:
        self._session, self._places = session, places

    def __len__(self) -> int:
        return len(self._places)

    def question(self, at: int) -> tuple[str, str, list[OnScreen]]:
        from surefind.serve.cli._interview import OnScreen

        place = self._places[at]
        shown = [OnScreen(passage.title or passage.document, passage.text) for passage in self._session.passages(place)]
        return self._session.pool[place].query, "", shown

    def answer(self, at: int, numbers: Sequence[int] | None) -> None:
        self._session.mark(self._places[at], numbers or ())

    def undo(self, at: int) -> None:
        self._session.unmark(self._places[at])

    def add(self, at: int, document: str, words: str) -> None:
        self._session.add(self._places[at], self._session.outside(document, words))


def _take(session: Judging, path: Path) -> None:
    """Stores the labels of a file; nothing if any line is bad."""
    from surefind.exam.formats.files import read_row, read_text
    from surefind.exam.library import Complaints

    known = {pooled.query: at for at, pooled in enumerate(session.pool)}
    complaints, taken = Complaints(path), []
    for line_number, line in enumerate(read_text(path, "utf-8-sig").splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = read_row(line)
            if not isinstance(row, dict):
                raise ExamError("it is not an object with `query` and `relevant`")
            at, named = known[row["query"]], row["relevant"]
            marks = [_outside(session, mark) if isinstance(mark, dict) else int(mark) for mark in named]
            session.check(at, [mark for mark in marks if isinstance(mark, int)])
            taken.append((at, marks))
        except KeyError as error:
            complaints.add(line_number, f"{error} is not in it, or not in the pool")
        except (ExamError, ValueError, TypeError) as error:
            complaints.add(line_number, str(error))
    complaints.refuse()
    for at, marks in taken:
        session.mark(at, [mark if isinstance(mark, int) else session.add(at, mark) for mark in marks])


def _outside(session: Judging, row: dict[str, Any]) -> PooledPassage:
    return session.outside(str(row["document"]), str(row["text"]))


def _finish(session: Judging) -> None:
    """Saves the exam of all labels, and says how far the judges agree."""
    saved = session.make_exam()
    for judge, count in session.progress().items():
        typer.echo(f"{judge}: {count} of {len(session.pool)} questions labelled.")
    for pair in session.agreement:
        typer.echo(_in_words(pair))
    added, answered = session.from_outside
    if added:
        share = f"{added} of {answered} questions ({added / answered:.0%})"
        typer.echo(f"{share} have a relevant passage from outside the pool.")
    if saved is None:
        typer.echo("No question has a relevant passage yet, so there is no exam.")
        return
    typer.echo(f"{saved.label}: {len(saved.queries)} questions. Use it with: surefind bench --exam {saved.name}.")


def _in_words(pair: Agreement) -> str:
    kappa = "κ is not defined: both gave one label to every passage" if pair.kappa is None else f"κ = {pair.kappa:.2f}"
    shared = f"{pair.passages} passages of {pair.questions} questions"
    return f"{pair.first} and {pair.second} agree on {pair.observed:.0%} of {shared}; {kappa}."
