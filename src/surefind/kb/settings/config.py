"""Reads surefind.toml into Settings. Every error names the file, the line and the choices.

Reads a TOML text, and finds the line of a setting in it and the setting that a message is about.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from surefind.base import spec
from surefind.base.abilities import declared
from surefind.base.access import PathRule, checked_name
from surefind.base.disk.sealed import DATA_FOLDER as DATA_FOLDER
from surefind.base.disk.sealed import FILE_NAME as FILE_NAME
from surefind.base.disk.sealed import private_folder, write_file
from surefind.base.errors import ConfigError, SpecError, UsageError, choices
from surefind.base.protocols import Retriever
from surefind.base.text.languages import code_of
from surefind.base.types import Effort
from surefind.engine.files.opening import FileLimits
from surefind.engine.files.readers import Readers
from surefind.engine.files.scan import FileRules, FollowLinks
from surefind.engine.llm.address import LLMSettings
from surefind.engine.search.pipeline import DEPTH, SPEC_MARKS, Pipeline
from surefind.engine.store.backend import StoreSettings
from surefind.engine.store.catalogue import NAME
from surefind.engine.write.layout import Layout
from surefind.kb.drafts.values import DraftSettings
from surefind.kb.settings.template import AUTO, BASES, BEST, LANGUAGES, LINKED, RERANKED, WORDS, bases_of
from surefind.kb.settings.template import TEMPLATE as TEMPLATE


def read_toml(text: str, where: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except ValueError as error:  # also a number with thousands of digits
        raise ConfigError(f"{where} is not valid TOML: {error}.") from None


def line_of(text: str, table: str, key: str, nth: int = 0) -> int:
    """Returns the line number of `key` in the nth `[table]`, else of the table itself, else 1."""
    here, found, seen = "", 1, -1
    for number, line in enumerate(text.splitlines(), 1):
        header = re.match(r"\s*\[\[?([^\]]+)\]", line)
        if header:
            here = header.group(1).strip().replace('"', "")
            seen += here == table
            found = number if here == table and seen == nth else found
            continue
        name = line.partition("=")[0].strip().strip('"')
        if name and ".".join(filter(None, (here, name))) == table:  # an inline table
            return number
        if key and here == table and name == key and seen in (nth, -1):
            return number
    return found


def mentioned_key(content: dict[str, Any], message: str) -> str:
    """Finds the key of a table whose value the message mentions."""
    for key, value in content.items():
        texts = value if isinstance(value, list) else [value]
        if any(isinstance(text, str) and text.partition("(")[0].strip() in message for text in texts):
            return key
    return ""


_T = TypeVar("_T")

_WORDS: dict[type | tuple[type, ...], str] = {
    str: "a string", int: "a whole number", (int, float): "a number", list: "a list", dict: "a table",
    bool: "true or false",
}  # fmt: skip
"""The type of a setting in words, for messages."""
_TABLES: dict[str, dict[str, type | tuple[type, ...]]] = {
    "sync": {
        "exclude": list,
        "follow_links": str,
        "readers": list,
        "keep_generations": int,
        "gate": bool,
        "gate_margin": (int, float),
        **{f"max_{f.name}": (int, float) for f in fields(FileLimits)},
    },
    "index": {"chunk": str, "enrich": list},
    "search": {"pipeline": str, "k": int, "confidence": str, "min_confidence": (int, float), "filters": list},
    "exam": {"standing": str, "keep_queries": bool, "keep_days": int},
    "drafts": {"approvals": int, "git": str, "formats": list},
}
_LLM: dict[str, type | tuple[type, ...]] = {
    "model": str, "fallback": str, "key_env": str, "timeout": (int, float), "total_timeout": (int, float),
    "retries": int, "concurrency": int, "requests_per_minute": int, "budget": (int, float), "prices": dict,
    "check": bool,
}  # fmt: skip
_ACCESS: dict[str, type | tuple[type, ...]] = {"path": str, "groups": list}
_ACCESS_TABLE: dict[str, type | tuple[type, ...]] = {"default": list, "isolation": str}
_ISOLATION = ("none", "statistics")
_RULES = "access rules are written as [[access]], or as [[access.rules]] below [access], with a path and groups each."
_PIPELINE: dict[str, type | tuple[type, ...]] = {"retrieve": list, "fuse": str, "rerank": list, "depth": int}


@dataclass(frozen=True)
class Settings:
    layout: Layout
    pipelines: Mapping[str, Pipeline]
    """The pipelines of surefind.toml and the default one; sync builds the indexes of all of them."""
    pipeline: str
    base: str
    """The built-in pipeline that `careful` and `thorough` reread: `pair` or `hybrid`, or `words` or `languages de en`
    where documents are in other languages."""
    auto: bool = False
    """Whether nobody chose the default pipeline."""
    k: int = 10
    files: FileRules = field(default_factory=FileRules)
    readers: Readers = field(default_factory=Readers)
    limits: FileLimits = field(default_factory=FileLimits)
    bench: Mapping[str, Any] = field(default_factory=dict)
    llm: LLMSettings = field(default_factory=LLMSettings)
    keep: int = 3
    """How many generations to keep."""
    access: tuple[PathRule, ...] = ()
    """Access rules: which groups may read which paths."""
    keep_queries: bool = False
    """Whether `surefind search` keeps its queries, as questions for an exam."""
    keep_days: int = 90
    """How many days a query is kept."""
    gate: bool = False
    """Whether a new generation is published only if the standing exam does not get worse."""
    gate_margin: float = 0.01
    """The loss of nDCG@10 that the gate accepts."""
    standing: str = ""
    """The exam that is asked again after changes; empty: `bench.standing` chooses one."""
    isolated: bool = False
    """Whether scores are computed from the documents that the caller may read alone."""
    confidence: Effort | Literal["auto"] = "auto"
    """How a search finds out how sure it is; `effort` says what `auto` means."""
    min_confidence: float = 0.0
    """A search that is less sure of its first hit returns none."""
    serve: Mapping[str, Any] = field(default_factory=dict)
    """The table [serve]; `settings.serve` reads it."""
    drafts: DraftSettings = field(default_factory=DraftSettings)
    store: StoreSettings = field(default_factory=StoreSettings)
    filters: tuple[str, ...] = ()
    """The metadata to filter by on the pages; empty: those that help."""

    @property
    def known(self) -> dict[str, Pipeline]:
        """The pipelines that have a name: the built-in ones, and those of surefind.toml, which win."""
        return {**_built_in_pipelines(self.base), **self.pipelines}

    @property
    def retrievers(self) -> list[Retriever]:
        """The retrievers of every pipeline of surefind.toml and of the default one, whose indexes sync builds. If
        they are all else that `thorough` needs, its graph comes last."""
        own = [retriever for pipeline in self.pipelines.values() for retriever in pipeline.retrieve]
        specs = {str(retriever) for retriever in own}
        lacking = [retriever for retriever in self.known["thorough"].retrieve if str(retriever) not in specs]
        return [*own, *(lacking if all(retriever.signal == "graph" for retriever in lacking) else [])]

    def effort(self, person: bool = False) -> Effort:
        """Returns how a search finds out how sure it is. A person is worth the time that reading the first hits takes;
        programs ask for it."""
        return self.confidence if self.confidence != "auto" else "read" if person else "quick"

    @property
    def first(self) -> list[Retriever]:
        """The retrievers of the default pipeline that find documents as soon as these are read, by their words. A
        generation is shown when it has these; all retrievers, if the default pipeline has none."""
        return [r for r in self.named(self.pipeline).retrieve if declared(r).at_once] or self.retrievers

    def named(self, name: str) -> Pipeline:
        if name not in self.known:
            raise ConfigError(f"There is no pipeline called {name!r}. {choices(name, self.known)}")
        return self.known[name]

    def find(self, text: str) -> Pipeline:
        """Returns a pipeline by its name here, or from a spec: `dense`, `bm25 + dense >> rrf(k=60)`."""
        is_spec = any(mark in text for mark in SPEC_MARKS) or text in spec.names("retrieve")
        return Pipeline.parse(text) if is_spec and text not in self.known else self.named(text)


def default_settings() -> Settings:
    return parse_settings(TEMPLATE, "the built-in settings")


def load_settings(path: Path) -> Settings:
    """Reads the settings from a file; returns the defaults if the file does not exist."""
    base = base_of(path.parent / DATA_FOLDER)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return parse_settings(TEMPLATE, "the built-in settings", base)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read ({error}).") from None
    return parse_settings(text, str(path), base)


_BASE_FILE = "default-pipeline"


def base_of(data: Path) -> str:
    """Returns the default of a knowledge base whose settings choose none. One that is older than the choice between
    them keeps `hybrid`."""
    with suppress(OSError, UnicodeDecodeError):
        kept = (data / _BASE_FILE).read_text(encoding="utf-8").strip()
        name, *spoken = kept.split() or [""]
        if (kept in (*BASES, WORDS)) or (
            name == LANGUAGES and spoken and all(code_of(code) == code for code in spoken)
        ):
            return kept
    return "hybrid" if (data / NAME).exists() else "pair"


def keep_base(data: Path, base: str) -> None:
    """Keeps the default of a knowledge base whose settings choose none."""
    write_file(private_folder(data) / _BASE_FILE, f"{base}\n")


def parse_settings(text: str, where: str, base: str = "pair") -> Settings:
    """Reads settings; `base` is the default pipeline if they choose none."""
    try:
        return _SettingsReader(text, where, read_toml(text, where), base).settings()
    except RecursionError:
        raise ConfigError(f"{where} is nested too deeply. Check its brackets and dotted names.") from None


@cache
def _built_in() -> Mapping[str, Any]:
    """The tables of the template, which are the defaults."""
    return tomllib.loads(TEMPLATE)


@cache
def _built_in_pipelines(base: str) -> Mapping[str, Pipeline]:
    bases = bases_of(base)
    own = bases[base.split()[0]]
    read = {"careful": own, "thorough": LINKED if base == BEST else own}
    reread = {name: f"{read[name]} >> {stages}" for name, stages in RERANKED.items()}
    return {name: Pipeline.parse(text, name) for name, text in {**bases, **reread}.items()}


class _SettingsReader:
    def __init__(self, text: str, where: str, data: dict[str, Any], base: str) -> None:
        self.base = base
        self.text = text
        self.where = where
        self.data = data

    def settings(self) -> Settings:
        known = {*_TABLES, "access", "pipelines", "bench", "llm", "serve", "store"}
        for table, content in self.data.items():
            if table not in known:
                raise self.error(table, "", f"there is no table [{table}]. {choices(table, known)}")
            if table == "access":
                continue
            if not isinstance(content, dict):
                raise self.error("", table, f"{table} must be a table: write [{table}] above its lines.")
            if table in _TABLES:
                self.check(table, content, _TABLES[table])
        defaults = _built_in()
        merged = {table: {**defaults[table], **self.data.get(table, {})} for table in _TABLES}
        pipelines = self.pipelines()
        given = merged["search"]["pipeline"]
        auto = given == AUTO and AUTO not in pipelines
        name = self.base.split()[0] if auto else given
        base = name if name in BASES else self.base
        named = {**_built_in_pipelines(base), **pipelines}
        if name not in named:
            raise self.error("search", "pipeline", f"there is no pipeline {name!r}. {choices(name, named)}")
        pipelines.setdefault(name, named[name])
        return Settings(
            self.layout(merged["index"]),
            pipelines,
            name,
            base,
            auto,
            self.count("search", merged["search"], "k"),
            self.files(merged["sync"]),
            self.readers(merged["sync"]["readers"]),
            self.limits(merged["sync"]),
            self.data.get("bench", {}),
            self.llm(),
            self.count("sync", merged["sync"], "keep_generations"),
            self.access(),
            merged["exam"]["keep_queries"],
            self.count("exam", merged["exam"], "keep_days"),
            merged["sync"]["gate"],
            self.share("sync", merged["sync"], "gate_margin"),
            merged["exam"]["standing"],
            self.isolated(),
            self.one_of("search", merged["search"], "confidence", ("auto", *get_args(Effort))),
            self.share("search", merged["search"], "min_confidence"),
            self.data.get("serve", {}),
            self.drafts(merged["drafts"]),
            self.store(),
            tuple(merged["search"]["filters"]),
        )

    def drafts(self, drafts: dict[str, Any]) -> DraftSettings:
        return self.made(
            "drafts", "approvals", lambda: DraftSettings(**{**drafts, "formats": tuple(drafts["formats"])})
        )

    def files(self, sync: dict[str, Any]) -> FileRules:
        follow = self.one_of("sync", sync, "follow_links", get_args(FollowLinks))
        return self.made("sync", "exclude", lambda: FileRules(tuple(sync["exclude"]), follow))

    def made(self, table: str, key: str, make: Callable[[], _T], number: int = 0) -> _T:
        """Makes settings. Errors name the key."""
        try:
            return make()
        except UsageError as error:
            raise self.error(table, key, str(error), number) from None

    def one_of(self, table: str, values: dict[str, Any], key: str, known: tuple[str, ...]) -> Any:
        if values[key] not in known:
            raise self.error(table, key, f"{key} must be one of {', '.join(known)}, not {values[key]!r}.")
        return values[key]

    def count(self, table: str, values: dict[str, Any], key: str) -> int:
        if values[key] < 1:
            raise self.error(table, key, f"{key} must be at least 1, not {values[key]}.")
        return int(values[key])

    def share(self, table: str, values: dict[str, Any], key: str) -> float:
        share = float(values[key])
        if not 0 <= share <= 1:
            raise self.error(table, key, f"{key} must be from 0 to 1, not {share:g}.")
        return share

    def access(self) -> tuple[PathRule, ...]:
        """Reads the access rules. A wrong rule is an error: skipping it would expose what it protects."""
        given = self.data.get("access", [])
        if isinstance(given, dict):
            if given.keys() & _ACCESS:
                raise self.error("access", "", _RULES)
            self.check("access", {key: value for key, value in given.items() if key != "rules"}, _ACCESS_TABLE)
            default = given.get("default")
            groups = self.groups(default or [], "access", "default")
            rules = self.rules(given.get("rules", []), "access.rules")
            return rules if default is None else (*rules, PathRule("**", groups, default=True))
        return self.rules(given, "access")

    def isolated(self) -> bool:
        table = self.data.get("access", {})
        given = table.get("isolation", "none") if isinstance(table, dict) else "none"
        return bool(self.one_of("access", {"isolation": given}, "isolation", _ISOLATION) != "none")

    def rules(self, given: Any, table: str) -> tuple[PathRule, ...]:
        if not isinstance(given, list):
            raise self.error(table, "", _RULES)
        rules = []
        for number, content in enumerate(given):
            if not isinstance(content, dict):
                raise self.error("", table, _RULES)
            self.check(table, content, _ACCESS, number)
            if not content.get("path", "").strip("/ ") or "groups" not in content:
                raise self.error(table, "", 'a rule needs a path and groups: path = "hr/**", groups = ["hr"].', number)
            rules.append(PathRule(content["path"], self.groups(content["groups"], table, "groups", number)))
        return tuple(rules)

    def groups(self, names: list[str], table: str, key: str, number: int = 0) -> tuple[str, ...]:
        return self.made(table, key, lambda: tuple(map(checked_name, names)), number)

    def readers(self, specs: list[str]) -> Readers:
        for text in specs:
            try:
                spec.make("read", text)
            except SpecError as error:
                raise self.error("sync", "readers", str(error)) from None
        return Readers(tuple(specs))

    def limits(self, sync: dict[str, Any]) -> FileLimits:
        given = {f.name: sync[f"max_{f.name}"] for f in fields(FileLimits) if f"max_{f.name}" in sync}
        for name, value in given.items():
            if value <= 0:
                raise self.error("sync", f"max_{name}", f"max_{name} must be above 0, not {value}.")
        return FileLimits(**given)

    def llm(self) -> LLMSettings:
        given = self.data.get("llm", {})
        self.check("llm", given, _LLM)
        prices = given.get("prices", {})
        for model, pair in prices.items():
            numbers = (
                isinstance(pair, list) and len(pair) == 2 and all(type(x) in (int, float) and x >= 0 for x in pair)
            )
            if not numbers:
                wanted = "two numbers, dollars per million input tokens and output tokens"
                raise self.error("llm.prices", model, f"the price of {model} must be {wanted}, not {pair!r}.")
        try:
            return LLMSettings(**{**given, "prices": {model: tuple(pair) for model, pair in prices.items()}})
        except UsageError as error:
            key = str(error).partition(" ")[0]
            raise self.error("llm", key, str(error)) from None

    def layout(self, index: dict[str, Any]) -> Layout:
        try:
            return Layout.parse(index["chunk"], index["enrich"])
        except SpecError as error:
            key = "chunk" if index["chunk"].partition("(")[0] in str(error) else "enrich"
            raise self.error("index", key, str(error)) from None

    def store(self) -> StoreSettings:
        given = self.data.get("store", {})
        self.check("store", given, {f.name: str for f in fields(StoreSettings)})
        try:
            return StoreSettings(**given)
        except UsageError as error:
            raise self.error("store", str(error).partition(" ")[0], str(error)) from None

    def pipelines(self) -> dict[str, Pipeline]:
        given = self.data.get("pipelines") or _built_in()["pipelines"]
        made = {}
        for name, content in given.items():
            table = f"pipelines.{name}"
            if not isinstance(content, dict):
                raise self.error("pipelines", name, f"{name} must be a table: write [{table}] above its lines.")
            self.check(table, content, _PIPELINE)
            try:
                made[name] = Pipeline.of(
                    content.get("retrieve", []), content.get("fuse"), content.get("rerank", ()),
                    content.get("depth", DEPTH), name,
                )  # fmt: skip
            except SpecError as error:
                raise self.error(table, mentioned_key(content, str(error)), str(error)) from None
        return made

    def check(
        self, table: str, content: dict[str, Any], keys: Mapping[str, type | tuple[type, ...]], number: int = 0
    ) -> None:
        """Checks the names and types of a table's settings. `number` counts tables with the same name, from 0."""
        for key, value in content.items():
            if key not in keys:
                raise self.error(table, key, f"[{table}] has no setting {key!r}. {choices(key, keys)}", number)
            if not isinstance(value, keys[key]) or isinstance(value, bool) != (keys[key] is bool):
                raise self.error(table, key, f"{key} must be {_WORDS[keys[key]]}, not {value!r}.", number)
            if isinstance(value, list) and not all(isinstance(item, str) for item in value):
                raise self.error(table, key, f"{key} must be a list of strings, not {value!r}.", number)

    def error(self, table: str, key: str, message: str, number: int = 0) -> ConfigError:
        return ConfigError(f"{self.where}, line {line_of(self.text, table, key, number)}: {message}")
