"""`minilm`: all-MiniLM-L6-v2 (384 dimensions, 256 tokens), int8 on onnxruntime, from the package surefind-models.

Reimers and Gurevych, Sentence-BERT, EMNLP 2019; Wang et al., MiniLM, NeurIPS 2020.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from surefind.engine.embed._bundled import BundledEncoder


@dataclass(frozen=True)
class MiniLM(BundledEncoder):
    name: ClassVar[str] = "minilm"
