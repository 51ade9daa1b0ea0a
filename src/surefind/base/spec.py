"""Stage specs: `convex(alpha=0.3)` <-> `Convex(alpha=0.3)`.

A stage is a value and its text form is its identity: the CLI argument, the line in surefind.toml, the HTTP
field, the row of a report and the cache key are all the same string, and parsing it gives the stage back
(`surefind.base.spec` reads and writes it).

**Finding stages.** The stage `rrf` of kind `fuse` is the class with the name `rrf` in the module
`surefind.engine.fuse.rrf`: the file name is the stage name, so there is no list to maintain. Third parties add stages
with an entry point: group `surefind.engine.fuse`, name, class. Nothing is imported before it is used.

The grammar of stage specs: `rrf(k=60)` <-> `("rrf", {"k": 60})`.

    spec  :=  name [ "(" key "=" value { "," key "=" value } ")" ]
    value :=  number | true | false | null | "text" | word | spec | "[" value { "," value } "]"

Formatting a parsed spec gives its canonical form; parsing and formatting that gives the same text again.
`surefind.base.spec` builds stages from specs.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import pkgutil
import re
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from functools import cache, cached_property, lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from surefind.base.errors import SpecError, SurefindError, choices, closest

if TYPE_CHECKING:
    from pathlib import Path

    from surefind.base.prompts.values import Calls, Workload
    from surefind.base.protocols import Corpus, Index, Progress, Retriever, Services
    from surefind.base.types import Query, Rankings, Signal

Value = Any  # int | float | bool | None | str | tuple[Value, ...]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WORD = re.compile(r"[A-Za-z_./][A-Za-z0-9_./:@-]*")
_NUMBER = re.compile(r"[+-]?(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][+-]?\d++)?(?![\w.])")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_DEEPEST = 20
"""The most levels of nested values in a spec."""
_MAX_NUMBER_CHARS = 100
"""The most characters of a number in a spec."""
_CONSTANTS: dict[str, Value] = {"true": True, "false": False, "null": None}


class _Nested(str):
    """A spec inside a spec, known to be in canonical form, so that formatting need not parse it again."""


def parse_spec(text: str) -> tuple[str, dict[str, Value]]:
    """`rrf(k=60)` -> `("rrf", {"k": 60})`."""
    reader = _SpecParser(text)
    parsed = reader.spec()
    reader.end()
    return parsed


def format_spec(name: str, parameters: Iterable[tuple[str, Value]]) -> str:
    inside = ", ".join(f"{key}={format_value(value)}" for key, value in parameters)
    return f"{name}({inside})" if inside else name


def format_value(value: Value) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, tuple | list):
        return "[" + ", ".join(map(format_value, value)) + "]"
    if isinstance(value, _Nested):
        return str(value)
    return value if _reads_back_bare(value) else json.dumps(value, ensure_ascii=False)


def _reads_back_bare(value: str) -> bool:
    """Whether a string can be written without quotes: a plain word, or a spec in its canonical form."""
    try:
        reader = _SpecParser(value)
        parsed = reader.value()
        reader.end()
    except SpecError:
        return False
    return isinstance(parsed, str) and parsed == value


class _SpecParser:
    """Parses one spec from left to right; every error shows the text and the column."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.depth = 0

    def fail(self, expected: str) -> SpecError:
        next_character = repr(self.text[self.at]) if self.at < len(self.text) else "the end"
        return SpecError(
            f"Cannot read the spec {self.text!r}: expected {expected} at column {self.at + 1}, found {next_character}. "
            f"Write it like 'rrf(k=60)'."
        )

    def take(self, pattern: re.Pattern[str]) -> str | None:
        self.skip_space()
        match = pattern.match(self.text, self.at)
        if not match:
            return None
        self.at = match.end()
        return match.group()

    def skip_space(self) -> None:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1

    def peek(self) -> str:
        self.skip_space()
        return self.text[self.at : self.at + 1]

    def accept(self, char: str) -> bool:
        if self.peek() != char:
            return False
        self.at += 1
        return True

    def expect(self, char: str) -> None:
        if not self.accept(char):
            raise self.fail(repr(char))

    def end(self) -> None:
        if self.peek():
            raise self.fail("the end")

    def spec(self) -> tuple[str, dict[str, Value]]:
        name = self.take(_NAME)
        if name is None:
            raise self.fail("a stage name")
        parameters: dict[str, Value] = {}
        if self.accept("(") and not self.accept(")"):
            while True:
                key = self.take(_NAME)
                if key is None:
                    raise self.fail("a parameter name")
                if key in parameters:
                    raise SpecError(f"The spec {self.text!r} gives {key!r} twice. Keep one of them.")
                if self.peek() == "-":
                    raise self.fail("'=' (names are written with '_', not with '-')")
                self.expect("=")
                parameters[key] = self.value()
                if not self.accept(","):
                    break
            self.expect(")")
        return name, parameters

    def value(self) -> Value:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise SpecError(f"The spec {self.text[:60]!r}… is nested deeper than {_DEEPEST} levels.")
        try:
            return self.items() if self.accept("[") else self.simple_value()
        finally:
            self.depth -= 1

    def simple_value(self) -> Value:
        number = self.take(_NUMBER)
        if number is not None:
            return self.number(number)
        quoted = self.take(_STRING)
        if quoted is not None:
            try:
                return json.loads(quoted)
            except ValueError:
                raise SpecError(f"The spec {self.text!r} contains a string with a bad escape: {quoted}.") from None
        return self.word_or_spec()

    def number(self, text: str) -> int | float:
        value = float(text)
        if len(text) > _MAX_NUMBER_CHARS or value in (float("inf"), float("-inf")):
            raise SpecError(f"The number {text[:30]}… in a spec is too large.")
        return int(text) if re.fullmatch(r"[+-]?\d+", text) else value

    def items(self) -> tuple[Value, ...]:
        items: list[Value] = []
        if not self.accept("]"):
            while True:
                items.append(self.value())
                if not self.accept(","):
                    break
            self.expect("]")
        return tuple(items)

    def word_or_spec(self) -> Value:
        start = self.at
        word = self.take(_WORD)
        if word is None:
            raise self.fail("a value")
        if self.text[self.at : self.at + 1] == "(":
            self.at = start
            name, parameters = self.spec()
            return _Nested(format_spec(name, parameters.items()))
        return _CONSTANTS.get(word, word)


def split_outside(text: str, separator: str) -> list[str]:
    """Splits at separators outside parentheses, brackets and quotes."""
    parts: list[str] = []
    depth, start = 0, 0
    for match in re.finditer(rf'"(?:[^"\\]|\\.)*"|[()\[\]]|{re.escape(separator)}', text):
        token = match.group()
        if token in "([":
            depth += 1
        elif token in ")]":
            depth -= 1
        elif token == separator and depth == 0:
            parts.append(text[start : match.start()].strip())
            start = match.end()
    return [*parts, text[start:].strip()]


KINDS = {
    "analyze": "surefind.engine.analyze",
    "read": "surefind.engine.ingest",
    "chunk": "surefind.engine.chunk",
    "enrich": "surefind.engine.enrich",
    "embed": "surefind.engine.embed",
    "extract": "surefind.engine.extract",
    "retrieve": "surefind.engine.retrieve",
    "fuse": "surefind.engine.fuse",
    "rerank": "surefind.engine.rerank",
}
"""Each kind of stage and the package that contains its stages."""

_NOUNS = {
    "analyze": "analyzer", "read": "reader", "chunk": "chunker", "enrich": "enricher", "embed": "encoder",
    "extract": "extractor", "retrieve": "retriever", "fuse": "fuser", "rerank": "reranker",
}  # fmt: skip
"""The noun for a stage of each kind, in messages."""


class Stage:
    """Base of every stage: a frozen dataclass with a `kind`, a `name` and its spec as its text form.

    Besides its verb (`surefind.base.protocols`), a stage may declare what is true of it: it gives an attribute below
    another value. `surefind.testing.check_declared` checks that the declarations are of the right type."""

    kind: ClassVar[str]
    name: ClassVar[str]
    rest: ClassVar[str] = ""
    """The field that collects parameters of any other name, as (name, number) pairs; empty if none are allowed."""
    text_only: ClassVar[bool] = False
    """A chunker or enricher: whether it needs nothing but the document. It uses no service, so it can run in a child
    process, under limits."""
    checks_access: ClassVar[bool] = False
    """A reader: whether it looks for access lists in the file itself. The texts of other readers are checked after
    it."""
    at_once: ClassVar[bool] = False
    """A retriever: whether its index needs nothing but the words of the chunks, so that documents are found by it as
    soon as they are read."""
    needs: ClassVar[tuple[str, ...]] = ()
    """A reader: the modules that it imports and that an extra installs."""
    extra: ClassVar[str] = ""
    """A reader: the name of the extra: `pip install 'surefind[EXTRA]'`."""
    reads_queries: ClassVar[bool] = False
    """A fuser: whether it also looks at the queries, such as one that predicts weights for each (`fuse_for`)."""

    @property
    def base(self) -> str:
        """A chunker: the spec of the chunker that it falls back to if its model fails."""
        return "markdown"

    @property
    def inner(self) -> Any:
        """The stage that it wraps, such as the reranker that `conditional` runs for some queries, or None."""
        return None

    @property
    def searches(self) -> int:
        """The most times that it runs the inner stage for one query."""
        return 1

    @property
    def added_tokens(self) -> int:
        """The most model tokens by which a query of the inner stage is longer than its own query."""
        return 0

    @property
    def more_searches(self) -> int:
        """A reranker: the most further queries that it runs through the retrievers and the fuser, for one query."""
        return 0

    @property
    def uses(self) -> tuple[Any, ...]:
        """A retriever: the retrievers whose indexes it uses."""
        return ()

    @property
    def missing(self) -> Any:
        """A fuser: `score` if every candidate must have a score from every retriever, also from those that did not
        return it; else None."""
        return None

    @property
    def runs_here(self) -> bool:
        """Whether it runs in this process and asks no server: it costs nothing, and its latency can be measured."""
        return False

    @property
    def work(self) -> str:
        """A reranker: a key that is equal for rerankers that do the same work on the same passages."""
        return str(self)

    @property
    def reaches(self) -> bool:
        """A reranker: whether it looks beyond its ranking, so that its result also depends on the retrievers."""
        return False

    @property
    def server(self) -> tuple[str, str] | None:
        """The address of the server that it asks, and the environment variable that holds the key; "" for none."""
        return None

    def llm_calls(self, work: Workload) -> Calls | None:
        """Estimates the most calls of a language model that the work can take, without those of stages inside: a
        chunker counts all documents, a retriever, fuser or reranker all queries. None if it asks no model."""
        return None

    def same_as(self, signals: Sequence[Signal]) -> str | None:
        """A fuser: the spec of another one that ranks in the same way, for rankings with these signals; `rsf` of two
        retrievers is `convex`. None if there is none."""
        return None

    def placed(self, located: Callable[[str], Path]) -> Self:
        """An encoder: the same one with paths that hold in any folder; `located` resolves a path in a spec."""
        return self

    def stamp(self, services: Services) -> str:
        """A string that changes whenever the result would although the spec does not, such as a fingerprint of the
        weights of a model or of the words of a prompt."""
        return ""

    def lacking(self, chunks: Sequence[Any], services: Services) -> int:
        """A retriever: of how many of these chunks `build` has to compute what no cache holds, such as a vector."""
        return len(chunks)

    def prepare(self, chunks: Sequence[Any], services: Services, progress: Progress) -> None:
        """A retriever: computes ahead what `build` will take from a cache. Nobody else waits for it meanwhile."""

    def only(self, kept: Sequence[int]) -> Any:
        """A fuser: the one that joins only the rankings at these places, because the others are not ready."""
        return self

    def wrap(self, index: Index, services: Services) -> Index:
        """A retriever with an `inner` one: returns the index of that one, wrapped so that it answers as this retriever
        does. Both have the same `index_spec`."""
        raise NotImplementedError

    def over(self, index: Index, used: Sequence[Index]) -> Index:
        """A retriever: returns its own index connected to the indexes of `uses`, which are given in the same order.
        Each of these is built, kept and loaded once for all retrievers that use it."""
        return index

    def fuse_for(self, queries: Sequence[Query], rankings: Sequence[Rankings], k: int, services: Services) -> Rankings:
        """A fuser that `reads_queries`: joins the rankings of these queries and returns the best k chunks of each."""
        raise NotImplementedError

    def check(self, retrievers: Sequence[Retriever], depth: int, corpus: Corpus, services: Services) -> None:
        """A trained fuser: raises `SpecError` if it is not valid for these retrievers and documents, naming what
        changed. Smaller changes are only noted."""

    def training_questions(self, services: Services) -> frozenset[str]:
        """The questions that it was trained on, as `question_key` writes them. No benchmark measures it on those."""
        return frozenset()

    def __str__(self) -> str:
        return self._text

    @cached_property
    def _text(self) -> str:
        """The spec. Cached, because a stage never changes and every search names its stages in the trace."""
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        shown: list[tuple[str, Value]] = []
        for f in fields:
            value = getattr(self, f.name)
            if f.name == self.rest:
                shown += value
            elif not (value is None and f.default is None):
                shown.append((f.name, value))
        return format_spec(self.name, shown)

    def replace(self, **changes: Value) -> Self:
        """Returns a copy of the stage with other parameters, checked like a spec."""
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}  # type: ignore[arg-type]
        others = dict(values.pop(self.rest, ()))
        return build(type(self), {**values, **others, **changes})


S = TypeVar("S", bound=Stage)


# ---------------------------------------------------------------- names -> classes


@cache
def _plugins(kind: str) -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=f"surefind.{kind}")}


@cache
def _builtins(kind: str) -> frozenset[str]:
    package = importlib.import_module(KINDS[kind])
    modules = pkgutil.iter_modules(package.__path__)
    return frozenset(module.name for module in modules if not (module.ispkg or module.name.startswith("_")))


def names(kind: str) -> list[str]:
    """Lists every stage of a kind, built in or from plugins, without importing any of them."""
    return sorted(_builtins(kind) | set(_plugins(kind)))


@cache
def find(kind: str, name: str) -> type[Stage]:
    """Finds the class of a stage by its kind and name."""
    if name in _builtins(kind):
        module = importlib.import_module(f"{KINDS[kind]}.{name}")
        return next(c for c in vars(module).values() if isinstance(c, type) and c.__dict__.get("name") == name)
    if name in _plugins(kind):
        try:
            stage = typing.cast(type[Stage], _plugins(kind)[name].load())
        except Exception as error:
            raise SpecError(f"The plugin {name!r} ({_plugins(kind)[name].value}) cannot be loaded: {error}.") from error
        if callable(getattr(stage, "learnt", None)):  # without it, a benchmark would measure on training questions
            raise SpecError(f"The plugin {name!r} defines learnt(). Call that method training_questions().")
        return stage
    raise SpecError(f"There is no {_NOUNS[kind]} called {name!r}. {choices(name, names(kind))}")


# ---------------------------------------------------------------- classes -> stages


@lru_cache(maxsize=4096)
def make(kind: str, text: str) -> Any:
    """Builds the stage that a spec describes, after checking its parameters."""
    try:
        name, parameters = parse_spec(text)
    except SpecError:
        written = re.match(r"\s*([\w.-]+)", text)
        if written:  # report a misspelt name, such as cross-encoder, rather than a syntax error at some column
            find(kind, written[1])
        raise
    return build(find(kind, name), parameters)


def build(cls: type[S], parameters: dict[str, Value]) -> S:
    """Builds a stage from its class and parameters, after checking them."""
    hints = {key: hint for key, hint in _hints(cls).items() if key != cls.rest}  # type: ignore[arg-type]
    others = [key for key in parameters if key not in hints]
    for key in others:
        if not cls.rest or closest(key, hints):  # a name close to a known one is more likely a misspelling
            raise SpecError(f"{cls.name} has no parameter {key!r}. {choices(key, hints)}")
    checked = {key: _coerce(cls.name, key, value, hints.get(key, float)) for key, value in parameters.items()}
    if cls.rest:
        checked[cls.rest] = tuple(sorted((key, checked.pop(key)) for key in others))
    missing = [key for key in _required(cls) if key not in checked]
    if missing:
        example = ", ".join(f"{key}=…" for key in missing)
        raise SpecError(f"{cls.name} needs a value for {', '.join(missing)}. Write it like '{cls.name}({example})'.")
    try:
        return cls(**checked)
    except SurefindError:
        raise
    except Exception as error:
        given = format_spec(cls.name, parameters.items())
        raise SpecError(f"{given} cannot be built ({type(error).__name__}: {error}).") from error


@cache
def _hints(cls: type[Stage]) -> dict[str, Any]:
    hints = typing.get_type_hints(cls)
    return {f.name: hints[f.name] for f in dataclasses.fields(cls)}  # type: ignore[arg-type]


def _required(cls: type[Stage]) -> tuple[str, ...]:
    return tuple(
        f.name
        for f in dataclasses.fields(cls)  # type: ignore[arg-type]
        if f.init and f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    )


def _coerce(stage: str, key: str, value: Value, hint: Any) -> Value:
    if not fits(value, hint):
        raise SpecError(f"{stage}({key}={format_value(value)}): {key} must be {_wanted(hint)}.")
    return _as(value, hint)


_WORDS: dict[Any, tuple[str, str]] = {
    float: ("a number", "numbers"),
    int: ("a whole number", "whole numbers"),
    bool: ("true or false", "true or false"),
    str: ("a text", "texts"),
}
"""The type of a parameter in words, in the singular and in the plural."""


def _wanted(hint: Any, several: bool = False) -> str:
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_wanted(part, several) for part in inside if part is not type(None))
    if origin is tuple:
        return f"a list of {_wanted(inside[0], several=True)}, like [{'1, 2' if inside[0] is float else '…'}]"
    if origin is typing.Literal:
        return " or ".join(map(format_value, inside))
    return _WORDS.get(hint, (str(hint),) * 2)[several]


def _as(value: Value, hint: Any) -> Value:
    """Converts integers of float parameters (`1` becomes `1.0`), so that equal stages have equal specs."""
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return next(_as(value, part) for part in typing.get_args(hint) if fits(value, part))
    if origin is tuple:
        return tuple(_as(item, typing.get_args(hint)[0]) for item in value)
    return float(value) if hint is float else value


def fits(value: Value, hint: Any) -> bool:
    """Whether a parameter of this type accepts the value."""
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, part) for part in typing.get_args(hint))
    if origin is tuple:
        return isinstance(value, tuple) and all(fits(item, typing.get_args(hint)[0]) for item in value)
    if origin is typing.Literal:
        return value in typing.get_args(hint)
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, hint)


def require(ok: bool, stage: Stage, rule: str) -> None:
    """Raises SpecError if `ok` is false. For `__post_init__`: `require(self.k > 0, self, "k must be above 0")`."""
    if not ok:
        raise SpecError(f"{stage}: {rule}.")
