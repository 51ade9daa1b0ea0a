"""Trains a small reranker: a cross-encoder from a small encoder that learns the positives and the teacher's scores.

    python training/train_reranker.py work --name a --seconds 255 --scored --dropout 0
    python training/train_reranker.py work --name b --seconds 280
    python training/train_reranker.py work --name c --seconds 150 --most 2000 --start work/encoder.pt
    python training/train_reranker.py work --name six --seconds 450 --model bge --similar 1

Loss: cross-entropy to the positive (doubtful candidates left out), a yes or no for each, + soft · KL to the teacher's
softmax, for queries that the teacher scored. With `--similar`, the encoders' mean similarity is added to its scores.
`export.py` averages the three models; docs/results/models.md says why there are three.
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
from score_teacher import COLUMNS
from train_teacher import YES_OR_NO, yes_or_no
from transformer import CrossEncoder

GROUPS, LISTED, PARTS = 64, 8, 3
FAR = -1e4


def loss_of(scores: Tensor, teacher: Tensor, clear: Tensor, soft: float) -> Tensor:
    """The loss of a batch. `clear` marks the positive (the first column) and the candidates that are not doubtful."""
    first = torch.zeros(len(scores), dtype=torch.long, device=scores.device)
    hard = functional.cross_entropy(scores.masked_fill(~clear, FAR), first)
    hard = hard + YES_OR_NO * yes_or_no(scores, clear)
    known = ~teacher.isnan().any(1)
    if not known.any():
        return hard
    target = teacher[known].softmax(1)
    return hard + soft * functional.kl_div(scores[known].log_softmax(1), target, reduction="sum") / len(scores)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("work", type=Path)
    parser.add_argument("--seconds", type=float, default=270)
    parser.add_argument("--soft", type=float, default=1.0)
    parser.add_argument("--similar", type=float, default=0.0, help="the weight of the encoders' similarity")
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--scored", action="store_true", help="train only on queries that the teacher scored")
    parser.add_argument("--most", type=int, help="the most queries of each documentation source in a pass")
    parser.add_argument("--model", default="minilm", help="the folder of the encoder in work to start from")
    parser.add_argument("--start", type=Path, help="weights of a trained encoder to start from, instead of its own")
    parser.add_argument("--rate", type=float, default=1e-4)
    parser.add_argument("--name", default="reranker")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    torch.manual_seed(SEED)
    random = np.random.default_rng(SEED)
    material = torch.load(arguments.work / "material.pt", weights_only=False)
    mined = torch.load(arguments.work / "candidates.pt", map_location=DEVICE)
    scored = torch.load(arguments.work / "scored.pt", map_location=DEVICE)
    clear = ~mined["doubtful"][:, list(COLUMNS)]
    clear = torch.cat([torch.ones_like(clear[:, :1]), clear], 1)
    columns = [0, *(1 + column for column in COLUMNS)]
    taught = scored["scores"] + arguments.similar * mined["similar"][:, columns]
    usable = (scored["lists"] >= 0).all(1)
    if arguments.scored:
        usable &= ~scored["scores"].isnan().any(1)
    body = load_transformer(arguments.work / arguments.model, arguments.dropout)
    step = len(body.layers) // arguments.layers
    body.layers = torch.nn.ModuleList(body.layers[: step * arguments.layers : step])
    if arguments.start:
        body.load_state_dict({**body.state_dict(), **torch.load(arguments.start, map_location=DEVICE)})
    model = CrossEncoder(body).to(DEVICE)
    optimizer = optimizer_of(model, arguments.rate)
    queries, chosen = half_spoken(material)
    clock = Clock(arguments.seconds, arguments.rate)
    running = 0.0
    while clock.part < 1:
        order = torch.from_numpy(one_pass(material, random, arguments.most)).to(DEVICE)
        order = order[usable[order]]
        for at in order.split(GROUPS):
            if not clock.set(optimizer):
                break
            others = torch.rand(len(at), len(COLUMNS), device=DEVICE).topk(LISTED - 1, 1).indices + 1
            column = torch.cat([torch.zeros_like(others[:, :1]), others], 1)
            p = scored["lists"][at].gather(1, column)
            q = chosen(at)[:, None].expand_as(p)
            model.train()
            with precision():
                found = pair_scores(model, queries, q.reshape(-1), material.passages, p.reshape(-1), PARTS)
            teacher = taught[at].gather(1, column)
            loss = loss_of(found.float().view_as(p), teacher, clear[at].gather(1, column), arguments.soft)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            running = loss.detach() if not running else 0.98 * running + 0.02 * loss.detach()
            if clock.steps % 500 == 0:
                print(f"step {clock.steps}, {clock.part:.0%} of the time, loss {float(running):.3f}", flush=True)
    print(f"{clock.steps} steps of {GROUPS} groups ({clock.steps * GROUPS / len(order):.2f} passes)", flush=True)
    torch.save(model.state_dict(), arguments.work / f"{arguments.name}.pt")
    if arguments.out:
        write_parts(model.state_dict(), arguments.out, arguments.name)
    judge(arguments.name, model, arguments.work, arguments.out)


if __name__ == "__main__":
    main()
