"""Loads prompts from files, `prompts/NAME/VERSION.txt`: built in or your own, chosen by a stage's `prompt=` parameter.

    # Comments at the top: where the prompt comes from.
    [system]
    You rank passages …
    [user]
    $query
    $passages

`$name` is replaced by a value; a plain `$` is written `$$`. Your own file takes precedence over a built-in one of the
same name, but a new name is better, because the spec then says which prompt it uses: `llm_listwise(prompt=mine)` reads
`prompts/llm_listwise/mine.txt` beside surefind.toml. Texts from outside come as `Data` and are fenced; the rule that
explains fences is added here, so that no file can forget it. A [system] part may be empty: prompts of papers have none.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import cast

from surefind.base.errors import ConfigError, SpecError, choices
from surefind.base.prompts.fence import RULE, Data
from surefind.base.prompts.values import Message, Role

Value = str | int | Data | Sequence[Data]

_ROLE = re.compile(r"^\[(system|user|assistant)\]\n", re.MULTILINE)
_VERSION = re.compile(r"[A-Za-z_][\w-]*")
_SLOT = re.compile(r"\$([a-z_]+)")


@dataclass(frozen=True)
class Prompt:
    name: str
    version: str
    parts: tuple[tuple[Role, str], ...]
    """(role, template), in order."""

    @property
    def fingerprint(self) -> str:
        """Changes with every word; part of the cache key of everything made from the answers."""
        return hashlib.blake2b(repr(self.parts).encode(), digest_size=6).hexdigest()

    @property
    def slots(self) -> frozenset[str]:
        """The names of the values that the prompt needs."""
        return frozenset(name for _, text in self.parts for name in Template(text).get_identifiers())

    def with_system(self, text: str) -> Prompt:
        """Returns the prompt with another system part; `text` is used literally."""
        parts = tuple((role, text.replace("$", "$$") if role == "system" else part) for role, part in self.parts)
        return replace(self, parts=parts)

    def swapped(self, first: str, second: str) -> Prompt:
        """Returns the prompt with two of its values in each other's place."""
        other = {first: second, second: first}
        parts = tuple(
            (role, _SLOT.sub(lambda match: f"${other.get(match[1], match[1])}", part)) for role, part in self.parts
        )
        return replace(self, parts=parts)

    def messages(self, **values: Value) -> list[Message]:
        """Fills in the values and returns the messages to send, with data fenced."""
        shown = {name: _shown(value) for name, value in values.items()}
        made = [(role, Template(text).substitute(shown).strip()) for role, text in self.parts]
        if any(_is_data(value) for value in values.values()):
            made = [(role, f"{text}\n\n{RULE}".strip() if role == "system" else text) for role, text in made]
        return [Message(role, text) for role, text in made]


def _shown(value: Value) -> str:
    if isinstance(value, str | int | Data):
        return str(value)
    return "\n\n".join(map(str, value))


def _is_data(value: Value) -> bool:
    return isinstance(value, Data) or not isinstance(value, str | int)


def load_prompt(name: str, version: str, slots: Sequence[str], folder: Path | None = None) -> Prompt:
    """Loads the prompt of a step. `slots` are the values that the step provides; the prompt must use all of them but
    those that end in a question mark."""
    own = (folder / name / f"{version}.txt") if folder else None
    built_in = files("surefind.base.prompts") / "texts" / name / f"{version}.txt"
    if not _VERSION.fullmatch(version) or not (built_in.is_file() or (own and own.is_file())):
        known = choices(version, _versions(name, folder))
        raise SpecError(f"{name} has no prompt {version!r}. {known} Put your own into prompts/{name}/NAME.txt.")
    if own is None or not own.is_file():
        return parse_prompt(name, version, built_in.read_text(encoding="utf-8"), tuple(slots))
    try:
        return parse_prompt(name, version, own.read_text(encoding="utf-8"), tuple(slots))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"The prompt {own} cannot be read ({error}). Save it as UTF-8 text.") from None


def _versions(name: str, folder: Path | None) -> list[str]:
    places = [files("surefind.base.prompts") / "texts" / name, *([folder / name] if folder else [])]
    return [entry.name.removesuffix(".txt") for place in places if place.is_dir() for entry in place.iterdir()]


@lru_cache(maxsize=64)
def parse_prompt(name: str, version: str, text: str, slots: tuple[str, ...]) -> Prompt:
    _, *parts = _ROLE.split(text.replace("\r\n", "\n"))
    prompt = Prompt(name, version, tuple(zip(cast(list[Role], parts[::2]), parts[1::2], strict=True)))
    roles = [role for role, _ in prompt.parts]
    if "system" not in roles or roles[-1] != "user":
        raise ConfigError(f"The prompt {name}/{version} must have a [system] part and end with a [user] part.")
    invalid = [role for role, part in prompt.parts if not Template(part).is_valid()]
    if invalid:
        raise ConfigError(f"The prompt {name}/{version} has a single $ in [{invalid[0]}]. Write $$ instead.")
    known = [slot.removesuffix("?") for slot in slots]
    needed = {slot for slot in slots if not slot.endswith("?")}
    if not needed <= prompt.slots <= set(known):
        wrong = sorted((needed - prompt.slots) | (prompt.slots - set(known)))
        listed = ", ".join(f"${slot}" for slot in known)
        raise ConfigError(
            f"The prompt {name}/{version} must use {listed} and nothing else; check ${', $'.join(wrong)}."
        )
    return prompt
