"""`surefind exam label`: several judges label the same pooled passages, and their labels become an exam."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from surefind.errors import ExamError, UsageError
from surefind.serve.cli import _complete
from surefind.serve.cli._common import HERE, Folder, Json, Readers, console, print_json, progress

if TYPE_CHECKING:
    from surefind.exam.labels import Agreement, Labels, Passage, Pooled
    from surefind.exam.library import Library
    from surefind.exam.model import Exam

_KEYS = "Which passages are relevant? Numbers, best first; n = none, s = skip, q = stop: "
_SHOWN = 700
"""Characters of a passage that are shown."""


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
    numbers of that list.
    """
    from surefind.access import Access
    from surefind.bench.names import find_pipeline
    from surefind.exam.library import Library
    from surefind.exam.pooling import labels_of, pooled
    from surefind.exam.store import ExamStore
    from surefind.kb import KnowledgeBase
    from surefind.store.lock import growing_lock

    if number < 1 or size < 2:
        raise UsageError("-n must be at least 1, and --hits at least 2.")
    if not (labels or as_json or sys.stdin.isatty()):
        raise UsageError("This asks questions at a terminal. In a script, give the labels with --labels FILE.")
    access = Access.of(*(group or []))
    with KnowledgeBase.open(kb) as base:
        store = ExamStore(base.data / "exams")
        kept = labels_of(base, name)
        mine = kept.of(judge)
        documents = base.documents(access)
        with growing_lock(base.data, name):
            chosen = [str(find_pipeline(base, text)) for text in pipeline or []]
            with progress() as report:
                pool = pooled(base, name, access, chosen, number, size, report)
            seen = [one for one in pool if {p.document for p in one.passages} <= {d.id for d in documents}]
            texts = {document.id: document.text for document in documents}
            if labels:
                _take(kept, judge, seen, labels)
            elif as_json:
                print_json(_as_data(name, judge, seen, mine, texts))
                return
            else:
                _interview(kept, judge, [one for one in seen if one.query not in mine], texts)
            _finish(kept, name, pool, Library(documents), store, base.reader().fingerprint)


def _as_data(name: str, judge: str, pool: list[Pooled], mine: Any, texts: dict[str, str]) -> dict[str, Any]:
    rows = []
    for one in pool:
        shown = [one.passages[i] for i in one.order_for(judge)]
        passages = [{"document": p.document, "title": p.title, "text": _text(p, texts)} for p in shown]
        rows.append({"query": one.query, "labelled": one.query in mine, "passages": passages})
    return {"name": name, "judge": judge, "questions": rows}


def _text(passage: Passage, texts: dict[str, str]) -> str:
    return texts[passage.document][passage.start : passage.end]


# ---------------------------------------------------------------- labels


def _take(kept: Labels, judge: str, pool: list[Pooled], path: Path) -> None:
    """Stores the labels of a file; nothing if any line is bad."""
    from surefind.exam.formats.files import read_row, read_text
    from surefind.exam.library import Complaints

    known, complaints, found = {one.query: one for one in pool}, Complaints(path), []
    for at, line in enumerate(read_text(path, "utf-8-sig").splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = read_row(line)
            if not isinstance(row, dict):
                raise ExamError("it is not an object with `query` and `relevant`")
            one = known[row["query"]]
            found.append((one, _numbers_of(row["relevant"], len(one.passages))))
        except KeyError as error:
            complaints.add(at, f"{error} is not in it, or not in the pool")
        except (ExamError, ValueError, TypeError) as error:
            complaints.add(at, str(error))
    complaints.refuse()
    for one, numbers in found:
        order = one.order_for(judge)
        kept.mark(judge, one.query, [order[number - 1] for number in numbers])


def _numbers_of(given: Any, passages: int) -> list[int]:
    numbers = [int(number) for number in given]
    if any(not 1 <= number <= passages for number in numbers):
        raise ExamError(f"a passage has a number from 1 to {passages}, not {numbers}")
    return list(dict.fromkeys(numbers))


def _interview(kept: Labels, judge: str, pool: list[Pooled], texts: dict[str, str]) -> None:
    """Asks about each question in turn, until the judge stops."""
    screen = console()
    for at, one in enumerate(pool, 1):
        order = one.order_for(judge)
        screen.rule(f"{at} of {len(pool)}", align="left")
        screen.print(one.query, style="bold")
        for number, i in enumerate(order, 1):
            passage = one.passages[i]
            text = " ".join(_text(passage, texts).split())
            screen.print(f"\n{number:>2}. {passage.title or passage.document}", style="bold")
            screen.print(f"    {text[:_SHOWN]}{'…' if len(text) > _SHOWN else ''}")
        key = _key(screen, len(order))
        if key == "q":
            return
        if key != "s":
            chosen = [] if key == "n" else _numbers_of(re.findall(r"\d+", key), len(order))
            kept.mark(judge, one.query, [order[number - 1] for number in chosen])


def _key(screen: Any, passages: int) -> str:
    """Reads lines until one can be understood; the end of the input means stop."""
    while True:
        screen.print(_KEYS, end="")
        line = sys.stdin.readline()
        key = line.strip().lower()
        if not line or key in ("n", "s", "q"):
            return key or "q"
        numbers = [int(one) for one in re.findall(r"\d+", key)] if re.fullmatch(r"[\d\s,;]+", key) else []
        if numbers and all(1 <= number <= passages for number in numbers):
            return key
        screen.print(f"Cannot read {key!r}. Write numbers from 1 to {passages}, such as 3 1, or one letter.")


# ---------------------------------------------------------------- the end of a session


def _finish(kept: Labels, name: str, pool: list[Pooled], library: Library, store: Any, corpus: str) -> None:
    """Saves the exam of all labels, and says how far the judges agree."""
    from surefind.exam.labels import agreement, exam_of

    labels = {judge: kept.of(judge) for judge in kept.judges()}
    made: Exam = exam_of(name, pool, labels, library, corpus)
    for judge, marks in labels.items():
        typer.echo(f"{judge}: {len(marks)} of {len(pool)} questions labelled.")
    for one in agreement(pool, labels):
        typer.echo(_in_words(one))
    if not made.queries:
        typer.echo("No question has a relevant passage yet, so there is no exam.")
        return
    saved = store.save(made)
    typer.echo(f"{saved.label}: {len(saved.queries)} questions. Use it with: surefind bench --exam {saved.name}.")


def _in_words(one: Agreement) -> str:
    kappa = "κ is not defined: both gave one label to every passage" if one.kappa is None else f"κ = {one.kappa:.2f}"
    shared = f"{one.passages} passages of {one.questions} questions"
    return f"{one.first} and {one.second} agree on {one.observed:.0%} of {shared}; {kappa}."
