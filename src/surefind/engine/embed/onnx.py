"""`onnx(path=…)`: any sentence encoder as an ONNX folder, run on the CPU without torch.

The folder holds `model.onnx` or `onnx/model.onnx` and `tokenizer.json`, as optimum, sentence-transformers and model
hubs write them. `1_Pooling/config.json` says how to pool; without it, token vectors are averaged. A folder that
`surefind train encoder` wrote also has what is put before a question.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import ClassVar, Self

from surefind.base.errors import SpecError
from surefind.base.protocols import Progress
from surefind.base.spec import Stage, require
from surefind.base.types import FloatArray
from surefind.engine.inference.encoder import OnnxEncoder
from surefind.engine.inference.folder import graph_version
from surefind.engine.store.database import FileVersion


def _encoder(path: str, max_tokens: int) -> OnnxEncoder:
    if not path:
        raise SpecError("onnx needs a folder. Write it like 'onnx(path=models/bge-small)'.")
    folder = Path(path).expanduser().absolute()
    return _open(folder, max_tokens, graph_version(folder))


@lru_cache(maxsize=8)
def _open(folder: Path, max_tokens: int, version: FileVersion | None) -> OnnxEncoder:
    """`version` is a cache key, so that a retrained model is opened again."""
    return OnnxEncoder(folder, max_tokens)


@dataclass(frozen=True)
class Onnx(Stage):
    kind: ClassVar[str] = "embed"
    name: ClassVar[str] = "onnx"
    runs_here: ClassVar[bool] = True

    path: str = ""
    max_tokens: int = 256
    """Longer texts are cut."""

    def __post_init__(self) -> None:
        require(self.max_tokens > 0, self, "max_tokens must be above 0")

    def placed(self, located: Callable[[str], Path]) -> Self:
        return self.replace(path=str(located(self.path).absolute())) if self.path else self

    @property
    def dimension(self) -> int:
        return _encoder(self.path, self.max_tokens).dimension

    @property
    def fingerprint(self) -> str:
        return _encoder(self.path, self.max_tokens).fingerprint

    @property
    def query_fingerprint(self) -> str:
        return _encoder(self.path, self.max_tokens).query_fingerprint

    def embed(self, texts: Sequence[str], progress: Progress | None = None) -> FloatArray:
        return _encoder(self.path, self.max_tokens).embed(texts, progress)

    def embed_queries(self, texts: Sequence[str]) -> FloatArray:
        return _encoder(self.path, self.max_tokens).embed_queries(texts)
