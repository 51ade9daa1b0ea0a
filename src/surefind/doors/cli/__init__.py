"""The command line, a file for each group of commands. Heavy imports stand inside commands, so that help stays fast."""

from __future__ import annotations

import os
import re
import sqlite3
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any

import typer

from surefind import __version__
from surefind.base.errors import SurefindError, closest
from surefind.doors.cli import _complete
from surefind.doors.cli._common import GROUPS, CommandGroup, print_json
from surefind.doors.terminal import INTERRUPTED, clean_streams, explained, leave

_ALSO = {
    **dict.fromkeys(("diff", "rollback", "drift"), "history"),
    **dict.fromkeys(("ask", "open", "show"), "search"),
    **dict.fromkeys(("keys", "trust"), "access"),
    **dict.fromkeys(("status", "llm"), "doctor"),
    "init": "use",
    "mcp": "serve",
}
"""Commands that are in the module of another one."""
_COMMANDS = tuple(name for names in GROUPS.values() for name in names if name not in _ALSO)
"""The modules of the commands."""


def build(modules: Iterable[str] = _COMMANDS) -> typer.Typer:
    """Makes the program with the commands of these modules."""
    made = typer.Typer(
        name="surefind",
        help=(
            "Finds the right passage in your own documents, and measures how sure it is.\n\n"
            'Start with:  surefind sync docs/   then:  surefind search "your question"\n\n'
            "The guides:  surefind help"
        ),
        epilog=(
            "Exit codes: 0 success, 1 nothing found or a check failed, 2 wrong usage, 3 a problem with the knowledge "
            "base, 4 a missing package or model."
        ),
        no_args_is_help=True,
        cls=CommandGroup,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    for name in modules:
        import_module(f"surefind.doors.cli.{name}").register(made)
    made.callback(invoke_without_command=True)(_root)
    return made


def __getattr__(name: str) -> Any:
    """Makes `app`, the whole program, when it is first used."""
    if name != "app":
        raise AttributeError(f"module 'surefind.doors.cli' has no attribute {name!r}")
    globals()["app"] = made = build()
    return made


def _needed() -> Sequence[str]:
    """Returns the modules that the command line needs: one, if it names a command. The others take longer to import
    than a completion may."""
    line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") or ""
    words = line.split() if _completing() else sys.argv
    complete = not _completing() or len(words) > 2 or line.endswith(" ")
    name = words[1] if len(words) > 1 and complete else ""
    module = _ALSO.get(name, name)
    return [module] if module in _COMMANDS and module != "help" else _COMMANDS  # help shows them all


def _completing() -> bool:
    return f"_{_PROGRAM.upper()}_COMPLETE" in os.environ


def _root(shown: bool = typer.Option(False, "--version", help="Print the version and stop.")) -> None:
    if shown:
        typer.echo(f"surefind {__version__}")
        raise typer.Exit


_PROGRAM = "surefind"
"""The name in every help text, however the program was started: `python -m surefind` and test runners have others."""
# Depending on its version, typer bundles click or imports it, so click's base exception is found through typer's own.
_WrongCall: type[Exception] = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")


def main() -> None:
    """Runs a command and turns every expected failure into one message and an exit code."""
    clean_streams()
    as_json = "--json" in sys.argv
    if _completing():
        _complete.without_slow_modules()
    try:
        code = build(_needed())(prog_name=_PROGRAM, standalone_mode=False)
        if code == INTERRUPTED:  # some versions of typer catch Ctrl-C themselves
            raise KeyboardInterrupt
        sys.exit(code if isinstance(code, int) else 0)
    except SurefindError as error:
        _fail(str(error), type(error).__name__, as_json)
        sys.exit(error.exit_code)
    except _WrongCall as error:
        _refuse(error, as_json)
        sys.exit(2)
    except (KeyboardInterrupt, typer.Abort):
        _fail("Stopped. Finished work is kept; run the same command to continue.", "Interrupted", as_json)
        leave()
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
    except (OSError, sqlite3.Error) as error:
        told = explained(error)
        if told is None:
            raise
        _fail(str(told), type(told).__name__, as_json)
        sys.exit(told.exit_code)


def _refuse(error: Exception, as_json: bool) -> None:
    """Reports wrong usage, such as an unknown option or a missing argument; shows the help if no argument was given."""
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError" and context:
        typer.echo(context.get_help())
        return
    message = error.format_message() if hasattr(error, "format_message") else str(error)
    usage = f" See: {context.command_path} --help." if context else ""
    _fail((_unknown(_plain(message), context.command) if context else message) + usage, "UsageError", as_json)


def _plain(message: str) -> str:
    """A message of typer as a sentence: one about a number that cannot be read is for developers."""
    text = re.sub(r"Input should be (an? )valid (\w+), unable to parse .*", _number, message, flags=re.DOTALL)
    return text if text.endswith((".", "?", "!")) else f"{text}."


def _number(match: re.Match[str]) -> str:
    return f"it must be {'an' if match[2][0] in 'aeiou' else 'a'} {match[2]}."


def _unknown(message: str, command: Any) -> str:
    """Adds the closest command or option to typer's message about an unknown one; returns any other message unchanged.
    Typer's own suggestion depends on its version, and some versions have none."""
    match = re.match(r"No such (?:command '(?P<command>[^']*)'|option: (?P<option>[^\s=]+?)(?=[\s=]|\.?$))", message)
    if not match:
        return message
    wrong = match["command"] or match["option"] or ""
    options = [option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)]
    if match["command"]:
        meant = closest(wrong, getattr(command, "commands", ()))
    else:
        short = wrong[1:] if len(wrong) == len("--k") else ""  # --k is -k
        meant = short if short in options else closest(wrong, [*options, "--help"])
    return f"{match[0]}." + (f" Did you mean {meant}?" if meant else "")


def _fail(message: str, kind: str, as_json: bool) -> None:
    if as_json:
        print_json({"error": {"type": kind, "message": message}}, indent=None)
    typer.echo(f"surefind: {message}", err=True)
