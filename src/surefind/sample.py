"""Where the bundled sample is: the knowledge base of a fictional credit union, and questions about it."""

from __future__ import annotations

from pathlib import Path

from surefind.errors import MissingPartError

_PACKAGED = Path(__file__).parent / "sample"
_CLONE = Path(__file__).parents[2] / "examples"


def sample_folder() -> Path:
    """Inside the installed package, or in examples/ of a clone."""
    for root in (_PACKAGED, _CLONE):
        if (root / "quillhaven").is_dir():
            return root / "quillhaven"
    raise MissingPartError("The sample is not part of this installation. Install again, or clone the repository.")


def sample_questions() -> Path:
    return sample_folder().parent / "questions.jsonl"
