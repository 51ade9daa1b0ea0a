"""`surefind show`: prints a passage or a document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from surefind.base.errors import NotFoundError
from surefind.doors.cli._common import HERE, Folder, Json, Readers, print_json

if TYPE_CHECKING:
    from surefind.base.access import Access
    from surefind.base.types import Hit
    from surefind.engine.search.extent import Extent
    from surefind.engine.search.reader import Searcher

What = Annotated[
    str, typer.Argument(help="The id of a hit, or the name of a document, as a search shows them.", show_default=False)
]


def register(app: typer.Typer) -> None:
    app.command("show")(show)


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
    from surefind.engine.search.extent import Extent
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
