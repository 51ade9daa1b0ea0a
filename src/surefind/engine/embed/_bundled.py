"""What the bundled encoders share: a folder of surefind-models, read once. It may hold a recipe in place of the model.

It stands alone because stages do not import each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import ClassVar

from surefind.base.errors import MissingPartError
from surefind.base.protocols import Progress
from surefind.base.spec import Stage
from surefind.base.types import FloatArray
from surefind.engine.inference.encoder import OnnxEncoder


class BundledEncoder(Stage):
    """The encoder in the folder of its name."""

    kind: ClassVar[str] = "embed"
    runs_here: ClassVar[bool] = True

    @property
    def dimension(self) -> int:
        return bundled(self.name).dimension

    @property
    def fingerprint(self) -> str:
        return bundled(self.name).fingerprint

    @property
    def query_fingerprint(self) -> str:
        return bundled(self.name).query_fingerprint

    def embed(self, texts: Sequence[str], progress: Progress | None = None) -> FloatArray:
        return bundled(self.name).embed(texts, progress)

    def embed_queries(self, texts: Sequence[str]) -> FloatArray:
        return bundled(self.name).embed_queries(texts)


@cache
def bundled(name: str) -> OnnxEncoder:
    try:
        import surefind_models

        recipe = Path(surefind_models.__file__).parent / name
        if (recipe / "recipe.json").is_file():
            from surefind.engine.inference.multilingual import made

            return OnnxEncoder(made(recipe))
        return OnnxEncoder(surefind_models.path(name))
    except (ModuleNotFoundError, ValueError):
        raise MissingPartError(
            f"The bundled encoder {name} is not installed. Install the package surefind-models "
            "(from a clone: pip install ./models), or search with --retrieve bm25."
        ) from None
