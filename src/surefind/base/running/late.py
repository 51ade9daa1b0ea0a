"""Imports numpy for `surefind.base.types` when the first array is made, or the first type of arrays is asked for.

A process that only reads files and cuts them needs neither, and would spend a third of its start on the import.
"""

from __future__ import annotations

from typing import Any

_ITEMS = {
    "IntArray": "int32",
    "IdArray": "int64",
    "FloatArray": "float32",
    "Floats": "float64",
    "ScoreArray": "floating",
    "BoolArray": "bool_",
}


class _Numpy:
    def __getattr__(self, name: str) -> Any:
        import numpy

        attribute = getattr(numpy, name)
        setattr(self, name, attribute)
        return attribute


np = _Numpy()


def types_of_arrays(name: str) -> Any:
    """The `__getattr__` of `surefind.base.types`."""
    if name not in _ITEMS:
        raise AttributeError(f"module 'surefind.base.types' has no attribute {name!r}")
    import numpy.typing

    array: Any = numpy.typing.NDArray
    return array[getattr(numpy, _ITEMS[name])]
