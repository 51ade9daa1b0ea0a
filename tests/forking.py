"""Starts programs in forks of a process that has imported the server, which takes longer than most tests of it.

The fork is a process of its own, with its own files, environment and signals, and runs `surefind.__main__`. Only the
imports are shared. Tests of the start itself run `python -m surefind`.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from multiprocessing import forkserver
from pathlib import Path
from subprocess import TimeoutExpired
from unittest import mock

_CONTEXT = multiprocessing.get_context("forkserver")


@cache
def _ready() -> None:
    """Starts the process that forks. It finds modules by the environment, whatever the path is here."""
    _CONTEXT.set_forkserver_preload(["forking_imports"])
    path = os.pathsep.join([str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    with mock.patch.dict(os.environ, PYTHONPATH=path):
        forkserver.ensure_running()


class Forked:
    """A running `surefind`, with the methods of `subprocess.Popen` that tests use. `output` is a file, or a terminal,
    which it also reads."""

    def __init__(self, words: Sequence[str], output: Path, environment: Mapping[str, str]) -> None:
        arguments = (list(words), str(output), dict(environment), str(Path.cwd()))
        _ready()
        self._process = _CONTEXT.Process(target=_run, args=arguments)
        self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid
        return self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise TimeoutExpired("surefind", timeout or 0)
        return self._process.exitcode

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)


def _run(words: list[str], output: str, environment: dict[str, str], folder: str) -> None:
    from surefind.__main__ import main

    file = os.open(output, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOCTTY)
    if os.isatty(file):
        os.setsid()
        os.dup2(file, 0)
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(file)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = ["surefind", *words]
    main()
