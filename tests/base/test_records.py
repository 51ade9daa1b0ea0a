"""Records as JSON: what is written is read back, and what is odd is named."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pytest

from cases import each
from surefind.base.disk.sealed import from_json, to_json


@dataclass(frozen=True)
class Leaf:
    name: str
    share: float
    note: str | None = None


@dataclass(frozen=True, kw_only=True)
class Tree:
    kind: Literal["oak", "fir"]
    count: int
    tall: bool
    width: float | None
    leaves: tuple[Leaf, ...]
    sizes: tuple[float | None, ...]
    pair: tuple[str, int]
    by_name: Mapping[str, Leaf]
    marks: dict[str, int]
    rest: list[str]
    free: Mapping[str, Any]
    best: Leaf | None = None


TREE = Tree(
    kind="oak",
    count=2,
    tall=True,
    width=None,
    leaves=(Leaf("a", 0.5), Leaf("b", 1, "old")),
    sizes=(1.5, None, 2),
    pair=("x", 3),
    by_name={"a": Leaf("a", 0.25)},
    marks={"m": 1},
    rest=["r"],
    free={"any": [1, {"deep": None}]},
)


def test_a_record_reads_back_as_it_was_written() -> None:
    text = json.dumps(to_json(TREE))
    assert from_json(Tree, json.loads(text)) == TREE


def test_keys_are_the_fields_and_only_defaults_of_none_are_left_out() -> None:
    data = to_json(TREE)
    assert list(data) == [
        "kind", "count", "tall", "width", "leaves", "sizes", "pair", "by_name", "marks", "rest", "free"
    ]  # fmt: skip
    assert data["width"] is None and data["leaves"] == [{"name": "a", "share": 0.5}, to_json(Leaf("b", 1, "old"))]


def test_numbers_of_numpy_are_numbers() -> None:
    assert json.loads(json.dumps(to_json(Leaf("a", np.float64(0.5))))) == {"name": "a", "share": 0.5}


def test_other_keys_are_ignored() -> None:
    assert from_json(Leaf, {"name": "a", "share": 1, "more": [1]}) == Leaf("a", 1)


@each(
    ("change", "says"),
    [
        ({"count": "2"}, "Expected `int`, got `str` - at `$.count`"),
        ({"count": True}, "Expected `int`, got `bool` - at `$.count`"),
        ({"count": 2.5}, "Expected `int`, got `float` - at `$.count`"),
        ({"tall": 1}, "Expected `bool`, got `int` - at `$.tall`"),
        ({"width": "wide"}, "Expected `float | null`, got `str` - at `$.width`"),
        ({"kind": "elm"}, "Invalid enum value 'elm' - at `$.kind`"),
        ({"leaves": {}}, "Expected `array`, got `object` - at `$.leaves`"),
        ({"leaves": [{"name": "a"}]}, "Object missing required field `share` - at `$.leaves[0]`"),
        ({"leaves": [{"name": "a", "share": "half"}]}, "Expected `float`, got `str` - at `$.leaves[0].share`"),
        ({"leaves": [3]}, "Expected `object`, got `int` - at `$.leaves[0]`"),
        ({"sizes": [1, "2"]}, "Expected `float | null`, got `str` - at `$.sizes[1]`"),
        ({"pair": ["x"]}, "Expected `array` of length 2, got 1 - at `$.pair`"),
        ({"by_name": []}, "Expected `object`, got `array` - at `$.by_name`"),
        ({"marks": {"m": "1"}}, "Expected `int`, got `str` - at `$.marks[...]`"),
        ({"rest": "r" * 99}, "Expected `array`, got `str` - at `$.rest`"),
    ],
)
def test_what_is_odd_is_named_by_its_field(change: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError) as told:
        from_json(Tree, to_json(TREE) | change)
    assert str(told.value) == says


@each("data", [None, 3, "x", [], [1]])
def test_what_is_no_object_is_no_record(data: Any) -> None:
    with pytest.raises(ValueError, match="Expected `object`"):
        from_json(Leaf, data)


def test_what_has_no_form_in_json_is_refused() -> None:
    with pytest.raises(TypeError, match="set has no form in JSON"):
        to_json({"a": {1}})
