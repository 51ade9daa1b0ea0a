"""What a stage may declare beside its verb, each as a protocol with a name.

A stage that keeps one of these is treated accordingly: a reranker that is `Local` is timed on this machine, a stage
that is `Stamped` is cached by more than its spec. `surefind.testing.check_declared` holds a stage to what it declares.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeGuard, TypeVar, cast, runtime_checkable

from surefind.protocols import Embedder, QueryEmbedder, Reader, Services

if TYPE_CHECKING:
    from surefind.types import FloatArray


@runtime_checkable
class ReaderWithParts(Reader, Protocol):
    """A reader that needs packages which an extra installs."""

    needs: ClassVar[tuple[str, ...]]
    """The modules that it imports."""
    extra: ClassVar[str]


@runtime_checkable
class TextOnly(Protocol):
    """A chunker or enricher whose result follows from the document alone: it asks no service for anything, so that it
    can run in a process of its own, under limits."""

    text_only: ClassVar[bool]


@runtime_checkable
class Falling(Protocol):
    """A chunker that has another one do the work where a model fails: `base` is its spec."""

    @property
    def base(self) -> str: ...


@runtime_checkable
class Concurrent(Protocol):
    """A language model that answers several calls at a time."""

    concurrency: int


@runtime_checkable
class ScoresMissing(Protocol):
    """A fuser that can have each candidate scored by the retrievers that did not return it."""

    @property
    def missing(self) -> Literal["score"] | None: ...


@runtime_checkable
class Stamped(Protocol):
    """A stage whose spec only names what it depends on: the weights of a model, the words of a prompt."""

    def stamp(self, services: Services) -> str:
        """Changes whenever the result would, though the spec does not."""
        ...


@runtime_checkable
class Trained(Protocol):
    """A stage that learnt from questions, which therefore say nothing about it."""

    def learnt(self, services: Services) -> frozenset[str]:
        """The questions, as `question_key` writes them."""
        ...


@runtime_checkable
class Local(Protocol):
    """A reranker whose time is this machine's."""

    @property
    def runs_here(self) -> bool: ...

    @property
    def work(self) -> str:
        """Equal for rerankers that do the same work on the same passages."""
        ...


@runtime_checkable
class Reacher(Protocol):
    """A reranker that looks further than its ranking, so that its result depends on what stands behind it."""

    @property
    def reaches(self) -> bool: ...


@runtime_checkable
class Wrapping(Protocol):
    """A stage around another of its kind, such as a reranker that is asked now and then."""

    @property
    def inner(self) -> Any: ...


@runtime_checkable
class Extracting(Protocol):
    """A retriever whose index is built from the entities that passages name."""

    @property
    def extract(self) -> str:
        """The spec of the extractor."""
        ...


@runtime_checkable
class Named(Protocol):
    """A stage with a name, as every one of ours has."""

    name: ClassVar[str]


Kind = TypeVar("Kind")
_KEPT: dict[tuple[type, object], bool] = {}


def keeps(thing: object, protocol: Callable[..., Kind]) -> TypeGuard[Kind]:
    """As `isinstance` of a protocol, asked once for each class: Python takes some 20 µs each time."""
    key = (type(thing), protocol)
    if key not in _KEPT:
        _KEPT[key] = isinstance(thing, cast(type, protocol))
    return _KEPT[key]


def runs_here(stage: object) -> bool:
    return keeps(stage, Local) and stage.runs_here


def reaches(stage: object) -> bool:
    return keeps(stage, Reacher) and stage.reaches


def stamp_of(stage: object, services: Services) -> str:
    """What a stage's spec only names, or nothing."""
    return stage.stamp(services) if keeps(stage, Stamped) else ""


def learnt_by(stage: object, services: Services) -> frozenset[str]:
    return stage.learnt(services) if keeps(stage, Trained) else frozenset()


def name_of(stage: object) -> str:
    """What reports call a stage."""
    return stage.name if keeps(stage, Named) else type(stage).__name__


def embed_queries(encoder: Embedder, texts: Sequence[str]) -> FloatArray:
    """Vectors of questions, from encoders that treat questions and passages differently and from those that do not."""
    return encoder.embed_queries(texts) if keeps(encoder, QueryEmbedder) else encoder.embed(texts)


def query_fingerprint(encoder: Embedder) -> str:
    return encoder.query_fingerprint if keeps(encoder, QueryEmbedder) else encoder.fingerprint
