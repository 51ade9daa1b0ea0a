"""`surefind exam`: writes, imports, shows, exports and deletes exams.

`surefind exam collect | queries`: questions that people really asked.

`surefind exam feedback`: makes an exam of the thumbs and clicks that `surefind serve` has kept.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from surefind.base.errors import BudgetError, ExamError, UsageError, choices
from surefind.doors.cli import _complete
from surefind.doors.cli._common import (
    HERE,
    Budget,
    Folder,
    Json,
    Yes,
    agree,
    command_group,
    print_json,
    progress,
    tell_problems,
)

if TYPE_CHECKING:
    from surefind.kb.queries import QueryLog
    from surefind.lab.exam.by_llm.questions import Kind
    from surefind.lab.exam.model import Exam
    from surefind.lab.exam.store import ExamStore

Name = Annotated[
    str,
    typer.Argument(help="The exam they are for; it need not exist yet.", autocompletion=_complete.exams),
]


def _add_collect(app: typer.Typer) -> None:
    for command in (collect, queries):
        app.command(command.__name__)(command)


def _log(kb: Path) -> tuple[QueryLog, bool]:
    """The log of queries, and whether searches are kept in it now."""
    from surefind.kb.queries import QueryLog
    from surefind.kb.settings.config import DATA_FOLDER, FILE_NAME, load_settings

    settings = load_settings(kb.resolve() / FILE_NAME)
    return QueryLog(kb.resolve() / DATA_FOLDER, settings.keep_days), settings.keep_queries


def collect(
    name: Name,
    files: Annotated[
        list[Path] | None, typer.Argument(help="CSV, TSV, JSONL or JSON files, or text with a question a line.")
    ] = None,
    column: Annotated[
        str,
        typer.Option(
            "--column",
            help="The column with the questions; a number if the table has no header.",
            show_default="question, query, text, subject, title, body or message",
        ),
    ] = "",
    kept: Annotated[
        bool, typer.Option("--kept", help="The queries that searches have kept, too (surefind exam queries).")
    ] = False,
    kb: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Collect questions from search logs, chat exports, tickets and FAQ tables, without answers.

    They wait on the page Label of `surefind serve`, where whoever may review marks what answers them. Greetings, texts
    with fewer than two content words, texts longer than 400 characters and repeats are left out and counted.
    """
    from surefind.lab.exam.formats.questions import read_questions
    from surefind.lab.exam.questions import normalised

    if not files and not kept:
        raise UsageError("Name a file with questions, or take those of the log of queries: --kept.")
    texts = [(path.name, read_questions(path, column)) for path in files or ()]
    skipped = Counter[str]()
    if kept:
        logged = list(reversed(_log(kb)[0].all()))
        public = [one.query for one in logged if not one.groups]
        skipped["asked by somebody with access groups: judges without them would read it"] += len(logged) - len(public)
        texts.append(("search", public))
    store = _store(kb)
    candidates = store.candidates(name)
    added = 0
    for source, questions in texts:
        made = candidates.collect(questions, source)
        added += len(made.added)
        skipped += made.skipped
    if not any(questions for _, questions in texts):
        raise ExamError(f"{', '.join(source for source, _ in texts)}: there are no questions in it.")
    answered = {normalised(query.text) for query in store.load(name).queries} if name in store.names() else set()
    waiting = sum(candidate.key not in answered for candidate in candidates.all())
    if as_json:
        print_json({"name": name, "added": added, "skipped": dict(+skipped), "candidates": waiting})
        return
    typer.echo(f"Questions added to {name}: {added}. Candidates without an answer: {waiting}.")
    for reason, count in (+skipped).most_common():
        typer.echo(f"  {count:>5} left out: {reason}")
    if waiting:
        typer.echo("Mark their answers on the page Label: surefind serve.")


def queries(
    clear: Annotated[bool, typer.Option("--clear", help="Delete all kept queries.")] = False,
    kb: Folder = HERE,
    as_json: Json = False,
) -> None:
    """List the queries that searches have kept, newest first.

    A search keeps its query only if surefind.toml says `keep_queries = true` below `[exam]`. Queries older than
    `keep_days` are deleted.
    """
    log, keeps = _log(kb)
    if clear:
        count = log.clear()
        print_json({"deleted": count}) if as_json else typer.echo(f"Deleted {count} kept queries.")
        return
    kept = log.all()
    if as_json:
        print_json(kept)
        return
    for logged in kept:
        first = logged.hits[0]["document"] if logged.hits else "-"
        typer.echo(f"{time.strftime('%Y-%m-%d %H:%M', time.localtime(logged.at))}  {logged.query}  ->  {first}")
    if not kept:
        on = "No query has been kept yet." if keeps else "Queries are not kept."
        typer.echo(f"{on} To keep them, write keep_queries = true below [exam] in surefind.toml.")


def _add_feedback(app: typer.Typer) -> None:
    app.command("feedback")(feedback)


def feedback(kb: Folder = HERE, as_json: Json = False) -> None:
    """Make the exam `feedback` of the thumbs and clicks that people gave over HTTP."""
    from surefind.kb import KnowledgeBase
    from surefind.lab.exam.keeping import grow

    with KnowledgeBase.open(kb) as base:
        exam, gone = grow(base)
    if as_json:
        version, count = (exam.version, len(exam.queries)) if exam else (None, 0)
        print_json({"exam": exam.name if exam else None, "version": version, "questions": count, "gone": gone})
        return
    if exam is None:
        typer.echo("There is no feedback yet that says which passage answers a question. See: surefind help http.")
    else:
        typer.echo(f"The exam {exam.label} has {len(exam.queries)} questions.")
    if gone:
        typer.echo(f"{gone} judgments were left out: their passages are gone.")


app = command_group("Write, import, collect, list, show, export and delete exams: questions with gold passages.")

ExamName = Annotated[str, typer.Argument(help="The exam: NAME or NAME@VERSION.", autocompletion=_complete.exams)]


def register(parent: typer.Typer) -> None:
    parent.add_typer(app, name="exam", rich_help_panel=None)


def _store(kb: Path) -> ExamStore:
    from surefind.kb.settings.config import DATA_FOLDER
    from surefind.lab.exam.store import ExamStore

    return ExamStore(kb.resolve() / DATA_FOLDER / "exams")


@app.command("generate")
def generate(
    name: Annotated[str, typer.Option("--name", help="The name of the new exam.")] = "known-item",
    per_family: Annotated[int, typer.Option("--per-family", help="The most questions of each family.")] = 200,
    family: Annotated[list[str] | None, typer.Option("--family", help="Only this family; may be repeated.")] = None,
    seed: Annotated[int, typer.Option("--seed", help="Another seed draws other questions.")] = 42,
    group: Annotated[
        list[str] | None,
        typer.Option(
            "--as",
            help="Also use documents restricted to this access group; '*' uses all. May be repeated.",
            show_default="none",
        ),
    ] = None,
    kb: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Write known-item questions from headings, paraphrases, identifiers, phrases and sentences of the documents."""
    from surefind.base.access import Access
    from surefind.kb import KnowledgeBase
    from surefind.lab.bench.run import audience_of
    from surefind.lab.exam import known_item

    with KnowledgeBase.open(kb) as base:
        tell_problems(base)
        families = family or list(known_item.FAMILIES)
        access, reader = Access.of(*(group or ())), base.reader()
        made = known_item.generate(reader.documents(access), name, per_family, families, seed)
        origin = made.origin + audience_of(reader, access)
        exam = _store(kb).save(replace(made, origin=origin, corpus=reader.fingerprint))
    _show_summary(exam, as_json)


@app.command("write")
def write(
    model: Annotated[
        str,
        typer.Option(
            "--model",
            help="The language model: openai:…, anthropic:…, ollama:… (see surefind help llm).",
            show_default="[llm] model",
        ),
    ] = "",
    name: Annotated[str, typer.Option("--name", help="The name of the new exam.")] = "written",
    per_family: Annotated[int, typer.Option("--per-family", help="The most questions of each family.")] = 50,
    family: Annotated[
        list[str] | None,
        typer.Option("--family", help="Only this family (sf1h, sf2h, mf2h); may be repeated."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Another seed draws other passages.")] = 42,
    passages: Annotated[
        str,
        typer.Option(
            "--passages",
            help="What the model reads: segments of about 1,000 words, or sections of 25 to 350 words (cheaper).",
        ),
    ] = "segments",
    group: Annotated[
        list[str] | None,
        typer.Option(
            "--as",
            help="Also use documents restricted to this access group; '*' uses all. May be repeated.",
            show_default="none",
        ),
    ] = None,
    budget: Budget = None,
    yes: Yes = False,
    kb: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Let a language model write questions about one passage or two.

    The families are sf1h (one passage), sf2h (two passages of one file) and mf2h (passages of two files). An answer is
    an exact part of a passage. A two-hop question is kept only if no single passage answers it: neither of its two, nor
    any other that search finds. The cost is quoted first; a stopped run continues from where it stopped.
    """
    from surefind.base.access import Access
    from surefind.kb import KnowledgeBase
    from surefind.lab.exam.by_llm.write import FAMILIES, LLMPlan, QuestionWriter
    from surefind.lab.fitness.check import check_calls, require_fit
    from surefind.lab.fitness.kinds import Need

    plan = LLMPlan(tuple(dict.fromkeys(family or FAMILIES)), per_family, seed, cast("Kind", passages))
    with KnowledgeBase.open(kb) as base, progress(quiet=as_json) as report:
        tell_problems(base)
        groups = set(group or ())
        documents = base.documents(Access.of(*groups))
        writer = QuestionWriter(base, model, documents, plan, report)
        if writer.short:
            typer.echo(
                f"{writer.short} of {len(documents)} documents have no segment of 500 words or more: their sections "
                "are read instead.",
                err=True,
            )
        needs = [Need("exam write", "question", model or None)]
        if set(plan.families) != {"sf1h"}:  # by answering, the model itself says whether one passage is enough
            two = "the two-hop questions of exam write (--family sf1h writes the others)"
            needs.append(Need(two, "answer", model or None))
        agree(base, [writer.calls(), *check_calls(base, needs)], budget, yes, as_json, bounded=False)
        require_fit(base, needs, report)
        written = writer.write()
        spent = str(base.services.llm.meter.spent)
        chosen = "" if passages == "segments" else f" --passages {passages}"
        origin = f"write --model {model or base.settings.llm.model} --per-family {per_family} --seed {seed}{chosen}"
        saved = _store(kb).save(written.exam(name, origin, base.reader().fingerprint)) if written.queries else None
    if saved:
        more = {"refused": dict(written.refused), "spent": spent, "stopped": written.stopped}
        _show_summary(saved, as_json, more)
    if not as_json:
        for reason, count in written.refused.most_common():
            typer.echo(f"  {count:>5} dropped: {reason}")
        typer.echo(f"{spent}.")
    if written.stopped:
        raise BudgetError(written.stopped)
    if not saved:
        raise ExamError(f"No question passed the checks ({spent}). Try another model, or add documents.")


@app.command("import")
def import_exam(
    path: Annotated[
        Path, typer.Argument(help="A BEIR folder, a JSONL or CSV file of questions, or TREC topics (with --qrels).")
    ],
    qrels: Annotated[Path | None, typer.Option("--qrels", help="The qrels file for TREC topics.")] = None,
    split: Annotated[str, typer.Option("--split", help="The split of a BEIR folder.")] = "test",
    name: Annotated[str, typer.Option("--name", help="The name of the new exam.", show_default="the file's name")] = "",
    kb: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Import questions with gold passages or gold documents. If any row is bad, nothing is imported."""
    from surefind.base.access import Access
    from surefind.kb import KnowledgeBase
    from surefind.lab.exam.formats.collections import read_beir, read_trec
    from surefind.lab.exam.formats.library import Library
    from surefind.lab.exam.formats.table import read_table

    if not path.exists():
        raise ExamError(f"There is no file or folder {path}. Check the path.")
    with KnowledgeBase.open(kb) as base:
        library = Library(base.documents(Access.owner()))
        tell_problems(base)
        if path.is_dir():
            exam = read_beir(path, library, split, name)
        elif qrels is not None:
            exam = read_trec(path, qrels, library, name)
        else:
            exam = read_table(path, library, name)
        saved = _store(kb).save(exam)
    _show_summary(saved, as_json)


@app.command("list")
def list_exams(kb: Folder = HERE, as_json: Json = False) -> None:
    """List the exams of this knowledge base."""
    exams = _store(kb).all()
    if as_json:
        print_json([_summary(exam) for exam in exams])
        return
    for exam in exams:
        typer.echo(
            f"{exam.name:<24} v{exam.version:<3} {len(exam.queries):>6} questions  {exam.fingerprint}  {exam.origin}"
        )
    if not exams:
        typer.echo("No exams yet. Write one with: surefind exam generate.")


@app.command("show")
def show(
    name: ExamName,
    number: Annotated[int, typer.Option("-n", help="How many questions of each family to show.")] = 5,
    kb: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Show an exam: its families, its leakage report and some of its questions."""
    from surefind.lab.exam.model import query_to_json
    from surefind.lab.exam.overlap import leakage

    exam = _store(kb).load(name)
    if as_json:
        print_json(
            {**_summary(exam), "leakage": leakage(exam), "queries": [query_to_json(query) for query in exam.queries]}
        )
        return
    _show_summary(exam, as_json=False)
    for family in exam.families():
        typer.echo(f"\n{family}")
        for query in [query for query in exam.queries if query.family == family][:number]:
            gold = ", ".join(dict.fromkeys(judgment.document for judgment in query.judgments))
            typer.echo(f"  {query.text}  ->  {gold}")


@app.command("export")
def export(
    name: ExamName,
    path: Annotated[Path, typer.Argument(help="The file (jsonl, csv) or folder (beir, trec) to write.")],
    file_format: Annotated[str, typer.Option("--format", help="jsonl, csv, beir or trec.")] = "jsonl",
    kb: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Write an exam to a file or folder that other tools can read."""
    from surefind.lab.exam.formats.collections import write_beir, write_trec
    from surefind.lab.exam.formats.table import write_csv, write_jsonl

    writers = {"jsonl": write_jsonl, "csv": write_csv, "beir": write_beir, "trec": write_trec}
    if file_format not in writers:
        raise ExamError(f"There is no format {file_format!r}. {choices(file_format, writers)}")
    exam = _store(kb).load(name)
    writers[file_format](exam, path)
    if as_json:
        print_json({"written": str(path), **_summary(exam)})
    else:
        typer.echo(f"Wrote {len(exam.queries)} questions of {exam.label} to {path}.")


@app.command("delete")
def delete(
    name: ExamName,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete without asking.")] = False,
    kb: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Delete an exam with all of its versions, or one version (NAME@VERSION). Reports that used it stay readable."""
    from surefind.kb.settings.config import DATA_FOLDER
    from surefind.lab.bench.saved import reports_on

    store = _store(kb)
    known, versions = store.found(name)
    labels = ", ".join(f"{known}@{version}" for version in versions)
    if not yes:
        if as_json or not sys.stdin.isatty():
            raise UsageError(f"This deletes {labels} for good. Add --yes to continue.")
        if not typer.confirm(f"Delete {labels} for good?", err=True):
            typer.echo("Nothing was deleted.", err=True)
            raise typer.Exit(1)
    reports, damaged = (
        [str(path) for path in paths] for paths in reports_on(kb.resolve() / DATA_FOLDER, known, versions)
    )
    gone = store.delete(name)
    for path in damaged:
        typer.echo(
            f"{path} is damaged, so it is not known whether it used this exam. Check: surefind doctor.", err=True
        )
    if as_json:
        print_json({"deleted": gone, "reports": reports, "damaged_reports": damaged})
        return
    typer.echo(f"Deleted {', '.join(gone)}.")
    if reports:
        many = f"{len(reports)} report{'s' * (len(reports) > 1)}"
        typer.echo(
            f"{many} in .surefind/reports used this exam. Reports stay readable: each contains its questions and "
            "results. To run one again, or to compare with it (bench --check), import the same questions again."
        )


def _summary(exam: Exam) -> dict[str, object]:
    return {
        "name": exam.name, "version": exam.version, "fingerprint": exam.fingerprint,
        "questions": len(exam.queries), "families": exam.families(), "origin": exam.origin,
    }  # fmt: skip


def _show_summary(exam: Exam, as_json: bool, more: Mapping[str, object] | None = None) -> None:
    from surefind.lab.exam.overlap import leakage

    if as_json:
        print_json({**_summary(exam), "leakage": leakage(exam), **(more or {})})
        return
    families = ", ".join(f"{name} {count}" for name, count in exam.families().items())
    typer.echo(f"{exam.label}: {len(exam.queries)} questions ({families}), fingerprint {exam.fingerprint}.")
    leaked = leakage(exam)
    if leaked:
        typer.echo(leaked.text)


_add_collect(app)
_add_feedback(app)
