"""The child process that prepares files for a sync: `python -P -m surefind.engine.write.child SETTINGS`.

It reads one request per line from standard input, and answers each with the length of a JSON text and the text. Its
memory is limited. A system alarm ends it even if its parent has died and a library never returns. A hostile file may
take the process over, so its answers are not trusted: they are JSON, never pickled objects.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import struct
import sys
from collections.abc import Callable
from functools import partial
from typing import IO, Any

from surefind.base.errors import MissingPartError, SourceError
from surefind.engine.files.inside import reading
from surefind.engine.files.opening import OUT_OF_MEMORY, FileLimits, ReplacedError
from surefind.engine.files.readers import Readers
from surefind.engine.write.prepare import CutTask, PrepareTask, prepare, prepare_cut, to_data

_GRACE = 2
"""Seconds by which the alarm comes after the parent's deadline. The alarm is for a parent that has died."""


def main() -> None:
    settings = json.loads(sys.argv[1])
    limits, readers = FileLimits(**settings["limits"]), Readers(tuple(settings["readers"]))
    answers = os.fdopen(os.dup(1), "wb")
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)  # output of libraries must not mix with the answers
    os.dup2(silence, 2)
    memory = int(limits.memory_mb * 1e6)
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))  # data only: threads reserve far more
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    largest = int(limits.unpacked_mb * 1e6)
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
    for line in sys.stdin.buffer:
        alive = partial(_still_working, answers, limits)
        signal.setitimer(signal.ITIMER_REAL, limits.seconds + _GRACE)
        _send(answers, json.dumps(_answer(json.loads(line), limits, readers, alive)).encode())
        signal.setitimer(signal.ITIMER_REAL, 0)


def _still_working(answers: IO[bytes], limits: FileLimits) -> None:
    """Restarts the time limit, here and in the parent: an answer of length 0 asks for more time."""
    signal.setitimer(signal.ITIMER_REAL, limits.seconds + _GRACE)
    _send(answers, b"")


def _send(answers: IO[bytes], data: bytes) -> None:
    answers.write(struct.pack(">Q", len(data)) + data)
    answers.flush()


def _answer(data: dict[str, Any], limits: FileLimits, readers: Readers, alive: Callable[[], None]) -> dict[str, Any]:
    with reading(limits, readers, alive) as here:
        try:
            if "document" in data:
                return to_data(prepare_cut(CutTask.from_data(data), here))
            return to_data(prepare(PrepareTask(**data), here))
        except MissingPartError as error:
            return {"missing": str(error)}
        except SourceError as error:
            return {"refused": str(error)}
        except ReplacedError:
            return {"swapped": True}
        except MemoryError:
            return {"memory": True}
        except RecursionError:
            return {"refused": "is nested too deeply to be read"}
        except Exception as error:  # an unexpected error in a library
            return {"refused": f"cannot be read ({type(error).__name__}: {error})"}


if __name__ == "__main__":
    try:
        main()
    except MemoryError:
        os._exit(OUT_OF_MEMORY)  # the usual way out needs memory, too
