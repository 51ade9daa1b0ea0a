"""docs/embedding-models.md: its recipes are specs that read, its snippet runs, its table is complete."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from cases import each
from surefind.base import spec

PAGE = (Path(__file__).parents[2] / "docs" / "embedding-models.md").read_text(encoding="utf-8")
RECIPES = [tomllib.loads(block)["retrieve"][0] for block in re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)]


@each("recipe", RECIPES)
def test_recipe_is_a_spec_that_reads_back(recipe: str) -> None:
    dense = spec.make("retrieve", recipe)
    encoder = spec.make("embed", dense.model)
    assert spec.make("embed", str(encoder)) == encoder
    assert spec.make("retrieve", str(dense)) == dense


def test_every_provider_has_a_recipe() -> None:
    used = {spec.parse_spec(spec.make("retrieve", recipe).model)[0] for recipe in RECIPES}
    assert used == {"bedrock", "onnx", "openai", "prefixed", "sentence_transformers"}


def test_snippet_runs(capsys: pytest.CaptureFixture[str]) -> None:
    for snippet in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(compile(snippet, "embedding-models.md", "exec"), {})
    assert capsys.readouterr().out.startswith("$0.0")
