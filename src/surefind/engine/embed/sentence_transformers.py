"""`sentence_transformers(model=…, device=cpu)`: a model of the sentence-transformers library (needs torch).

`model` is a folder, or the name of a model in the local cache of the hub. Nothing is downloaded unless `download=true`.
Reimers and Gurevych, Sentence-BERT, EMNLP 2019.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from surefind.base.errors import MissingPartError, SurefindError
from surefind.base.protocols import Progress
from surefind.base.spec import Stage, require
from surefind.base.types import FloatArray

_OWNER = "sentence-transformers"
"""The owner of models that are named without one."""
_MARKS = ("modules.json", "config.json")
_WEIGHTS = (".safetensors", ".bin", ".json", ".txt", ".model")


@dataclass(frozen=True)
class SentenceTransformers(Stage):
    kind: ClassVar[str] = "embed"
    name: ClassVar[str] = "sentence_transformers"

    model: str = "sentence-transformers/all-MiniLM-L6-v2"
    device: str = "cpu"
    batch: int = 32
    download: bool = False

    def __post_init__(self) -> None:
        require(bool(self.model), self, "model must be named")
        require(self.batch > 0, self, "batch must be above 0")

    def placed(self, located: Callable[[str], Path]) -> Self:
        folder = located(self.model)
        return self.replace(model=str(folder.absolute())) if folder.is_dir() else self

    @property
    def dimension(self) -> int:
        return len(self.embed(["dimension"])[0])

    @property
    def fingerprint(self) -> str:
        return f"sentence_transformers:{digest_of(self.folder)}"

    @property
    def folder(self) -> Path:
        """The folder with the model's files."""
        return _folder(self.model, self.download)

    def embed(self, texts: Sequence[str], progress: Progress | None = None) -> FloatArray:
        if not texts:
            return np.zeros((0, self.dimension), np.float32)
        model = _loaded(self.model, self.device, self.download)
        parts: list[Any] = []
        for at in range(0, len(texts), self.batch):
            part = [text.encode("utf-8", "replace").decode() for text in texts[at : at + self.batch]]
            parts.append(model.encode(part, batch_size=self.batch, normalize_embeddings=True, show_progress_bar=False))
            if progress:
                progress(at + len(part), len(texts))
        return np.concatenate(parts).astype(np.float32, copy=False)


@cache
def _loaded(model: str, device: str, download: bool) -> Any:
    folder = _folder(model, download)
    from sentence_transformers import SentenceTransformer

    try:
        return SentenceTransformer(str(folder), device=device, local_files_only=True)
    except Exception as error:  # torch, transformers and safetensors raise errors of their own
        raise SurefindError(
            f"The model {model} in {folder} cannot be loaded on {device}: {error} Check the folder and device."
        ) from error


@cache
def _folder(model: str, download: bool) -> Path:
    """The folder with the model's files; with `download`, gets them first."""
    _need_library()
    local = Path(model).expanduser()
    if local.is_dir():
        return local.absolute()
    folder = _cached(model)
    if folder is None and download:
        from sentence_transformers import SentenceTransformer

        try:
            SentenceTransformer(model, device="cpu")
        except Exception as error:  # network, hub and disk raise errors of their own
            raise SurefindError(f"The model {model} cannot be downloaded: {error} Check its name.") from error
        folder = _cached(model)
    if folder is None:
        raise MissingPartError(
            f"The model {model} is neither a folder nor in the local cache of the hub. Give the path of its folder, or "
            f"write sentence_transformers(model={model}, download=true) to get it."
        )
    return folder


def _cached(model: str) -> Path | None:
    from huggingface_hub import try_to_load_from_cache

    for name in (model, f"{_OWNER}/{model}"):
        if name.count("/") != 1:  # a name in the hub has an owner; anything else is a path
            continue
        for mark in _MARKS:
            path = try_to_load_from_cache(name, mark)
            if isinstance(path, str):
                return Path(path).parent
    return None


@cache
def digest_of(folder: Path) -> str:
    """The commit of a model from the hub, or the digest of the files in any other folder."""
    if folder.parent.name == "snapshots":
        return folder.name
    whole = hashlib.sha256()
    for path in sorted(p for p in folder.rglob("*") if p.suffix in _WEIGHTS and p.is_file()):
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        whole.update(f"{path.relative_to(folder).as_posix()}\0{digest}\n".encode())
    return f"{folder.name}:{whole.hexdigest()[:16]}"


def _need_library() -> None:
    """Checks for the library without importing torch, which takes seconds and is not needed for a fingerprint."""
    if find_spec("sentence_transformers") is None:
        raise MissingPartError(
            "The encoder sentence_transformers needs its library. "
            "Install it with pip install 'surefind[sentence-transformers]'."
        )
