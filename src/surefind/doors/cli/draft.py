"""`surefind draft`: drafts, reviews, publishes and retires single documents."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from surefind.doors.cli._common import HERE, Budget, Folder, Json, Yes, command_group, print_json
from surefind.doors.cli.sync import CliGate, NoGate, guarded

if TYPE_CHECKING:
    from surefind.kb.drafts.values import Draft

Number = Annotated[int, typer.Argument(help="The number of the draft; surefind draft list shows it.")]


def register(app: typer.Typer) -> None:
    commands = command_group("Draft, review, publish and retire documents.")
    commands.command("new")(new)
    commands.command("review")(review)
    commands.command("approve")(approve)
    commands.command("publish")(publish)
    commands.command("retire")(retire)
    commands.command("discard")(discard)
    commands.command("list")(list_drafts)
    commands.command("log")(log)
    commands.command("diff")(diff)
    commands.command("rebase")(rebase)
    commands.command("restore")(restore)
    app.add_typer(commands, name="draft")


def new(
    file: Annotated[Path, typer.Argument(help="The file to read.")],
    document: Annotated[
        str, typer.Option("--document", "-d", help="The document to make a draft of.", show_default="the file's name")
    ] = "",
    kb: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Read a file as a draft: a text that searches do not find before it is published."""
    from surefind.kb import KnowledgeBase

    with KnowledgeBase.open(kb) as base:
        _show(base.drafts.add(file, document), as_json)


def review(
    version: Number,
    done: Annotated[bool, typer.Option("--done", help="Hand it back to its author: it is a draft again.")] = False,
    kb: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Move a draft to review, or back with --done."""
    from surefind.kb import KnowledgeBase

    with KnowledgeBase.open(kb) as base:
        _show(base.drafts.review(version, done), as_json)


def approve(
    version: Number,
    revision: Annotated[
        int | None, typer.Option("--revision", help="The revision that you read.", show_default="the newest one")
    ] = None,
    kb: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Approve a draft in review. Nobody can approve a draft that they wrote a part of."""
    from surefind.kb import KnowledgeBase

    with KnowledgeBase.open(kb) as base:
        _show(base.drafts.approve(version, revision or base.drafts.store.get(version).revision), as_json)


def diff(version: Number, kb: Folder = HERE, as_json: Json = False) -> None:
    """Show what a draft changes in the version that is published now."""
    from surefind.base.access import Access
    from surefind.kb import KnowledgeBase
    from surefind.kb.drafts.difference import unified

    with KnowledgeBase.open(kb) as base:
        opened = base.drafts.store.get(version)
        now = base.drafts.published_text(opened.document, Access.owner())
        shown = unified(now, base.drafts.store.revision(version).text, (opened.document, f"draft {version}"))
    if as_json:
        print_json(shown)
    else:
        typer.echo("\n".join(shown) if shown else f"{opened.document} says the same as draft {version}.")


def rebase(version: Number, kb: Folder = HERE, as_json: Json = False) -> None:
    """Put the text of a draft on the version that is published now. Needed if that changed since the draft was made."""
    from surefind.kb import KnowledgeBase

    with KnowledgeBase.open(kb) as base:
        _show(base.drafts.rebase(version), as_json)


def restore(
    version: Annotated[int, typer.Argument(help="The version; surefind history DOCUMENT lists them.")],
    kb: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Make a draft with the text of an earlier version of a document."""
    from surefind.kb import KnowledgeBase

    with KnowledgeBase.open(kb) as base:
        _show(base.drafts.restore(version), as_json)


def log(version: Number, kb: Folder = HERE, as_json: Json = False) -> None:
    """Show what happened to a draft: who did what, and when."""
    from surefind.kb import KnowledgeBase

    with KnowledgeBase.open(kb) as base:
        base.drafts.store.get(version)
        events = base.drafts.store.events(version)
    if as_json:
        print_json(events)
        return
    for event in events:
        typer.echo(f"{event.at}  revision {event.revision:<3} {event.who}: {event.what}")


def publish(
    version: Number,
    approved: Annotated[
        bool, typer.Option("--approved", help="Refuse if fewer people approved it than [drafts] approvals says.")
    ] = False,
    revision: Annotated[
        int | None, typer.Option("--revision", min=1, help="Refuse if the draft has a newer revision than this one.")
    ] = None,
    wait: Annotated[float, typer.Option("--wait", help="Seconds to wait until another process has written.")] = 0,
    no_gate: NoGate = False,
    budget: Budget = None,
    yes: Yes = False,
    kb: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Publish a draft: it replaces the previous version, in a new generation."""
    from surefind.engine.store.lock import patiently
    from surefind.kb import KnowledgeBase

    with KnowledgeBase.open(kb) as base, guarded(base, no_gate, (budget, yes), as_json) as guard:
        needed = base.settings.drafts.approvals if approved else 0
        tell = partial(typer.echo, err=True)
        do = partial(base.drafts.publish, version, guard.report, guard.gate, needed, revision, tell)
        number = patiently(do, wait)
    _show_published("Published", number, guard, as_json)


def _show_published(done: str, number: int, guard: CliGate, as_json: bool) -> None:
    if as_json:
        print_json({"generation": number, **guard.as_json()})
        return
    typer.echo(f"{done} in generation {number}.")
    guard.show()


def discard(version: Number, kb: Folder = HERE, as_json: Json = False) -> None:
    """Discard a draft: it cannot be published any more."""
    from surefind.kb import KnowledgeBase

    with KnowledgeBase.open(kb) as base:
        base.drafts.discard(version)
    print_json({"discarded": version}) if as_json else typer.echo(f"Discarded draft {version}.")


def retire(
    document: Annotated[str, typer.Argument(help="The document, as named in hits.")],
    no_gate: NoGate = False,
    budget: Budget = None,
    yes: Yes = False,
    kb: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Remove a document from search, in a new generation. Its file is kept; sync reads it again only if it changes."""
    from surefind.kb import KnowledgeBase

    with KnowledgeBase.open(kb) as base, guarded(base, no_gate, (budget, yes), as_json) as guard:
        number = base.retire(document, guard.report, guard.gate)
    _show_published("Retired", number, guard, as_json)


def list_drafts(kb: Folder = HERE, as_json: Json = False) -> None:
    """List the drafts that wait to be published."""
    from surefind.kb import KnowledgeBase

    with KnowledgeBase.open(kb) as base:
        waiting = base.drafts.store.waiting()
    if as_json:
        print_json(waiting)
    elif not waiting:
        typer.echo("No drafts. Make one with: surefind draft new FILE.")
    else:
        for draft in waiting:
            _show(draft, as_json)


def _show(draft: Draft, as_json: bool) -> None:
    if as_json:
        print_json(draft)
    else:
        typer.echo(f"draft {draft.number:<6} {draft.state:<10} {draft.document}  {draft.author}")
