"""Writes exported models with faster operators (`surefind.lab.train.operators`), without quantising them again.

    python training/rewrite_operators.py FOLDER …

An export does this itself; the script is for folders that were exported before. Every weight keeps its bytes. The
digest in config.json changes, and with it the fingerprint of an encoder, so that vectors are computed anew.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import tempfile
from pathlib import Path

import onnx

from surefind.lab.train.operators import use_faster_operators


def weights(file: Path) -> dict[str, bytes]:
    return {tensor.name: tensor.SerializeToString() for tensor in onnx.load(file).graph.initializer}


def rewrite(folder: Path) -> None:
    model, config = folder / "model.onnx", folder / "config.json"
    with tempfile.TemporaryDirectory() as work:
        made = Path(shutil.copy(model, work))
        count = use_faster_operators(made)
        if weights(made) != weights(model):
            sys.exit(f"The weights of {model} would change. Nothing was written.")
        if count:
            values = json.loads(config.read_text(encoding="utf-8"))
            values["sha256"]["model.onnx"] = digest = hashlib.sha256(made.read_bytes()).hexdigest()
            shutil.copy(made, model)
            config.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
            print(f"{model}: {count} operators replaced, {model.stat().st_size:,} bytes, SHA-256 {digest}")
        else:
            print(f"{model}: nothing to replace")


def main() -> None:
    if not sys.argv[1:]:
        sys.exit(__doc__)
    for folder in sys.argv[1:]:
        rewrite(Path(folder))


if __name__ == "__main__":
    main()
