"""Trains a six-layer encoder to give the vectors of larger ones, on unlabelled text.

    python training/distill.py student WORK --seconds 420 --out OUT     # one teacher: gte-small
    python training/distill.py joint   WORK --seconds 480 --out OUT     # two teachers, side by side: gte-small, MiniLM

The student starts from six of gte-small's twelve layers; the embeddings stay as they are. The teachers see the same
tokens. The loss is the squared error of the vectors, as a share of the teacher's variance, and a smaller, decaying
share of the same for the states of the tokens after every second layer of gte-small. `joint` has one more product,
from 384 to 768 numbers; `--start WORK/student.pt` starts it from a trained student.

Only what was trained is written: WORK/NAME.pt, and OUT/NAME.00, OUT/NAME.01, … in half precision. Then all encoders
are compared (`compare_floats.py`). With `--limit`, training stops early enough for that.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from compare_floats import LAYERS, compare
from flat import Batch, FlatEncoder, Joint, load_encoder
from material import DEVICE, SEED, Clock, optimizer_of, precision
from parts import write_parts
from student_text import batches_of

RATE, BETAS = 1.2e-3, (0.9, 0.98)
VECTORS, STATES, INNER = 2.0, 0.3, 0.1
KEPT = {"student": 0.2, "joint": 0.0}
"""The share of the weight of the last states that is left at the end."""
JUDGING = 90
"""Seconds kept for the comparison at the end, if there is a limit."""
_BEGUN = time.perf_counter()

Run = Callable[..., list[Tensor]]


def starting(kind: str, gte: Path, start: Path | None) -> FlatEncoder:
    model = load_encoder(gte, DEVICE, LAYERS)
    if kind == "joint":
        wide = Joint(model.shape, 2)
        wide.load_state_dict({**wide.state_dict(), **model.state_dict()})
        model = wide.to(DEVICE)
    if start:
        model.load_state_dict({**model.state_dict(), **torch.load(start, map_location=DEVICE)})
    for part in (model.words, model.positions, model.types, model.norm):
        part.requires_grad_(False)
    return model.train()


def trained(model: FlatEncoder) -> dict[str, Tensor]:
    """The weights that training changes."""
    return {key: value for key, value in model.state_dict().items() if key.startswith(("layers.", "head."))}


def share(found: Tensor, wanted: Tensor, mask: Tensor | None = None) -> Tensor:
    """The squared error as a share of the variance of what is wanted; `mask`: of these rows alone."""
    found, wanted = found.float(), wanted.float()
    kept = torch.ones_like(wanted[:, :1]) if mask is None else mask.unsqueeze(1).float()
    mean = (wanted * kept).sum(0) / kept.sum()
    spread = ((wanted - mean).square() * kept).sum()
    return ((found - wanted).square() * kept).sum() / spread


def loss_of(
    model: FlatEncoder, run: Run, teachers: list[tuple[FlatEncoder, Run]], batch: Batch, kept: float, part: float
) -> tuple[Tensor, Tensor]:
    """The loss at this part of the time, and the error of the vectors alone."""
    wanted = []
    with torch.no_grad(), precision():
        for number, (teacher, run_teacher) in enumerate(teachers):
            states = run_teacher(teacher.embedded(batch), batch.biases, batch.blocks)
            wanted.append(teacher.vectors(states[-1], batch))
            if number == 0:
                hints = states[1::2]
    with precision():
        states = run(model.embedded(batch), batch.biases, batch.blocks)
        vectors = model.vectors(states[-1], batch)
    parts = vectors.view(len(vectors), len(wanted), -1).unbind(1)
    scale = len(wanted) ** 0.5
    error = torch.stack([share(one * scale, other) for one, other in zip(parts, wanted, strict=True)]).mean()
    last = share(states[-1], hints[-1], batch.mask)
    inner = torch.stack([share(one, other, batch.mask) for one, other in zip(states[:-1], hints[:-1], strict=True)])
    loss = VECTORS * error + STATES * (1 - (1 - kept) * part) * last + INNER * (1 - part) * inner.mean()
    return loss, error.detach()


def fastest(model: FlatEncoder, teachers: list[FlatEncoder], draw: Callable[[], Batch]) -> tuple[Run, list[Run]]:
    """Compiles the networks if that works and is faster here."""

    def seconds(run: Run, others: list[Run], steps: int) -> float:
        for step in range(steps + 3):
            if step == 3:
                _wait()
                begun = time.perf_counter()
            loss, _ = loss_of(model, run, list(zip(teachers, others, strict=True)), draw(), 0.2, 0.0)
            loss.backward()
        _wait()
        model.zero_grad(set_to_none=True)
        return (time.perf_counter() - begun) / steps

    plain = model, list(teachers)
    before = seconds(*plain, 20)
    try:
        compiled = torch.compile(model), [torch.compile(teacher) for teacher in teachers]
        after = seconds(*compiled, 20)
    except Exception as error:  # a compiler that does not work here costs speed and nothing else
        print(f"not compiled: {type(error).__name__}: {str(error)[:200]}", flush=True)
        return plain
    print(f"a step takes {before * 1000:.1f} ms, compiled {after * 1000:.1f} ms", flush=True)
    return compiled if after < before else plain


def _wait() -> None:
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def train(arguments: argparse.Namespace) -> FlatEncoder:
    work, kind = arguments.work, arguments.kind
    torch.manual_seed(SEED)
    draw = batches_of(work, DEVICE, arguments.scale, arguments.most)
    names = ("gte", "minilm") if kind == "joint" else ("gte",)
    teachers = [load_encoder(work / name, DEVICE) for name in names]
    model = starting(kind, work / "gte", arguments.start)
    tokens = len(draw().ids)
    print(f"{time.perf_counter() - _BEGUN:.0f} s: read; {tokens:,} tokens in a batch, padding included", flush=True)
    run, runs = fastest(model, teachers, draw) if arguments.compile else (model, list(teachers))
    seconds = arguments.seconds
    if arguments.limit:
        seconds = min(seconds, arguments.limit - JUDGING - (time.perf_counter() - _BEGUN))
        if seconds <= 0:
            raise SystemExit(f"--limit {arguments.limit:g} leaves no time to train: the comparison needs {JUDGING} s.")
    optimizer = optimizer_of(model, RATE, BETAS)
    clock = Clock(seconds, RATE)
    smooth = torch.zeros((), device=DEVICE)
    while clock.set(optimizer) and clock.steps <= arguments.steps:
        pairs = list(zip(teachers, runs, strict=True))
        loss, error = loss_of(model, run, pairs, draw(), KEPT[kind], min(1.0, clock.part))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        smooth = error if clock.steps == 1 else 0.98 * smooth + 0.02 * error
        if clock.steps % arguments.every == 0:
            print(f"step {clock.steps}, {clock.part:.0%} of the time, error {float(smooth):.4f}", flush=True)
    print(
        f"{clock.steps - 1} steps in {clock.part * seconds:.0f} s, {(clock.steps - 1) * tokens / 1e6:,.0f}M tokens, "
        f"error {float(smooth):.4f} of the variance",
        flush=True,
    )
    return model.eval()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=("student", "joint"))
    parser.add_argument("work", type=Path)
    parser.add_argument("--seconds", type=float, default=420)
    parser.add_argument("--limit", type=float, help="seconds for everything, from start to end")
    parser.add_argument("--start", type=Path, help="trained weights to start from: WORK/student.pt")
    parser.add_argument("--out", type=Path, help="a folder for the weights in small files, and for the report")
    parser.add_argument("--name", help="the name of the result; otherwise student or joint")
    parser.add_argument("--compile", action="store_true", help="use torch.compile if it works and is faster")
    parser.add_argument("--every", type=int, default=500, help="steps between two lines of progress")
    parser.add_argument("--tiny", action="store_true", help="two steps with few texts, to test everything")
    arguments = parser.parse_args()
    arguments.scale, arguments.most, arguments.steps = (0.05, 2000, 2) if arguments.tiny else (1.0, None, 10**9)
    if arguments.tiny:
        arguments.every = 1
    name = arguments.name or arguments.kind
    model = train(arguments)
    torch.save(trained(model), arguments.work / f"{name}.pt")
    if arguments.out:
        write_parts(trained(model), arguments.out, name)
    print(f"{time.perf_counter() - _BEGUN:.0f} s: written", flush=True)
    compare(arguments.work, arguments.out, 8 if arguments.tiny else None)
    print(f"{time.perf_counter() - _BEGUN:.0f} s: done", flush=True)


if __name__ == "__main__":
    main()
