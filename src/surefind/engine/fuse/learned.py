"""`learned(model=NAME, missing=score)`: fuses rankings with a model trained by `surefind train fusion`.

    score(d) = Σ_i  w_i(q) · norm_i(d)        weights predicted for each query

The model is read once from the knowledge base's models. It is valid for the retrievers (with their parameters and in
their order), the layout and the documents that it was trained on. Otherwise it raises an error that names what changed
(`inference.provenance`). `missing` must be as in training.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeVar

from surefind.base import spec
from surefind.base.disk.sealed import check_files, from_json, read_sealed, to_json
from surefind.base.errors import SpecError, StoreError
from surefind.base.protocols import Corpus, Retriever, Services
from surefind.base.running import BoundedCache, note
from surefind.base.spec import Stage
from surefind.base.types import FloatArray, Query, Rankings
from surefind.engine.inference.provenance import FORMAT, FusionManifest, FusionTraining, differences, drift
from surefind.engine.store.database import FileVersion, find_named

if TYPE_CHECKING:
    from surefind.engine.fuse.support.predictors import Weigher

MANIFEST = "manifest.json"
TRAINING = "training.json"
"""File for what is too long for the manifest: a sketch of the documents, the training questions, the α of held-out
questions."""
Manifest = TypeVar("Manifest", bound=FusionManifest)
_MAX_CHECKED = 32
"""Results of `check` that are cached."""


@dataclass(frozen=True)
class Learned(Stage):
    kind: ClassVar[str] = "fuse"
    name: ClassVar[str] = "learned"
    reads_queries: ClassVar[bool] = True

    model: str = ""
    missing: Literal["score"] | None = None

    def fuse(self, rankings: Sequence[Rankings], k: int) -> Rankings:
        raise SpecError(
            f"{self} reads the queries, so it works only inside a pipeline of a knowledge base. "
            "Use rrf, convex or weighted to fuse rankings without queries."
        )

    def fuse_for(self, queries: Sequence[Query], rankings: Sequence[Rankings], k: int, services: Services) -> Rankings:
        model, predictor = _read(*self._file(services))

        def embed(texts: Sequence[str]) -> FloatArray:
            return services.embedder(model.manifest.embedder).embed_queries(texts)

        return predictor.fuse([query.text for query in queries], rankings, embed, k)

    def check(self, retrievers: Sequence[Retriever], depth: int, corpus: Corpus, services: Services) -> None:
        manifest, training = _read(*self._file(services))[0]
        if self.missing != manifest.missing:
            way = "missing=score" if manifest.missing else "no missing=…"
            raise SpecError(f"{self} was trained with {way}. Write {self.replace(missing=manifest.missing)}.")
        # Cached, because the result changes only with the documents or the model, and comparing takes longer than
        # predicting.
        key = (*self._file(services), tuple(retrievers), depth, corpus.fingerprint)
        changed, drifted = _checked.get_or_make(
            key,
            lambda: (
                differences(manifest, training.documents, retrievers, depth, corpus, services),
                drift(manifest, training.documents, corpus),
            ),
        )
        if changed:
            raise SpecError(
                f"{self} cannot be used here: {'; '.join(changed)}. Search as it was trained "
                f"({' + '.join(r.spec for r in manifest.retrievers)}), or train it again."
            )
        if drifted:
            note(drifted)

    def only(self, kept: Sequence[int]) -> Any:
        """Another one, because this was trained on all rankings."""
        return spec.make("fuse", "rrf")

    def training_questions(self, services: Services) -> frozenset[str]:
        """The keys (`question_key`) of the questions it was trained on."""
        return frozenset(_read(*self._file(services))[0].training.learnt)

    def about(self, services: Services) -> FusionModel:
        """What the model was trained on and how well it did."""
        return _read(*self._file(services))[0]

    def stamp(self, services: Services) -> str:
        """A hash that changes when the model is trained again under the same name."""
        text = json.dumps([to_json(part) for part in self.about(services)], sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()

    def _file(self, services: Services) -> tuple[Path, FileVersion]:
        advice = "Train one with: surefind train fusion --exam NAME."
        return find_named(services.models_folder, self.model, MANIFEST, "trained model", advice)


_checked: BoundedCache[tuple[object, ...], tuple[list[str], str]] = BoundedCache(_MAX_CHECKED)


def question_key(text: str) -> str:
    """A hash of a question, equal for questions that differ only in case and spaces."""
    return hashlib.blake2b(" ".join(text.lower().split()).encode("utf-8", "replace"), digest_size=8).hexdigest()


class FusionModel(NamedTuple):
    manifest: FusionManifest
    training: FusionTraining


def read_manifest(path: Path, kind: type[Manifest]) -> tuple[Manifest, FusionTraining]:
    """Reads a model's manifest, as a record of this class, and the training file beside it."""
    try:
        data = read_sealed(path)
        if data.get("format") == FORMAT:
            check_files(path.parent, data.get("files", {}))
            training = json.loads((path.parent / TRAINING).read_text(encoding="utf-8"))
            return from_json(kind, data), from_json(FusionTraining, training)
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise _damaged(path, error) from error
    raise StoreError(f"The model {path.parent.name!r} was written by another version of Surefind. Train it again.")


def _damaged(path: Path, error: Exception) -> StoreError:
    return StoreError(
        f"The model in {path.parent} cannot be read ({error}). Train it again with: surefind train fusion."
    )


@lru_cache(maxsize=8)
def _read(path: Path, version: FileVersion) -> tuple[FusionModel, Weigher]:
    """Reads the manifest and the model. `version` is part of the cache key, so a retrained model is read again."""
    try:
        model = FusionModel(*read_manifest(path, FusionManifest))
        return model, load_predictor(model.manifest.model, path.parent)
    except (OSError, ValueError, KeyError) as error:
        raise _damaged(path, error) from error


def load_predictor(kind: str, folder: Path) -> Weigher:
    """Opens a trained model from its folder."""
    from surefind.engine.fuse.support.predictors import MLP, Chooser, Ridge, XGBoost

    loaders: dict[str, Callable[[Path], Weigher]] = {model.kind: model.load for model in (Ridge, MLP, XGBoost, Chooser)}
    return loaders[kind](folder)
