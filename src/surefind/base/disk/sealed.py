"""Files that show when they are damaged: JSON with a checksum of its content, and folders with a list of their files.

    write_sealed(path, {"name": "zoo"})
    data = read_sealed(path)
    check_files(folder, data["files"])

Every failure is a `ValueError`, as that of `json.loads` is. The caller knows what the file was for.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from surefind.base.disk.replacing import write_file

_KEY = "checksum"
_PART = 1 << 20
"""Bytes that are read at a time for a checksum."""
Files = Mapping[str, tuple[int, int]]
"""The size and the checksum of files, by their path in a folder."""


def digest(data: Any) -> str:
    """Returns a hash of data, equal for data that was written as JSON and read again."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def sealed(data: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the data with its checksum in front."""
    return {_KEY: digest(data), **data}


def unsealed(data: Any) -> dict[str, Any]:
    """Returns sealed data without its checksum. Raises `ValueError` if they do not match."""
    if not isinstance(data, dict) or not data:
        raise ValueError("it is not a JSON object")
    if next(iter(data)) != _KEY:
        raise ValueError("it has no checksum")
    content = {key: value for key, value in data.items() if key != _KEY}
    if data[_KEY] != digest(content):
        raise ValueError("its checksum differs")
    return content


def write_sealed(
    path: Path, data: Mapping[str, Any], *, private: bool = False, durable: bool = True, indent: int | None = 1
) -> None:
    """Writes data as JSON with its checksum, in one step. Without `indent` it takes a tenth of the time."""
    write_file(path, json.dumps(sealed(data), ensure_ascii=False, indent=indent), private=private, durable=durable)


def read_sealed(path: Path, wanted: int | None = None) -> dict[str, Any]:
    """Reads what `write_sealed` wrote. Raises `ValueError` if it is damaged, or its `format` is not the `wanted` one,
    and `OSError` if it cannot be read."""
    try:
        data = unsealed(json.loads(path.read_bytes()))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if wanted is not None and data.get("format") != wanted:
        raise ValueError("another version of Surefind wrote it")
    return data


def list_files(folder: Path, apart: Collection[str] = ()) -> dict[str, tuple[int, int]]:
    """Returns the size and the checksum of every file in a folder. Files in `apart` have other checksums; theirs is 0
    here."""
    paths = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}
    return {name: (path.stat().st_size, 0 if name in apart else _checksum(path)) for name, path in paths.items()}


def check_files(folder: Path, files: Files, apart: Collection[str] = ()) -> None:
    """Raises `ValueError` or `OSError` if a listed file is missing or differs. Of files in `apart`, only the size is
    checked."""
    for name, (size, checksum) in files.items():
        path = folder / name
        if path.stat().st_size != size or (name not in apart and _checksum(path) != checksum):
            raise ValueError(f"the checksum of {name} differs")


def _checksum(path: Path) -> int:
    value = 0
    with path.open("rb") as file:
        while part := file.read(_PART):
            value = zlib.crc32(part, value)
    return value
