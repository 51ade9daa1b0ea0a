"""Splits weights, in half precision, into files of at most 15 MiB, for machines that can only send small files.

python training/parts.py FOLDER NAME work/NAME.pt     # joins the files again
"""

from __future__ import annotations

import io
import sys
from pathlib import Path

import torch
from torch import Tensor

MOST = 15 * 2**20


def write_parts(state: dict[str, Tensor], folder: Path, name: str) -> None:
    buffer = io.BytesIO()
    torch.save({key: value.half().cpu() for key, value in state.items()}, buffer)
    data = buffer.getvalue()
    folder.mkdir(parents=True, exist_ok=True)
    for number, at in enumerate(range(0, len(data), MOST)):
        (folder / f"{name}.{number:02d}").write_bytes(data[at : at + MOST])


def read_parts(folder: Path, name: str) -> dict[str, Tensor]:
    data = b"".join(file.read_bytes() for file in sorted(folder.glob(f"{name}.[0-9][0-9]")))
    return {key: value.float() for key, value in torch.load(io.BytesIO(data), map_location="cpu").items()}


if __name__ == "__main__":
    torch.save(read_parts(Path(sys.argv[1]), sys.argv[2]), sys.argv[3])
