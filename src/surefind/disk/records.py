"""Frozen dataclasses as JSON: one function writes them, one reads them and checks every field.

    data = to_json(report)
    report = from_json(BenchReport, data)

The keys are the names of the fields, in their order. A field with the default None is left out while it is None, and
may be missing; every other field must be there. Keys that are no field are ignored. Every failure is a `ValueError`
that names the field.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, TypeVar

Record = TypeVar("Record")
Read = Callable[[Any], Any]
"""Reads a value from JSON; raises `ValueError` if it is of another type."""
_PLAIN: dict[Any, frozenset[type]] = {
    str: frozenset([str]),
    bool: frozenset([bool]),
    int: frozenset([int]),
    float: frozenset([float, int]),
}
"""The types that a plain value may have in JSON, by its type here."""
_NAMES = {str: "a text", bool: "true or false", int: "a whole number", float: "a number"}
_LEAVES = frozenset([str, bool, int, float, type(None)])
_NULL = frozenset([type(None)])


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
    wanted: Any = kind
    record: Record = _reader(wanted)(data)
    return record


@cache
def _written(kind: Any) -> tuple[tuple[str, bool], ...]:
    """The fields of a record, and whether each is left out while it is None."""
    return tuple((field.name, field.default is None) for field in fields(kind))


@cache
def _reader(kind: Any) -> Read:
    """Returns the function that reads a type; it is made once for each type."""
    if kind is Any:
        return _anything
    if allowed := _allowed(kind):
        return _plain(allowed)
    if is_dataclass(kind):
        return _record(kind)
    origin, given = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        (inner,) = (inner_type for inner_type in given if inner_type is not types.NoneType)
        return _optional(_reader(inner))
    if origin in (tuple, list, Sequence) and given[1:] in ((), (...,)):
        return _many(given[0], list if origin is list else tuple)
    if origin is tuple:
        return _fixed([_reader(item_type) for item_type in given])
    if origin in (dict, Mapping):
        return _mapping(given[1])
    if origin is typing.Literal:
        return _choice(given)
    raise TypeError(f"{kind} has no form in JSON")


def _plain(allowed: frozenset[type]) -> Read:
    (name,) = (name for kind, name in _NAMES.items() if _PLAIN[kind] == allowed - _NULL)

    def read(value: Any) -> Any:
        if type(value) in allowed:
            return value
        raise ValueError(f"{_shown(value)} is not {name}")

    return read


def _optional(inner: Read) -> Read:
    return lambda value: None if value is None else inner(value)


def _choice(allowed: Sequence[Any]) -> Read:
    def read(value: Any) -> Any:
        if value not in allowed:
            raise ValueError(f"{_shown(value)} is none of {', '.join(map(str, allowed))}")
        return value

    return read


def _anything(value: Any) -> Any:
    return value


def _allowed(kind: Any) -> frozenset[type]:
    """The types that a plain or optional plain value may have in JSON; none if it is neither."""
    if kind in _PLAIN:
        return _PLAIN[kind]
    if typing.get_origin(kind) not in (types.UnionType, typing.Union):
        return frozenset()
    (inner,) = (one for one in typing.get_args(kind) if one is not types.NoneType)
    return _PLAIN[inner] | _NULL if inner in _PLAIN else frozenset()


def _many(kind: Any, made: Callable[[Any], Any]) -> Read:
    inner, plain = _reader(kind), _allowed(kind)

    def read(value: Any) -> Any:
        if type(value) is not list:
            raise ValueError(f"{_shown(value)} is not a list")
        return made(value) if plain and plain.issuperset(map(type, value)) else made(map(inner, value))

    return read


def _fixed(inner: Sequence[Read]) -> Read:
    def read(value: Any) -> Any:
        if type(value) is not list or len(value) != len(inner):
            raise ValueError(f"{_shown(value)} is not a list of {len(inner)}")
        return tuple([reader(held) for reader, held in zip(inner, value)])  # noqa: B905 - strict takes time

    return read


def _mapping(kind: Any) -> Read:
    inner, plain = _reader(kind), _allowed(kind)

    def read(value: Any) -> Any:
        if type(value) is not dict:
            raise ValueError(f"{_shown(value)} is not an object")
        if plain and plain.issuperset(map(type, value.values())):
            return dict(value)
        return {key: inner(held) for key, held in value.items()}

    return read


def _record(kind: Any) -> Read:
    hints = typing.get_type_hints(kind)
    readers = [(name, may_miss, _reader(hints[name])) for name, may_miss in _written(kind)]

    def read(value: Any) -> Any:
        if type(value) is not dict:
            raise ValueError(f"{_shown(value)} is not an object")
        held = {}
        for name, may_miss, inner in readers:
            if name not in value:
                if may_miss:
                    continue
                raise ValueError(f"{name} is missing")
            try:
                held[name] = inner(value[name])
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
        return kind(**held)

    return read


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
