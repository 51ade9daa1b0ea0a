from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from hypothesis import settings

from helpers import Home
from surefind import spec

settings.register_profile("surefind", deadline=None, max_examples=50)
settings.load_profile("surefind")

TOYS = {
    "embed": {"toy": "toy_stages:ToyEmbedder", "broken": "toy_stages:NoSuchClass"},
    "rerank": {"shared_words": "toy_stages:SharedWords", "failing": "toy_stages:Failing"},
    "retrieve": {"labelled": "toy_stages:Labelled"},
}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The stages of toy_stages.py as if a package had declared them as entry points."""

    def plugins(kind: str) -> dict[str, EntryPoint]:
        return {name: EntryPoint(name, value, f"surefind.{kind}") for name, value in TOYS.get(kind, {}).items()}

    monkeypatch.setattr(spec, "_plugins", plugins)
    yield
    spec.find.cache_clear()
    spec.make.cache_clear()
