"""Keeps benchmark results on disk, so that a repeated run computes nothing again.

The key of a result is a hash of everything it depends on.
"""

from __future__ import annotations

import hashlib
import io
import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefind.base.disk.arrays import read_archive
from surefind.base.disk.records import Record, from_json
from surefind.base.disk.replacing import write_file
from surefind.base.disk.sealed import read_sealed, sealed, unsealed, write_sealed
from surefind.base.types import IdArray, Rankings
from surefind.engine.store import indexes

_FORMAT = 11
"""Increase it when results change for the same configuration. A new format of the indexes counts as well."""


class RunCache:
    def __init__(self, folder: Path, read: bool = True) -> None:
        self.folder = folder
        self._read = read
        """False: ignore stored results, compute everything again and overwrite them."""

    def key(self, *parts: object) -> str:
        text = "\0".join([f"{_FORMAT}.{indexes.FORMAT}", *map(str, parts)])
        return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()

    def rankings(self, key: str) -> Rankings | None:
        path = self.folder / f"{key}.npz"
        if not self._read or not path.exists():
            return None
        try:
            data = read_archive(path)
            meta = unsealed(json.loads(str(data["meta"])))
            ids, scores = data["ids"], data["scores"]
            if meta["arrays"] != _checksum(ids, scores):
                return None
            if ids.dtype != np.int64 or scores.dtype.kind != "f" or ids.ndim != 2 or scores.shape != ids.shape:
                return None
            return Rankings(ids, scores, meta["source"], meta["signal"], float(meta["floor"]))
        except Exception:  # numpy, zipfile and zlib raise errors of their own
            return None  # a half-written or damaged file is computed again

    def put_rankings(self, key: str, rankings: Rankings) -> None:
        about = {"source": rankings.source, "signal": rankings.signal, "floor": rankings.floor}
        meta = json.dumps(sealed({**about, "arrays": _checksum(rankings.ids, rankings.scores)}))
        self.folder.mkdir(parents=True, exist_ok=True)
        made = io.BytesIO()
        np.savez(made, ids=rankings.ids, scores=rankings.scores, meta=np.array(meta))
        write_file(self.folder / f"{key}.npz", made.getvalue(), durable=False)

    def data(self, key: str) -> Any | None:
        if not self._read:
            return None
        try:
            return read_sealed(self.folder / f"{key}.json")["value"]
        except (OSError, ValueError, KeyError):
            return None

    def record(self, kind: type[Record], key: str) -> Record | None:
        """Returns a record of this type that was stored as JSON; None if there is none, or it is of another type."""
        value = self.data(key)
        try:
            return None if value is None else from_json(kind, value)
        except ValueError:
            return None

    def put_data(self, key: str, value: Any) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        write_sealed(self.folder / f"{key}.json", {"value": value}, durable=False, indent=None)


def _checksum(ids: IdArray, scores: NDArray[Any]) -> int:
    return zlib.crc32(np.ascontiguousarray(scores).tobytes(), zlib.crc32(np.ascontiguousarray(ids).tobytes()))
