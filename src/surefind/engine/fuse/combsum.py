"""`combsum`: the sum of min-max scaled scores. Fox and Shaw, Combination of Multiple Searches, TREC-2, 1994."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from surefind.base.spec import Stage
from surefind.base.types import Rankings
from surefind.engine.fuse.support.join import join, min_max


@dataclass(frozen=True)
class CombSum(Stage):
    kind: ClassVar[str] = "fuse"
    name: ClassVar[str] = "combsum"

    def fuse(self, rankings: Sequence[Rankings], k: int) -> Rankings:
        return join(rankings, [min_max(ranking) for ranking in rankings], k, self.name)
