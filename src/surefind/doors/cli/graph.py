"""`surefind graph`: shows the graph of entities and passages, as a web page and in numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from surefind.doors.cli._common import HERE, Folder, Json, command_group, print_json, progress

Groups = Annotated[
    list[str] | None,
    typer.Option("--as", help="An access group you belong to; may be repeated. '*' reads everything."),
]


def register(app: typer.Typer) -> None:
    commands = command_group("Show the graph of the documents: which passages mention the same entities.")
    commands.command("show")(show)
    commands.command("stats")(stats)
    app.add_typer(commands, name="graph")


def show(
    out: Annotated[
        Path | None, typer.Option("--out", help="The HTML file to write.", show_default=".surefind/graph.html")
    ] = None,
    most: Annotated[
        int, typer.Option("--most", help="The most entities to draw; the best connected come first.", min=1)
    ] = 10_000,
    groups: Groups = None,
    kb: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Draw the graph as a web page, to explore entities, their neighbours, passages and communities.

    The page is one file and loads nothing from the network. It contains text that the given access groups may read:
    share it only with people in those groups.
    """
    from surefind.base.access import Access
    from surefind.engine.graph.summaries import summarise
    from surefind.engine.graph.view import render, view
    from surefind.kb import KnowledgeBase
    from surefind.kb.graph import GRAPH, graph_of

    access = Access.of(*(groups or ()))
    with KnowledgeBase.open(kb) as base:
        with progress(as_json) as report:
            base.build_for([GRAPH], report=report)
        graph, partition, opened = graph_of(base.reader(), access)
        ids = opened.spans().ids
        passages = lambda places: opened.chunks(ids[list(places)].tolist(), access)  # noqa: E731
        data = view(graph, partition, summarise(graph, partition), passages, most)
        page = out or base.data / "graph.html"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(render(data), encoding="utf-8")
    if as_json:
        print_json({"page": str(page), **data["counts"]})
    else:
        drawn = f"{len(data['nodes']):,} of {data['counts']['entities']:,} entities"
        typer.echo(f"Drew {drawn}: the best connected among those in two or more passages.")
        typer.echo(f"Graph: {page}")


def stats(groups: Groups = None, kb: Folder = HERE, as_json: Json = False) -> None:
    """Count entities, relations and communities, and list the best connected entities."""
    from surefind.base.access import Access
    from surefind.kb import KnowledgeBase
    from surefind.kb.graph import GRAPH, figures, graph_of

    with KnowledgeBase.open(kb) as base, progress(as_json) as report:
        base.build_for([GRAPH], report=report)
        graph, partition, _ = graph_of(base.reader(), Access.of(*(groups or ())))
        numbers = figures(graph, partition)
    print_json(numbers) if as_json else _print(numbers)


def _print(numbers: dict[str, Any]) -> None:
    top = numbers["best_connected"]
    typer.echo(f"Passages        {numbers['passages']:,}")
    typer.echo(f"Entities        {numbers['entities']:,}, of which {numbers['shared']:,} in two or more passages")
    typer.echo(f"Edges           {numbers['mentions']:,} to passages, {numbers['relations']:,} between entities")
    typer.echo(
        f"Communities     {numbers['communities']:,}, divided into {numbers['small_communities']:,} smaller ones; "
        f"modularity {numbers['modularity']:.3f}"
    )
    typer.echo("Best connected  " + ", ".join(f"{row['entity']} ({row['passages']})" for row in top))
