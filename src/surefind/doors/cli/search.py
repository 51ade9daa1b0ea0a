"""`surefind search`: finds the best passages for a question.

`surefind ask`: answers a question, with the passages behind every sentence.

`surefind open`: opens the file of a hit at its line.

`surefind show`: prints a passage or a document.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from surefind.base.errors import NotBuiltError, NotFoundError, QueryError, SourceError, UsageError
from surefind.doors.cli import _complete
from surefind.doors.cli._common import HERE, Budget, Folder, Json, Readers, agree, print_json, progress

if TYPE_CHECKING:
    from surefind.base.access import Access
    from surefind.base.types import Effort, Hit
    from surefind.engine.search.hits import Extent
    from surefind.engine.search.pipeline import Pipeline
    from surefind.engine.search.reader import Findings, Searcher
    from surefind.engine.write.layout import Layout
    from surefind.kb import KnowledgeBase
    from surefind.kb.answer.values import Answer

MinConfidence = Annotated[
    float | None,
    typer.Option(
        "--min-confidence",
        help="Say that nothing answers the question if the first hit is less likely to: a probability from 0 to 1.",
        show_default="[search] min_confidence",
    ),
]
Confidence = Annotated[
    str | None,
    typer.Option(
        "--confidence",
        help="How to find out how sure the search is: read (a small model reads the first hits), quick or off.",
        show_default="[search] confidence",
    ),
]
PipelineName = Annotated[
    str | None,
    typer.Option(
        "--pipeline",
        "-p",
        help="A pipeline from surefind.toml, a row of a report, or a spec such as 'bm25 + dense >> rrf(k=60)'.",
        autocompletion=_complete.pipelines,
    ),
]
Retrieve = Annotated[
    list[str] | None,
    typer.Option(
        "--retrieve",
        help="A retriever, such as bm25 or 'dense(model=minilm)'; may be repeated.",
        autocompletion=_complete.stages("retrieve"),
    ),
]
Fuse = Annotated[
    str | None,
    typer.Option(
        "--fuse",
        help="How to combine several retrievers: 'rrf(k=60)', 'convex(alpha=0.3)'.",
        autocompletion=_complete.stages("fuse"),
    ),
]
Rerank = Annotated[
    list[str] | None,
    typer.Option(
        "--rerank",
        help="A reranker to apply after fusion, such as cross_encoder; may be repeated.",
        autocompletion=_complete.stages("rerank"),
    ),
]
Depth = Annotated[
    int | None, typer.Option("--depth", help="Candidates per retriever before fusion.", show_default="100")
]


_MAX_STDIN_BYTES = 1 << 20
"""The most bytes read from stdin (1 MiB): more than any query may have, less than a large file sent by mistake."""


def register(program: typer.Typer) -> None:
    program.command("search")(search)
    program.command("ask")(ask)
    program.command("open")(open_file)
    program.command("show")(show)


def search(
    query: Annotated[
        list[str] | None,
        typer.Argument(
            help="What to search for; quotes are optional. '-', or no query in a pipe, reads the query from stdin.",
            show_default=False,
        ),
    ] = None,
    k: Annotated[int | None, typer.Option("-k", help="How many hits to show.", show_default="10")] = None,
    offset: Annotated[int, typer.Option("--offset", help="Skip this many hits, to show the next page.")] = 0,
    pipeline: PipelineName = None,
    retrieve: Retrieve = None,
    fuse: Fuse = None,
    rerank: Rerank = None,
    depth: Depth = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            "--where",
            help="Only documents whose front matter matches: status=approved, tags!=draft, effective>=2025-01-01; or "
            "those of a folder: path=hr/leave.",
        ),
    ] = None,
    groups: Annotated[
        list[str] | None,
        typer.Option("--as", help="An access group you belong to; may be repeated. '*' reads everything."),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show what each stage did and where it put each hit.")
    ] = False,
    confidence: Confidence = None,
    min_confidence: MinConfidence = None,
    full: Annotated[bool, typer.Option("--full", help="Show whole passages, not snippets.")] = False,
    text: Annotated[
        str,
        typer.Option(
            "--text",
            help="How much text a hit has: parent (what the layout returns), passage (what was found) or window=N "
            "(with N neighbours on either side).",
        ),
    ] = "parent",
    max_chars: Annotated[
        int | None,
        typer.Option("--max-chars", help="Cut each text to this many characters, around its best sentence."),
    ] = None,
    build: Annotated[
        bool, typer.Option("--build", help="First build what the pipeline lacks. A search alone builds nothing.")
    ] = False,
    kb: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Find the passages that answer a question. The exit code is 1 if nothing was found, or nothing sure enough.

    Documents with an `acl` in their front matter are found only with --as GROUP. Filters and access rules apply before
    ranking, so they do not reduce the number of hits.
    """
    from surefind.base.access import Access
    from surefind.engine.search.hits import Extent
    from surefind.engine.search.reader import check_query
    from surefind.kb import KnowledgeBase

    access = Access.of(*(groups or []), where=where or [])
    sought = query_of(query or [])
    extent = Extent.parse(text, max_chars)
    with KnowledgeBase.open(kb, once=True) as base:
        chosen, layout = choose(base, pipeline, retrieve, fuse, rerank, depth)
        effort = cast("Effort", confidence) if confidence else base.settings.effort(person=not as_json)
        size = base.settings.k if k is None else k
        least = base.settings.min_confidence if min_confidence is None else min_confidence
        check_query(sought, size, offset, least, effort)
        if build:
            _build(base, chosen, layout, as_json)
        findings = _find(base, sought, access, chosen, size, offset, layout, extent)
        later = effort == "read" and not as_json and not least  # the hits at once, how sure it is a moment later
        result = findings.result(least, "quick" if later else effort)
        if not as_json:
            from surefind.doors.cli._hits import show

            show(result, explain, full, groups or [], partial(findings.result, least, effort) if later else None)
    if as_json:
        print_json(result.to_dict())
    sys.stdout.flush()
    if failed := base.queries.keep(result, access):
        typer.echo(failed, err=True)
    if not result.hits:
        raise typer.Exit(1)


def query_of(words: list[str]) -> str:
    """Returns the query: the words of the command line, or all of stdin, stripped. Several lines are one query, so that
    a whole e-mail can be the query."""
    if words and words != ["-"]:
        return " ".join(words)
    if not words and (sys.stdin is None or sys.stdin.isatty()):
        raise QueryError('The query is missing. Write what to search for: surefind search "wire cutoff".')
    try:
        text = typer.get_binary_stream("stdin").read(_MAX_STDIN_BYTES).decode("utf-8-sig").strip()
    except UnicodeDecodeError:
        raise QueryError("The query on stdin is not UTF-8 text. Convert it to UTF-8.") from None
    if not text:
        raise QueryError("The query on stdin is empty. Pipe a query in, or write it after the command.")
    return text


def _find(base: KnowledgeBase, query: str, access: Access, pipeline: Pipeline, *more: Any) -> Findings:
    """Searches. Of a pipeline that lacks an index, says how long that takes, and the command."""
    k, offset, layout, extent = more
    try:
        return base.reader(layout).find(query, access, pipeline, k, offset, extent)
    except NotBuiltError:
        from surefind.kb.completing import lacking_text

        if text := lacking_text(base, pipeline, layout):
            raise NotBuiltError(text) from None
        raise


def _build(base: KnowledgeBase, pipeline: Pipeline, layout: Layout | None, quiet: bool) -> None:
    """Builds the indexes that the pipeline needs and that do not exist yet, with a message."""
    if layout is not None and layout.offline() != layout and not base.has_cut(layout):
        raise UsageError(
            f"The documents are not cut by {layout} yet, and that asks a language model about each of them. "
            "`surefind use` estimates the cost and does it."
        )
    try:
        base.reader(layout).view.ready(pipeline.retrieve)
    except NotBuiltError:
        if not quiet:
            names = ", ".join(dict.fromkeys(retriever.name for retriever in pipeline.retrieve))
            typer.echo(f"Building the indexes for this search, once for these documents: {names} …", err=True)
        with progress(quiet=quiet) as report:
            base.build_for(pipeline.retrieve, layout, report, repair=True)


def choose(
    kb: KnowledgeBase,
    pipeline: str | None,
    retrieve: list[str] | None,
    fuse: str | None,
    rerank: list[str] | None,
    depth: int | None,
) -> tuple[Pipeline, Layout | None]:
    """Returns the pipeline to use, and the layout if it is not that of the settings. With --retrieve, the options
    describe all of the pipeline; without, --fuse, --rerank and --depth replace those parts of the named pipeline, or of
    the default one."""
    from surefind.engine.search.pipeline import DEPTH, Pipeline

    if retrieve and pipeline:
        raise UsageError("Give either --pipeline or --retrieve, not both.")
    if retrieve:
        return Pipeline.of(retrieve, fuse, rerank or [], depth or DEPTH), None
    base, layout = _named(kb, pipeline)
    if not (fuse or rerank or depth):
        return base, layout
    parts = [str(r) for r in base.retrieve], fuse or (str(base.fuse) if base.fuse else None)
    return Pipeline.of(*parts, rerank or [str(r) for r in base.rerank], depth or base.depth), layout


def _named(kb: KnowledgeBase, name: str | None) -> tuple[Pipeline, Layout | None]:
    if name is None or name in kb.settings.known:  # spares the imports of benchmarks
        return kb.pipeline(name), None
    from surefind.lab.bench.names import find

    contender = find(kb, name)
    return contender.pipeline, contender.layout


What = Annotated[
    str, typer.Argument(help="The id of a hit, or the name of a document, as a search shows them.", show_default=False)
]


def show(
    what: What,
    text: Annotated[
        str, typer.Option("--text", help="How much of a passage: parent, passage or window=N, as in surefind search.")
    ] = "parent",
    groups: Readers = None,
    kb: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Print a passage by the id of a hit, or a whole document by its name."""
    from surefind.base.access import Access
    from surefind.engine.search.hits import Extent
    from surefind.kb import KnowledgeBase

    with KnowledgeBase.open(kb) as base:
        data, body = _read(base.reader(), what, Access.of(*(groups or [])), Extent.parse(text))
    if as_json:
        print_json(data)
    else:
        typer.echo(body)


def hit_of(reader: Searcher, what: str, access: Access, extent: Extent) -> Hit | None:
    """Returns the passage with this id; None if there is none, so that `what` may be a document."""
    try:
        return reader.passage(what, access, extent)
    except NotFoundError:
        return None


def _read(reader: Searcher, what: str, access: Access, extent: Extent) -> tuple[dict[str, Any], str]:
    """Returns the JSON form and the text form of a passage or a document."""
    hit = hit_of(reader, what, access, extent)
    if hit is not None:
        from surefind.doors.cli._hits import place

        return hit.to_dict(), f"{hit.title}\n{place(hit)}\n\n{hit.text}"
    document, about = reader.document(what, access)
    data = {"document": about, "metadata": dict(document.metadata), "text": document.text}
    return data, document.text


def ask(
    question: Annotated[
        list[str] | None, typer.Argument(help="The question; quotes are optional.", show_default=False)
    ] = None,
    pipeline: PipelineName = None,
    model: Annotated[
        str | None,
        typer.Option("--llm", help="The language model, such as ollama:llama3.2.", show_default="[llm] model"),
    ] = None,
    quote: Annotated[bool, typer.Option("--quote", help="Quote the best passages; ask no model.")] = False,
    min_confidence: MinConfidence = None,
    groups: Readers = None,
    budget: Budget = None,
    kb: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Answer a question from the documents. The exit code is 1 if they do not answer it, or it is not sure.

    The answer quotes the documents. If the search is not sure, it quotes the closest passages. A language model in
    surefind.toml writes after the quotes; each of its sentences cites passages and is checked against them.
    """
    from surefind.base.access import Access
    from surefind.kb import KnowledgeBase
    from surefind.kb.answer.answering import answer

    text = query_of(question or [])
    access = Access.of(*(groups or []))
    with KnowledgeBase.open(kb, once=True) as base:
        agree(base, [], budget, yes=True)
        made = answer(base, text, access, pipeline=pipeline, model=model, quote=quote, min_confidence=min_confidence)
    print_json(made.to_dict()) if as_json else _show_answer(made)
    if not made.answered:
        raise typer.Exit(1)


def _show_answer(answer: Answer) -> None:
    from surefind.doors.cli._hits import show_answer

    show_answer(answer)
    if answer.dropped:
        typer.echo(
            f"{len(answer.dropped)} sentences of the model were left out: their passages do not say them.", err=True
        )
    if answer.note:
        typer.echo(answer.note, err=True)


_AT_LINE = {
    "code": ["-g", "{file}:{line}"], "codium": ["-g", "{file}:{line}"], "subl": ["{file}:{line}"],
    "hx": ["{file}:{line}"], "zed": ["{file}:{line}"],
}  # fmt: skip
"""How editors are told a line. The others, such as vi, emacs and nano, understand `+LINE FILE`."""


def open_file(
    what: What,
    only_print: Annotated[
        bool, typer.Option("--print", help="Print the file and the line, and open nothing.", show_default=False)
    ] = False,
    groups: Readers = None,
    kb: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Open the file of a hit at its line, in $VISUAL or $EDITOR, or in the program of its file type.

    In a pipe, without an editor or with --print, the file and the line are printed.
    """
    from surefind.base.access import Access
    from surefind.kb import KnowledgeBase

    with KnowledgeBase.open(kb) as base:
        file, line, place = _file_of(base, what, Access.of(*(groups or [])))
    if as_json:
        print_json({"file": str(file), "line": line or None, "place": place})
        return
    command = None if only_print or not sys.stdout.isatty() else _command(file, line)
    if command is None:
        typer.echo(f"{file}:{line}" if line else f"{file}  {place}".rstrip())
        return
    try:
        subprocess.run(command, check=False)
    except OSError as error:
        raise UsageError(f"{command[0]} cannot be started ({error.strerror}). Set EDITOR, or use --print.") from None


def _file_of(base: KnowledgeBase, what: str, access: Access) -> tuple[Path, int, str]:
    """Returns the file of a passage or a document, its line or 0, and its page, sheet or slide."""
    from surefind.engine.search.hits import Extent

    reader = base.reader()
    hit = hit_of(reader, what, access, Extent(around=0))
    version = hit.version if hit else reader.document(what, access)[1].version
    number, path, *_ = base.catalogue.versions.file_of(version)
    source = next((known_source for known_source in base.catalogue.sources() if known_source.id == number), None)
    if source is None:
        raise SourceError(f"{what} is from no folder. Print it with: surefind show {what}.")
    file = source.root / path
    if not file.exists():
        raise SourceError(f"{file} no longer exists. Print its text as indexed with: surefind show {what}.")
    return file, hit.lines[0] if hit and hit.lines else 0, hit.location if hit else ""


def _command(file: Path, line: int) -> list[str] | None:
    """Returns the command that opens a file. Only files with lines are text for an editor."""
    editor = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "")
    if editor and line:
        form = _AT_LINE.get(Path(editor[0]).name, ["+{line}", "{file}"])
        return [*editor, *(part.format(file=file, line=line) for part in form)]
    if line:
        return None
    return ["open" if sys.platform == "darwin" else "xdg-open", str(file)]
