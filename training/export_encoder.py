"""Exports a distilled encoder as int8 ONNX, and measures what eight bits cost.

    python training/export_encoder.py FOLDER WORK/gte WORK/student.pt [--texts FILE] [--weight 0.5] [--strength 0.5]

The embeddings are gte-small's, the layers are the trained ones. Outliers of activations are moved into the weights
before quantising. FOLDER works with `dense(model=onnx(path=FOLDER))`; FOLDER-float is the same without quantisation.
A trained student in a folder with model.safetensors can be given instead of WORK/gte, without a .pt file.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from pack_weights import read_packed
from surefind.inference.encoder import OnnxEncoder
from surefind.train.export import export
from surefind.train.network import Network, Shape
from surefind.train.smoothing import STRENGTH
from transformer import Shape as Upstream
from transformer import upstream_state

sys.path.append(str(Path(__file__).parents[1] / "models" / "scripts"))
from sample_texts import sample_texts

MAX_TOKENS = 256


class JointNetwork(Network):
    """An encoder whose vectors are those of two teachers, side by side."""

    def __init__(self, shape: Shape, weight: float) -> None:
        """`weight`: of the first teacher in the similarity of two vectors; the second has the rest."""
        super().__init__(shape, ranks=False)
        self.head = nn.Linear(shape.width, 2 * shape.width)
        self.weights = weight**0.5, (1 - weight) ** 0.5

    @property
    def dimension(self) -> int:
        return 2 * self.shape.width

    def vectors(self, means: Tensor) -> Tensor:
        first, second = (super(JointNetwork, self).vectors(part) for part in self.head(means).chunk(2, dim=1))
        return torch.cat([first * self.weights[0], second * self.weights[1]], 1)


def load(start: Path, trained: Path | None, weight: float) -> Network:
    upstream = Upstream.read(start / "config.json")
    state = {key: value for key, value in upstream_state(read_packed(start)).items() if not key.startswith("pooler.")}
    if trained:
        state = {key: value for key, value in state.items() if not key.startswith("layers.")}
        state |= {key: value.float() for key, value in torch.load(trained, map_location="cpu").items()}
    layers = 1 + max(int(key.split(".")[1]) for key in state if key.startswith("layers."))
    shape = Shape(
        upstream.width, upstream.heads, layers, upstream.inner, upstream.vocabulary, len(state["positions.weight"])
    )
    network = JointNetwork(shape, weight) if "head.weight" in state else Network(shape, ranks=False)
    network.load_state_dict(state)
    return network


def cosines(folder: Path, precise: Path, texts: list[str]) -> np.ndarray:
    return (OnnxEncoder(folder).embed(texts) * OnnxEncoder(precise).embed(texts)).sum(1)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("start", type=Path, help="a folder with weights of the embeddings: WORK/gte")
    parser.add_argument("trained", type=Path, nargs="?", help="the trained layers: WORK/student.pt or WORK/joint.pt")
    parser.add_argument("--texts", type=Path, help="texts to compare on, one a line; otherwise 312 sample texts")
    parser.add_argument("--weight", type=float, default=0.5, help="of the first teacher of a joint encoder")
    parser.add_argument("--strength", type=float, default=STRENGTH, help="of the smoothing, from 0 to 1")
    arguments = parser.parse_args()
    folder, precise = arguments.folder, arguments.folder.with_name(f"{arguments.folder.name}-float")
    network = load(arguments.start, arguments.trained, arguments.weight)
    tokenizer = arguments.start / "tokenizer.json"
    sample = sample_texts()
    texts = arguments.texts.read_text(encoding="utf-8").splitlines() if arguments.texts else sample
    export(network, tokenizer, precise, folder.name, MAX_TOKENS, precise=True)
    export(network, tokenizer, folder, folder.name, MAX_TOKENS, texts=sample[::3], strength=arguments.strength)
    found = cosines(folder, precise, texts)
    size = (folder / "model.onnx").stat().st_size
    print(f"{size:,} bytes; cosine to float on {len(texts)} texts: mean {found.mean():.4f}, least {found.min():.4f}")


if __name__ == "__main__":
    main()
