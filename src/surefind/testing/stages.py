"""Checks that apply to stages of every kind."""

from __future__ import annotations

from surefind.base import spec
from surefind.base.abilities import declared
from surefind.base.protocols import Retriever, Services
from surefind.testing._rule import rule


def check_stage(stage: spec.Stage) -> None:
    """Checks that a stage is a value whose spec reads back as the same value."""
    text = str(stage)
    rule(spec.make(stage.kind, text) == stage, f"A spec must read back as the same stage; {text} does not.")
    rule(str(spec.make(stage.kind, text)) == text, f"A spec must be in canonical form; {text} changes when read.")
    rule(hash(stage) == hash(stage.replace()), f"Equal stages must have equal hashes; two {text} do not.")


def check_declared(stage: object, services: Services) -> None:
    """Checks the types and stability of what a stage declares besides its method (`stamp`, `uses` …)."""
    made = declared(stage)
    stamps = {made.stamp(services) for _ in range(2)}
    rule(len(stamps) == 1 and all(type(stamp) is str for stamp in stamps), f"stamp() must be a stable str: {stage}.")
    questions = made.training_questions(services)
    rule(isinstance(questions, frozenset), f"training_questions() must return a frozenset: {stage}.")
    rule(all(isinstance(question, str) for question in questions), f"training_questions() must return str: {stage}.")
    for name in ("runs_here", "reaches", "text_only", "checks_access"):
        rule(type(getattr(made, name)) is bool, f"{name} must be true or false: {stage}.")
    rule(type(made.work) is str and bool(made.work), f"work must be a str that is not empty: {stage}.")
    if not isinstance(stage, Retriever):
        return
    rule(all(isinstance(one, Retriever) for one in made.uses), f"uses must be retrievers: {stage}.")
    own = {one.index_spec(services) for one in made.uses}
    rule(
        stage.index_spec(services) not in own, f"index_spec must differ from those of the retrievers in uses: {stage}."
    )
    rule(bool(own) == (type(made).over is not spec.Stage.over), f"over() is for a retriever with uses: {stage}.")
    if made.inner is not None:
        rule(
            stage.index_spec(services) == made.inner.index_spec(services),
            f"A wrapper must share the index that it wraps: {stage}.",
        )
