"""Putting a trained model to use in surefind.toml, and taking it back.

The file is edited as text, so that comments stay. What it was before is kept with the model; `undo` puts it back if
nobody has changed it since.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from surefind.config import FILE_NAME, TEMPLATE, parse_settings
from surefind.errors import UsageError
from surefind.search.pipeline import Pipeline

_BEFORE, _AFTER = "surefind.toml.before", "surefind.toml.after"
UNDO = (_BEFORE, _AFTER)
"""What is kept beside a model that is in use: a new one of its name takes it over."""


def check_free(folder: Path, name: str) -> None:
    """To be asked before hours of training: a pipeline of this name would stand in the way of `adopt`."""
    file = folder / FILE_NAME
    if file.exists() and _has(file.read_text(encoding="utf-8"), name):
        raise UsageError(
            f"{FILE_NAME} has a pipeline called {name!r} already. Take it out (surefind train undo {name}), or train "
            "under another --name."
        )


def adopt(folder: Path, model: Path, name: str, pipeline: Pipeline) -> None:
    """Add the pipeline under the model's name and let it answer searches."""
    file = folder / FILE_NAME
    check_free(folder, name)
    before = file.read_text(encoding="utf-8") if file.exists() else TEMPLATE
    after = _chosen(before, name).rstrip("\n") + "\n\n" + _table(name, pipeline)
    parse_settings(after, FILE_NAME)
    if file.exists():
        (model / _BEFORE).write_text(before, encoding="utf-8")
    (model / _AFTER).write_text(after, encoding="utf-8")
    aside = file.with_suffix(".writing")
    aside.write_text(after, encoding="utf-8")
    aside.replace(file)


def undo(folder: Path, model: Path, name: str) -> None:
    """surefind.toml as it was before the model was put to use. The model itself stays."""
    if not (model / _AFTER).is_file():
        raise UsageError(f"The model {name!r} was not put to use in {FILE_NAME}, so there is nothing to undo.")
    file = folder / FILE_NAME
    now = file.read_text(encoding="utf-8") if file.exists() else ""
    if now != (model / _AFTER).read_text(encoding="utf-8"):
        raise UsageError(
            f"{FILE_NAME} has been changed since {name!r} was put to use. Choose another pipeline under [search] and "
            f"take out [pipelines.{name}] by hand."
        )
    if (model / _BEFORE).is_file():
        (model / _BEFORE).replace(file)
    else:  # there was none
        file.unlink()
    (model / _AFTER).unlink()


def _has(text: str, name: str) -> bool:
    return re.search(rf"^\[pipelines\.{re.escape(name)}\]", text, re.MULTILINE) is not None


def _chosen(text: str, name: str) -> str:
    """With `pipeline = "name"` under [search]."""
    table = re.search(r"^\[search\]\n(?:(?!^\[).*\n?)*", text, re.MULTILINE)
    line = f'pipeline = "{name}"'
    if table is None:
        return f"[search]\n{line}\n\n{text}"
    found = re.sub(r"^pipeline\s*=.*$", line, table.group(), count=1, flags=re.MULTILINE)
    if line not in found:
        found = found.replace("[search]\n", f"[search]\n{line}\n", 1)
    return text[: table.start()] + found + text[table.end() :]


def _table(name: str, pipeline: Pipeline) -> str:
    lines = [f"[pipelines.{name}]", f"retrieve = {_list(map(str, pipeline.retrieve))}"]
    if pipeline.fuse is not None:
        lines.append(f"fuse = {json.dumps(str(pipeline.fuse), ensure_ascii=False)}")
    if pipeline.rerank:
        lines.append(f"rerank = {_list(map(str, pipeline.rerank))}")
    if pipeline.depth != Pipeline.depth:
        lines.append(f"depth = {pipeline.depth}")
    return "\n".join(lines) + "\n"


def _list(texts: object) -> str:
    return json.dumps(list(texts), ensure_ascii=False)  # type: ignore[call-overload]
