"""The built-in predictors: how likely it is that the first hit answers a query, learnt from public collections.

`benchmarks/confidence.py fit` writes `builtin.json`; docs/results/confidence.md says how well it does on collections
that it has not seen.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from surefind.base.types import Floats
from surefind.engine.confidence.predictor import LogisticModel, SavedModel
from surefind.engine.confidence.signals import Kind, without_meaning

FILE = "builtin.json"


@dataclass(frozen=True, eq=False)
class Builtin:
    predictors: Mapping[Kind, LogisticModel]
    quote: LogisticModel
    """How likely a quoted sentence answers a question (`answer.quoting`)."""
    encoder: str
    """The index spec of the dense retriever whose cosines it knows."""
    collections: int

    def __call__(self, kind: Kind, values: Floats, encoder: str) -> Floats:
        """The probability for each query. The cosines of another encoder mean something else and are left out."""
        if encoder and encoder != self.encoder:
            kind, values = without_meaning(kind, values)
        return self.predictors[kind](values)

    @property
    def words(self) -> str:
        """What it was calibrated on."""
        return f"questions of {self.collections} public collections"


@cache
def builtin() -> Builtin:
    data = json.loads(files("surefind.engine.confidence").joinpath(FILE).read_text(encoding="utf-8"))
    predictors = {kind: LogisticModel.of(SavedModel(**model)) for kind, model in data["predictors"].items()}
    quote = LogisticModel.of(SavedModel(**data["quote"]))
    return Builtin(predictors, quote, data["encoder"], len(data["collections"]))
