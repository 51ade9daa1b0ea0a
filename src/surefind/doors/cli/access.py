"""`surefind access`: shows who may read which document, and checks that somebody decided it.

`surefind keys`: makes, lists and revokes API keys.

`surefind trust`: confirms the servers that may receive text and keys.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from surefind.base.errors import UsageError
from surefind.doors.cli._common import HERE, LEFT_TO_OWNER, Folder, Json, command_group, list_problems, print_json

if TYPE_CHECKING:
    from surefind.kb.rights import Decision

_CHECK = "check"


def register(program: typer.Typer) -> None:
    program.command("access")(access)
    commands = command_group("Make, list and revoke API keys for surefind serve.")
    commands.command("create")(create)
    commands.command("list")(list_keys)
    commands.command("revoke")(revoke)
    program.add_typer(commands, name="keys")
    program.command("trust")(trust)


def access(
    action: Annotated[
        str, typer.Argument(help="`check` lists the documents without a decision; without it, all are listed.")
    ] = "",
    group: Annotated[
        list[str] | None,
        typer.Option("--as", help="List only what this access group may read. May be repeated.", show_default="all"),
    ] = None,
    kb: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Show who may read which document, and why.

    `surefind access check` lists the documents for which nobody decided: they have no `acl`, no rule of surefind.toml
    covers them, and there is no default. It exits with 1 if there are any, for use in CI.
    """
    from surefind.base.access import Access
    from surefind.kb import KnowledgeBase
    from surefind.kb.rights import decisions
    from surefind.kb.status import problems_of

    if action not in ("", _CHECK):
        raise UsageError(f"There is no action {action!r}. Write: surefind access, or surefind access check.")
    with KnowledgeBase.open(kb) as base:
        made = decisions(base)
        problems = [] if group else problems_of(base.catalogue)
    shown = [decision for decision in made if group is None or decision.admits(Access.of(*group))]
    if action == _CHECK:
        shown = [decision for decision in shown if not decision.lists]
    if as_json:
        print_json({"documents": [_row(decision) for decision in shown], "problems": problems})
    else:
        _print(shown, len(made), action)
        left = [problem for problem in problems if problem.left_to_owner]
        list_problems(LEFT_TO_OWNER, left, len(left))
        list_problems(
            "files skipped or read only in part", [problem for problem in problems if not problem.left_to_owner]
        )
    if action == _CHECK and shown:
        raise typer.Exit(1)


def _row(decision: Decision) -> dict[str, object]:
    return {"document": decision.document, "readers": decision.readers, "lists": decision.lists}


def _print(shown: list[Decision], documents: int, action: str) -> None:
    width = min(max((len(decision.document) for decision in shown), default=0), 60)
    for decision in shown:
        typer.echo(f"{decision.document:<{width}}  {decision.readers}  ({decision.reason})")
    if action != _CHECK:
        typer.echo(f"{len(shown)} of {documents} documents.")
    elif shown:
        typer.echo(
            f"{len(shown)} of {documents} documents have no decision, so everybody may read them. Write `acl` in the "
            "document (`acl: [public]` for everybody), or a rule or a default in surefind.toml: surefind help access."
        )
    else:
        typer.echo(f"Every document has a decision ({documents} documents).")


def create(
    name: Annotated[str, typer.Argument(help="Who gets the key, such as chatbot.")],
    scopes: Annotated[
        list[str] | None,
        typer.Option("--scope", help="read, write, review or admin. May be repeated.", show_default="read"),
    ] = None,
    groups: Annotated[
        list[str] | None,
        typer.Option("--as", help="An access group of the caller; '*' reads everything. May be repeated."),
    ] = None,
    days: Annotated[float | None, typer.Option("--days", help="The key expires after this many days.")] = None,
    kb: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Make an API key, and print it once. Only its hash is stored."""
    from surefind.doors.auth.keys import Keys
    from surefind.kb import KnowledgeBase

    with KnowledgeBase.open(kb) as base:
        _ = base.catalogue  # a key for a knowledge base that does not exist is a mistake
        key, text = Keys(base.data).create(name, scopes or ["read"], groups or [], days)
    if as_json:
        print_json({**_key_row(key), "key": text})
    else:
        typer.echo(text)
        typer.echo(f"This is the key of {key.name} ({_rights(key)}). It is not shown again.", err=True)


def list_keys(kb: Folder = HERE, as_json: Json = False) -> None:
    """List the API keys, without their secrets."""
    from surefind.doors.auth.keys import Keys
    from surefind.kb import KnowledgeBase

    with KnowledgeBase.open(kb) as base:
        known = Keys(base.data).list()
    if as_json:
        print_json([_key_row(key) for key in known])
    elif not known:
        typer.echo("No API keys. Make one with: surefind keys create NAME.")
    for key in [] if as_json else known:
        typer.echo(f"{key.id}  {key.name}  {_rights(key)}  {_state(key)}")


def revoke(
    name: Annotated[str, typer.Argument(help="The name or the id of the key.")],
    kb: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Revoke an API key. Running servers refuse it from the next request on."""
    from surefind.doors.auth.keys import Keys
    from surefind.kb import KnowledgeBase

    with KnowledgeBase.open(kb) as base:
        key = Keys(base.data).revoke(name)
    print_json(_key_row(key)) if as_json else typer.echo(f"Revoked {key.name} ({key.id}).")


def _key_row(key: Any) -> dict[str, Any]:
    return {
        "id": key.id, "name": key.name, "scopes": key.scopes, "groups": key.groups, "created": key.created,
        "expires": key.expires, "revoked": key.revoked,
    }  # fmt: skip


def _rights(key: Any) -> str:
    groups = f" as {', '.join(key.groups)}" if key.groups else ", public documents"
    return ", ".join(key.scopes) + groups


def _state(key: Any) -> str:
    if key.revoked is not None:
        return "revoked"
    if key.expires is None:
        return "in use"
    day = time.strftime("%Y-%m-%d", time.localtime(key.expires))
    return f"until {day}" if key.live(time.time()) else f"expired on {day}"


Host = Annotated[str, typer.Argument(help="The server, such as llm.example.com.", show_default="list the servers")]
Key = Annotated[
    list[str] | None,
    typer.Option("--key", help="An environment variable whose key the server may receive, too; may be repeated."),
]


def trust(
    host: Host = "",
    key: Key = None,
    forget: Annotated[bool, typer.Option("--forget", help="Forget the server and its keys.")] = False,
    as_json: Json = False,
) -> None:
    """Confirm that a server may receive text from your documents; without HOST, list the confirmed servers.

    A surefind.toml can name any server and any key, and you may not have written it. So a server that is not known gets
    nothing before you confirm it, once. This machine and the servers of known services need no confirmation.
    """
    from surefind.engine.net import trust as servers

    if not host and (forget or key):
        raise UsageError("Name the server: surefind trust HOST.")
    done = ""
    if host and forget:
        done = f"Forgot {servers.forget(host)}."
    elif host:
        name = servers.confirm(host, key or ())
        done = f"{name} may receive text from your documents{_keys(servers.remembered()[name], ' and the keys in ')}."
    if as_json:
        print_json({"file": servers.memory(), "hosts": servers.remembered()})
    elif done:
        typer.echo(done)
    else:
        for name, keys in servers.remembered().items():
            typer.echo(name + _keys(keys, "   keys: "))
        if not servers.remembered():
            typer.echo("No servers are confirmed. Confirm one with: surefind trust HOST.")


def _keys(keys: tuple[str, ...], before: str) -> str:
    return before + ", ".join(keys) if keys else ""
