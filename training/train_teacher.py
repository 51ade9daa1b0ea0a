"""Trains the teacher, a larger cross-encoder: softmax over a positive and seven clear negatives, a yes or no for each.

The yes or no gives a score a meaning of its own, which confidence needs: does this passage answer this question?

    python training/train_teacher.py work --model mpnet --seconds 290
    python training/train_teacher.py work --model bge --seconds 550 --rate 8e-5

Negatives that `mine_dense.py` marked as doubtful are not used.
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

GROUPS, NEGATIVES, PARTS = 64, 7, 4
YES_OR_NO = 0.5


def yes_or_no(scores: Tensor, counted: Tensor) -> Tensor:
    """The loss of scores as log-odds: the first column is right, the others are wrong; `counted` ones alone count."""
    right = torch.zeros_like(scores)
    right[:, 0] = 1.0
    return functional.binary_cross_entropy_with_logits(scores[counted], right[counted])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("work", type=Path)
    parser.add_argument("--model", default="mpnet", help="the folder of the encoder in work to start from")
    parser.add_argument("--seconds", type=float, default=290)
    parser.add_argument("--rate", type=float, default=3e-5)
    parser.add_argument("--depth", type=int, default=50, help="passages to read when it is judged; 0: do not judge")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    torch.manual_seed(SEED)
    random = np.random.default_rng(SEED)
    material = torch.load(arguments.work / "material.pt", weights_only=False)
    mined = torch.load(arguments.work / "candidates.pt", map_location=DEVICE)
    usable = (mined["candidates"] >= 0) & ~mined["doubtful"]
    model = load_transformer(arguments.work / arguments.model, ranks=True, dropout=0.1)
    if model.relative is not None:
        model.relative.weight.requires_grad_(False)  # the fast attention kernel needs a bias without gradient
    model.words.requires_grad_(False)
    optimizer = optimizer_of(model, arguments.rate)
    queries, chosen = half_spoken(material)
    clock = Clock(arguments.seconds, arguments.rate)
    running = 0.0
    while clock.part < 1:
        order = torch.from_numpy(one_pass(material, random)).to(DEVICE)
        order = order[usable[order].sum(1) >= NEGATIVES]
        for at in order.split(GROUPS):
            if not clock.set(optimizer):
                break
            # Negatives are drawn at random from the usable ones, so that a second pass sees other negatives.
            lot = torch.rand_like(usable[at], dtype=torch.float).masked_fill(~usable[at], -1).topk(NEGATIVES, 1).indices
            p = torch.cat([material.positive[at][:, None], mined["candidates"][at].gather(1, lot)], 1)
            q = chosen(at)[:, None].expand_as(p)
            model.train()
            with precision():
                scores = pair_scores(model, queries, q.reshape(-1), material.passages, p.reshape(-1), PARTS)
            scores = scores.float().view_as(p)
            loss = functional.cross_entropy(scores, torch.zeros_like(at))
            loss = loss + YES_OR_NO * yes_or_no(scores, torch.ones_like(scores, dtype=torch.bool))
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            running = loss.detach() if not running else 0.98 * running + 0.02 * loss.detach()
            if clock.steps % 200 == 0:
                print(f"step {clock.steps}, {clock.part:.0%} of the time, loss {float(running):.3f}", flush=True)
    print(f"{clock.steps} steps of {GROUPS} groups ({clock.steps * GROUPS / len(order):.2f} passes)", flush=True)
    torch.save(model.state_dict(), arguments.work / "teacher.pt")
    if arguments.out:
        changed = {key: value for key, value in model.state_dict().items() if key != "words.weight"}
        write_parts(changed, arguments.out, "teacher")
    if arguments.depth:
        judge("teacher", model, arguments.work, arguments.out, arguments.depth)


if __name__ == "__main__":
    main()
