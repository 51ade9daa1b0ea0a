"""What was trained is found by its name, and a wrong name gets those that exist."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cases import each
from surefind.base.errors import SpecError
from surefind.base.protocols import Services
from surefind.engine.confidence.predictor import find_calibration
from surefind.engine.fuse.learned import Learned
from surefind.engine.llm.trained import trained_prompt

Find = Callable[[Path | None, str], object]


def _services(folder: Path | None) -> Services:
    return cast(Services, SimpleNamespace(models_folder=folder))


FIND: dict[str, Any] = {
    "manifest.json": lambda folder, name: Learned(name).about(_services(folder)),
    "prompt.json": lambda folder, name: trained_prompt(_services(folder), name),
    "calibration.json": find_calibration,
}


@each("file", FIND)
@each("name", ["ridg", "", "..", "../ridge", "ridge/x", ".ridge.writing"])
def test_a_wrong_name_gets_those_that_exist_but_none_that_is_being_written(
    tmp_path: Path, file: str, name: str
) -> None:
    models = tmp_path / "models"
    for there in (models, models / "ridge", models / ".ridge.writing"):
        there.mkdir()
        (there.parent / file).write_text("{}")
        (there / file).write_text("{}")
    with pytest.raises(SpecError, match=r"There is no .*ridge") as caught:
        FIND[file](models, name)
    assert ".ridge" not in str(caught.value).replace(repr(name), "")


@each("file", FIND)
@each("folder", [None, Path("/nonexistent")])
def test_where_nothing_is_trained_the_command_is_named(file: str, folder: Path | None) -> None:
    with pytest.raises(SpecError, match=r"with: surefind (train|calibrate)"):
        FIND[file](folder, "mine")
