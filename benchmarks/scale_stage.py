"""`recombined`: the encoder of benchmarks/scale.py. A text has the mean of the vectors of its sentences, one a line.

A million passages cannot be embedded on two cores in an afternoon. Their sentences can: each distinct one was embedded
once by the bundled encoder (`python benchmarks/scale.py sentences`). A line that is no known sentence, such as a
heading, is left out. `SUREFIND_SCALE` names the folder with the vectors.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar

import numpy as np

from surefind.base.protocols import Progress
from surefind.base.spec import Stage
from surefind.base.types import FloatArray


@cache
def _known() -> tuple[dict[str, int], FloatArray]:
    folder = Path(os.environ["SUREFIND_SCALE"])
    texts = json.loads((folder / "sentences.json").read_text(encoding="utf-8"))
    listed = [text for group in texts["sources"].values() for text in group] + texts["queries"]
    return {text: i for i, text in enumerate(listed)}, np.load(folder / "sentences.npy")


@dataclass(frozen=True)
class Recombined(Stage):
    kind: ClassVar[str] = "embed"
    name: ClassVar[str] = "recombined"
    dimension: ClassVar[int] = 384
    fingerprint: ClassVar[str] = "recombined:1"

    def embed(self, texts: Sequence[str], progress: Progress | None = None) -> FloatArray:
        known, vectors = _known()
        made = np.empty((len(texts), vectors.shape[1]), np.float32)
        for i, text in enumerate(texts):
            at = [known[line] for line in text.split("\n") if line in known]
            at = at or [zlib.crc32(text.encode()) % len(vectors)]
            made[i] = vectors[at].sum(0)
        return made / np.linalg.norm(made, axis=1, keepdims=True)
