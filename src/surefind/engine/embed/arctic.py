"""`arctic`: snowflake-arctic-embed-s (384 dimensions, 256 tokens), int8 on onnxruntime, from surefind-models.

Twelve layers, so twice the time of `minilm`. It finds other passages: the two together are the pipeline `pair`.
Questions get the prefix that the model was trained with. Merrick et al., Arctic-Embed, 2024.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from surefind.engine.embed._bundled import BundledEncoder


@dataclass(frozen=True)
class Arctic(BundledEncoder):
    name: ClassVar[str] = "arctic"
