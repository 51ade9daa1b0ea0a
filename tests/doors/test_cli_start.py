"""How the program starts and ends, in a process of its own."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
START = "from surefind.__main__ import main; main()"


def start(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_interrupt_during_the_imports_exits_130_quietly() -> None:
    """The signal comes at the import of typer, which is the first of some length."""
    interrupt = """
import os, signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "typer":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
"""
    done = start(interrupt + START)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_interrupt_inside_a_finalizer_is_not_lost() -> None:
    """Python drops what is raised there, so a Ctrl-C that came at that moment was ignored."""
    interrupt = """
import os, signal, time
import surefind.doors.cli

class Interrupting:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0)

def wait():
    signal.signal(signal.SIGINT, signal.default_int_handler)
    held = Interrupting()
    del held
    for _ in range(1000):
        time.sleep(0.01)

surefind.doors.cli.build = lambda _: lambda **_: wait()
"""
    done = start(interrupt + START)
    assert (done.returncode, done.stdout) == (130, "") or done.returncode == -signal.SIGINT
    assert done.stderr == "surefind: Stopped. Finished work is kept; run the same command to continue.\n"


def test_the_installed_program_starts_where_the_imports_are_guarded() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert settings["project"]["scripts"] == {"surefind": "surefind.__main__:main"}


def test_python_m_surefind_is_surefind() -> None:
    done = subprocess.run([sys.executable, "-m", "surefind", "--help"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Usage: surefind ")


def test_a_program_that_is_built_twice_has_each_command_once() -> None:
    import typer

    from surefind.doors.cli import build

    for _ in range(2):
        command = typer.main.get_command(build())
    for group in (command, *(one for one in command.commands.values() if hasattr(one, "commands"))):
        assert len(group.commands) == len(set(group.commands))
    assert len(build().registered_groups) == len({one.name for one in build().registered_groups})
    exam = next(one.typer_instance for one in build().registered_groups if one.name == "exam")
    names = [one.name for one in exam.registered_commands]
    assert len(names) == len(set(names))


def test_the_help_lists_every_command_in_a_group_with_its_whole_summary() -> None:
    import typer

    from surefind.doors.cli import build
    from surefind.doors.cli._common import GROUPS

    command = typer.main.get_command(build())
    assert sorted(command.commands) == sorted(name for names in GROUPS.values() for name in names)
    for words in ("", *(name for name, one in command.commands.items() if hasattr(one, "commands"))):
        done = subprocess.run(
            [sys.executable, "-m", "surefind", *words.split(), "--help"], capture_output=True, text=True, check=True
        )
        assert "..." not in done.stdout.split("\n", 1)[1]
        if not words:
            assert re.findall(r"(?m)^(\w+):$", done.stdout) == ["Options", *GROUPS]
