"""Trains a six-layer encoder to give the summed similarities of larger ones, on unlabelled text.

    python training/distill.py WORK --teachers gte e5 arctic mpnet --seconds 800 --out OUT

The teachers read every text once, each in its own way (`teachers.py`). What the student learns is the sum of their
similarities of questions and passages, each divided by its spread over unrelated texts. A batch has questions and some
of the nearest passages of each. The loss has two parts: the squared error of the similarities, because a hybrid adds
them to other scores, and KL over the passages of the batch, because the first passages count most.

The student starts from WORK/student, or with `--start` from six layers of another folder. WORK/NAME.pt and OUT/NAME.00,
OUT/NAME.01, … in half precision have all of its weights.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from flat import FlatEncoder, load_encoder
from material import DEVICE, SEED, Clock, precision
from parts import write_parts
from student_text import ASKED, FAR, Drawn, Texts, batches_of, texts_of
from teachers import Teacher, spread_of

RATE, BETAS = 2e-4, (0.9, 0.98)
OF_EMBEDDINGS = 0.2
"""The rate of the embeddings, as a share of that of the layers."""
SHARPNESS = 2.0
"""The factor of the mean of the teachers' scaled similarities: the larger, the more the first passages count."""
SQUARED, RANKED = 3.0, 1.0
"""The weights of both parts of the loss."""
SEARCHED = 100_000
"""Passages among which the nearest ones of a question are found."""
SIX_OF_TWELVE = (0, 2, 4, 6, 8, 10)
_BEGUN = time.perf_counter()


def say(what: str) -> None:
    print(f"{time.perf_counter() - _BEGUN:.0f} s: {what}", flush=True)


def read_by_teachers(work: Path, names: list[str], texts: dict[str, Texts]) -> dict[str, dict[str, Tensor]]:
    """For each kind of text, the vectors of every teacher."""
    vectors: dict[str, dict[str, Tensor]] = {kind: {} for kind in texts}
    for name in names:
        teacher = Teacher(work / name, DEVICE)
        for kind, some in texts.items():
            vectors[kind][name] = teacher.embed(some.tokens, ASKED[kind])
        say(f"{name} has read {sum(len(some.tokens) for some in texts.values()):,} texts")
    return vectors


def joined(vectors: dict[str, dict[str, Tensor]], dice: np.random.Generator) -> dict[str, Tensor]:
    """For each kind of text, the teachers' scaled vectors side by side: inner products are summed similarities."""
    number = min(50_000, *(len(next(iter(vectors[kind].values()))) for kind in ("questions", "passages")))
    at = {kind: _random(len(next(iter(vectors[kind].values()))), number, dice) for kind in ("questions", "passages")}
    scales = {}
    for name in vectors["questions"]:
        scales[name] = spread_of(*(vectors[kind][name][at[kind]] for kind in ("questions", "passages"))) ** -0.5
    sharp = (SHARPNESS / len(scales)) ** 0.5
    return {
        kind: torch.cat([(rows[name] * scale * sharp).half() for name, scale in scales.items()], 1)
        for kind, rows in vectors.items()
    }


def _random(length: int, number: int, dice: np.random.Generator) -> Tensor:
    return torch.from_numpy(dice.permutation(length)[:number]).to(DEVICE)


def nearest(questions: Tensor, passages: Tensor, dice: np.random.Generator, together: int = 8192) -> Tensor:
    """The numbers of the nearest passages of every question, among `SEARCHED` that are drawn for all."""
    drawn = _random(len(passages), SEARCHED, dice)
    some, depth = passages[drawn].T.contiguous(), min(FAR[1], len(drawn))
    found = [(part @ some).topk(depth, 1).indices for part in questions.split(together)]
    return drawn[torch.cat(found)].int()


class Scale(nn.Module):
    """Brings the student's cosines to the size of the summed similarities."""

    def __init__(self) -> None:
        super().__init__()
        self.times = nn.Parameter(torch.tensor(3.0))
        self.plus = nn.Parameter(torch.tensor(0.0))

    def forward(self, cosines: Tensor) -> Tensor:
        return cosines * self.times.exp() + self.plus

    @torch.no_grad()
    def fit(self, cosines: Tensor, wanted: Tensor) -> None:
        """Starts where both have the same mean and spread: from elsewhere, the first steps would undo the student."""
        self.times.copy_((wanted.std() / cosines.std()).log())
        self.plus.copy_(wanted.mean() - self.times.exp() * cosines.mean())


def optimizer_of(model: FlatEncoder, size: Scale) -> torch.optim.AdamW:
    embedding = [*model.words.parameters(), *model.positions.parameters(), *model.types.parameters()]
    layers = [p for p in model.layers.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    groups = [
        {"params": layers, "weight_decay": 0.01, "share": 1.0},
        {"params": others, "weight_decay": 0.0, "share": 1.0},
        {"params": embedding, "weight_decay": 0.0, "share": OF_EMBEDDINGS},
        {"params": list(size.parameters()), "weight_decay": 0.0, "share": 10.0},
    ]
    return torch.optim.AdamW(groups, lr=RATE, betas=BETAS, fused=DEVICE == "cuda")


def losses(found: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """The squared error as a share of the variance of what is wanted, and KL over the passages of each question."""
    squared = (found - wanted).square().sum() / (wanted - wanted.mean()).square().sum()
    ranked = functional.kl_div(found.log_softmax(1), wanted.log_softmax(1), reduction="batchmean", log_target=True)
    return squared, ranked


def wanted_of(drawn: Drawn, sides: dict[str, Tensor]) -> Tensor:
    """The summed similarities of the questions and passages of a batch."""
    asked = torch.cat([sides[kind][rows] for kind, rows in drawn.questions])
    return (asked @ sides["passages"][drawn.passages].T).float()


def train(
    work: Path, names: list[str], start: Path | None, seconds: float, scale: float, steps: int, every: int
) -> FlatEncoder:
    torch.manual_seed(SEED)
    dice = np.random.default_rng(SEED)
    texts = texts_of(work, DEVICE, dice, scale)
    tokens = sum(int(some.tokens.length.clamp(max=254).sum()) for some in texts.values())
    say(f"{sum(len(some.tokens) for some in texts.values()):,} texts, {tokens:,} tokens")
    sides = joined(read_by_teachers(work, names, texts), dice)
    near = {kind: nearest(sides[kind], sides["passages"], dice) for kind, asked in ASKED.items() if asked}
    model = load_encoder(start, DEVICE, SIX_OF_TWELVE) if start else load_encoder(work / "student", DEVICE)
    draw = batches_of(texts, near, dice)
    size = Scale().to(DEVICE)
    optimizer = optimizer_of(model.train(), size)
    say("training")
    clock, seen, smooth = Clock(seconds - (time.perf_counter() - _BEGUN), RATE), 0, torch.zeros(2, device=DEVICE)
    while clock.set(optimizer) and clock.steps <= steps:
        drawn = draw()
        with precision():
            vectors = model(drawn.batch)
        asked, passages = vectors.float().split([len(vectors) - len(drawn.passages), len(drawn.passages)])
        cosines, wanted = asked @ passages.T, wanted_of(drawn, sides)
        if clock.steps == 1:
            size.fit(cosines, wanted)
        squared, ranked = losses(size(cosines), wanted)
        optimizer.zero_grad(set_to_none=True)
        (SQUARED * squared + RANKED * ranked).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        seen += len(drawn.batch.ids)
        now = torch.stack([squared, ranked]).detach()
        smooth = now if clock.steps == 1 else 0.98 * smooth + 0.02 * now
        if clock.steps % every == 0:
            error, kl = smooth.tolist()
            say(f"step {clock.steps}, {clock.part:.0%} of the time, error {error:.4f} of the variance, KL {kl:.3f}")
    say(f"{clock.steps - 1} steps, {seen / 1e6:,.0f}M tokens")
    return model.eval()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("work", type=Path)
    parser.add_argument("--teachers", nargs="+", default=["gte", "e5", "arctic", "mpnet"])
    parser.add_argument("--start", type=Path, help="a folder with twelve layers, of which every second one starts")
    parser.add_argument("--seconds", type=float, default=500, help="for everything, from the start")
    parser.add_argument("--out", type=Path, help="a folder for the weights in small files")
    parser.add_argument("--name", default="ensemble")
    parser.add_argument("--share", type=float, default=1.0, help="of the texts that are read")
    parser.add_argument("--tiny", action="store_true", help="two steps, to test everything")
    arguments = parser.parse_args()
    scale, steps, every = (0.002, 2, 1) if arguments.tiny else (arguments.share, 10**9, 500)
    model = train(arguments.work, arguments.teachers, arguments.start, arguments.seconds, scale, steps, every)
    torch.save(model.state_dict(), arguments.work / f"{arguments.name}.pt")
    if arguments.out:
        write_parts(model.state_dict(), arguments.out, arguments.name)
    say("written")


if __name__ == "__main__":
    main()
