"""How alike two corpora are, by what is kept of their documents."""

from __future__ import annotations

import random

import pytest

from cases import each
from surefind.base.protocols import SKETCH
from surefind.engine.inference.provenance import alike


def test_share_of_common_documents_written_out() -> None:
    assert alike([1, 2, 3], [2, 3, 4]) == 2 / 4
    assert alike([1, 2], [1, 2]) == 1
    assert alike([1, 2], [3]) == 0
    assert alike([], []) == 1


@each(("before", "shared", "after"), [(5000, 4000, 6000), (900, 800, 20_000), (3000, 0, 3000)])
def test_sketches_of_large_corpora_estimate_the_share(before: int, shared: int, after: int) -> None:
    hashes = random.Random(7).sample(range(2**48), before + after - shared)
    then, now = (sorted(part)[:SKETCH] for part in (hashes[:before], hashes[before - shared :]))
    assert alike(then, now) == pytest.approx(shared / len(hashes), abs=0.05)
