"""What holds for every stage, whatever its kind."""

from __future__ import annotations

from surefind import spec
from surefind.testing._rule import rule


def check_stage(stage: spec.Stage) -> None:
    """A stage is a value whose text form reads back as the same value."""
    text = str(stage)
    rule(spec.make(stage.kind, text) == stage, f"A spec must read back as the same stage; {text} does not.")
    rule(str(spec.make(stage.kind, text)) == text, f"A spec must be in canonical form; {text} changes when read.")
    rule(hash(stage) == hash(stage.replace()), f"Equal stages must have equal hashes; two {text} have not.")
