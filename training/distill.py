"""Trains a six-layer encoder to give the summed similarities of larger ones, on unlabelled text.

    python training/distill.py WORK --teachers gte e5 arctic mpnet --seconds 500 --out OUT

The teachers read every text once, each in its own way (`teachers.py`); their vectors, side by side and projected to the
student's width, are what it learns. The loss is the squared error as a share of their variance. Whether the teachers'
vectors are centred first is decided by how high they rank the passages of training questions.

The student starts from WORK/student, or with `--start` from six layers of another folder. WORK/NAME.pt and OUT/NAME.00,
OUT/NAME.01, … in half precision have all of its weights, WORK/target.pt what it learned to copy.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from flat import FlatEncoder, embed, load_encoder
from material import DEVICE, SEED, Clock, precision
from parts import write_parts
from student_text import ASKED, Texts, batches_of, texts_of
from teachers import Target, Teacher, first_found

RATE, BETAS = 1e-3, (0.9, 0.98)
OF_EMBEDDINGS = 0.2
"""The rate of the embeddings, as a share of that of the layers."""
LEARNING = 100_000
"""Texts of questions and of passages from which the projection is learnt."""
CHECKED = 3_000
"""Training questions that decide between centred vectors and vectors as they are."""
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


def target_of(texts: dict[str, Texts], vectors: dict[str, dict[str, Tensor]], width: int, dice: np.random.Generator) -> Target:
    def drawn(kind: str, number: int) -> dict[str, Tensor]:
        at = torch.from_numpy(dice.integers(0, len(texts[kind].tokens), number)).to(DEVICE)
        return {name: rows[at] for name, rows in vectors[kind].items()}

    number = min(LEARNING, *(len(texts[kind].tokens) for kind in ("questions", "passages")))
    positive = texts["questions"].positive
    checked = dice.permutation(np.flatnonzero(positive >= 0))[:CHECKED]
    asked = {name: rows[torch.from_numpy(checked).to(DEVICE)] for name, rows in vectors["questions"].items()}
    found = {}
    for centred in (False, True):
        target = Target.learn(drawn("questions", number), drawn("passages", number), width, centred)
        whole = target.joined(asked), target.joined(vectors["passages"]).half()
        made = target.vectors(asked), target.vectors(vectors["passages"])
        scores = [first_found(q, p, positive[checked]) for q, p in (whole, made)]
        found[scores[1]] = target
        say(f"centred: {centred}; reciprocal rank of teachers {scores[0]:.4f}, projected to {width} {scores[1]:.4f}")
    for name, rows in asked.items():
        say(f"{name} alone: {first_found(rows, vectors['passages'][name], positive[checked]):.4f}")
    return found[max(found)]


def optimizer_of(model: FlatEncoder) -> torch.optim.AdamW:
    embedding = [*model.words.parameters(), *model.positions.parameters(), *model.types.parameters()]
    layers = [p for p in model.layers.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    groups = [
        {"params": layers, "weight_decay": 0.01, "share": 1.0},
        {"params": others, "weight_decay": 0.0, "share": 1.0},
        {"params": embedding, "weight_decay": 0.0, "share": OF_EMBEDDINGS},
    ]
    return torch.optim.AdamW(groups, lr=RATE, betas=BETAS, fused=DEVICE == "cuda")


def error_of(found: Tensor, wanted: Tensor, mean: Tensor) -> Tensor:
    """The squared error as a share of the variance of what is wanted."""
    return (found - wanted).square().sum() / (wanted - mean).square().sum()


def train(work: Path, names: list[str], start: Path | None, seconds: float, scale: float, steps: int, every: int) -> FlatEncoder:
    torch.manual_seed(SEED)
    dice = np.random.default_rng(SEED)
    texts = texts_of(work, DEVICE, dice, scale)
    tokens = sum(int(some.tokens.length.clamp(max=254).sum()) for some in texts.values())
    say(f"{sum(len(some.tokens) for some in texts.values()):,} texts, {tokens:,} tokens")
    vectors = read_by_teachers(work, names, texts)
    model = load_encoder(start, DEVICE, SIX_OF_TWELVE) if start else load_encoder(work / "student", DEVICE)
    target = target_of(texts, vectors, model.shape.width, dice)
    some = texts["passages"].tokens
    at = torch.arange(0, len(some), max(1, len(some) // 20_000), device=DEVICE)
    own = embed(model, type(some)(some.flat, some.start[at], some.length[at]))
    target = target.turned(target.vectors({k: rows[at] for k, rows in vectors["passages"].items()}), own)
    torch.save(target, work / "target.pt")
    wanted = {kind: target.vectors(rows) for kind, rows in vectors.items()}
    del vectors
    mean = torch.stack([rows.float().mean(0) for rows in wanted.values()]).mean(0)
    draw = batches_of(texts, wanted, dice)
    model.train()
    optimizer = optimizer_of(model)
    say("training")
    clock, smooth, seen = Clock(seconds - (time.perf_counter() - _BEGUN), RATE), torch.zeros((), device=DEVICE), 0
    while clock.set(optimizer) and clock.steps <= steps:
        batch, aim = draw()
        with precision():
            error = error_of(model(batch), aim.float(), mean)
        optimizer.zero_grad(set_to_none=True)
        error.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        seen += len(batch.ids)
        smooth = error.detach() if clock.steps == 1 else 0.98 * smooth + 0.02 * error.detach()
        if clock.steps % every == 0:
            say(f"step {clock.steps}, {clock.part:.0%} of the time, error {float(smooth):.4f} of the variance")
    say(f"{clock.steps - 1} steps, {seen / 1e6:,.0f}M tokens, error {float(smooth):.4f} of the variance")
    return model.eval()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("work", type=Path)
    parser.add_argument("--teachers", nargs="+", default=["gte", "e5", "arctic", "mpnet"])
    parser.add_argument("--start", type=Path, help="a folder with twelve layers, of which every second one starts")
    parser.add_argument("--seconds", type=float, default=500, help="for everything, from the start")
    parser.add_argument("--out", type=Path, help="a folder for the weights in small files")
    parser.add_argument("--name", default="ensemble")
    parser.add_argument("--tiny", action="store_true", help="two steps, to test everything")
    arguments = parser.parse_args()
    scale, steps, every = (0.002, 2, 1) if arguments.tiny else (1.0, 10**9, 500)
    model = train(arguments.work, arguments.teachers, arguments.start, arguments.seconds, scale, steps, every)
    torch.save(model.state_dict(), arguments.work / f"{arguments.name}.pt")
    if arguments.out:
        write_parts(model.state_dict(), arguments.out, arguments.name)
    say("written")


if __name__ == "__main__":
    main()
