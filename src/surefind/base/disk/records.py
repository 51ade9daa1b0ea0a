"""Frozen dataclasses as JSON: one function writes them, one reads them and checks every field.

    data = to_json(report)
    report = from_json(BenchReport, data)

The keys are the names of the fields, in their order. A field with the default None is left out while it is None, and
may be missing; every other field must be there. Keys that are no field are ignored. Every failure is a `ValueError`
that names the field.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, TypeVar

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
