"""Exports a trained reranker as int8 ONNX, with the same code that exports a user's own models.

    python training/export.py FOLDER WORK/bge WORK/teacher.pt [MORE.pt …] --spread 11.3      # averages several files

The second folder has the tokenizer, the shape, and the weights that training left as they were. Outliers of activations
are moved into the weights before quantising. Needs `pip install ./models '.[train]'`.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from pack_weights import read_packed
from surefind.lab.train.export import export
from surefind.lab.train.network import Network
from transformer import Shape, upstream_state

sys.path.append(str(Path(__file__).parents[1] / "models" / "scripts"))
from sample_texts import sample_texts

MAX_TOKENS = 256


def load(start: Path, trained: dict[str, Tensor], ranks: bool, pooling: str = "mean") -> Network:
    """The network of a packed folder, with trained weights in place of its own."""
    state = {**upstream_state(read_packed(start)), **trained}
    layers = 1 + max(int(key.split(".")[1]) for key in trained or state if key.startswith("layers."))
    shape = replace(Shape.read(start / "config.json"), layers=layers, positions=len(state["positions.weight"]))
    network = Network(shape, ranks, pooling)
    network.load_state_dict({key: state[key].float() for key in network.state_dict()})
    return network


def average(files: list[Path]) -> dict[str, Tensor]:
    """The mean of trained weights, by the names of a network."""
    states = [torch.load(file, map_location="cpu") for file in files]
    return {key: torch.stack([s[key].float() for s in states]).mean(0) for key in states[0]}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("start", type=Path, help="a packed folder: tokenizer, shape and weights")
    parser.add_argument("weights", type=Path, nargs="+")
    parser.add_argument(
        "--spread", type=float, default=0.0, help="the median spread of its scores; the judge prints it"
    )
    parser.add_argument("--precise", action="store_true", help="do not quantise, to measure what 8 bits cost")
    arguments = parser.parse_args()
    network = load(arguments.start, average(arguments.weights), ranks=True)
    export(
        network,
        arguments.start / "tokenizer.json",
        arguments.folder,
        arguments.folder.name,
        MAX_TOKENS,
        arguments.spread,
        arguments.precise,
        texts=sample_texts()[::3],
    )
    print(f"{arguments.folder / 'model.onnx'}: {(arguments.folder / 'model.onnx').stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
