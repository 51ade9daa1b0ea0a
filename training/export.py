"""Exports trained weights as int8 ONNX, with the same code that exports a user's own models.

    python training/export.py reranker FOLDER work/a.pt [work/b.pt …]          # averages several files
    python training/export.py encoder FOLDER work/encoder.pt --share 0.5       # averages with MiniLM's own weights

Needs `pip install ./models '.[train]'`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from surefind_models import path
from torch import Tensor

from surefind.train.export import export
from surefind.train.network import load_network


def average(states: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    return {key: torch.stack([state[key].float() for state in states]).mean(0) for key in states[0]}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=("reranker", "encoder"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("weights", type=Path, nargs="+")
    parser.add_argument("--share", type=float, default=1.0, help="share of the trained weights; the rest is MiniLM's")
    parser.add_argument("--start", type=Path, default=path("minilm"), help="a folder with the weights of MiniLM")
    parser.add_argument(
        "--spread", type=float, default=0.0, help="the median spread of a reranker's scores; evaluate_folder prints it"
    )
    parser.add_argument("--precise", action="store_true", help="do not quantise, to measure what 8 bits cost")
    arguments = parser.parse_args()
    ranks = arguments.kind == "reranker"
    network, _ = load_network(arguments.start, ranks)
    found = average([torch.load(file, map_location="cpu") for file in arguments.weights])
    trained = {key.removeprefix("body."): value for key, value in found.items()}
    own = network.state_dict()
    mixed = {key: arguments.share * trained[key] + (1 - arguments.share) * own[key] for key in own if key in trained}
    network.load_state_dict({**own, **mixed})
    tokenizer = path("minilm") / "tokenizer.json"
    export(network, tokenizer, arguments.folder, arguments.folder.name, 256, arguments.spread, arguments.precise)
    print(f"{arguments.folder / 'model.onnx'}: {(arguments.folder / 'model.onnx').stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
