"""Trains several rerankers at once from one teacher, which scores every batch as it comes.

    python training/train_students.py WORK --teacher mpnet --seconds 700 twelve=bge six=minilm --out OUT
    python training/train_students.py WORK --seconds 700 twelve=bge:twelve-start.pt      # from trained weights in WORK

A student is NAME=FOLDER, a folder in WORK with an encoder, or NAME=FOLDER:FILE with weights to start from in its place.
WORK/teacher.pt is what `train_teacher.py` wrote. Loss: cross-entropy to the positive and a yes or no for each passage
(doubtful candidates left out), and KL to the teacher's softmax over all of them.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from judge_rerankers import judge
from material import DEVICE, SEED, Clock, half_spoken, load_transformer, one_pass, optimizer_of, pair_scores, precision
from parts import write_parts
from train_teacher import YES_OR_NO, yes_or_no
from transformer import Transformer

GROUPS, LISTED, PARTS = 64, 8, 6
FAR = -1e4


def loss_of(scores: Tensor, teacher: Tensor, clear: Tensor) -> Tensor:
    """The loss of a batch. `clear` marks the positive (the first column) and the candidates that are not doubtful."""
    first = torch.zeros(len(scores), dtype=torch.long, device=scores.device)
    hard = functional.cross_entropy(scores.masked_fill(~clear, FAR), first)
    soft = functional.kl_div(scores.log_softmax(1), teacher.softmax(1), reduction="batchmean")
    return hard + YES_OR_NO * yes_or_no(scores, clear) + soft


def load_student(work: Path, source: str, dropout: float) -> Transformer:
    folder, _, file = source.partition(":")
    model = load_transformer(work / folder, ranks=True, dropout=dropout)
    if file:
        trained = torch.load(work / file, map_location=DEVICE)
        model.load_state_dict({**model.state_dict(), **{key: value.float() for key, value in trained.items()}})
    model.words.requires_grad_(False)
    return model


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("work", type=Path)
    parser.add_argument("students", nargs="+", metavar="NAME=FOLDER[:FILE]")
    parser.add_argument("--teacher", default="mpnet", help="the folder in work that the teacher started from")
    parser.add_argument("--seconds", type=float, default=700)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--rate", type=float, default=6e-5)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    torch.manual_seed(SEED)
    dice = np.random.default_rng(SEED + 1)
    work = arguments.work
    material = torch.load(work / "material.pt", weights_only=False)
    mined = torch.load(work / "candidates.pt", map_location=DEVICE)
    usable = mined["candidates"] >= 0
    teacher = load_transformer(work / arguments.teacher, ranks=True).eval()
    teacher.load_state_dict(torch.load(work / "teacher.pt", map_location=DEVICE))
    sources = dict(one.split("=", 1) for one in arguments.students)
    students = {name: load_student(work, source, arguments.dropout).train() for name, source in sources.items()}
    optimizers = {name: optimizer_of(model, arguments.rate) for name, model in students.items()}
    queries, chosen = half_spoken(material)
    clock = Clock(arguments.seconds, arguments.rate)
    running = dict.fromkeys(students, 0.0)
    while clock.part < 1:
        order = torch.from_numpy(one_pass(material, dice)).to(DEVICE)
        order = order[usable[order].sum(1) >= LISTED - 1]
        for at in order.split(GROUPS):
            going = [clock.set(optimizer) for optimizer in optimizers.values()]
            if not all(going):
                break
            random = torch.rand_like(usable[at], dtype=torch.float).masked_fill(~usable[at], -1)
            lot = random.topk(LISTED - 1, 1).indices
            p = torch.cat([material.positive[at][:, None], mined["candidates"][at].gather(1, lot)], 1)
            q = chosen(at)[:, None].expand_as(p)
            clear = torch.cat([torch.ones_like(lot[:, :1]).bool(), ~mined["doubtful"][at].gather(1, lot)], 1)
            pairs = (queries, q.reshape(-1), material.passages, p.reshape(-1), PARTS)
            with torch.no_grad(), precision():
                taught = pair_scores(teacher, *pairs).float().view_as(p)
            for name, model in students.items():
                with precision():
                    scores = pair_scores(model, *pairs).float().view_as(p)
                loss = loss_of(scores, taught, clear)
                optimizers[name].zero_grad(set_to_none=True)
                loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizers[name].step()
                running[name] = loss.detach() if not running[name] else 0.98 * running[name] + 0.02 * loss.detach()
            if clock.steps // len(students) % 100 == 0:
                losses = ", ".join(f"{name} {float(loss):.3f}" for name, loss in running.items())
                print(f"{clock.steps // len(students)} steps, {clock.part:.0%} of the time: {losses}", flush=True)
    steps = clock.steps // len(students)
    print(f"{steps} steps of {GROUPS} groups ({steps * GROUPS / len(order):.2f} passes)", flush=True)
    for name, model in students.items():
        changed = {key: value for key, value in model.state_dict().items() if key != "words.weight"}
        torch.save(changed, work / f"{name}.pt")
        if arguments.out:
            write_parts(changed, arguments.out, name)
        judge(name, model, work, arguments.out)


if __name__ == "__main__":
    main()
