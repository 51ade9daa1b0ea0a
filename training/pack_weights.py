"""Makes weights smaller for transfer: half precision, or 8 bits with one scale per row.

    python training/pack_weights.py half FOLDER work/minilm
    python training/pack_weights.py bytes FOLDER work/mpnet     # 8 bits: the teacher starts from these

The files have at most 45 MB and at least one tensor each; `read_packed` reads the tensors of all of them back.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

SCALE = ".scale"
MOST = 45_000_000
"""The most bytes of tensors in a file."""


def halves(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {key: value.half() for key, value in tensors.items() if value.is_floating_point()}


def rows_of_bytes(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    packed = {}
    for key, value in halves(tensors).items():
        if value.dim() == 2:
            scale = value.float().abs().amax(1, keepdim=True).clamp(min=1e-12) / 127
            packed[key] = (value.float() / scale).round().to(torch.int8)
            packed[key + SCALE] = scale
        else:
            packed[key] = value
    return packed


def read_packed(folder: Path) -> dict[str, Tensor]:
    tensors: dict[str, Tensor] = {}
    for file in sorted(folder.glob("*.safetensors")):
        tensors.update(load_file(file))
    scales = {key for key in tensors if key.endswith(SCALE)}
    return {
        key: value.float() * (tensors[key + SCALE] if key + SCALE in scales else 1)
        for key, value in tensors.items()
        if key not in scales
    }


def main(how: str, source: Path, target: Path) -> None:
    tensors = load_file(source / "model.safetensors")
    packed = halves(tensors) if how == "half" else rows_of_bytes(tensors)
    target.mkdir(parents=True, exist_ok=True)
    for name in ("config.json", "tokenizer.json"):
        shutil.copy(source / name, target / name)
    parts: list[dict[str, Tensor]] = [{}]
    for key, value in packed.items():
        if parts[-1] and sum(v.nbytes for v in (*parts[-1].values(), value)) > MOST:
            parts.append({})
        parts[-1][key] = value.contiguous()
    for number, part in enumerate(parts, 1):
        save_file(part, target / f"part{number}.safetensors")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
