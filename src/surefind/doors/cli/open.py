"""`surefind open`: opens the file of a hit at its line."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from surefind.base.errors import SourceError, UsageError
from surefind.doors.cli._common import HERE, Folder, Json, Readers, print_json
from surefind.doors.cli.show import What, hit_of

if TYPE_CHECKING:
    from surefind.base.access import Access
    from surefind.kb import KnowledgeBase

_AT_LINE = {
    "code": ["-g", "{file}:{line}"], "codium": ["-g", "{file}:{line}"], "subl": ["{file}:{line}"],
    "hx": ["{file}:{line}"], "zed": ["{file}:{line}"],
}  # fmt: skip
"""How editors are told a line. The others, such as vi, emacs and nano, understand `+LINE FILE`."""


def register(app: typer.Typer) -> None:
    app.command("open")(open_file)


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
        file, line, place = _find(base, what, Access.of(*(groups or [])))
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


def _find(base: KnowledgeBase, what: str, access: Access) -> tuple[Path, int, str]:
    """Returns the file of a passage or a document, its line or 0, and its page, sheet or slide."""
    from surefind.engine.search.extent import Extent

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
