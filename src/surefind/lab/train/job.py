"""The parameters of `surefind train encoder | reranker`, checked before training starts."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from surefind.base import spec
from surefind.base.errors import MissingPartError, SpecError
from surefind.base.protocols import Services
from surefind.engine.embed.onnx import Onnx
from surefind.engine.embed.sentence_transformers import SentenceTransformers
from surefind.engine.retrieve.dense import Dense
from surefind.engine.search.pipeline import Pipeline
from surefind.lab.train.pairs import ALL_SOURCES, SOURCES

Kind = Literal["encoder", "reranker"]
LOSSES = ("multiple-negatives", "triplet", "margin-mse")
MIN_PAIRS = 16
SENTENCES = "modules.json"
"""A folder with this file is in the format of sentence-transformers."""
_WEIGHTS = (SENTENCES, "model.safetensors", "model.onnx")
_NEEDED = ("torch", "onnx", "safetensors")


@dataclass(frozen=True)
class TrainingJob:
    """The parameters of one training; "" means the default for the kind."""

    kind: Kind
    name: str
    sources: tuple[str, ...] = SOURCES
    start: str = ""
    loss: str = "multiple-negatives"
    epochs: int = 1
    batch: int = 16
    rate: float = 2e-5
    warmup: int = 0
    """Steps in which the learning rate rises; 0: a tenth of all."""
    negatives: int = 2
    most: int = 2000
    max_tokens: int = 256
    share: float = 0.5
    """Share of the trained weights in the result; the rest are the weights before training."""
    device: str = ""
    blend: float = 0.5
    llm: str = ""
    """The language model that writes questions, if `llm` is a source; "" is the one in surefind.toml."""
    write: str = "questions"

    def __post_init__(self) -> None:
        if unknown := [source for source in self.sources if source not in ALL_SOURCES]:
            raise SpecError(f"There is no source of pairs called {unknown[0]!r}. Choose from {', '.join(ALL_SOURCES)}.")
        if self.write not in ("questions", "triplets"):
            raise SpecError(f"A language model can write questions or triplets, not {self.write!r}.")
        if self.loss not in LOSSES:
            raise SpecError(f"There is no loss {self.loss!r}. Choose from {', '.join(LOSSES)}.")
        for field, low in (("epochs", 1), ("batch", 2), ("negatives", 1), ("most", MIN_PAIRS), ("max_tokens", 16)):
            if getattr(self, field) < low:
                raise SpecError(f"{field} must be at least {low}, not {getattr(self, field)}.")
        if self.warmup < 0:
            raise SpecError(f"warmup must not be negative, but it is {self.warmup}.")
        if not 0 < self.share <= 1:
            raise SpecError(f"share must be above 0 and at most 1, not {self.share:g}.")


def need_torch() -> None:
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise MissingPartError(
            f"Training a model needs {' and '.join(missing)}. Install it with pip install 'surefind[train]'."
        )


def start_folder(job: TrainingJob, pipeline: Pipeline, services: Services) -> Path:
    """The folder of the initial weights: the one given with --start, or that of the pipeline's own encoder if it can be
    trained, or of a bundled model."""
    if job.start:
        return _checked(Path(job.start).expanduser())
    if job.kind == "reranker" and "reranker" in _bundled():
        return _bundled()["reranker"]
    encoders = [r.model for r in pipeline.retrieve if isinstance(r, Dense)] if job.kind == "encoder" else []
    used = [trainable(model, services) for model in encoders]
    folders = [folder for folder in (*used, _bundled().get("minilm")) if folder is not None]
    if not folders:
        raise MissingPartError(
            "Training starts from a bundled model, and the package surefind-models is not installed. "
            "Install it, or name a folder with --start."
        )
    return folders[0]


def trainable(model: str, services: Services) -> Path | None:
    """The folder of an encoder that can be trained: bundled, `onnx(path=…)` or `sentence_transformers(model=…)`; None
    for others, such as those behind an endpoint."""
    if model in _bundled():
        return _bundled()[model]
    stage = spec.make("embed", model).placed(services.located)
    try:
        if isinstance(stage, SentenceTransformers):
            return stage.folder
    except MissingPartError:  # no library, or no such model here
        return None
    folder = Path(stage.path) if isinstance(stage, Onnx) else None
    return folder if folder and any((folder / name).is_file() for name in _WEIGHTS) else None


def _bundled() -> dict[str, Path]:
    """The models of the package surefind-models, by name; none if it is not installed."""
    try:
        import surefind_models
    except ModuleNotFoundError:
        return {}
    return {name: Path(surefind_models.path(name)) for name in surefind_models.names()}


def _checked(folder: Path) -> Path:
    if not any((folder / name).is_file() for name in ("tokenizer.json", SENTENCES)):
        raise MissingPartError(
            f"There is no model in {folder} (tokenizer.json and {SENTENCES} are missing). Name another --start."
        )
    return folder


def trains_with_library(folder: Path) -> bool:
    """Whether a folder is in the format of sentence-transformers and the library is installed. Without the library, our
    own network reads such a folder if it is a BERT model."""
    if not (folder / SENTENCES).is_file():
        return False
    installed = find_spec("sentence_transformers") is not None
    if not installed and not (folder / "tokenizer.json").is_file():
        raise MissingPartError(
            f"The model in {folder} needs the library sentence-transformers. "
            "Install it with pip install 'surefind[sentence-transformers]'."
        )
    return installed
