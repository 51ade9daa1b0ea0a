"""A real cross-encoder small enough for tests: an ONNX graph that counts the words query and passage share."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from surefind.base.types import Chunk

VOCABULARY = (
    "[UNK] [CLS] [SEP] the a of is and to cash report teller vault officer opens two deadline filing is fifteen days "
    "holiday wire transfer limit member card lost stolen ctr filler alpha beta gamma"
).split()


class Shelf:
    """Passages by ordinal."""

    def __init__(self, *texts: str, title: str = "") -> None:
        self.chunks = [Chunk(f"{i}.md", 0, len(text), text, context=title) for i, text in enumerate(texts)]

    def __getitem__(self, ordinals: Sequence[int]) -> list[Chunk]:
        return [self.chunks[int(i)] for i in ordinals]


def tokenizer() -> Tokenizer:
    words = {word: i for i, word in enumerate(dict.fromkeys(VOCABULARY))}
    made = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    made.normalizer = normalizers.Lowercase()
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 1), ("[SEP]", 2)],
    )
    return made


def graph(output: str = "logits", per_label: int = 1, inputs: Sequence[str] = ()) -> Any:
    """Σ over tokens i of the query and j of the passage of [id_i = id_j], without [UNK], [CLS] and [SEP]."""
    names = list(inputs or ("input_ids", "attention_mask", "token_type_ids"))
    nodes = [
        helper.make_node("Unsqueeze", ["input_ids", "two"], ["column"]),
        helper.make_node("Unsqueeze", ["input_ids", "one"], ["row"]),
        helper.make_node("Equal", ["column", "row"], ["same"]),
        helper.make_node("Cast", ["same"], ["equal"], to=TensorProto.FLOAT),
        helper.make_node("Greater", ["input_ids", "special"], ["word"]),
        helper.make_node("Cast", ["word"], ["counts"], to=TensorProto.FLOAT),
        helper.make_node("Cast", ["token_type_ids"], ["second"], to=TensorProto.FLOAT),
        helper.make_node("Sub", ["unit", "second"], ["first"]),
        helper.make_node("Mul", ["first", "counts"], ["asked"]),
        helper.make_node("Unsqueeze", ["asked", "two"], ["left"]),
        helper.make_node("Unsqueeze", ["second", "one"], ["right"]),
        helper.make_node("Mul", ["equal", "left"], ["half"]),
        helper.make_node("Mul", ["half", "right"], ["hits"]),
        helper.make_node("ReduceSum", ["hits", "both"], ["flat"], keepdims=0),
        helper.make_node("Unsqueeze", ["flat", "one"], ["single"]),
        helper.make_node("Concat", ["single"] * per_label, [output], axis=1),
    ]
    constants = {"one": [1], "two": [2], "both": [1, 2], "special": 2}
    stored = [onnx.numpy_helper.from_array(np.array(v, np.int64), name) for name, v in constants.items()]
    stored.append(onnx.numpy_helper.from_array(np.array(1, np.float32), "unit"))
    made = helper.make_graph(
        nodes,
        "shared words",
        [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"]) for name in names],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, ["batch", per_label])],
        stored,
    )
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def tiny_cross_encoder(folder: Path, place: str = "model.onnx", ours: bool = False, **shape: Any) -> Path:
    """With `ours`, a config.json as the bundled models have; else as an export lays it out."""
    (folder / place).parent.mkdir(parents=True, exist_ok=True)
    onnx.save(graph(**shape), folder / place)
    tokenizer().save(str(folder / "tokenizer.json"))
    if ours:
        digests = {
            name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in ("model.onnx", "tokenizer.json")
        }
        (folder / "config.json").write_text(json.dumps({"name": "tiny", "max_tokens": 64, "sha256": digests}))
    return folder
