"""The commands in groups, as `surefind --help` lists them."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

GROUPS = {
    "Search": ("search", "ask", "show", "open"),
    "Measure": ("bench", "drift", "exam", "tune", "calibrate", "study", "train", "use", "llm"),
    "Documents": ("init", "sync", "status", "access", "draft", "history", "diff", "rollback", "graph"),
    "Serve": ("serve", "mcp", "keys", "trust"),
    "More": ("demo", "doctor", "help"),
}
_WHOLE = 1000
"""Characters of a summary: more than any has, so that none is cut off."""


class CommandGroup(TyperGroup):
    """Lists commands with their whole summaries: those of the program in groups, those of a command in one list."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        names = self.list_commands(ctx)
        sections = GROUPS if ctx.parent is None else {"Commands": names}
        for title, members in sections.items():
            shown = [(name, self.get_command(ctx, name)) for name in members if name in names]
            with formatter.section(title):
                formatter.write_dl([(name, command.get_short_help_str(_WHOLE)) for name, command in shown if command])


def command_group(summary: str) -> typer.Typer:
    """Makes a command that has commands of its own."""
    return typer.Typer(help=summary, no_args_is_help=True, cls=CommandGroup)
