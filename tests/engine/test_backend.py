"""The contract of backends holds for the local one, and catches backends that break it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from backend_contract import check_backend
from cases import each
from surefind.base import spec
from surefind.base.access import Access
from surefind.base.types import EVERY, Chunk, Mask
from surefind.engine.services import LocalServices
from surefind.engine.store.backend import Contents
from surefind.engine.store.backends.local import LocalBackend
from surefind.engine.store.backends.view import LocalView
from surefind.engine.store.catalogue import Catalogue

pytestmark = pytest.mark.usefixtures("toys")


def check(make: Callable[[Catalogue], Any], folder: Path, *retrievers: str) -> None:
    chosen = [spec.make("retrieve", text) for text in retrievers or ("bm25", "dense(model=toy)")]
    check_backend(make, chosen, LocalServices(), folder)


@each("retriever", ["bm25", "dense(model=toy)", "tfidf(ngrams=2)", "sparse(weight=0.5)"])
def test_local_backend_keeps_the_contract(retriever: str, tmp_path: Path) -> None:
    check(LocalBackend, tmp_path, retriever)


def broken(monkeypatch: pytest.MonkeyPatch, method: str, made: Callable[..., Any]) -> None:
    real = getattr(LocalView, method)
    monkeypatch.setattr(LocalView, method, lambda self, *given: made(real, self, *given))


def test_backend_that_masks_after_top_k_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def late(real: Any, self: LocalView, retriever: Any, queries: Any, k: int, access: Access) -> Any:
        found = real(self, retriever, queries, k, Access.owner())
        names = self.admitted(access)
        kept = [key for key in found.row(0)[0].tolist() if self.spans().document(key) in names] if len(found) else []
        from surefind.testing import rankings_of

        scores = dict(zip(found.row(0)[0].tolist(), found.row(0)[1].tolist(), strict=True)) if len(found) else {}
        return rankings_of([(kept, [scores[key] for key in kept])]) if len(found) else found

    broken(monkeypatch, "search", late)
    with pytest.raises(AssertionError, match="before top-k"):
        check(LocalBackend, tmp_path)


def test_backend_that_forgets_path_rules_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = LocalBackend.open
    monkeypatch.setattr(LocalBackend, "open", lambda self, *given: real(self, *given[:-1], ()))
    with pytest.raises(AssertionError, match="path rule"):
        check(LocalBackend, tmp_path)


def test_backend_that_shows_a_closed_passage_by_its_id_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def open_to_all(real: Any, self: LocalView, ids: Any, access: Access) -> list[Chunk]:
        return real(self, ids, Access.owner())

    broken(monkeypatch, "chunks", open_to_all)
    with pytest.raises(AssertionError, match="may not read"):
        check(LocalBackend, tmp_path)


def test_backend_with_ids_of_one_generation_only_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = LocalBackend._chunk_rows

    def numbered(self: LocalBackend, number: int, contents: Contents, *given: Any) -> Any:
        made = real(self, number, contents, *given)
        made[:, 2] = 1000 * contents.number + np.arange(len(made))
        return made

    monkeypatch.setattr(LocalBackend, "_chunk_rows", numbered)
    with pytest.raises(AssertionError, match="keep their ids"):
        check(LocalBackend, tmp_path)


def test_backend_that_ignores_access_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def everything(real: Any, self: LocalView, access: Access) -> Mask:
        return EVERY

    broken(monkeypatch, "mask", everything)
    with pytest.raises(AssertionError):
        check(LocalBackend, tmp_path)
