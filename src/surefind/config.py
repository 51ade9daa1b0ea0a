"""surefind.toml -> Settings. Every complaint names the file, the line and the choices."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from surefind import spec
from surefind.access import PathRule
from surefind.errors import ConfigError, SpecError, UsageError, choices
from surefind.ingest._limits import Limits
from surefind.ingest._readers import Readers
from surefind.llm.settings import LLMSettings
from surefind.search.pipeline import DEPTH, Pipeline
from surefind.write.layout import Layout

FILE_NAME = "surefind.toml"
DATA_FOLDER = ".surefind"

TEMPLATE = """\
# Surefind: how this knowledge base is read, cut, indexed and searched.
# A stage is written like a call, name(parameter=value), here and on the command line alike.
# `surefind doctor` lists every stage there is.

[sync]
# Files to pass over, as patterns on the path below the folder: "drafts/*", "*.tmp.md".
exclude = []
# Files above this size are skipped and reported; `surefind help ingest` has the other limits.
max_file_mb = 50
# Readers with other settings than their own, such as the fields of JSON records: 'json(title=subject, text=[body])'.
readers = []
# How many generations are kept: `surefind rollback` can go back to each of them. Each has indexes on disk.
keep_generations = 3

[index]
# How documents are cut into passages: hierarchical = small ones are searched and larger ones around them returned;
# or markdown, semantic, sentence_window, fixed, whole. `surefind bench --preset chunking` compares them.
chunk = "hierarchical(parent=1500, child=250, overlap=0)"
# What is indexed beside a passage's own text: headings = the titles above it, neighbors = lead sentences.
enrich = ["headings"]

[search]
# The pipeline that answers when none is named, and how many hits it gives.
pipeline = "hybrid"
k = 10

# A pipeline: retrievers, a fuser if there are several, optional rerankers.
# `surefind search --pipeline NAME` uses one; sync builds the indexes that these need.
[pipelines.hybrid]
retrieve = ["bm25", "dense"]
fuse = "convex(alpha=0.5, missing=score)"      # half meaning, half words, both for every candidate

[pipelines.words]
retrieve = ["bm25(k1=1.5, b=0.75)"]

[pipelines.meaning]
retrieve = ["dense(model=minilm)"]

# The bundled reranker reads the first 20 again, in under a second on two cores: see `surefind help rerank`.
# [pipelines.careful]
# retrieve = ["bm25", "dense"]
# fuse = "convex(alpha=0.5, missing=score)"
# rerank = ["cross_encoder"]

# Who may read what, by path, for files of every format; a front matter's own `acl` holds beside it.
# See `surefind help access`.
# [[access]]
# path = "hr/**"
# groups = ["hr"]

# The language model of stages that ask one, and what it may cost. Keys are read from the environment.
# See `surefind help llm`.
# [llm]
# model = "ollama:llama3.2"        # or openai:…, anthropic:…, gemini:…, bedrock:…, gguf:PATH, http://host:8080/v1#NAME
# fallback = ""                    # asked where the model fails
# budget = 5.00                    # dollars a run may spend
# timeout = 60                     # seconds for one try; total_timeout = 180 for all of them
# concurrency = 8

# What `surefind bench` compares. Without this table: the fifteen configurations of the context-layer study and the
# pipelines above. A list inside a spec stands for alternatives.
# [bench]
# layouts = ["markdown(tokens=[150, 250]) + headings", "hierarchical(parent=1000, child=200, overlap=0)"]
# pipelines = ["hybrid", "words", "bm25 + dense >> convex(alpha=[0.1, 0.3, 0.5])"]
# measures = ["nDCG@10", "R@5", "T1EM"]
"""

_TABLES: dict[str, dict[str, type | tuple[type, ...]]] = {
    "sync": {
        "exclude": list,
        "readers": list,
        "keep_generations": int,
        **{f"max_{f.name}": (int, float) for f in fields(Limits)},
    },
    "index": {"chunk": str, "enrich": list},
    "search": {"pipeline": str, "k": int},
}
_LLM: dict[str, type | tuple[type, ...]] = {
    "model": str, "fallback": str, "key_env": str, "timeout": (int, float), "total_timeout": (int, float),
    "retries": int, "concurrency": int, "requests_per_minute": int, "budget": (int, float), "prices": dict,
}  # fmt: skip
_ACCESS: dict[str, type | tuple[type, ...]] = {"path": str, "groups": list}
_PIPELINE: dict[str, type | tuple[type, ...]] = {"retrieve": list, "fuse": str, "rerank": list, "depth": int}


@dataclass(frozen=True)
class Settings:
    layout: Layout
    pipelines: Mapping[str, Pipeline]
    pipeline: str
    k: int = 10
    exclude: tuple[str, ...] = ()
    readers: Readers = field(default_factory=Readers)
    limits: Limits = field(default_factory=Limits)
    bench: Mapping[str, Any] = field(default_factory=dict)
    llm: LLMSettings = field(default_factory=LLMSettings)
    keep: int = 3
    """Generations."""
    access: tuple[PathRule, ...] = ()
    """Who may read what, by path."""

    def named(self, name: str) -> Pipeline:
        if name not in self.pipelines:
            raise ConfigError(f"There is no pipeline called {name!r}; {choices(name, self.pipelines)}")
        return self.pipelines[name]


def default_settings() -> Settings:
    return parse_settings(TEMPLATE, "the built-in settings")


def load_settings(path: Path) -> Settings:
    """The settings of a file, or the defaults where there is none."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return default_settings()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read ({error}).") from None
    return parse_settings(text, str(path))


def parse_settings(text: str, where: str) -> Settings:
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{where} is not valid TOML: {error}.") from None
    reader = _SettingsReader(text, where, data)
    return reader.settings()


class _SettingsReader:
    def __init__(self, text: str, where: str, data: dict[str, Any]) -> None:
        self.text = text
        self.where = where
        self.data = data

    def settings(self) -> Settings:
        known = {*_TABLES, "access", "pipelines", "bench", "llm"}
        for table, content in self.data.items():
            if table not in known:
                raise self.error(table, "", f"there is no table [{table}]; {choices(table, known)}")
            if table == "access":
                continue
            if not isinstance(content, dict):
                raise self.error("", table, f"{table} must be a table: write [{table}] above its lines.")
            if table in _TABLES:
                self.check(table, content, _TABLES[table])
        defaults = {table: tomllib.loads(TEMPLATE)[table] for table in _TABLES}
        merged = {table: {**defaults[table], **self.data.get(table, {})} for table in _TABLES}
        pipelines = self.pipelines()
        name = merged["search"]["pipeline"]
        if name not in pipelines:
            raise self.error("search", "pipeline", f"there is no pipeline {name!r}; {choices(name, pipelines)}")
        if merged["search"]["k"] < 1:
            raise self.error("search", "k", f"k must be at least 1, not {merged['search']['k']}.")
        return Settings(
            self.layout(merged["index"]),
            pipelines,
            name,
            merged["search"]["k"],
            tuple(map(str, merged["sync"]["exclude"])),
            self.readers(merged["sync"]["readers"]),
            self.limits(merged["sync"]),
            self.data.get("bench", {}),
            self.llm(),
            self.keep(merged["sync"]),
            self.access(),
        )

    def keep(self, sync: dict[str, Any]) -> int:
        kept: int = sync["keep_generations"]
        if kept < 1:
            raise self.error("sync", "keep_generations", f"keep_generations must be at least 1, not {kept}.")
        return kept

    def access(self) -> tuple[PathRule, ...]:
        """A rule that cannot be read is an error, not a rule less: what it was to protect would be open."""
        given = self.data.get("access", [])
        if not isinstance(given, list):
            raise self.error("access", "", "access rules are written as [[access]], with a path and groups each.")
        rules = []
        for number, content in enumerate(given):
            if not isinstance(content, dict):
                raise self.error("", "access", "access rules are written as [[access]], with a path and groups each.")
            self.check("access", content, _ACCESS, number)
            path, groups = content.get("path", ""), content.get("groups", [])
            if not path.strip("/ ") or not all(group.strip() for group in groups) or "groups" not in content:
                needs = 'a rule needs a path and groups: path = "hr/**", groups = ["hr"].'
                raise self.error("access", "", needs, number)
            rules.append(PathRule(path, tuple(groups)))
        return tuple(rules)

    def readers(self, specs: list[str]) -> Readers:
        for text in specs:
            try:
                spec.make("read", text)
            except SpecError as error:
                raise self.error("sync", "readers", str(error)) from None
        return Readers(tuple(specs))

    def limits(self, sync: dict[str, Any]) -> Limits:
        given = {f.name: sync[f"max_{f.name}"] for f in fields(Limits) if f"max_{f.name}" in sync}
        for name, value in given.items():
            if value <= 0:
                raise self.error("sync", f"max_{name}", f"max_{name} must be above 0, not {value}.")
        return Limits(**given)

    def llm(self) -> LLMSettings:
        given = self.data.get("llm", {})
        self.check("llm", given, _LLM)
        prices = given.get("prices", {})
        for model, pair in prices.items():
            numbers = (
                isinstance(pair, list) and len(pair) == 2 and all(type(x) in (int, float) and x >= 0 for x in pair)
            )
            if not numbers:
                wanted = "two numbers, dollars for a million tokens in and out"
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

    def pipelines(self) -> dict[str, Pipeline]:
        given = self.data.get("pipelines") or tomllib.loads(TEMPLATE)["pipelines"]
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
                raise self.error(table, _guilty(content, str(error)), str(error)) from None
        return made

    def check(
        self, table: str, content: dict[str, Any], keys: Mapping[str, type | tuple[type, ...]], number: int = 0
    ) -> None:
        """`number` is that of the table, where there may be several of one name."""
        for key, value in content.items():
            if key not in keys:
                raise self.error(table, key, f"[{table}] has no setting {key!r}; {choices(key, keys)}", number)
            if not isinstance(value, keys[key]) or isinstance(value, bool):
                kind = keys[key]
                names = " or ".join(k.__name__ for k in (kind if isinstance(kind, tuple) else (kind,)))
                told = f"{key} must be a {names.replace('str', 'string')}, not {value!r}."
                raise self.error(table, key, told, number)
            if isinstance(value, list) and not all(isinstance(item, str) for item in value):
                raise self.error(table, key, f"{key} must be a list of strings, not {value!r}.", number)

    def error(self, table: str, key: str, message: str, number: int = 0) -> ConfigError:
        return ConfigError(f"{self.where}, line {_line_of(self.text, table, key, number)}: {message}")


def _guilty(content: dict[str, Any], message: str) -> str:
    """The key whose value the message speaks of."""
    for key, value in content.items():
        texts = value if isinstance(value, list) else [value]
        if any(isinstance(text, str) and text.partition("(")[0].strip() in message for text in texts):
            return key
    return ""


def _line_of(text: str, table: str, key: str, nth: int = 0) -> int:
    """Where `key` stands in the nth `[table]`; the table's own line if it does not; 1 if neither does."""
    here, found, seen = "", 1, -1
    for number, line in enumerate(text.splitlines(), 1):
        header = re.match(r"\s*\[\[?\s*([^\]]+?)\s*\]", line)
        if header:
            here = header.group(1).replace('"', "")
            seen += here == table
            found = number if here == table and seen == nth else found
            continue
        name = line.partition("=")[0].strip().strip('"')
        if name and ".".join(filter(None, (here, name))) == table:  # an inline table
            return number
        if key and here == table and name == key and seen in (nth, -1):
            return number
    return found
