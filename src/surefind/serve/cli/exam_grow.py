"""`surefind exam collect | queries | grow`: makes an exam of questions that people really asked."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from surefind.errors import ExamError, UsageError
from surefind.serve.cli import _complete
from surefind.serve.cli._common import HERE, Folder, Json, Readers, print_json, progress, tell_problems

if TYPE_CHECKING:
    from surefind.exam.asking import Ask, Asking
    from surefind.exam.candidates import Candidate
    from surefind.exam.growing import GrowingSession
    from surefind.exam.store import ExamStore
    from surefind.kb import KnowledgeBase
    from surefind.serve.cli._interview import OnScreen
    from surefind.types import Hit

Name = Annotated[
    str, typer.Argument(help="The exam that grows; it need not exist yet.", autocompletion=_complete.exams)
]


def register(app: typer.Typer) -> None:
    for command in (collect, queries, grow):
        app.command(command.__name__)(command)


def _store(kb: Path) -> ExamStore:
    from surefind.exam.store import ExamStore
    from surefind.settings.config import DATA_FOLDER

    return ExamStore(kb.resolve() / DATA_FOLDER / "exams")


def collect(
    name: Name,
    files: Annotated[list[Path], typer.Argument(help="CSV, TSV, JSONL or JSON files, or text with a question a line.")],
    column: Annotated[
        str,
        typer.Option(
            "--column",
            help="The column with the questions; a number if the table has no header.",
            show_default="question, query, text, subject, title, body or message",
        ),
    ] = "",
    kb: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Collect questions from search logs, chat exports, tickets and FAQ tables, without answers.

    They become candidates: `surefind exam grow NAME` asks you which passages answer them. Greetings, texts with fewer
    than two content words, texts longer than 400 characters and repeats are left out and counted.
    """
    from surefind.exam.candidates import normalised
    from surefind.exam.formats.questions import read_questions

    texts = {path: read_questions(path, column) for path in files}
    store = _store(kb)
    candidates = store.candidates(name)
    added, skipped = 0, Counter[str]()
    for path, questions in texts.items():
        made = candidates.collect(questions, path.name)
        added += len(made.added)
        skipped += made.skipped
    if not any(texts.values()):
        raise ExamError(f"{', '.join(map(str, files))}: there are no texts in it.")
    answered = {normalised(query.text) for query in store.load(name).queries} if name in store.names() else set()
    waiting = sum(not candidate.verdict and candidate.key not in answered for candidate in candidates.all())
    if as_json:
        print_json({"name": name, "added": added, "skipped": dict(skipped), "candidates": waiting})
        return
    typer.echo(f"Questions added to {name}: {added}. Candidates without an answer: {waiting}.")
    for reason, count in skipped.most_common():
        typer.echo(f"  {count:>5} left out: {reason}")
    if waiting:
        typer.echo(f"Mark their answers with: surefind exam grow {name}.")


def queries(
    clear: Annotated[bool, typer.Option("--clear", help="Delete all kept queries.")] = False,
    kb: Folder = HERE,
    as_json: Json = False,
) -> None:
    """List the queries that searches have kept, newest first.

    A search keeps its query only if surefind.toml says `keep_queries = true` below `[exam]`. Queries older than
    `keep_days` are deleted.
    """
    from surefind.kb.queries import QueryLog
    from surefind.settings.config import DATA_FOLDER, FILE_NAME, load_settings

    settings = load_settings(kb.resolve() / FILE_NAME)
    log = QueryLog(kb.resolve() / DATA_FOLDER, settings.keep_days)
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
        on = "No query has been kept yet." if settings.keep_queries else "Queries are not kept."
        typer.echo(f"{on} To keep them, write keep_queries = true below [exam] in surefind.toml.")


def grow(
    name: Name,
    number: Annotated[int, typer.Option("-n", help="The most questions to ask.")] = 30,
    size: Annotated[int, typer.Option("--hits", help="The most passages to show for a question.")] = 8,
    answers: Annotated[
        Path | None,
        typer.Option("--answers", help="Take the answers from this JSONL file instead of asking."),
    ] = None,
    at_random: Annotated[bool, typer.Option("--random", help="Ask in random order.")] = False,
    seed: Annotated[int, typer.Option("--seed", help="Another seed gives another random order.")] = 42,
    pipeline: Annotated[
        list[str] | None,
        typer.Option(
            "--pipeline",
            "-p",
            help="A configuration to compare; may be repeated.",
            show_default="the pipelines of surefind.toml, bm25, dense and their fusion",
            autocompletion=_complete.pipelines,
        ),
    ] = None,
    group: Readers = None,
    kb: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Ask which passages answer real questions, and add the answers to an exam.

    The questions are the candidates of `exam collect` and the kept queries of searches. Those come first on which the
    configurations disagree most. The passages are pooled from all configurations and shuffled. Every answer is saved at
    once; Ctrl-C loses nothing. A session adds one version to the exam. --json prints what would be asked; an answer in
    --answers is {"query": "…", "relevant": [{"document": "…", "start": 0, "end": 99}]}.
    """
    from surefind.access import Access
    from surefind.exam.growing import GrowingSession, growing, read_answers
    from surefind.exam.library import Library
    from surefind.kb import KnowledgeBase

    if number < 1 or size < 1:
        raise UsageError("-n and --hits must be at least 1.")
    if not (answers or as_json or sys.stdin.isatty()):
        raise UsageError("This asks questions at a terminal. In a script, give the answers with --answers FILE.")
    store = _store(kb)
    store.candidates(name)
    access = Access.of(*(group or []))
    with KnowledgeBase.open(kb) as base:
        tell_problems(base)
        library = Library(base.documents(access))
        corpus = base.reader().fingerprint
        if answers:
            with growing(base.data, name, library, corpus) as session:
                session.answer(*read_answers(answers, session))
                _finish(session, base, as_json)
            return
        if as_json:
            session = GrowingSession(store, name, library, corpus)
            asking, asks = _asks(session, base, pipeline or [], access, at_random, seed, quiet=True)
            print_json(_as_data(name, asking, asks, number, size, seed))
            return
        with growing(base.data, name, library, corpus) as session:
            asking, asks = _asks(session, base, pipeline or [], access, at_random, seed)
            from surefind.serve.cli._interview import interview

            try:
                interview(_Growth(session, asking, asks[:number], size, seed))
            finally:
                _finish(session, base, as_json)


class _Growth:
    """The questions of a session, and its answers."""

    what = "Which passages answer it? Numbers"
    rejects = True
    add = None

    def __init__(self, session: GrowingSession, asking: Asking, asks: list[Ask], size: int, seed: int) -> None:
        self._session, self._asking, self._asks = session, asking, asks
        self._size, self._seed = size, seed
        self._hits: Sequence[Hit] = ()

    def __len__(self) -> int:
        return len(self._asks)

    def question(self, at: int) -> tuple[str, str, list[OnScreen]]:
        from surefind.serve.cli._interview import OnScreen

        candidate = self._asks[at].candidate
        self._hits = self._asking.pool(candidate.text, self._size, self._seed)
        often = f", asked {candidate.asked} times" if candidate.asked > 1 else ""
        shown = [OnScreen(hit.title or hit.document, hit.text, _place(hit)) for hit in self._hits]
        return candidate.text, f"  ({candidate.source}{often})", shown

    def answer(self, at: int, numbers: Sequence[int] | None) -> None:
        from surefind.exam.growing import PersonAnswer

        ask, text = self._asks[at], self._asks[at].candidate.text
        if not numbers:
            self._session.answer(PersonAnswer(text, verdict="rejected" if numbers is None else "none"))
            return
        chosen = [self._hits[number - 1] for number in sorted(numbers)]
        judgments = tuple(self._session.judge(hit.document, hit.start, hit.end) for hit in chosen)
        how = "random" if ask.value is None else "disagreement"
        self._session.answer(PersonAnswer(text, judgments, "", how, ask.value, ask.typical))

    def undo(self, at: int) -> None:
        self._session.undo()


def _place(hit: Hit) -> str:
    trail = " > ".join(heading for heading in hit.headings if heading != hit.title)
    return f"{f'{hit.document}  {hit.location}'.rstrip()}  {trail}".rstrip()


def _waiting(session: GrowingSession, base: KnowledgeBase) -> list[Candidate]:
    """Returns the candidates without an answer: collected ones and kept queries."""
    return session.open_candidates(logged.query for logged in reversed(base.queries.all()))


def _asks(
    session: GrowingSession,
    base: KnowledgeBase,
    pipelines: list[str],
    access: Any,
    at_random: bool,
    seed: int,
    quiet: bool = False,
) -> tuple[Asking, list[Ask]]:
    from surefind.bench.names import find_pipeline
    from surefind.exam.asking import Asking

    waiting = _waiting(session, base)
    if not waiting:
        raise ExamError(
            "There are no questions to ask. Collect some with: surefind exam collect NAME FILE, or keep the queries of "
            "searches with keep_queries = true below [exam] in surefind.toml."
        )
    with progress(quiet=quiet) as report:
        asking = Asking(base, [str(find_pipeline(base, name)) for name in pipelines], access, report)
        return asking, asking.at_random(waiting, seed) if at_random else asking.by_disagreement(waiting)


def _as_data(name: str, asking: Asking, asks: list[Ask], number: int, size: int, seed: int) -> dict[str, Any]:
    return {
        "name": name,
        "configurations": [str(pipeline) for pipeline in asking.pipelines],
        "candidates": len(asks),
        "questions": [
            {
                "query": ask.candidate.text,
                "source": ask.candidate.source,
                "asked": ask.candidate.asked,
                "disagreement": ask.value,
                "typical": ask.typical,
                "passages": [
                    {
                        "document": hit.document,
                        "start": hit.start,
                        "end": hit.end,
                        "title": hit.title,
                        "headings": list(hit.headings),
                        "text": hit.text,
                    }
                    for hit in asking.pool(ask.candidate.text, size, seed)
                ],
            }
            for ask in asks[:number]
        ],
    }


def _finish(session: GrowingSession, base: KnowledgeBase, as_json: bool) -> None:
    """Says what the session added, and what is left to ask."""
    marked = sum(bool(answer.judgments) for answer in session.answers)
    verdicts = Counter(answer.verdict for answer in session.answers if answer.verdict)
    left, saved = len(_waiting(session, base)), session.saved
    if as_json:
        counts = {"answered": marked, "none": verdicts["none"], "rejected": verdicts["rejected"], "left": left}
        about = {"version": saved.version, "questions": len(saved.queries)} if saved else {"version": None}
        print_json({"name": session.name, **about, **counts})
        return
    none = f"{verdicts['none']} without an answer in the passages shown, " if verdicts["none"] else ""
    typer.echo(f"{marked} answered, {none}{verdicts['rejected']} rejected; candidates left: {left}.")
    if saved and saved.queries:
        typer.echo(f"{saved.label}: {len(saved.queries)} questions. Use it with: surefind bench --exam {saved.name}.")
