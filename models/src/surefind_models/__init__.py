"""The encoders and the rerankers that surefind bundles, as folders of plain files, and a model that names languages.

>>> path("minilm").name
'minilm'
"""

from pathlib import Path

__all__ = ["LANGUAGES", "names", "path"]

_ROOT = Path(__file__).parent
LANGUAGES = _ROOT / "languages" / "lid.176.ftz"
"""fastText's model that names the language of a text."""


def names() -> list[str]:
    """The names of the bundled models, sorted."""
    return sorted(config.parent.name for config in _ROOT.glob("*/config.json"))


def path(name: str) -> Path:
    """The folder of a bundled model: `model.onnx`, `tokenizer.json`, `config.json`, `MODEL_CARD.md`."""
    if name not in names():
        raise ValueError(f"no bundled model {name!r}; choose one of: {', '.join(names())}")
    return _ROOT / name
