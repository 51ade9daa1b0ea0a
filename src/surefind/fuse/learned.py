"""`learned(model=NAME)`: weights predicted for each query by a model that `surefind train fusion` made.

    score(d) = Σ_i  w_i(q) · norm_i(d)        norm: from the theoretical minimum (tm2c2), or min-max, as trained

The model is read once from the knowledge base's models. It belongs to the retrievers, in their order, that it was
trained on, and refuses others. It cannot see the documents: `surefind train list` says whether they changed since.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from surefind.errors import SpecError, StoreError, choices
from surefind.spec import Stage
from surefind.types import FloatArray, Query, Rankings

if TYPE_CHECKING:
    from surefind.fuse._predictors import Predictor
    from surefind.services import Services

MANIFEST = "manifest.json"
FORMAT = 1


@dataclass(frozen=True)
class Learned(Stage):
    kind: ClassVar[str] = "fuse"
    name: ClassVar[str] = "learned"

    model: str = ""

    def fuse(self, rankings: Sequence[Rankings], k: int) -> Rankings:
        raise SpecError(
            f"{self} looks at the queries, so it fuses only inside a pipeline of a knowledge base. "
            "Use rrf, convex or weighted to fuse rankings alone."
        )

    def fuse_for(self, queries: Sequence[Query], rankings: Sequence[Rankings], k: int, services: Services) -> Rankings:
        from surefind.fuse._predictors import blend

        manifest, predictor = self._load(services)
        refuse_others(self, manifest, rankings)

        def embed(texts: Sequence[str]) -> FloatArray:
            return services.embedder(manifest["embedder"]).embed_queries(texts)

        texts = [query.text for query in queries]
        weights = predictor.weights(texts, rankings, embed) if texts else np.zeros((0, len(rankings)))
        return blend(rankings, weights, predictor.norm, k, self.name)

    def trained_on(self, services: Services) -> str:
        """The fingerprint of the exam it learnt from."""
        return str(self._load(services)[0]["exam"]["fingerprint"])

    def stamp(self, services: Services) -> str:
        """Another one for a model that was trained again under the same name."""
        return json.dumps(self._load(services)[0], sort_keys=True)

    def _load(self, services: Services) -> tuple[dict[str, Any], Predictor]:
        folder = services.models_folder
        path = (folder or Path()) / self.model / MANIFEST
        if folder is None or not self.model or Path(self.model).name != self.model or not path.exists():
            raise SpecError(f"There is no trained model {self.model!r}; {_known(folder, self.model)}")
        return _read(path, path.stat().st_mtime_ns)


def _known(folder: Path | None, wrong: str) -> str:
    there = sorted(path.parent.name for path in folder.glob(f"*/{MANIFEST}")) if folder and folder.exists() else []
    return choices(wrong, there) if there else "Train one with: surefind train fusion --exam NAME."


@lru_cache(maxsize=8)
def _read(path: Path, written: int) -> tuple[dict[str, Any], Predictor]:
    """The manifest and the model; `written` makes a model that was trained again another one."""
    from surefind.fuse._predictors import load_predictor

    try:
        manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if manifest.get("format") != FORMAT:
            raise StoreError(
                f"The model {path.parent.name!r} was written by another version of Surefind. Train it again."
            )
        return manifest, load_predictor(manifest["model"], path.parent)
    except (OSError, ValueError, KeyError) as error:
        raise StoreError(
            f"The model in {path.parent} cannot be read ({error}). Train it again with: surefind train fusion."
        ) from error


def refuse_others(stage: Stage, manifest: dict[str, Any], rankings: Sequence[Rankings]) -> None:
    """Same rankings, same order, same kind of scores as in training."""
    trained = [(r["name"], r["signal"]) for r in manifest["retrievers"]]
    given = [(ranking.source, ranking.signal) for ranking in rankings]
    if trained != given:
        raise SpecError(
            f"{stage} was trained on {_listed(trained)} and cannot fuse {_listed(given)}. Use the retrievers it was "
            f"trained on, in that order ({' + '.join(r['spec'] for r in manifest['retrievers'])}), or train another."
        )


def _listed(pairs: Sequence[tuple[str, str]]) -> str:
    return " + ".join(f"{name} ({signal})" for name, signal in pairs)
