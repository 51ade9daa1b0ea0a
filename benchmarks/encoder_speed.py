"""Texts per second of our encoder beside other runtimes, in one run, in turns.

    python benchmarks/encoder_speed.py FLOAT_FOLDER [--texts 48] [--rounds 5]
    python benchmarks/encoder_speed.py --graphs FOLDER FOLDER …         # one of our models, exported in several ways

FLOAT_FOLDER has a six-layer encoder of the same shape, exported without quantisation (`training/export_encoder.py`
writes one). All ways use all cores and the same texts: pages of this project's documentation of 20 to 250 tokens. Needs
torch, openvino and fastembed beside surefind.

`--graphs` needs nothing else. It takes the processor's time of one thread, one text a call, the folders in turns, and
compares all with the first: how many times as fast, and how much the vectors differ, or the scores of a reranker.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnxruntime
from surefind_models import path
from tokenizers import Tokenizer

from surefind.base.running import usable_cores
from surefind.engine.inference.encoder import OnnxEncoder, open_session

TOKENS, BATCH, BUCKETS = 256, 16, (32, 64, 96, 128, 192, 256)
Way = Callable[[Sequence[str]], object]
NAMES = ("input_ids", "attention_mask", "token_type_ids")


def padded(rows: Sequence[list[int]], length: int) -> dict[str, np.ndarray]:
    ids = np.zeros((len(rows), length), np.int64)
    for row, one in zip(ids, rows, strict=True):
        row[: len(one)] = one
    return dict(zip(NAMES, (ids, (ids > 0).astype(np.int64), np.zeros_like(ids)), strict=True))


def batches(rows: list[list[int]]) -> list[list[list[int]]]:
    rows = sorted(rows, key=len)
    return [rows[at : at + BATCH] for at in range(0, len(rows), BATCH)]


def onnx_ways(model: Path, ids: Callable[[Sequence[str]], list[list[int]]]) -> dict[str, Way]:
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])

    def one(texts: Sequence[str]) -> None:
        for row in ids(texts):
            session.run(None, padded([row], len(row)))

    def many(texts: Sequence[str]) -> None:
        for rows in batches(ids(texts)):
            session.run(None, padded(rows, len(rows[-1])))

    def buckets(texts: Sequence[str]) -> None:
        for row in ids(texts):
            session.run(None, padded([row], next(b for b in BUCKETS if b >= len(row))))

    return {"one text a call": one, f"batches of {BATCH} by length": many, "one text, lengths in steps": buckets}


def openvino_way(model: Path, ids: Callable[[Sequence[str]], list[list[int]]]) -> Way:
    import openvino

    compiled = openvino.Core().compile_model(str(model), "CPU", {"PERFORMANCE_HINT": "THROUGHPUT"})
    names = [put.get_any_name() for put in compiled.inputs]

    def run(texts: Sequence[str]) -> None:
        queue = openvino.AsyncInferQueue(compiled)
        for row in ids(texts):
            feed = padded([row], len(row))
            queue.start_async({name: feed[name] for name in names})
        queue.wait_all()

    return run


def torch_way(ids: Callable[[Sequence[str]], list[list[int]]]) -> Way:
    """The usual way: batches by length, float. Speed does not depend on the weights, so they are random."""
    import torch

    from surefind.lab.train.network import Network, Shape

    model = Network(Shape(384, 12, 6, 1536, 30522, 512), ranks=False).eval()
    torch.set_num_threads(usable_cores())

    @torch.no_grad()
    def run(texts: Sequence[str]) -> None:
        for rows in batches(ids(texts)):
            feed = padded(rows, len(rows[-1]))
            model(torch.from_numpy(feed["input_ids"]), torch.from_numpy(feed["attention_mask"] > 0))

    return run


def fastembed_way(model: Path, folder: Path) -> Way:
    from fastembed import TextEmbedding
    from fastembed.common.model_description import ModelSource, PoolingType

    TextEmbedding.add_custom_model(
        model="local/encoder", pooling=PoolingType.DISABLED, normalization=False,
        sources=ModelSource(hf="local/encoder"), dim=384, model_file="model.onnx",
    )  # fmt: skip
    for name in ("model.onnx", "tokenizer.json"):
        shutil.copy(model / name, folder / name)
    (folder / "config.json").write_text(json.dumps({"pad_token_id": 0}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": TOKENS, "pad_token": "[PAD]"}))
    (folder / "special_tokens_map.json").write_text(json.dumps({"pad_token": "[PAD]"}))
    embedder = TextEmbedding("local/encoder", specific_model_path=str(folder))
    return lambda texts: list(embedder.embed(list(texts), batch_size=BATCH))


def plain_graph(target: Path) -> None:
    """The encoder as other runtimes can read it, without operators of onnxruntime's own."""
    import torch

    from surefind.lab.train.network import Network, Shape

    model = Network(Shape(384, 12, 6, 1536, 30522, 512), ranks=False).eval()

    class Encoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = model

        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
            return self.inner(input_ids, attention_mask > 0)

    axes = {name: {0: "batch", 1: "sequence"} for name in NAMES[:2]}
    ones = torch.ones(2, 8, dtype=torch.long)
    torch.onnx.export(
        Encoder(), (ones, ones), str(target), input_names=list(NAMES[:2]), output_names=["embedding"],
        dynamic_axes=axes, opset_version=17, dynamo=False,
    )  # fmt: skip


def sample(count: int) -> list[str]:
    pages = sorted((Path(__file__).parents[1] / "docs").glob("*.md"))
    text = " ".join(page.read_text(encoding="utf-8") for page in pages).split()
    random = np.random.default_rng(0)
    starts = random.integers(0, len(text) - 200, count)
    return [" ".join(text[at : at + int(random.integers(12, 150))]) for at in starts]


def compare_graphs(folders: Sequence[Path], rows: list[list[int]], rounds: int) -> None:
    sessions = {folder: open_session(folder / "model.onnx", 1) for folder in folders}
    times: dict[Path, list[float]] = {folder: [] for folder in folders}
    outputs = {}
    for turn in range(rounds + 1):
        for folder, session in sessions.items():
            started = time.process_time()
            outputs[folder] = np.array([session.run(None, padded([row], len(row)))[0][0] for row in rows])
            if turn:  # the first round warms up
                times[folder].append((time.process_time() - started) / len(rows) * 1000)
    first = folders[0]
    for folder in folders:
        ratios = np.array(times[first]) / np.array(times[folder])
        low, high = np.quantile(ratios, (0.25, 0.75))
        if outputs[folder].shape[-1] > 1:
            cosines = (outputs[first] * outputs[folder]).sum(1)
            same = f"cosine to the first: mean {cosines.mean():.4f}, least {cosines.min():.4f}"
        else:
            far = np.abs(outputs[first] - outputs[folder])
            same = f"scores differ by {far.mean():.3f} on average, {far.max():.3f} at most"
        print(f"{np.median(times[folder]):6.2f} ms  {np.median(ratios):.2f}x [{low:.2f}, {high:.2f}]  {same}  {folder}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("float", type=Path, nargs="?")
    parser.add_argument("--graphs", type=Path, nargs="+", metavar="FOLDER")
    parser.add_argument("--texts", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    if (given.float is None) == (given.graphs is None):
        parser.error("Name either FLOAT_FOLDER or --graphs.")
    tokenizer = Tokenizer.from_file(str(path("minilm") / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(TOKENS)

    def ids(texts: Sequence[str]) -> list[list[int]]:
        return [one.ids for one in tokenizer.encode_batch(list(texts))]

    texts = sample(given.texts)
    if given.graphs:
        print(f"{len(texts)} texts, {np.mean([len(one) for one in ids(texts)]):.0f} tokens on average")
        compare_graphs(given.graphs, ids(texts), given.rounds)
        return
    int8 = path("minilm") / "model.onnx"
    ways: dict[str, Way] = {"surefind (int8, one text a core)": OnnxEncoder(path("minilm")).embed}
    ways |= {f"onnxruntime int8, {name}": way for name, way in onnx_ways(int8, ids).items()}
    ways |= {f"onnxruntime float, {name}": way for name, way in onnx_ways(given.float / "model.onnx", ids).items()}
    with tempfile.TemporaryDirectory() as folder:
        plain_graph(Path(folder, "plain.onnx"))
        ways["openvino float, one text a core"] = openvino_way(Path(folder, "plain.onnx"), ids)
        ways["torch float, batches"] = torch_way(ids)
        ways["fastembed (float model)"] = fastembed_way(given.float, Path(folder))
        found: dict[str, list[float]] = {name: [] for name in ways}
        for round_ in range(given.rounds + 1):
            for name, way in ways.items():
                started = time.perf_counter()
                way(texts)
                if round_:  # the first round warms up
                    found[name].append(len(texts) / (time.perf_counter() - started))
    base = np.median(found["torch float, batches"])
    print(f"{len(texts)} texts, {np.mean([len(one) for one in ids(texts)]):.0f} tokens on average")
    for name, rates in found.items():
        print(f"{name:48s} {np.median(rates):6.1f} texts/s  {np.median(rates) / base:5.2f}x torch")
    one = OnnxEncoder(path("minilm"))
    times = []
    for text in texts[:20]:
        started = time.perf_counter()
        one.embed([" ".join(text.split()[:12])])
        times.append(time.perf_counter() - started)
    print(f"a query of 12 words: {np.median(times) * 1000:.1f} ms")


if __name__ == "__main__":
    main()
