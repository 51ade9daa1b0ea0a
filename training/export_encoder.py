"""Exports a distilled encoder as int8 ONNX, and measures what eight bits cost.

    python training/export_encoder.py FOLDER WORK/student [WORK/ensemble.pt] [--texts FILE] [--strength 0.5]

The second folder has the tokenizer and the shape, and the weights too where no .pt file is given. Outliers of
activations are moved into the weights before quantising. FOLDER works with `dense(model=onnx(path=FOLDER))`;
FOLDER-float is the same without quantisation.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from export import MAX_TOKENS, average, load, sample_texts
from surefind.engine.inference.encoder import OnnxEncoder
from surefind.lab.train.export import export
from surefind.lab.train.network import STRENGTH


def cosines(folder: Path, precise: Path, texts: list[str]) -> np.ndarray:
    return (OnnxEncoder(folder).embed(texts) * OnnxEncoder(precise).embed(texts)).sum(1)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("start", type=Path, help="a folder with the tokenizer, the shape and weights")
    parser.add_argument("trained", type=Path, nargs="?", help="trained weights: WORK/ensemble.pt")
    parser.add_argument("--texts", type=Path, help="texts to compare on, one a line; otherwise 312 sample texts")
    parser.add_argument("--strength", type=float, default=STRENGTH, help="of the smoothing, from 0 to 1")
    parser.add_argument("--pooling", choices=("mean", "cls"), default="mean")
    arguments = parser.parse_args()
    folder, precise = arguments.folder, arguments.folder.with_name(f"{arguments.folder.name}-float")
    trained = average([arguments.trained]) if arguments.trained else {}
    network = load(arguments.start, trained, ranks=False, pooling=arguments.pooling)
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
