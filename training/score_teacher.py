"""Scores the positive and fifteen candidates of each training query with the teacher.

    python training/score_teacher.py work --seconds 170

Queries are scored once, in random order, until the time is up; the other queries have NaN as scores.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import torch

from material import DEVICE, SEED, load_transformer, one_pass, pair_scores, precision
from transformer import CrossEncoder

COLUMNS = (*range(10), 10, 13, 16, 19, 22)
"""The candidates to score, by rank from 0: the ten best and five further down."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("work", type=Path)
    parser.add_argument("--model", default="mpnet", help="the folder in work that the teacher started from")
    parser.add_argument("--seconds", type=float, default=170)
    arguments = parser.parse_args()
    material = torch.load(arguments.work / "material.pt", weights_only=False)
    mined = torch.load(arguments.work / "candidates.pt", map_location=DEVICE)
    model = CrossEncoder(load_transformer(arguments.work / arguments.model)).to(DEVICE)
    model.load_state_dict(torch.load(arguments.work / "teacher.pt"))
    model.eval()
    lists = torch.cat([material.positive[:, None], mined["candidates"][:, list(COLUMNS)]], 1)
    scores = torch.full(lists.shape, float("nan"), device=DEVICE)
    order = torch.from_numpy(one_pass(material, np.random.default_rng(SEED + 1))).to(DEVICE)
    started, done = time.perf_counter(), 0
    with torch.no_grad(), precision():
        for at in order.split(512):
            if time.perf_counter() - started > arguments.seconds:
                break
            p = lists[at].clamp(min=0)
            q = at[:, None].expand_as(p)
            found = pair_scores(model, material.queries, q.reshape(-1), material.passages, p.reshape(-1), 16)
            scores[at] = found.view_as(p).masked_fill(lists[at] < 0, float("nan"))
            done += len(at)
    first = (scores[:, :1] >= scores.nan_to_num(-1e9)).all(1) & ~scores[:, 0].isnan()
    share = float(first.sum() / (~scores[:, 0].isnan()).sum())
    print(f"scored {done:,} of {len(order):,} queries; the positive is first for {share:.3f}", flush=True)
    torch.save({"lists": lists, "scores": scores}, arguments.work / "scored.pt")


if __name__ == "__main__":
    main()
