"""The plan of a benchmark, checked before anything runs: layouts × pipelines × an exam × measures.

In a spec, a list of values means alternatives (a grid). `bm25 + dense >> convex(alpha=[0.1, 0.3])` means two
contenders, but `weights=[1, 2]` only one, since that parameter is itself a list.
`fixed(tokens=[700, 1000], overlap=140) + headings` means two layouts.

What a benchmark leaves out, and why: questions of the exam, and built-in pipelines.
"""

from __future__ import annotations

import re
import shlex
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import product
from typing import Any

from surefind.base import spec
from surefind.base.abilities import declared
from surefind.base.access import Access
from surefind.base.errors import ConfigError, SpecError, choices
from surefind.base.protocols import Retriever
from surefind.base.running import about
from surefind.base.spec import split_outside
from surefind.engine.search.pipeline import Pipeline
from surefind.engine.store.indexes import paid_extractor
from surefind.engine.write.layout import Layout
from surefind.kb.settings.config import Settings
from surefind.lab.bench.presets import PRESETS, Preset
from surefind.lab.exam.model import Exam
from surefind.lab.measure.ranks import Measure, parse_measure

_READ_SECONDS = 0.75
"""About how long a reranker reads for a question, on two cores."""
_EMBED_SECONDS = 0.05
"""About how long an encoder reads a passage, on two cores."""


@dataclass(frozen=True)
class Unasked:
    """How many questions were not asked."""

    gone: int = 0
    """Their passages are no longer in the documents."""
    restricted: int = 0
    """Their passages are in documents that the audience may not read."""

    @property
    def total(self) -> int:
        return self.gone + self.restricted

    @property
    def facts(self) -> dict[str, int]:
        """What reports keep of it."""
        return {"dropped": self.total, "restricted": self.restricted}


def left_out_text(dropped: int | None, restricted: int | None) -> str:
    """Says which questions of a report's exam were left out, and why; empty if none was. None: the reader may not know
    it."""
    restricted = restricted or 0
    gone = (dropped or 0) - restricted
    sentences = [f"{_questions(gone)} left out: {_theirs(gone)} no longer in the documents."] if gone else []
    if restricted:
        theirs = f"{_theirs(restricted)} in restricted documents (--as GROUP includes them)."
        sentences.append(f"{_questions(restricted)} left out: {theirs}")
    return " ".join(sentences)


def _questions(count: int) -> str:
    return "1 question was" if count == 1 else f"{count} questions were"


def _theirs(count: int) -> str:
    return "its passage is" if count == 1 else "their passages are"


@dataclass(frozen=True)
class LeftOut:
    """A built-in pipeline that the default comparison leaves out, because it takes long."""

    name: str
    passages: int = 0
    """Passages that its second encoder would have to read first; 0: its reranker would read for each question."""


def about_left_out(exam: Exam, left_out: Sequence[LeftOut], groups: Collection[str], restricted: bool) -> str:
    """Says of each pipeline that was not compared what adding it takes; "" if there is none. `groups` are those that
    the searches were for, and `restricted` says whether they may not know how many passages there are."""
    audience = [word for group in sorted(groups) for word in ("--as", group)]
    command = ["surefind", "bench", "--exam", exam.name.removesuffix("-held-out"), *audience, "-p", "hybrid", "-p"]
    return " ".join(
        f"Not compared: {one.name}. {_takes(one, len(exam.queries), restricted)}. To add it: "
        f"{shlex.join([*command, one.name])}."
        for one in left_out
    )


def _takes(one: LeftOut, questions: int, restricted: bool) -> str:
    if not one.passages:
        takes = about(questions * _READ_SECONDS)
        return f"Its reranker would read for each of the {questions} questions, {takes} on two cores"
    takes = "which takes minutes" if restricted else f"{about(one.passages * _EMBED_SECONDS)} on two cores"
    return f"Its second encoder would read all passages first, {takes}"


DEFAULT_PRESET = "context-layer"
_SETTINGS = ("preset", "pipelines", "layouts", "measures")
DEFAULT_MEASURES = ("nDCG@10", "R@5", "R@10", "RR@10", "P@5")
Elsewhere = Callable[[str, SpecError], "Contender"]


@dataclass(frozen=True)
class Contender:
    """One configuration of a benchmark: a pipeline and a layout, under the name that the report shows."""

    name: str
    pipeline: Pipeline
    layout: Layout | None = None
    """How its documents are cut; None: the layout of the settings."""
    aliases: tuple[str, ...] = ()
    """Other names of the same configuration."""

    def __str__(self) -> str:
        return f"{self.pipeline}" if self.layout is None else f"{self.layout} | {self.pipeline}"

    @property
    def asks_llm(self) -> bool:
        """Whether it asks a language model, to cut, to index or to search."""
        cuts = self.layout is not None and self.layout.asks_llm
        return cuts or self.pipeline.asks_llm or any(map(paid_extractor, self.pipeline.retrieve))


@dataclass(frozen=True)
class Plan:
    contenders: tuple[Contender, ...]
    exam: Exam
    measures: tuple[Measure, ...]
    access: Access = field(default_factory=Access.owner)
    """Who the searches are for. The report quotes documents, so only these people may read it."""
    left_out: tuple[LeftOut, ...] = ()
    """Built-in pipelines that would belong here if they did not take long."""

    def __post_init__(self) -> None:
        if not self.contenders:
            raise SpecError("A benchmark needs at least one pipeline. Choose one with --pipeline or --preset.")
        if not self.measures:
            raise SpecError("A benchmark needs at least one measure, for example --measure nDCG@10.")

    @property
    def primary(self) -> Measure:
        return self.measures[0]

    @property
    def compares_layouts(self) -> bool:
        return any(contender.layout is not None for contender in self.contenders)

    def retrievers(self) -> dict[tuple[str, str, int], tuple[Contender, Retriever]]:
        """The distinct retrievers by (layout, retriever, depth). Each runs once, even if several pipelines share it."""
        return {
            (str(c.layout or ""), str(r), c.pipeline.depth): (c, r)
            for c in self.contenders
            for r in c.pipeline.retrieve
        }


def preset_names() -> list[str]:
    return sorted(PRESETS)


def preset_named(name: str) -> Preset:
    if name not in PRESETS:
        raise SpecError(f"There is no preset {name!r}. {choices(name, preset_names())}")
    return PRESETS[name]


def compares_layouts(name: str) -> bool:
    """Whether a preset compares layouts; it then takes given pipelines instead of its own."""
    return bool(preset_named(name).layouts)


def current(settings: Settings) -> list[Contender]:
    """The pipeline that `search` uses, to be compared with those of a preset. None if it asks a language model: a
    preset costs nothing unless its own rows do."""
    pipeline = settings.pipelines[settings.pipeline]
    return [] if pipeline.asks_llm else [Contender(settings.pipeline, pipeline)]


def preset(
    name: str, pipelines: Sequence[Contender] = (), layouts: Mapping[str, Layout] | None = None
) -> tuple[list[Contender], tuple[str, ...]]:
    """A preset's contenders and measures, with the given pipelines and layouts added.

    In a preset that compares layouts, the given pipelines replace the preset's own.
    """
    chosen = preset_named(name)
    own = [Contender(label, Pipeline.parse(text, label)) for label, text in chosen.contenders.items()]
    cuts = {label: Layout.read(text) for label, text in chosen.layouts.items()}
    contenders = list(pipelines) if cuts and pipelines else [*own, *pipelines]
    return distinct(across(contenders, {**cuts, **(layouts or {})})), chosen.measures


def from_texts(
    texts: Sequence[str], named: Mapping[str, Pipeline], elsewhere: Elsewhere | None = None
) -> list[Contender]:
    """Contenders from names of pipelines or from specs, with grids expanded. `elsewhere` finds a text that is neither,
    given the error that it would be."""
    contenders = []
    # The spec of one retriever is as short as a name.
    names = {str(pipeline): name for name, pipeline in named.items() if len(pipeline.stages) > 1}
    for text in texts:
        if text in named:
            contenders.append(Contender(text, named[text]))
            continue
        try:
            made = _pipelines(text, named)
            contenders += [Contender(names.get(str(pipeline)) or short(pipeline), pipeline) for pipeline in made]
        except SpecError as error:
            if elsewhere is None:
                raise
            contenders.append(elsewhere(text, error))
    return distinct(contenders)


def _pipelines(text: str, named: Mapping[str, Pipeline]) -> list[Pipeline]:
    known = {*named, *spec.names("retrieve")}
    if re.fullmatch(r"[\w.-]+", text) and text not in known:
        raise SpecError(f"There is no pipeline or retriever called {text!r}. {choices(text, known)}")
    return [Pipeline.parse(part) for part in expand(text)]


def layouts_from_texts(texts: Sequence[str]) -> dict[str, Layout]:
    """Layouts from specs, with grids expanded. A layout's name is its spec without default parameters."""
    layouts = [Layout.read(text) for given in texts for text in expand_layout(given)]
    return {" + ".join(_short(stage) for stage in (layout.chunk, *layout.enrich)): layout for layout in layouts}


def across(contenders: Sequence[Contender], layouts: Mapping[str, Layout]) -> list[Contender]:
    """Every contender on every layout, or the contenders unchanged if there are no layouts.

    With a single contender, a name is only that of the layout.
    """
    if not layouts:
        return list(contenders)
    if len(contenders) == 1:
        return [replace(contenders[0], name=name, layout=layout, aliases=()) for name, layout in layouts.items()]
    return [
        replace(
            each,
            name=on_layout(name, each.name),
            layout=layout,
            aliases=tuple(on_layout(name, one) for one in each.aliases),
        )
        for name, layout in layouts.items()
        for each in contenders
    ]


def on_layout(layout: str, contender: str) -> str:
    """The name of a contender on one of several layouts."""
    return f"{layout} | {contender}"


def label(name: str, aliases: Sequence[str]) -> str:
    """The name of a row as a table shows it, with the other names of the same configuration."""
    return f"{name} (also {', '.join(aliases)})" if aliases else name


def distinct(contenders: Sequence[Contender]) -> list[Contender]:
    """One contender for each configuration: the first, with the names of the others as aliases. A name that two
    configurations share gets a number."""
    same: dict[str, list[Contender]] = {}
    for contender in contenders:
        same.setdefault(identity(contender), []).append(contender)
    counts: dict[str, int] = {}
    firsts = []
    for first, *_ in same.values():
        counts[first.name] = count = counts.get(first.name, 0) + 1
        firsts.append(first if count == 1 else replace(first, name=f"{first.name} ({count})"))
    taken = {first.name for first in firsts}
    return [
        replace(first, aliases=_aliases(group, {*taken, short(first.pipeline)}))
        for first, group in zip(firsts, same.values(), strict=True)
    ]


def identity(contender: Contender) -> str:
    """The spec of a contender, with a fuser that is another one by a second name replaced by that one."""
    pipeline = contender.pipeline
    other = declared(pipeline.fuse).same_as([retriever.signal for retriever in pipeline.retrieve])
    if other is not None:
        pipeline = replace(pipeline, fuse=spec.make("fuse", other))
    return str(replace(contender, pipeline=pipeline))


def _aliases(group: Sequence[Contender], taken: Collection[str]) -> tuple[str, ...]:
    """The other names of a group of equal contenders, without those that are taken."""
    names = dict.fromkeys(name for contender in group for name in (contender.name, *contender.aliases))
    return tuple(name for name in names if name not in taken)


def from_settings(
    bench: Mapping[str, Any], named: Mapping[str, Pipeline], elsewhere: Elsewhere | None = None
) -> tuple[list[Contender], tuple[str, ...]]:
    """Contenders and measures from the `[bench]` table of surefind.toml, whose settings are `preset`, `pipelines` and
    `layouts` (both may have grids) and `measures`."""
    for key in bench:
        if key not in _SETTINGS:
            raise ConfigError(f"[bench] has no setting {key!r}. {choices(key, _SETTINGS)}")
    for key in ("pipelines", "layouts", "measures"):
        if not isinstance(bench.get(key, []), list):
            raise ConfigError(f"[bench] {key} must be a list of strings, not {bench[key]!r}.")
    if "pipelines" in bench:
        pipelines = from_texts([str(text) for text in bench["pipelines"]], named, elsewhere)
    else:
        pipelines = [Contender(name, pipeline) for name, pipeline in named.items()]
    layouts = layouts_from_texts([str(text) for text in bench.get("layouts", [])])
    if "preset" in bench or not ("pipelines" in bench or layouts):
        contenders, measures = preset(str(bench.get("preset", DEFAULT_PRESET)), pipelines, layouts)
    else:
        contenders, measures = distinct(across(pipelines, layouts)), DEFAULT_MEASURES
    return contenders, tuple(bench.get("measures", measures))


def parse_measures(texts: Sequence[str]) -> tuple[Measure, ...]:
    return tuple(dict.fromkeys(parse_measure(text) for text in texts))


# ---------------------------------------------------------------- grids


def expand(text: str) -> list[str]:
    """The specs of all pipelines of a grid."""
    first, *later = split_outside(text, ">>")
    first, *depths = split_outside(first, "@")
    retrieve = split_outside(first, "+")
    kinds = ["retrieve"] * len(retrieve) + (["fuse"] if len(retrieve) > 1 and later else [])
    kinds += ["rerank"] * (len(retrieve) + len(later) - len(kinds))
    options = [_alternatives(kind, stage) for kind, stage in zip(kinds, [*retrieve, *later], strict=True)]
    made = []
    for choice in product(*options):
        head = " + ".join(choice[: len(retrieve)]) + "".join(f" @{depth}" for depth in depths)
        made.append(" >> ".join([head, *choice[len(retrieve) :]]))
    return made


def expand_layout(text: str) -> list[str]:
    """The specs of all layouts of a grid."""
    stages = split_outside(text, "+")
    kinds = ["chunk"] + ["enrich"] * (len(stages) - 1)
    options = [_alternatives(kind, stage) for kind, stage in zip(kinds, stages, strict=True)]
    return [" + ".join(choice) for choice in product(*options)]


def _alternatives(kind: str, text: str) -> list[str]:
    name, parameters = spec.parse_spec(text)
    stage = spec.find(kind, name)
    hints, other = typing.get_type_hints(stage), float if stage.rest else object
    lists = {
        key: value if isinstance(value, tuple) and not spec.fits(value, hints.get(key, other)) else (value,)
        for key, value in parameters.items()
    }
    return [spec.format_spec(name, zip(lists, values, strict=True)) for values in product(*lists.values())]


def short(pipeline: Pipeline) -> str:
    """The name of a report row: the pipeline's spec without the default parameters of retrievers and rerankers."""
    head = " + ".join(_short(retriever) for retriever in pipeline.retrieve)
    later = [str(pipeline.fuse)] if pipeline.fuse else []
    later += [_short(reranker) for reranker in pipeline.rerank]
    return " >> ".join([head + (f" @{pipeline.depth}" if pipeline.depth != 100 else ""), *later])


def _short(stage: Any) -> str:
    changed = [(f.name, getattr(stage, f.name)) for f in fields(stage) if getattr(stage, f.name) != f.default]
    return spec.format_spec(stage.name, changed)
