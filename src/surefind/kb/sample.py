"""Finds the bundled sample: the documents of a fictional credit union, questions about them, and the vectors of their
passages, which take a minute to compute."""

from __future__ import annotations

from pathlib import Path

from surefind.base.errors import MissingPartError

_PACKAGED = Path(__file__).parents[1] / "sample"
_CLONE = Path(__file__).parents[3] / "examples"
VECTORS = "vectors.npz"
"""The name of the file of vectors, beside the questions."""
ENCODERS = ("minilm", "arctic")


def sample_folder() -> Path:
    """Returns the folder of the sample documents: in the installed package, or in examples/ of a clone."""
    for root in (_PACKAGED, _CLONE):
        if (root / "quillhaven").is_dir():
            return root / "quillhaven"
    raise MissingPartError("The sample is not part of this installation. Reinstall Surefind, or clone its repository.")


def sample_questions() -> Path:
    """Returns the file of the sample questions."""
    return sample_folder().parent / "questions.jsonl"


def sample_vectors(*encoders: str) -> list[tuple[bytes, bytes]]:
    """Returns the vectors of the sample's passages as rows of the vector cache; none if the file is missing.

    They are those of the bundled encoders, or of the named ones, in the default layout (`scripts/sample_vectors.py`). A
    row's key is a hash of the encoder and the text, so where one of them has changed, the vector is computed as for any
    other document.
    """
    from surefind.base.disk.arrays import read_archive

    path = sample_folder().parent / VECTORS
    if not path.is_file():
        return []
    kept = read_archive(path)
    pairs = [(kept[f"{name}_keys"], kept[f"{name}_vectors"]) for name in encoders or ENCODERS]
    return [(key.tobytes(), vector.tobytes()) for keys, rows in pairs for key, vector in zip(keys, rows, strict=True)]
