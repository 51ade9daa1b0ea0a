"""Runs commands of Surefind in forked processes. The parent imports everything once, so that a command starts at once.

A forked process does what `python -m surefind …` does after its imports. The parent itself only imports: it starts no
thread and opens no knowledge base, so that nothing of it is shared with the processes that are killed.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import surefind.bench.run
import surefind.bench.terminal
import surefind.exam.known_item
import surefind.kb
import surefind.serve.cli
import surefind.train.fusion
from surefind.retrieve.bm25 import BM25
from surefind.retrieve.tfidf import TfIdf
from surefind.services import LocalServices
from surefind.types import Chunk, Mask, Query


def warm() -> None:
    """Loads the compiled parts of BM25 and TF-IDF, and what training needs: every command would load them again."""
    importlib.import_module("sklearn.linear_model")
    chunks = [Chunk("a.md", 0, 9, "one wire"), Chunk("b.md", 0, 9, "two vaults")]
    for retriever in (BM25(), TfIdf()):
        retriever.build(chunks, LocalServices()).search(retriever, [Query("wire")], 2, Mask(None))


class Running:
    """A command that runs in a forked process."""

    def __init__(self, words: list[str], folder: Path, output: Path) -> None:
        self._output = output
        self._code: int | None = None
        self.pid = os.fork()
        if not self.pid:
            _become(lambda: _command(words, folder), output)

    def ended(self) -> bool:
        if self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._code = os.waitstatus_to_exitcode(status)
        return self._code is not None

    def wait(self) -> tuple[int, str]:
        """Returns the exit code (negative: the signal) and what was printed."""
        while not self.ended():
            time.sleep(0.001)
        assert self._code is not None
        return self._code, self._output.read_text(encoding="utf-8", errors="replace")

    def kill(self) -> bool:
        """Sends SIGKILL. Returns whether the command was still running."""
        if self.ended():
            return False
        os.kill(self.pid, signal.SIGKILL)
        return self.wait()[0] == -signal.SIGKILL


def computed(work: Callable[[], Any], folder: Path, output: Path) -> Any:
    """Returns the value of a function, computed in a forked process, as JSON."""
    pid = os.fork()
    if not pid:

        def tell() -> None:
            os.chdir(folder)
            output.with_suffix(".value").write_text(json.dumps(work()))

        _become(tell, output)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code:
        raise RuntimeError(f"a check ended with {code}:\n{output.read_text(errors='replace')[-2000:]}")
    return json.loads(output.with_suffix(".value").read_text())


def _command(words: list[str], folder: Path) -> None:
    os.chdir(folder)
    sys.argv = ["surefind", *words]
    surefind.serve.cli.main()


def _become(work: Callable[[], None], output: Path) -> None:
    """Turns a forked process into one that does the work and ends."""
    code = 1
    try:
        file = os.open(output, os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(file, 1)
        os.dup2(file, 2)
        work()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
