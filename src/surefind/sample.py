"""Finds the bundled sample: the documents of a fictional credit union, and questions about them."""

from __future__ import annotations

from pathlib import Path

from surefind.errors import MissingPartError

_PACKAGED = Path(__file__).parent / "sample"
_CLONE = Path(__file__).parents[2] / "examples"


def sample_folder() -> Path:
    """Returns the folder of the sample documents: in the installed package, or in examples/ of a clone."""
    for root in (_PACKAGED, _CLONE):
        if (root / "quillhaven").is_dir():
            return root / "quillhaven"
    raise MissingPartError("The sample is not part of this installation. Reinstall Surefind, or clone its repository.")


def sample_questions() -> Path:
    """Returns the file of the sample questions."""
    return sample_folder().parent / "questions.jsonl"
