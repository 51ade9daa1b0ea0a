"""Trains MiniLM as an encoder on pairs, a larger encoder's similarities and the teacher's scores.

    python training/train_encoder.py work --seconds 240

A batch comes from one source, so that its other passages are real negatives. There are three losses: cross-entropy to
the positive among all passages of the batch (without those that the larger encoder finds nearly as close), KL to the
larger encoder's similarities over the same passages, and KL to the cross-encoder's scores over a query's own list.
Every third batch uses pieces of passages instead of queries and learns only the larger encoder's similarities, so that
the small encoder stays general. At the end the weights are averaged with MiniLM's at several shares; choose the share
on the sets for choosing settings.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from evaluate import read_exams, report_encoders
from material import DEVICE, SEED, Clock, Material, load_transformer, one_pass, optimizer_of, precision
from mine_dense import CLOSE
from parts import write_parts
from tokens import QUERY_TOKENS, TEXT_TOKENS, Tokens, texts_batch
from transformer import Transformer

RATE, QUERIES, LISTED, SCALE, TEACHER_SCALE = 5e-5, 256, 5, 20.0, 25.0
PIECE = (6, 24)
SHARES = (0.3, 0.5, 0.7, 1.0)
FAR = -1e4


def embed(model: Transformer, tokens: Tokens, at: Tensor, most: int, parts: int) -> Tensor:
    """Embeds texts in `parts` passes, grouped by length to save padding."""
    order = torch.argsort(tokens.length[at])
    made = [model.mean(*texts_batch(tokens, at[some], model.shape.family, most)) for some in order.chunk(parts)]
    return torch.cat(made)[torch.argsort(order)]


def pieces(passages: Tokens, at: Tensor) -> Tokens:
    """Takes a random run of tokens from each passage, to use as a query."""
    length = torch.randint(*PIECE, at.shape, device=at.device).clamp(max=passages.length[at].clamp(min=1))
    room = (passages.length[at] - length).clamp(min=0)
    return Tokens(passages.flat, passages.start[at] + (torch.rand(at.shape, device=at.device) * room).long(), length)


def batches(material: Material, random: np.random.Generator) -> list[np.ndarray]:
    """The batches of one pass, each from a single source, in random order."""
    order = one_pass(material, random)
    source = np.array(material.pairs.query_source)[order]
    made = []
    for number in np.unique(source):
        mine = order[source == number]
        made += [part for part in np.array_split(mine, max(1, round(len(mine) / QUERIES))) if len(part) > 1]
    return [made[i] for i in random.permutation(len(made))]


def taught(similarity: Tensor, teacher: Tensor) -> Tensor:
    """KL between the softmaxes of two similarity matrices over the same passages."""
    target = (teacher.float() * TEACHER_SCALE).softmax(1)
    return functional.kl_div((similarity * TEACHER_SCALE).log_softmax(1), target, reduction="batchmean")


def query_loss(model: Transformer, at: Tensor, material: Material, mined: dict, scored: dict) -> Tensor:
    lists, scores = scored["lists"][at], scored["scores"][at]
    others = torch.rand(len(at), lists.size(1) - 1, device=DEVICE).masked_fill(lists[:, 1:] < 0, -1)
    column = torch.cat([torch.zeros_like(at[:, None]), others.topk(LISTED - 1, 1).indices + 1], 1)
    p = lists.gather(1, column).clamp(min=0)
    with precision():
        q_vectors = embed(model, material.queries, at, QUERY_TOKENS + 2, 1)
        p_vectors = embed(model, material.passages, p.reshape(-1), TEXT_TOKENS, 4)
    similarity = q_vectors @ p_vectors.T
    teacher = mined["queries"][at] @ mined["passages"][p.reshape(-1)].T
    own = torch.arange(len(at), device=DEVICE) * LISTED
    doubt = teacher > CLOSE * teacher.gather(1, own[:, None])
    doubt |= material.group[p.reshape(-1)][None] == material.group[p[:, 0]][:, None]
    doubt[torch.arange(len(at)), own] = False
    pairs = functional.cross_entropy((similarity * SCALE).masked_fill(doubt, FAR), own)
    listed = similarity.gather(1, own[:, None] + torch.arange(LISTED, device=DEVICE)) * SCALE
    wanted = scores.gather(1, column)
    known = ~wanted.isnan().any(1)
    ranked = functional.kl_div(listed[known].log_softmax(1), wanted[known].softmax(1), reduction="batchmean")
    return pairs + taught(similarity, teacher) + (ranked if known.any() else 0.0)


def piece_loss(model: Transformer, larger: Transformer, at: Tensor, material: Material, mined: dict) -> Tensor:
    queries = pieces(material.passages, at)
    every = torch.arange(len(at), device=DEVICE)
    with torch.no_grad(), precision():
        teacher = embed(larger, queries, every, QUERY_TOKENS + 2, 1).half() @ mined["passages"][at].T
    with precision():
        q_vectors = embed(model, queries, every, QUERY_TOKENS + 2, 1)
        p_vectors = embed(model, material.passages, at, TEXT_TOKENS, 4)
    return taught(q_vectors @ p_vectors.T, teacher)


def averaged(base: dict[str, Tensor], tuned: dict[str, Tensor], share: float) -> dict[str, Tensor]:
    return {key: (1 - share) * base[key] + share * tuned[key] for key in base}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("work", type=Path)
    parser.add_argument("--seconds", type=float, default=240)
    parser.add_argument("--rate", type=float, default=RATE)
    parser.add_argument("--name", default="encoder")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    torch.manual_seed(SEED)
    random = np.random.default_rng(SEED)
    material = torch.load(arguments.work / "material.pt", weights_only=False)
    mined = torch.load(arguments.work / "candidates.pt", map_location=DEVICE)
    scored = torch.load(arguments.work / "scored.pt", map_location=DEVICE)
    model = load_transformer(arguments.work / "minilm")
    larger = load_transformer(arguments.work / "mpnet").eval()
    base = {key: value.clone() for key, value in model.state_dict().items()}
    optimizer = optimizer_of(model, arguments.rate)
    clock = Clock(arguments.seconds, arguments.rate)
    running, passes = 0.0, 0
    while clock.part < 1:
        passes += 1
        for number, batch in enumerate(batches(material, random)):
            if not clock.set(optimizer):
                break
            at = torch.from_numpy(batch).to(DEVICE)
            model.train()
            if number % 3 == 2:
                source = int(material.source[at[0]])
                first, end = material.pairs.first[source], material.pairs.first[source + 1]
                some = torch.randperm(end - first, device=DEVICE)[: 2 * QUERIES] + first
                loss = piece_loss(model, larger, some, material, mined)
            else:
                loss = query_loss(model, at, material, mined, scored)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            running = loss.detach() if not running else 0.98 * running + 0.02 * loss.detach()
            if clock.steps % 200 == 0:
                print(f"step {clock.steps}, {clock.part:.0%} of the time, loss {float(running):.3f}", flush=True)
    print(f"{clock.steps} steps, {passes} passes begun", flush=True)
    tuned = model.state_dict()
    torch.save(tuned, arguments.work / f"{arguments.name}.pt")
    if arguments.out:
        write_parts(tuned, arguments.out, arguments.name)
    models = {"minilm": load_transformer(arguments.work / "minilm")}
    for share in SHARES:
        models[f"share {share}"] = load_transformer(arguments.work / "minilm")
        models[f"share {share}"].load_state_dict(averaged(base, tuned, share))
    report_encoders({**models, "mpnet": larger}, read_exams(arguments.work))


if __name__ == "__main__":
    main()
