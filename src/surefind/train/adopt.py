"""Adds a trained model to surefind.toml, and removes it again.

The previous file is saved with the model; `undo` restores it if surefind.toml has not changed since.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from surefind.config import FILE_NAME
from surefind.errors import UsageError
from surefind.search.pipeline import Pipeline
from surefind.settings_file import changed, read_settings, value_of, write_settings

_BEFORE, _AFTER = "surefind.toml.before", "surefind.toml.after"
UNDO = (_BEFORE, _AFTER)
"""Files saved beside a model that is in use; a new model of the same name keeps them."""


def check_free(folder: Path, name: str) -> None:
    """Raises an error if surefind.toml already has a pipeline of this name. Called before hours of training, because
    `adopt` would fail afterwards."""
    if value_of(folder / FILE_NAME, ("pipelines", name)) is not None:
        raise UsageError(
            f"{FILE_NAME} already has a pipeline called {name!r}. Remove it (surefind train undo {name}), or train "
            "under another --name."
        )


def adopt(folder: Path, model: Path, name: str, pipeline: Pipeline) -> None:
    """Adds the pipeline under the model's name and makes it the default for searches."""
    file = folder / FILE_NAME
    check_free(folder, name)
    before = read_settings(file)
    after = changed(before, {("search", "pipeline"): name, ("pipelines", name): _table(pipeline)}, FILE_NAME)
    if file.exists():
        write_settings(model / _BEFORE, before)
    write_settings(model / _AFTER, after)
    write_settings(file, after)


def undo(folder: Path, model: Path, name: str) -> None:
    """Restores surefind.toml as it was before `adopt`. The model itself is kept."""
    if not (model / _AFTER).is_file():
        raise UsageError(f"The model {name!r} was not added to {FILE_NAME}, so there is nothing to undo.")
    file = folder / FILE_NAME
    if not file.exists() or file.read_bytes() != (model / _AFTER).read_bytes():
        raise UsageError(
            f"{FILE_NAME} has changed since {name!r} was added, so it cannot be restored. Choose another pipeline "
            f"under [search] and remove [pipelines.{name}] by hand."
        )
    if (model / _BEFORE).is_file():
        write_settings(file, read_settings(model / _BEFORE))
        (model / _BEFORE).unlink()
    else:  # there was no surefind.toml before
        file.unlink()
    (model / _AFTER).unlink()


def _table(pipeline: Pipeline) -> dict[str, Any]:
    table: dict[str, Any] = {"retrieve": [str(stage) for stage in pipeline.retrieve]}
    if pipeline.fuse is not None:
        table["fuse"] = str(pipeline.fuse)
    if pipeline.rerank:
        table["rerank"] = [str(stage) for stage in pipeline.rerank]
    if pipeline.depth != Pipeline.depth:
        table["depth"] = pipeline.depth
    return table
