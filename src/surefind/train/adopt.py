"""Putting a trained model to use in surefind.toml, and taking it back.

What the file was before is kept with the model; `undo` puts it back if nobody has changed it since.
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
"""What is kept beside a model that is in use: a new one of its name takes it over."""


def check_free(folder: Path, name: str) -> None:
    """To be asked before hours of training: a pipeline of this name would stand in the way of `adopt`."""
    if value_of(folder / FILE_NAME, ("pipelines", name)) is not None:
        raise UsageError(
            f"{FILE_NAME} has a pipeline called {name!r} already. Take it out (surefind train undo {name}), or train "
            "under another --name."
        )


def adopt(folder: Path, model: Path, name: str, pipeline: Pipeline) -> None:
    """Add the pipeline under the model's name and let it answer searches."""
    file = folder / FILE_NAME
    check_free(folder, name)
    before = read_settings(file)
    after = changed(before, {("search", "pipeline"): name, ("pipelines", name): _table(pipeline)}, FILE_NAME)
    if file.exists():
        write_settings(model / _BEFORE, before)
    write_settings(model / _AFTER, after)
    write_settings(file, after)


def undo(folder: Path, model: Path, name: str) -> None:
    """surefind.toml as it was before the model was put to use. The model itself stays."""
    if not (model / _AFTER).is_file():
        raise UsageError(f"The model {name!r} was not put to use in {FILE_NAME}, so there is nothing to undo.")
    file = folder / FILE_NAME
    if not file.exists() or file.read_bytes() != (model / _AFTER).read_bytes():
        raise UsageError(
            f"{FILE_NAME} has been changed since {name!r} was put to use. Choose another pipeline under [search] and "
            f"take out [pipelines.{name}] by hand."
        )
    if (model / _BEFORE).is_file():
        write_settings(file, read_settings(model / _BEFORE))
        (model / _BEFORE).unlink()
    else:  # there was none
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
