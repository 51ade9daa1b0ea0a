"""The milvus backend on a real milvus-lite: the contract of backends, generations, and what happens when calls fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from cases import each

pytest.importorskip("milvus_lite", reason="surefind[milvus] is not installed: make milvus")

from backend_contract import check_backend
from surefind.base import spec
from surefind.engine.services import LocalServices
from surefind.engine.store.backends.milvus.backend import MilvusBackend
from surefind.engine.store.backends.milvus.server import Server

pytestmark = pytest.mark.usefixtures("toys")


@each(
    "retrievers",
    [["bm25", "bm25(k1=0.9, b=0.4)"], ["dense(model=toy)"], ["tfidf(ngrams=2)"]],
)
def test_milvus_backend_keeps_the_contract(retrievers: list[str], tmp_path: Path) -> None:
    server = Server(str(tmp_path / "kb.db"))
    chosen = [spec.make("retrieve", text) for text in retrievers]
    check_backend(lambda catalogue: MilvusBackend(catalogue, server), chosen, LocalServices(), tmp_path / "kb")
