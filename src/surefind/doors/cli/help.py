"""`surefind help`: shows the pages of docs/, which are part of the package."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from surefind.base.errors import MissingPartError, UsageError, choices
from surefind.doors.cli._common import Json, console, print_json

_PACKAGED = Path(__file__).parents[2] / "help"
_CLONE = Path(__file__).parents[4] / "docs"
_INDEX = "README"
_GROUP = re.compile(r"## (.+)")
_ENTRY = re.compile(r"- \[[^\]]+\]\(([\w/-]+)\.md\): (.+)")
_FENCE = re.compile(r"(^```.*?^```)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[([^\[\]]+)\]\((?!\w+://)([^)\s#]{0,200})(#[^)\s]{0,200})?\)")


def register(app: typer.Typer) -> None:
    app.command("help")(help_command)


def help_command(
    context: typer.Context,
    topic: Annotated[
        list[str] | None, typer.Argument(help="A topic or a command; without one, the topics are listed.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show a page of the documentation, or list all pages.

    The pages are part of the installation. If a topic and a command have the same name, the page is shown;
    `surefind COMMAND --help` shows the command's options.
    """
    words = topic or []
    if not words:
        _list_topics(as_json)
        return
    page = find("/".join(words))
    if page:
        _show(page, as_json)
        return
    text = _command_help(context, words)
    if text is None:
        known = {name for name in topics() if "/" not in name} | set(_commands(context))
        wrong = " ".join(words)
        raise UsageError(f"There is no topic and no command called {wrong!r}. {choices(wrong, known)}")
    print_json({"command": " ".join(words), "text": text}) if as_json else typer.echo(text)


# ---------------------------------------------------------------- pages


@dataclass(frozen=True)
class Group:
    title: str
    entries: tuple[tuple[str, str], ...]
    """Pairs of a topic and a line that describes it."""


def folder() -> Path:
    """The folder of the pages: inside the installed package, or docs/ of a clone."""
    for root in (_PACKAGED, _CLONE):
        if (root / f"{_INDEX}.md").is_file():
            return root
    raise MissingPartError(
        "The documentation is missing from this installation. Install Surefind again, or clone the repository."
    )


def topics() -> list[str]:
    """Lists the topic of every page: `exam`, `results/models`."""
    root = folder()
    names = (path.relative_to(root).with_suffix("").as_posix() for path in root.rglob("*.md"))
    return sorted(name for name in names if name != _INDEX)


def find(name: str) -> Path | None:
    """Finds the page of a topic, which may be written `exam`, `exam.md` or `docs/exam.md`."""
    topic = name.removeprefix("docs/").removesuffix(".md")
    return folder() / f"{topic}.md" if topic in topics() else None


def groups() -> list[Group]:
    """Reads the groups of topics from the index page."""
    groups_read: list[tuple[str, list[tuple[str, str]]]] = []
    for line in (folder() / f"{_INDEX}.md").read_text(encoding="utf-8").splitlines():
        if heading := _GROUP.fullmatch(line):
            groups_read.append((heading[1], []))
        elif (entry := _ENTRY.fullmatch(line)) and groups_read:
            groups_read[-1][1].append((entry[1], entry[2]))
    return [Group(title, tuple(entries)) for title, entries in groups_read if entries]


def readable(text: str, topic: str = "") -> str:
    """Rewrites the links to other pages so that they name the command that shows the page. Code stays unchanged."""
    parts = _FENCE.split(text)
    return "".join(part if part.startswith("```") else _LINK.sub(lambda m: _linked(m, topic), part) for part in parts)


def _linked(match: re.Match[str], topic: str) -> str:
    label, target = match[1], match[2]
    if not target:
        return label
    name = _beside(topic, target)
    if name.removesuffix(".md") in topics():
        return f"{label} (`surefind help {name.removesuffix('.md')}`)"
    return f"`{name}` in the repository" if label.strip("`") == name else f"{label} (`{name}` in the repository)"


def _beside(topic: str, target: str) -> str:
    """Resolves a link against docs/: `../llm.md` in `results/llm` is `llm.md`; `../CHANGELOG.md` in `exam` is
    `CHANGELOG.md`, outside docs/."""
    steps = topic.split("/")[:-1]
    for part in target.split("/"):
        if part == ".." and steps:
            steps.pop()
        elif part not in ("", ".", ".."):
            steps.append(part)
    return "/".join(steps)


# ---------------------------------------------------------------- output


def _list_topics(as_json: bool) -> None:
    listed = groups()
    if as_json:
        print_json([{"group": g.title, "topics": [{"topic": t, "about": a} for t, a in g.entries]} for g in listed])
        return
    wide = max(len(topic) for group in listed for topic, _ in group.entries)
    for group in listed:
        typer.echo(group.title)
        for topic, about in group.entries:
            typer.echo(f"  {topic:<{wide}}  {about}")
        typer.echo("")
    typer.echo("Read a page with: surefind help TOPIC. See a command's options with: surefind COMMAND --help.")


def _show(page: Path, as_json: bool) -> None:
    topic = page.relative_to(folder()).with_suffix("").as_posix()
    text = readable(page.read_text(encoding="utf-8"), topic)
    if as_json:
        print_json({"topic": topic, "text": text})
        return
    screen = console()
    if not screen.is_terminal:
        typer.echo(text)
        return
    import os

    from rich.markdown import Markdown

    os.environ.setdefault("LESS", "-R")  # without -R, less shows colours as codes
    with screen.pager(styles=True):
        screen.print(Markdown(text, hyperlinks=False))


def _commands(context: typer.Context) -> list[str]:
    return list(getattr(context.find_root().command, "commands", {}))


def _command_help(context: typer.Context, words: list[str]) -> str | None:
    """The text that `--help` of a command prints; None if there is no such command."""
    at = context.find_root()
    for word in words:
        command = getattr(at.command, "commands", {}).get(word)
        if command is None:
            return None
        at = type(at)(command, info_name=word, parent=at)
    return at.get_help()
