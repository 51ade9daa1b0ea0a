"""Prepares files on a node of a Ray cluster: the task that `write.cluster` sends there.

A node need not see the folders of the sync: the bytes of a file come with the task. The file is read by a child process
under the same limits as on one machine, and the answer is JSON.
"""

from __future__ import annotations

import json
import tempfile
from functools import lru_cache
from pathlib import Path

from surefind import __version__
from surefind.base.errors import MissingPartError, SourceError
from surefind.engine.files.limits import FileLimits
from surefind.engine.files.readers import Readers
from surefind.engine.write.reading import Reading


def prepared_here(settings: str, request: str, path: str, data: bytes | None) -> str:
    """Answers a request for a file or a document; `data` are the bytes of the file at `path`. Returns JSON."""
    if data is None:
        return _answered(settings, request)
    with tempfile.TemporaryDirectory(prefix="surefind-") as folder:
        here = Path(folder) / Path(path).name
        here.write_bytes(data)
        answer = _answered(settings, json.dumps({**json.loads(request), "path": str(here), "real": ""}))
        return answer.replace(json.dumps(str(here))[1:-1], json.dumps(path)[1:-1])  # messages name the file as it is


def installed_version() -> str:
    """Returns this node's version of Surefind."""
    return __version__


def _answered(settings: str, request: str) -> str:
    try:
        answer = _reading(settings).answer(request)
    except MissingPartError as error:
        answer = {"missing": str(error)}
    except SourceError as error:
        answer = {"refused": str(error)}
    return json.dumps(answer)


@lru_cache(maxsize=2)
def _reading(settings: str) -> Reading:
    """The child process of this worker; it serves all tasks with the same settings."""
    given = json.loads(settings)
    return Reading(Readers(tuple(given["readers"])), FileLimits(**given["limits"]))
