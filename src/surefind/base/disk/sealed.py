"""Files that show when they are damaged: JSON with a checksum of its content, and folders with a list of their files.

    write_sealed(path, {"name": "zoo"})
    data = read_sealed(path)
    check_files(folder, data["files"])

A file or a folder is replaced in one step: whoever reads it, at any time, sees the old one or the new one, and never a
part. Frozen dataclasses are written as JSON by one function and read by another, which checks every field:

    data = to_json(report)
    report = from_json(BenchReport, data)

The keys are the names of the fields, in their order. A field with the default None is left out while it is None, and
may be missing; every other field must be there. Keys that are no field are ignored. Every failure is a `ValueError`
that names the field, as that of `json.loads` is; the caller knows what the file was for.

The command line uses the nearest knowledge base, as git does: that of the current folder, or of the nearest parent with
a `surefind.toml` or a `.surefind`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import shutil
import zlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from surefind.base.errors import StoreError

FILE_NAME = "surefind.toml"
DATA_FOLDER = ".surefind"
_PRIVATE = 0o700
_OTHERS = 0o007


def nearest(start: Path) -> Path | None:
    """Finds the folder of the knowledge base that contains `start`, or None. The search goes up to the home folder, or
    to the root of the file system of `start`: folders above these belong to the machine, not to the user."""
    start = start.resolve()
    home = Path(os.path.expanduser("~")).resolve()  # noqa: PTH111 (Path.home raises for users without a home)
    device = _device(start)
    for folder in (start, *start.parents):
        if _device(folder) != device:
            return None
        folders = _marks(folder)
        if folders:
            if folder != start:
                _check_owner(folder, folders)
            return folder
        if folder == home:
            return None
    return None


def _device(folder: Path) -> int | None:
    """The number of the file system that a folder is on; None if it cannot be read."""
    try:
        return folder.stat().st_dev
    except OSError:
        return None


def _marks(folder: Path) -> list[Path]:
    """The files that make a folder a knowledge base. os.path, unlike Path, returns False for an unreadable folder."""
    settings, data = folder / FILE_NAME, folder / DATA_FOLDER
    return [path for path, there in ((settings, os.path.isfile), (data, os.path.isdir)) if there(path)]


def _check_owner(folder: Path, marks: list[Path]) -> None:
    """Refuses a knowledge base of another user. Settings can send text to any server, and anybody can put settings into
    a shared folder such as /tmp, so those of other users are used only if --kb names them."""
    for mark in marks:
        if mark.stat().st_uid not in (0, os.geteuid()):
            raise StoreError(f"{mark} belongs to another user. If you trust it, use it with: --kb {folder}.")


def private_folder(folder: Path) -> Path:
    """Creates a folder. If it is `.surefind` or below it, closes `.surefind` to other users, because it contains the
    text of every document. Access of the group is kept: its owner must have allowed it."""
    data = next((path for path in (folder, *folder.parents) if path.name == DATA_FOLDER), None)
    if data is not None:
        if not data.exists():
            data.parent.mkdir(parents=True, exist_ok=True)
            data.mkdir(mode=_PRIVATE, exist_ok=True)
        elif data.stat().st_mode & _OTHERS:
            with contextlib.suppress(PermissionError):  # the folder of another user
                data.chmod(_PRIVATE)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def write_file(path: Path, data: bytes | str, *, private: bool = False, durable: bool = True) -> None:
    """Puts a file in the place of the one that is there, if any; another name of that one keeps its content.

    The new file has the permissions of the old one. With `private`, only its owner may read it. It survives a machine
    that stops, unless it need not be `durable`, as in a cache. If it cannot be written, the old one stays."""
    aside = path.with_name(f".{secrets.token_hex(8)}.writing")
    try:
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        if not private and path.exists():
            shutil.copymode(path, aside)
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


def replace_folder(made: Path, place: Path) -> None:
    """Moves a folder, which was made beside it, into the place of the one that is there, if any."""
    old = place.with_name(f".{place.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if place.exists():
        place.rename(old)
    made.rename(place)
    shutil.rmtree(old, ignore_errors=True)


Record = TypeVar("Record")
_LEAVES = frozenset([str, bool, int, float, type(None)])


def to_json(value: Any) -> Any:
    """Returns records, and all that they hold, as dictionaries, lists, texts and numbers."""
    kind: Any = type(value)
    if kind in _LEAVES:
        return value
    if kind is tuple or kind is list:
        return list(value) if _LEAVES.issuperset(map(type, value)) else [to_json(held) for held in value]
    if is_dataclass(kind):
        record: Any = kind
        made = ((name, left_out, getattr(value, name)) for name, left_out in _written(record))
        return {name: to_json(held) for name, left_out, held in made if held is not None or not left_out}
    if isinstance(value, Mapping):
        return {key: to_json(held) for key, held in value.items()}
    if isinstance(value, float | int | str):  # a number of numpy
        return value
    raise TypeError(f"{kind.__name__} has no form in JSON")


def from_json(kind: type[Record], data: Any) -> Record:
    """Returns the record of a class that `to_json` wrote. Raises `ValueError` if a field is missing or of another
    type."""
    import msgspec  # 12 ms, and a search reads no record

    try:
        record: Record = msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None
    return record


@cache
def _written(kind: Any) -> tuple[tuple[str, bool], ...]:
    """The fields of a record, and whether each is left out while it is None."""
    return tuple((field.name, field.default is None) for field in fields(kind))


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


def list_files(folder: Path) -> dict[str, tuple[int, int]]:
    """Returns the size and the checksum of every file in a folder."""
    paths = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}
    return {name: (path.stat().st_size, _checksum(path)) for name, path in paths.items()}


def check_files(folder: Path, files: Files, sizes_alone: bool = False) -> None:
    """Raises `ValueError` or `OSError` if a listed file is missing or differs, in size or in anything else."""
    for name, (size, checksum) in files.items():
        path = folder / name
        if path.stat().st_size != size:
            raise ValueError(f"the size of {name} differs")
        if not sizes_alone and _checksum(path) != checksum:
            raise ValueError(f"the checksum of {name} differs")


def _checksum(path: Path) -> int:
    value = 0
    with path.open("rb") as file:
        while part := file.read(_PART):
            value = zlib.crc32(part, value)
    return value
