"""`surefind history`, `diff` and `rollback`: shows earlier generations of the knowledge base and restores them.

`surefind drift`: asks the standing exam on an earlier generation and on the current one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Annotated

import typer

from surefind.base.errors import NotBuiltError, UsageError
from surefind.doors.cli import _complete
from surefind.doors.cli._common import HERE, Budget, Folder, Json, Yes, agree, print_json, progress, tell_problems

if TYPE_CHECKING:
    from surefind.engine.search.reader import Searcher
    from surefind.kb import KnowledgeBase
    from surefind.lab.bench.drift import Drift
    from surefind.lab.exam.model import Exam


def register(program: typer.Typer) -> None:
    program.command("history")(history)
    program.command("diff")(diff)
    program.command("rollback")(rollback)
    program.command("drift")(drift)


def history(
    document: Annotated[
        str | None, typer.Argument(help="A document, as named in hits; without one, generations are listed.")
    ] = None,
    kb: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Show the versions of a document, or all kept generations.

    A generation is the set of document versions that searches see; every change makes a new one. `keep_generations` in
    surefind.toml sets how many are kept.
    """
    from surefind.kb import KnowledgeBase

    with KnowledgeBase.open(kb) as base:
        generations = base.generations()
        versions = base.history(document) if document else []
        drafts = base.drafts.store.waiting(document) if document else []
    if document and not versions and not drafts:
        raise UsageError(
            f"There is no document {document!r} in any kept generation. Name it as hits do (surefind search)."
        )
    if as_json:
        print_json(versions if document else generations)
        return
    for draft in drafts:
        typer.echo(f"draft {draft.number:<8} {draft.state:<10} {draft.changed}  {draft.author}  no generation")
    for version in versions:
        inside = f"generations {', '.join(map(str, version.generations))}" if version.generations else "no generation"
        typer.echo(f"version {version.number:<6} {version.state:<10} {version.created}  {version.author}  {inside}")
    for generation in [] if document else reversed(generations):
        typer.echo(
            f"generation {generation.number:<5} {generation.created}  {generation.documents} documents  "
            f"{generation.reason}  {generation.author}"
        )


def diff(
    before: Annotated[
        int | None, typer.Argument(help="The earlier generation.", show_default="the one before AFTER")
    ] = None,
    after: Annotated[int | None, typer.Argument(help="The later generation.", show_default="the current one")] = None,
    document: Annotated[
        str | None, typer.Option("--document", "-d", help="Show the changed lines of this document.")
    ] = None,
    kb: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Show which documents changed between two generations, or the changed lines of one document."""
    from surefind.kb import KnowledgeBase
    from surefind.kb.changes import compare, compare_texts

    with KnowledgeBase.open(kb) as base:
        if document:
            lines = compare_texts(base.catalogue, document, before, after)
            same = f"The text of {document} is the same in both generations. Its title or metadata may differ."
            print_json(lines) if as_json else typer.echo("\n".join(lines) or same)
            return
        compared = compare(base.catalogue, before, after)
    if as_json:
        print_json(compared)
        return
    counts = f"{len(compared.added)} added, {len(compared.changed)} changed, {len(compared.removed)} removed"
    typer.echo(f"Generation {compared.before} to {compared.after}: {counts}.")
    for mark, names in (("+", compared.added), ("~", compared.changed), ("-", compared.removed)):
        for name in names:
            typer.echo(f"{mark} {name}")


def rollback(
    generation: Annotated[int, typer.Argument(help="The generation to restore; surefind history lists them.")],
    kb: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Restore an earlier generation, at once and without rebuilding anything.

    The restored documents become a new generation, so a rollback can be undone by another one. The next sync brings the
    knowledge base up to date with its folders again.
    """
    from surefind.kb import KnowledgeBase

    with KnowledgeBase.open(kb) as base:
        earlier = base.rollback(generation)
        current = base.generations()[-1]
    if as_json:
        print_json(current)
        return
    typer.echo(f"Generation {current.number} shows the {earlier.documents} documents of generation {earlier.number}.")
    typer.echo("The next surefind sync brings the knowledge base up to date with its folders again.")


def drift(
    generation: Annotated[int, typer.Argument(help="A kept generation; surefind history lists them.")],
    exam: Annotated[
        list[str] | None,
        typer.Option(
            "--exam",
            help="An exam from `surefind exam list`; may be repeated.",
            show_default="the standing exam",
            autocompletion=_complete.exams,
        ),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Run again even if nothing changed.")] = False,
    budget: Budget = None,
    yes: Yes = False,
    kb: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Show which answers got worse since a generation, and why.

    The default pipeline answers the standing exam on that generation and on the current one. Exits with 1 if an exam
    got significantly worse by nDCG@10.
    """
    from surefind.kb import KnowledgeBase
    from surefind.lab.bench.drift import drift_calls, drift_text, measure_drift
    from surefind.lab.bench.report import corrected

    with KnowledgeBase.open(kb) as base:
        tell_problems(base)
        before = _earlier(base, generation)
        exams = _exams(base, exam or [], before)
        agree(base, [calls for questions in exams for calls in drift_calls(base, questions)], budget, yes, as_json)
        with progress(quiet=as_json) as report:
            base.build(base.pipeline(), report=report)
            base.refresh()
            results = corrected(
                [measure_drift(base, planned, before, base.reader(), report, fresh) for planned in exams]
            )
    failed = any(drift.failed for drift in results)
    if as_json:
        shown = [_json(drift) for drift in results]
        print_json({**shown[0], "failed": failed} if len(shown) == 1 else {"exams": shown, "failed": failed})
    else:
        typer.echo("\n\n".join(map(drift_text, results)))
    if failed:
        raise typer.Exit(1)


def _json(drift: Drift) -> dict[str, object]:
    return {field.name: getattr(drift, field.name) for field in fields(drift)}


def _exams(kb: KnowledgeBase, names: Sequence[str], before: Searcher) -> list[Exam]:
    from surefind.lab.bench.drift import standing_exam
    from surefind.lab.exam.store import ExamStore

    store = ExamStore(kb.data / "exams")
    return [store.load(name) for name in names] or [standing_exam(kb, before)]


def _earlier(kb: KnowledgeBase, since: int) -> Searcher:
    """Opens the earlier generation. Raises `UsageError` if it cannot be searched with the current settings."""
    try:
        reader = kb.reader_of(since)
        missing = reader.missing(kb.pipeline().retrieve)
    except NotBuiltError:
        raise UsageError(
            f"Generation {since} is not cut by {kb.settings.layout}: the settings have changed since. Choose a later "
            "generation; surefind history lists them."
        ) from None
    if missing:
        listed = ", ".join(sorted({retriever.name for retriever in missing}))
        raise UsageError(
            f"Generation {since} has no index for {listed}: the settings have changed since. Choose a later "
            "generation; surefind history lists them."
        )
    return reader
