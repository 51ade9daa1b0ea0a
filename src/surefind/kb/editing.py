"""Edits surefind.toml as a whole text, for people who see it in a page.

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
import re
from collections import defaultdict
from dataclasses import dataclass, fields
from pathlib import Path

from surefind.base.errors import ConfigError, UsageError
from surefind.base.redact import redacted
from surefind.kb import KnowledgeBase
from surefind.kb.adoption import SettingsChange, build, prepare_undo, write
from surefind.kb.settings.config import FILE_NAME, TEMPLATE, Settings, parse_settings
from surefind.kb.settings.file import read_settings
from surefind.kb.settings.serve import serve_settings

MARK = "[redacted]"
EDIT = "an edit of the settings"
"""What the change is called that an edit makes."""
_SEARCHED = ("pipelines", "pipeline", "layout")
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
    settings = parse_settings(after, FILE_NAME)
    serve_settings(settings.serve)
    return SettingsChange(EDIT, before, after)


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
