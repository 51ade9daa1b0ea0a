"""Finds candidates for every training query: the best passages of its source by BM25 and by encoders, fused by
reciprocal rank. Candidates nearly as close as the positive, by the encoders' mean similarity, are marked doubtful.

    python training/mine_dense.py WORK minilm gte                # folders in WORK, or NAME.pt for a trained student

Reads the files of pairs in WORK and WORK/lexical.npz; writes WORK/candidates.pt: candidates, doubtful, and the mean
similarity of the positive (the first column) and of every candidate.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from material import DEVICE, Material, load_material
from teachers import load_teacher

DEPTH = 32
KEPT = 24
CLOSE = 0.95
"""A negative whose similarity is above this share of the positive's may be an unmarked positive. An encoder's
similarities count from their mean over unrelated texts, which is 0.7 for some, and in units of their spread there."""
NONE = 65_535


def lists_by(q_vectors: Tensor, p_vectors: Tensor, material: Material) -> Tensor:
    """Finds the nearest passages of each query within its source."""
    first = material.pairs.first
    found = torch.full((len(q_vectors), DEPTH), -1, dtype=torch.long, device=DEVICE)
    for number in range(len(material.pairs.sources)):
        here = p_vectors[first[number] : first[number + 1]]
        for at in torch.nonzero(material.source == number).flatten().split(4096):
            best = (q_vectors[at] @ here.T).topk(min(DEPTH, len(here)), dim=1).indices
            found[at, : best.size(1)] = best + first[number]
    return found


def similarities(q: Tensor, p: Tensor, numbers: Tensor) -> Tensor:
    """Of each query with these passages: 0 as for unrelated texts on average, in units of their spread."""

    def with_queries(column: Tensor) -> Tensor:
        return torch.cat([(a * p[at]).sum(1) for a, at in zip(q.split(8192), column.split(8192), strict=True)]).float()

    unrelated = with_queries(torch.randint(len(p), (len(q),), device=DEVICE))
    found = torch.stack([with_queries(column.clamp(min=0)) for column in numbers.T], 1)
    return (found - unrelated.mean()) / unrelated.std()


def lexical_lists(file: Path, material: Material) -> Tensor:
    table = torch.from_numpy(np.load(file)["lexical"].astype(np.int64)).to(DEVICE)
    first = torch.tensor(material.pairs.first, device=DEVICE)[material.source]
    return torch.where(table == NONE, -1, table + first[:, None])


def joined(lists: list[Tensor], material: Material) -> Tensor:
    """Ranks candidates by the sum of 1 / (10 + rank), without positives and passages of their groups."""
    rows = []
    groups = material.group
    positives = material.pairs.positives
    most = max(len(p) for p in positives)
    gold = torch.full((len(positives), most), -1)
    for q, numbers in enumerate(positives):
        gold[q, : len(numbers)] = torch.tensor(numbers)
    gold_groups = torch.where(gold.to(DEVICE) >= 0, groups[gold.to(DEVICE).clamp(min=0)], -1)
    for at in torch.arange(len(positives), device=DEVICE).split(8192):
        all_ids = torch.cat([one[at] for one in lists], dim=1)
        gain = torch.cat(
            [(1 / (10 + torch.arange(one.size(1), device=DEVICE))).expand(len(at), -1) for one in lists], 1
        )
        all_ids, order = all_ids.sort(dim=1)
        gain = gain.gather(1, order)
        new = torch.cat([torch.ones_like(all_ids[:, :1], dtype=torch.bool), all_ids[:, 1:] != all_ids[:, :-1]], 1)
        slot = new.long().cumsum(1) - 1
        total = torch.zeros_like(gain).scatter_add(1, slot, gain)
        ids = torch.full_like(all_ids, -1).scatter(1, slot, all_ids)
        wrong = (ids < 0) | (groups[ids.clamp(min=0)][:, :, None] == gold_groups[at][:, None, :]).any(2)
        total = total.masked_fill(wrong, -1.0)
        best = total.topk(KEPT, dim=1)
        rows.append(torch.where(best.values > 0, ids.gather(1, best.indices), -1))
    return torch.cat(rows)


def main(work: Path, encoders: list[str]) -> None:
    started = time.perf_counter()

    def say(what: str) -> None:
        print(f"{time.perf_counter() - started:6.1f} s  {what}", flush=True)

    material = load_material(work)
    say(
        f"{len(material.passages):,} passages, {len(material.queries):,} queries, {len(material.trained):,} to train on"
    )
    lists = [lexical_lists(work / "lexical.npz", material)]
    vectors = []
    for name in encoders:
        encoder = load_teacher(work, name, DEVICE)
        q, p = encoder.embed(material.queries, asked=True), encoder.embed(material.passages, asked=False)
        lists.append(lists_by(q, p, material))
        vectors.append((q, p))
        first = lists[-1][:, 0] == material.positive
        say(f"{name}: positive first for {first[material.trained].float().mean():.3f} of the training queries")
    candidates = joined(lists, material)
    numbers = torch.cat([material.positive[:, None], candidates], 1)
    similar = torch.stack([similarities(q, p, numbers) for q, p in vectors]).mean(0)
    doubtful = (similar[:, 1:] > CLOSE * similar[:, :1]) | (candidates < 0)
    full = (candidates >= 0).all(1).float().mean()
    say(f"doubtful: {doubtful[material.trained].float().mean():.3f}; full lists: {full:.3f}")
    torch.save({"candidates": candidates, "doubtful": doubtful, "similar": similar}, work / "candidates.pt")
    torch.save(material, work / "material.pt")
    say("written")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("work", type=Path)
    parser.add_argument("encoders", nargs="+")
    parsed = parser.parse_args()
    main(parsed.work, parsed.encoders)
