"""`surefind demo`: the whole path on the bundled sample."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from surefind.serve.cli._common import Json, print_json, progress

_QUESTIONS = (
    ("CTR filing deadline", ()),
    ("a member came in twice today with 6,000 in cash each time, is there paperwork?", ()),
    ("CUB-4417", ("it-ops",)),
)


def register(app: typer.Typer) -> None:
    app.command("demo")(demo)


def demo(
    folder: Annotated[Path, typer.Argument(help="Where to build it.")] = Path("surefind-demo"),
    as_json: Json = False,
) -> None:
    """Build a knowledge base from the bundled sample, search it, and say what to try next.

    The sample is the intranet of a fictional credit union: 115 policies, procedures, runbooks and notes, some of
    them restricted to access groups, some superseded, with questions that its staff would ask.
    """
    from surefind.config import FILE_NAME, TEMPLATE
    from surefind.kb import KnowledgeBase
    from surefind.sample import sample_folder
    from surefind.serve.cli import _hits, sync
    from surefind.serve.cli.search import as_data

    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / FILE_NAME).exists():
        (folder / FILE_NAME).write_text(TEMPLATE, encoding="utf-8")
    with KnowledgeBase.open(folder) as base, progress(quiet=as_json) as report:
        if not as_json:
            typer.echo(f"Building a knowledge base in {folder} from the sample (about a minute on 2 cores) …")
        synced = base.sync(sample_folder(), report=report)
        results = [base.search(query, k=2, groups=groups) for query, groups in _QUESTIONS]
    if as_json:
        print_json({"folder": str(folder), "sync": synced, "searches": [as_data(result) for result in results]})
        return
    sync.show(synced)
    for result, (_, groups) in zip(results, _QUESTIONS, strict=True):
        as_group = "".join(f" --as {group}" for group in groups)
        typer.echo(f'\n$ surefind search "{result.query}"{as_group} -k 2 --explain\n')
        _hits.show(result, explain=True, full=False, groups=groups)
    typer.echo(
        f"\nNow try your own, in the folder {folder}:\n"
        f"  cd {folder}\n"
        f'  surefind search "how long is a mobile deposit held" --where status=approved\n'
        f'  surefind search "vault combination change" --as audit --explain\n'
        f"  surefind status\n"
        f"and with your own documents, in any folder:\n"
        f'  surefind sync path/to/docs && surefind search "your question"'
    )
