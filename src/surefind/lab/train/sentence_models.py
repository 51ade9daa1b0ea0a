"""Trains any encoder in the format of sentence-transformers, with the losses of that library.

The steps, checkpoints and learning rates are those of `learning`. Henderson et al., 2017 (multiple negatives, with the
library's scale of 20); Hermans et al., 2017 (triplet, with the library's Euclidean distance and margin of 5); Wang et
al., 2022 (margin-mse, with the library's dot products).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from pathlib import Path
from typing import Any

from surefind.base.errors import SurefindError
from surefind.base.protocols import OnProgress
from surefind.lab.train.learning import TrainingSettings, train_steps


def train_sentences(
    start: Path,
    texts: Sequence[tuple[str, ...]],
    settings: TrainingSettings,
    share: float,
    work: Path,
    report: OnProgress,
    margins: Sequence[tuple[float, ...]] = (),
) -> list[float]:
    """Trains the model in `start` on questions, passages and negatives, and saves it as `work/model`. `share` is the
    share of the trained weights in the result. `margins` are those of `pseudo`, for `margin-mse`. Returns the loss of
    every step."""
    import torch

    model = _loaded(start, settings.device)
    longest = model.max_seq_length
    model.max_seq_length = min(settings.max_tokens, longest or settings.max_tokens)
    before = {key: value.detach().cpu().clone() for key, value in model.state_dict().items()}
    torch.manual_seed(settings.seed)  # dropout is random
    examples = list(zip(texts, margins or repeat(()), strict=False))
    losses = train_steps(model, examples, _Loss(model, settings), settings, work / "checkpoint.pt", report)
    trained = model.cpu().state_dict()
    model.load_state_dict({key: _between(before[key], value, share) for key, value in trained.items()})
    model.max_seq_length = longest
    model.save_pretrained(str(work / "model"), create_model_card=False)
    return losses


def _loaded(start: Path, device: str) -> Any:
    from sentence_transformers import SentenceTransformer

    try:
        return SentenceTransformer(str(start), device=device, local_files_only=True)
    except Exception as error:  # torch, transformers and safetensors raise errors of their own
        raise SurefindError(
            f"The model in {start} cannot be loaded: {error} Name another folder with --start."
        ) from error


def _between(before: Any, after: Any, share: float) -> Any:
    """The average of two tensors; counters and other whole numbers are those after training."""
    return (1 - share) * before + share * after if after.is_floating_point() else after


_NAMES = {
    "multiple-negatives": "MultipleNegativesRankingLoss",
    "triplet": "TripletLoss",
    "margin-mse": "MarginMSELoss",
}


class _Loss:
    """The loss of a batch of texts."""

    def __init__(self, model: Any, settings: TrainingSettings) -> None:
        self._model, self._device = model, settings.device
        self._three = settings.loss != "multiple-negatives"
        """Whether the loss reads one negative of each question."""
        self._loss = getattr(_losses(), _NAMES[settings.loss])(model)
        self._read = getattr(model, "preprocess", None) or model.tokenize  # the name before version 5.2
        self._prompt = model.prompts.get(model.default_prompt_name or "", "")

    def __call__(self, batch: Sequence[tuple[tuple[str, ...], tuple[float, ...]]]) -> Any:
        import torch

        columns = list(zip(*(texts for texts, _ in batch), strict=True))
        margins = [own[0] for _, own in batch if own]
        labels = torch.tensor(margins, device=self._device) if margins else None
        return self._loss([self._features(column) for column in (columns[:3] if self._three else columns)], labels)

    def _features(self, texts: Sequence[str]) -> dict[str, Any]:
        features = self._read([self._prompt + text for text in texts])
        return {key: value.to(self._device) if hasattr(value, "to") else value for key, value in features.items()}


def _losses() -> Any:
    try:
        from sentence_transformers.sentence_transformer import losses
    except ModuleNotFoundError:  # before version 5.2
        from sentence_transformers import losses
    return losses
