"""The training loop: batches, losses, checkpoints. Runs on CPU or GPU; a stopped run resumes at the last checkpoint.

Losses of an encoder, for a question q, its passage p and negatives n (cosine similarities s):

    multiple-negatives   -log  e^(20·s(q,p)) / Σ_x e^(20·s(q,x))   x: all passages of the batch, hard negatives too
    triplet              max(0, s(q,n) - s(q,p) + margin)          the hardest n of each question
    margin-mse           (20·(s(q,p) - s(q,n)) - (z(q,p) - z(q,n)))²    z: logits of a cross-encoder (`pseudo`)

of a reranker (logits z): the same softmax over a question's own list, -log e^z(p) / Σ_x e^z(x).
Henderson et al., 2017 (multiple negatives); Hermans et al., 2017 (triplet); Wang et al., GPL, 2022 (margin-mse, there
with dot products).

Converts pairs and their negatives to rows of tokens, for an encoder or a reranker.

Trains any encoder in the format of sentence-transformers, with the losses of that library.

The steps, checkpoints and learning rates are those of `learning`. Henderson et al., 2017 (multiple negatives, with the
library's scale of 20); Hermans et al., 2017 (triplet, with the library's Euclidean distance and margin of 5); Wang et
al., 2022 (margin-mse, with the library's dot products).
"""

from __future__ import annotations

import hashlib
import json
import shutil
import time
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import repeat
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from surefind.base.errors import DiskFullError, SurefindError
from surefind.base.protocols import OnProgress
from surefind.base.types import Chunk
from surefind.engine.inference.cross_encoder import PairTokenizer, title_of
from surefind.engine.inference.folder import OnnxFolder
from surefind.lab.train.job import TrainingJob
from surefind.lab.train.network import Network
from surefind.lab.train.pairs import Pair

Example = TypeVar("Example")
"""What a loss is computed from; its `repr` is its identity."""
_SCALE, _MARGIN = 20.0, 0.2
_WARM_UP_SHARE = 0.1
"""Share of the steps over which the learning rate rises; then it falls to 0."""


@dataclass(frozen=True)
class TrainingSettings:
    loss: str
    epochs: int = 1
    batch: int = 16
    rate: float = 2e-5
    negatives: int = 2
    max_tokens: int = 256
    seed: int = 42
    device: str = "cpu"
    pause: float = 60.0
    """Seconds between checkpoints."""
    warmup: int = 0
    """Steps in which the learning rate rises; 0: a tenth of all."""


@dataclass(frozen=True)
class TokenRows:
    """Token ids and types. For an encoder: the question, its passage, its negatives. For a reranker: the question
    paired with its passage and with each negative."""

    rows: tuple[tuple[list[int], list[int]], ...]
    margins: tuple[float, ...] = ()
    """How much better than each negative a cross-encoder finds the passage, for `margin-mse`."""


def train(
    network: Network, examples: Sequence[TokenRows], settings: TrainingSettings, checkpoint: Path, report: OnProgress
) -> list[float]:
    """Trains one of our own networks in place; returns the loss of every step."""
    device = torch.device(settings.device)

    def loss_of(batch: Sequence[TokenRows]) -> Tensor:
        return _loss(network, batch, settings, device)

    return train_steps(network, examples, loss_of, settings, checkpoint, report)


def train_steps(
    network: Any,
    examples: Sequence[Example],
    loss_of: Callable[[Sequence[Example]], Tensor],
    settings: TrainingSettings,
    checkpoint: Path,
    report: OnProgress,
) -> list[float]:
    """Trains a torch module in place with the loss of a batch; returns the loss of every step."""
    steps = _order(len(examples), settings)
    device = torch.device(settings.device)
    network.to(device).train()
    optimizer = torch.optim.AdamW(network.parameters(), lr=settings.rate, weight_decay=0.01)
    mark = _mark(settings, examples, network)
    losses = _resume(network, optimizer, checkpoint, mark, device)
    _check_room(network, checkpoint)
    saved, whole = time.monotonic(), True
    try:
        for step in range(len(losses), len(steps)):
            report("Training", step, len(steps))
            for group in optimizer.param_groups:
                group["lr"] = settings.rate * _share(step, len(steps), settings.warmup)
            loss = loss_of([examples[i] for i in steps[step]])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            whole = False
            optimizer.step()
            losses.append(float(loss.detach()))
            whole = True
            if time.monotonic() - saved >= settings.pause:
                _save(network, optimizer, checkpoint, mark, losses)
                saved = time.monotonic()
    except KeyboardInterrupt:
        if whole:  # after a resume, a half-done step would be applied again on top of its first half
            _save(network, optimizer, checkpoint, mark, losses)
        raise
    _save(network, optimizer, checkpoint, mark, losses)  # so that a run stopped while it is tested need not train again
    report("Training", len(steps), len(steps))
    network.eval()
    return losses


def _order(count: int, settings: TrainingSettings) -> list[list[int]]:
    """The batches of all epochs, fixed before the first step so that a resumed run uses the same ones."""
    generator = torch.Generator().manual_seed(settings.seed)
    steps = []
    for _ in range(settings.epochs):
        order = torch.randperm(count, generator=generator).tolist()
        steps += [order[at : at + settings.batch] for at in range(0, count, settings.batch)]
    return [step for step in steps if len(step) > 1 or count == 1]


def _share(step: int, steps: int, warmup: int = 0) -> float:
    """The share of the highest learning rate at a step: it rises during the warm-up, then falls to 0."""
    warm = min(warmup, steps) or max(1, int(steps * _WARM_UP_SHARE))
    return (step + 1) / warm if step < warm else (steps - step) / max(1, steps - warm)


# ---------------------------------------------------------------- losses


def _loss(network: Network, batch: Sequence[TokenRows], settings: TrainingSettings, device: torch.device) -> Tensor:
    if network.ranks:
        flat = network(*_padded([row for example in batch for row in example.rows], device)).squeeze(-1)
        lists = flat.view(len(batch), -1)
        return nn.functional.cross_entropy(lists, torch.zeros(len(batch), dtype=torch.long, device=device))
    queries = network(*_padded([example.rows[0] for example in batch], device))
    width = len(batch[0].rows) - 1
    passages = network(*_padded([row for example in batch for row in example.rows[1:]], device))
    if settings.loss != "multiple-negatives":
        lists = passages.view(len(batch), width, -1)
        own = torch.einsum("bd,bnd->bn", queries, lists)
        if settings.loss == "triplet":
            return torch.clamp(own[:, 1:].amax(1) - own[:, 0] + _MARGIN, min=0).mean()
        wanted = torch.tensor([example.margins for example in batch], dtype=own.dtype, device=device)
        return nn.functional.mse_loss(_SCALE * (own[:, :1] - own[:, 1:]), wanted)
    similar = _SCALE * queries @ passages.T
    return nn.functional.cross_entropy(similar, torch.arange(len(batch), device=device) * width)


def _padded(rows: Sequence[tuple[list[int], list[int]]], device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    longest = max(len(ids) for ids, _ in rows)
    ids, mask, types = (torch.zeros(len(rows), longest, dtype=torch.long) for _ in range(3))
    for i, (tokens, kinds) in enumerate(rows):
        ids[i, : len(tokens)], types[i, : len(tokens)] = torch.tensor(tokens), torch.tensor(kinds)
        mask[i, : len(tokens)] = 1
    return ids.to(device), mask.to(device), types.to(device)


# ---------------------------------------------------------------- checkpoints


def _mark(settings: TrainingSettings, examples: Sequence[Example], network: Any) -> str:
    """A hash of the settings, the examples and the initial weights; a checkpoint with another hash is not resumed."""
    digest = hashlib.blake2b(json.dumps(asdict(settings), sort_keys=True).encode(), digest_size=12)
    for name, value in network.state_dict().items():
        digest.update(name.encode())
        digest.update(value.detach().cpu().float().numpy().tobytes())  # numpy has no bfloat16
    for example in examples:
        digest.update(repr(example).encode())
    return digest.hexdigest()


def _save(network: Any, optimizer: Any, checkpoint: Path, mark: str, losses: list[float]) -> None:
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    aside = checkpoint.with_suffix(".writing")
    state = {"mark": mark, "losses": losses, "network": network.state_dict(), "optimizer": optimizer.state_dict()}
    try:
        torch.save(state, aside)
    except RuntimeError as error:  # torch raises this when a write fails
        aside.unlink(missing_ok=True)
        raise _no_room(network, checkpoint) from error
    aside.replace(checkpoint)


def _check_room(network: Any, checkpoint: Path) -> None:
    """Raises an error if the disk has no room for a checkpoint, before the first step and not an hour later."""
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    if shutil.disk_usage(checkpoint.parent).free < _bytes(network):
        raise _no_room(network, checkpoint)


def _no_room(network: Any, checkpoint: Path) -> DiskFullError:
    free, needed = shutil.disk_usage(checkpoint.parent).free >> 20, _bytes(network) >> 20
    return DiskFullError(
        f"A checkpoint needs about {needed:,} MB, and the disk of {checkpoint.parent} has {free:,} MB left. "
        "Free some space and run the same command again: it resumes at the last checkpoint."
    )


def _bytes(network: Any) -> int:
    """The size of a checkpoint: the weights, and two numbers of the optimiser for each."""
    return int(3 * sum(value.numel() * value.element_size() for value in network.parameters()))


def _resume(network: Any, optimizer: Any, checkpoint: Path, mark: str, device: torch.device) -> list[float]:
    """Restores network and optimizer from a checkpoint and returns the losses so far; none if there is no usable
    checkpoint."""
    if not checkpoint.is_file():
        return []
    try:
        with zipfile.ZipFile(checkpoint) as parts:
            damaged = parts.testzip()  # torch does not check the checksums
        state = {} if damaged else torch.load(checkpoint, map_location=device, weights_only=True)
    except Exception:  # another version, or damaged: start again
        return []
    if state.get("mark") != mark:
        return []
    network.load_state_dict(state["network"])
    optimizer.load_state_dict(state["optimizer"])
    return list(state["losses"])


def examples_of(
    pairs: Sequence[Pair],
    negatives: Sequence[Sequence[int]],
    chunks: Sequence[Chunk],
    job: TrainingJob,
    start: Path,
    margins: Sequence[tuple[float, ...]] = (),
) -> list[TokenRows]:
    """One training example for each pair; `negatives` are places in `chunks`."""
    rows = list(zip(pairs, negatives, strict=True))
    if job.kind == "reranker":
        tokenizer = PairTokenizer(start / "tokenizer.json", job.max_tokens)

        def pair(query: Any, title: str, text: str) -> tuple[list[int], list[int]]:
            made = tokenizer.pair(query, title, text)
            return made.ids, made.type_ids

        examples = []
        for one, others in rows:
            query = tokenizer.query(one.query)
            listed = [pair(query, one.title, one.text)]
            listed += [pair(query, title_of(c), c.text) for c in (chunks[o] for o in others)]
            if one.negative:
                listed[1] = pair(query, "", one.negative)
            examples.append(TokenRows(tuple(listed)))
        return examples

    from tokenizers import Tokenizer

    plain = Tokenizer.from_file(str(start / "tokenizer.json"))
    plain.enable_truncation(job.max_tokens)
    plain.no_padding()

    def text(sentence: str) -> tuple[list[int], list[int]]:
        ids = plain.encode(sentence).ids
        return ids, [0] * len(ids)

    prefix = OnnxFolder.found(start).query_prefix
    rest = margins or repeat(())
    return [
        TokenRows((text(prefix + query), *map(text, passages)), own)
        for (query, *passages), own in zip(texts_of(pairs, negatives, chunks), rest, strict=False)
    ]


def texts_of(
    pairs: Sequence[Pair], negatives: Sequence[Sequence[int]], chunks: Sequence[Chunk]
) -> list[tuple[str, ...]]:
    """The texts that an encoder learns from: each question, its passage and its negatives."""

    def negatives_of(pair: Pair, others: Sequence[int]) -> list[str]:
        texts = [chunks[o].searchable for o in others]
        return [pair.negative, *texts[1:]] if pair.negative else texts

    return [
        (pair.query, pair.passage, *negatives_of(pair, others)) for pair, others in zip(pairs, negatives, strict=True)
    ]


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
