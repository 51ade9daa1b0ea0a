"""The vectors that are kept with the bundled sample."""

from __future__ import annotations

import shutil
from pathlib import Path
from unittest import mock

import numpy as np

from surefind import KnowledgeBase
from surefind.doors.cli.demo import sample_folder, sample_vectors
from surefind.engine.inference.encoder import OnnxEncoder
from surefind.engine.store.vectors import VectorCache, unpacked
from surefind.kb.settings.config import FILE_NAME, TEMPLATE


def test_demo_computes_no_vector_of_a_passage(tmp_path: Path) -> None:
    """After a change of the sample, of the default layout or of an encoder: scripts/sample_vectors.py."""
    (tmp_path / FILE_NAME).write_text(TEMPLATE, encoding="utf-8")
    rows = sample_vectors()
    with (
        KnowledgeBase.open(tmp_path) as base,
        mock.patch.object(OnnxEncoder, "_run", side_effect=AssertionError("a vector is missing")),
    ):
        base.services.keep_vectors(rows)
        report = base.sync(sample_folder())
        assert report.documents == 115
        base.build_for(base.settings.find("pair").retrieve)
        assert 2 * report.chunks == len({key for key, _ in rows}) == len(rows), "one of each encoder, no other"


def test_kept_vectors_are_those_of_the_encoder(tmp_path: Path) -> None:
    """By their cosines: rounding to eight bits differs a little between processors."""
    (tmp_path / FILE_NAME).write_text(TEMPLATE, encoding="utf-8")
    (tmp_path / "docs").mkdir()
    shutil.copy(sample_folder() / "sops" / "sop-104-ctr-filing.md", tmp_path / "docs")
    with KnowledgeBase.open(tmp_path) as base:
        chunks = base.sync(tmp_path / "docs").chunks
    cache, kept = VectorCache(tmp_path / ".surefind" / "cache" / "embeddings.db"), dict(sample_vectors())
    computed = cache.get(list(kept))
    cache.close()
    assert len(computed) == 2 * chunks > 10  # two encoders
    pairs = [(kept[key], computed[key]) for key in computed]
    a, b = (
        unpacked(np.frombuffer(b"".join(rows), np.uint8).reshape(2 * chunks, -1)) for rows in zip(*pairs, strict=True)
    )
    cosines = (a * b).sum(axis=1)
    assert cosines.min() > 0.98
