"""Makes a configuration the default in surefind.toml, and undoes that.

    change = prepare(kb.folder, "Convex α=0.3", pipeline)
    build(kb, change)
    write(kb.folder, change)

Indexes are built before the file is written, so a failure leaves the settings as they were. The text before and after
the last change is kept in .surefind, and `prepare_undo` goes back by this one change.

Edits surefind.toml as a whole text, for people who see it in a page.

    shown = shown_settings(folder)
    save_settings(folder, edited_text, shown.mark)

The text is validated before anything is written, and an error names the line. The text before the change is kept, so
`surefind use --undo` and the page can restore it. If the file changed since it was shown, nothing is written.

A page must not show secrets. Valid settings have none: keys come from the environment. But a comment, or a file that
is not valid yet, may have one, so secrets are shown as a mark. Saving puts the secret back into a line that was not
changed otherwise.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import tomllib
from collections import defaultdict
from collections.abc import Collection
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from surefind.base.disk.sealed import private_folder, read_sealed, sealed
from surefind.base.errors import ConfigError, NothingIndexedError, UsageError
from surefind.base.prompts.values import Calls
from surefind.base.protocols import OnProgress, Retriever
from surefind.base.redact import redacted
from surefind.engine.search.pipeline import Pipeline
from surefind.engine.write.layout import Layout
from surefind.kb import KnowledgeBase
from surefind.kb.settings.config import DATA_FOLDER, FILE_NAME, TEMPLATE, Settings, base_of, parse_settings
from surefind.kb.settings.file import Place, changed, check_writable, read_settings, value_of, write_settings
from surefind.kb.settings.serve import serve_settings
from surefind.kb.settings.template import LEAST

_ADOPTED_FILE = "adopted.json"


@dataclass(frozen=True)
class SettingsChange:
    """A change of surefind.toml that is not written yet."""

    name: str
    """What is adopted, or undone."""
    before: str | None
    """The text of the file; None if there is no file."""
    after: str | None
    """The text that will be written; None if the file will be deleted."""
    undoes: bool = False
    base: str = LEAST
    """The default pipeline where the settings choose none."""

    @property
    def old(self) -> Settings:
        return _settings(self.before, self.base)

    @property
    def new(self) -> Settings:
        return _settings(self.after, self.base)

    @property
    def empty(self) -> bool:
        """Whether the settings already are as wanted."""
        return self.before == self.after or (self.before is None and self.after == TEMPLATE)


def _settings(text: str | None, base: str) -> Settings:
    return parse_settings(TEMPLATE if text is None else text, FILE_NAME, base)


# ---------------------------------------------------------------- what to write


def prepare(folder: Path, name: str, pipeline: Pipeline, layout: Layout | None = None) -> SettingsChange:
    """Prepares the change that makes a pipeline the default, and a layout if one is given. If surefind.toml already has
    this pipeline, it is used under its name there. Otherwise the file gets a table with this name."""
    file = folder / FILE_NAME
    check_writable(file)
    before = _text(file)
    text = TEMPLATE if before is None else before
    base = base_of(folder / DATA_FOLDER)
    settings = parse_settings(text, str(file), base)
    chosen = _name_of(pipeline, name, settings)
    changes: dict[Place, Any] = {}
    if chosen not in settings.known:
        changes |= {("pipelines", key): table for key, table in _builtin(text).items()}
        changes["pipelines", chosen] = _table(pipeline)
    if settings.auto or chosen != settings.pipeline:
        changes["search", "pipeline"] = chosen
    if layout is not None and layout.chunk != settings.layout.chunk:
        changes["index", "chunk"] = str(layout.chunk)
    if layout is not None and layout.enrich != settings.layout.enrich:
        changes["index", "enrich"] = [str(enricher) for enricher in layout.enrich]
    return SettingsChange(name, before, changed(text, changes, str(file)) if changes else text, base=base)


def check_free(folder: Path, name: str) -> None:
    """Raises an error if surefind.toml already has a pipeline of this name. Called before hours of training, so that
    the trained model can be adopted under its own name."""
    if value_of(folder / FILE_NAME, ("pipelines", name)) is not None:
        raise UsageError(
            f"{FILE_NAME} already has a pipeline called {name!r}. Remove it from {FILE_NAME} (surefind use --undo, if "
            "it was adopted last), or train under another --name."
        )


def _name_of(pipeline: Pipeline, name: str, settings: Settings) -> str:
    """The name of the pipeline in the settings: that of an equal one, or else a name that is free."""
    equal = [known for known, named in settings.known.items() if named == pipeline]
    for preferred in (name, settings.pipeline, *equal):
        if preferred in equal:
            return preferred
    return _free(name, settings.known)


def _free(name: str, taken: Collection[str]) -> str:
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name} ({number})"
    return free


def _builtin(text: str) -> dict[str, Any]:
    """The built-in pipelines, if the file names none. They apply only to such a file, so they must be written into it
    together with the first pipeline, or their names would stop working."""
    named = tomllib.loads(text).get("pipelines")
    return {} if named else dict(tomllib.loads(TEMPLATE)["pipelines"])


def _table(pipeline: Pipeline) -> dict[str, Any]:
    table: dict[str, Any] = {"retrieve": [str(stage) for stage in pipeline.retrieve]}
    if pipeline.fuse is not None:
        table["fuse"] = str(pipeline.fuse)
    if pipeline.rerank:
        table["rerank"] = [str(stage) for stage in pipeline.rerank]
    if pipeline.depth != Pipeline.depth:
        table["depth"] = pipeline.depth
    return table


# ---------------------------------------------------------------- what to build


def missing(kb: KnowledgeBase, change: SettingsChange) -> list[str]:
    """Names the retrievers whose indexes the new settings need and that do not exist yet."""
    if not _has_documents(kb):
        return []
    layout = change.new.layout
    wanted = _retrievers(kb, change)
    lacking = kb.missing(wanted, layout) if kb.has_cut(layout) else wanted
    return list(dict.fromkeys(retriever.name for retriever in lacking))


def build_calls(kb: KnowledgeBase, change: SettingsChange) -> list[Calls]:
    """Estimates the LLM calls of `build`, as an upper bound."""
    if not _has_documents(kb):
        return []
    return kb.sync_calls(layout=change.new.layout, retrievers=_retrievers(kb, change))


def build(kb: KnowledgeBase, change: SettingsChange, report: OnProgress | None = None) -> list[str]:
    """Builds what the new settings need, and checks that the pipeline can search these documents. Returns the names of
    the indexes that were built. Without documents there is nothing to build: the first sync does it."""
    if not _has_documents(kb):
        return []
    new = change.new
    built = kb.build_for(_retrievers(kb, change), new.layout, report)
    new.named(new.pipeline).check(kb.reader(new.layout).view, kb.services)
    return list(dict.fromkeys(built))


def _retrievers(kb: KnowledgeBase, change: SettingsChange) -> list[Retriever]:
    """The retrievers of the new default pipeline, or, for another layout, those of all pipelines: each of them searches
    in that layout from now on."""
    new = change.new
    same = str(new.layout) == str(kb.settings.layout)
    pipelines = [new.named(new.pipeline)] if same else list(new.pipelines.values())
    return [retriever for pipeline in pipelines for retriever in pipeline.retrieve]


def _has_documents(kb: KnowledgeBase) -> bool:
    """Whether there is anything to index. A folder without settings and data is no knowledge base: an error."""
    try:
        return kb.catalogue.snapshot_id() > 0
    except NothingIndexedError:
        if not (kb.folder / FILE_NAME).exists():
            raise
        return False


# ---------------------------------------------------------------- writing and undoing


def write(folder: Path, change: SettingsChange) -> None:
    """Writes the file, and keeps what `prepare_undo` needs. Raises an error if the file has been edited since the
    change was prepared."""
    file = folder / FILE_NAME
    if _text(file) != change.before:
        raise ConfigError(f"{file} was edited in the meantime, so it was not changed. Run the command again.")
    record = folder / DATA_FOLDER / _ADOPTED_FILE
    if not change.undoes:
        private_folder(record.parent)
        write_settings(record, json.dumps(sealed({"change": asdict(change)}), ensure_ascii=False, indent=1))
    if change.after is None:
        file.unlink()
    else:
        write_settings(file, change.after)
    if change.undoes:
        record.unlink(missing_ok=True)


def prepare_undo(folder: Path) -> SettingsChange:
    """Prepares to restore surefind.toml as it was before the last change. Raises an error if it was edited since."""
    file = folder / FILE_NAME
    now = _text(file)
    last = last_change(folder)
    if last is None or now == last.before != last.after:  # kept before the file was written, which was interrupted
        raise UsageError(f"No configuration was adopted in {folder} since the last undo, so there is nothing to undo.")
    if now != last.after:
        raise UsageError(
            f"{file} was edited after {last.name!r} was adopted, so its earlier text is not restored. {_by_hand(last)}"
        )
    check_writable(file)
    return SettingsChange(last.name, now, last.before, undoes=True, base=base_of(folder / DATA_FOLDER))


def _by_hand(last: SettingsChange) -> str:
    """How to go back by hand, with the edits kept."""
    old = last.old
    text = f"To use the earlier pipeline and keep your edits, run: surefind use {shlex.quote(old.pipeline)}."
    if str(old.layout) != str(last.new.layout):
        enrich = json.dumps([str(enricher) for enricher in old.layout.enrich], ensure_ascii=False)
        chunk = json.dumps(str(old.layout.chunk), ensure_ascii=False)
        text += f" To cut documents as before, write below [index]: chunk = {chunk}, enrich = {enrich}."
    return text


def _text(file: Path) -> str | None:
    return read_settings(file) if file.exists() else None


def last_change(folder: Path) -> SettingsChange | None:
    """Returns the change that can be undone; None if there is none. Raises `ConfigError` if its file is damaged."""
    path = folder / DATA_FOLDER / _ADOPTED_FILE
    try:
        return SettingsChange(**read_sealed(path)["change"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"{path} cannot be read ({error}). Delete it; the last change can then not be undone."
        ) from None


MARK = "[redacted]"
EDIT = "an edit of the settings"
"""What the change is called that an edit makes."""
_SEARCHED = ("pipelines", "pipeline", "base", "auto", "layout")
"""The settings that adopting a configuration changes."""
_SECRET = re.compile(
    r"""((?:api[_-]?key|access[_-]?key|\btoken\b|auth[_-]?token|access[_-]?token|secret|password|passwd)"""
    r"""(?!\w{0,40}_env\b)\w{0,40}["']?\s{0,20}[=:]\s{0,20})("[^"\n]*"?|'[^'\n]*'?|[^\s"',)\]]+)""",
    re.IGNORECASE,
)
"""A name that stands for a secret, and its value. Repeats are bounded, so that no text takes long. Names that end in
`_env` have the name of a variable."""
_KEY = re.compile(r"\b(?:sk|sf|ghp|gho|xox[abp]|AKIA|AIza)[-_]?[A-Za-z0-9_-]{16,}")
_MAX_SETTINGS_CHARS = 200_000


class StaleError(ConfigError):
    """The settings were changed since somebody opened them."""


@dataclass(frozen=True)
class SettingsView:
    """The settings as a page shows them."""

    text: str
    mark: str
    """Identifies the file's content. `save_settings` needs it."""
    exists: bool


@dataclass(frozen=True)
class Undoable:
    """The last change of the settings."""

    name: str
    mark: str
    """Identifies the file's content. `undo_change` needs it."""


def shown_settings(folder: Path) -> SettingsView:
    """Returns the settings without secrets. If there is no file, these are the settings of `surefind init`."""
    text = _read(folder)
    return SettingsView(hidden(TEMPLATE if text is None else text), _mark(text), text is not None)


def hidden(text: str) -> str:
    """Replaces what looks like a secret by a mark."""
    return _KEY.sub(MARK, _SECRET.sub(_marked, redacted(text)))


def _marked(match: re.Match[str]) -> str:
    quote = match[2][0] if match[2][0] in "\"'" else ""
    return f"{match[1]}{quote}{MARK}{quote}"


def checked_settings(folder: Path, text: str, mark: str) -> SettingsChange:
    """Returns the change that makes `text` the settings. Raises `ConfigError` if it is not valid, and `StaleError` if
    the file changed since it was shown with this mark."""
    before = _read(folder)
    if _mark(before) != mark:
        raise StaleError(f"{FILE_NAME} was changed since you opened it, so it was not written. Open it again.")
    if len(text) > _MAX_SETTINGS_CHARS:
        raise ConfigError(f"{FILE_NAME} may have {_MAX_SETTINGS_CHARS:,} characters at most.")
    after = _with_secrets(text.replace("\r\n", "\n"), TEMPLATE if before is None else before)
    change = SettingsChange(EDIT, before, after, base=base_of(folder / DATA_FOLDER))
    serve_settings(change.new.serve)
    return change


def undoable(folder: Path, edits: bool) -> Undoable | None:
    """Returns the last change; None if it cannot be undone. Without `edits`, only an adoption can be."""
    try:
        change = prepare_undo(folder)
    except (UsageError, ConfigError):
        return None
    return Undoable(change.name, _mark(change.before)) if edits or is_adoption(change) else None


def undo_change(kb: KnowledgeBase, edits: bool, mark: str) -> SettingsChange:
    """Restores surefind.toml as it was before the last change, after the indexes that it needs are built. Without
    `edits`, only an adoption is undone: an edit may have restricted who reads what. Raises `UsageError` if there is
    nothing to undo, and `StaleError` if the file changed since it was shown with this mark."""
    change = prepare_undo(kb.folder)
    if not edits and not is_adoption(change):
        raise UsageError("The last change was an edit of the settings. Only an admin may undo it.")
    if _mark(change.before) != mark:
        raise StaleError(f"{FILE_NAME} was changed since you opened the page, so nothing was undone. Open it again.")
    build(kb, change)
    write(kb.folder, change)
    return change


def is_adoption(change: SettingsChange) -> bool:
    """Returns whether a change, or what it undoes, is the adoption of a configuration and nothing else."""
    old, new = change.old, change.new
    others = [field.name for field in fields(Settings) if field.name not in _SEARCHED]
    return change.name != EDIT and all(getattr(old, name) == getattr(new, name) for name in others)


def save_settings(folder: Path, text: str, mark: str) -> SettingsChange:
    """Validates the text and writes it. Returns the change."""
    change = checked_settings(folder, text, mark)
    if not change.empty:
        write(folder, change)
    return change


def _with_secrets(text: str, before: str) -> str:
    """Puts the secrets back into the lines that show a mark. Equal lines get their secrets in order."""
    known: dict[str, list[str]] = defaultdict(list)
    for line in before.splitlines():
        if hidden(line) != line:
            known[hidden(line)].append(line)
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if known.get(line):
            lines[number] = known[line].pop(0)
        elif MARK in line:
            raise ConfigError(
                f"{FILE_NAME}, line {number + 1}: the line has {MARK} in place of a secret and was changed. Write the "
                "value out, or leave the line as it was."
            )
    return "\n".join(lines)


def _read(folder: Path) -> str | None:
    path = folder / FILE_NAME
    return read_settings(path) if path.exists() else None


def _mark(text: str | None) -> str:
    return "new" if text is None else hashlib.sha256(text.encode()).hexdigest()[:32]
