"""Opens a trained fusion model from its folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from surefind.fusion.lambdamart import LambdaMART
from surefind.fusion.predictors import MLP, Chooser, FusionPredictor, Ridge, XGBoost

_LOADERS: dict[str, Callable[[Path], FusionPredictor]] = {
    kind.kind: kind.load for kind in (LambdaMART, Ridge, MLP, XGBoost, Chooser)
}


def load_predictor(kind: str, folder: Path) -> FusionPredictor:
    return _LOADERS[kind](folder)
