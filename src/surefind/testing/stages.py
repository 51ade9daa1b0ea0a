"""What holds for every stage, whatever its kind."""

from __future__ import annotations

from surefind import spec
from surefind.abilities import Local, Reacher, Stamped, TextOnly, Trained
from surefind.protocols import Composite, Retriever, Services, Wrapper
from surefind.testing._rule import rule


def check_stage(stage: spec.Stage) -> None:
    """A stage is a value whose text form reads back as the same value."""
    text = str(stage)
    rule(spec.make(stage.kind, text) == stage, f"A spec must read back as the same stage; {text} does not.")
    rule(str(spec.make(stage.kind, text)) == text, f"A spec must be in canonical form; {text} changes when read.")
    rule(hash(stage) == hash(stage.replace()), f"Equal stages must have equal hashes; two {text} have not.")


def check_declared(stage: object, services: Services) -> None:
    """What a stage declares beside its verb must be what it says, the same each time."""
    if isinstance(stage, Stamped):
        stamps = {stage.stamp(services) for _ in range(2)}
        rule(len(stamps) == 1 and all(type(one) is str for one in stamps), f"A stamp must be one text: {stage}.")
    if isinstance(stage, Trained):
        learnt = stage.learnt(services)
        rule(isinstance(learnt, frozenset), f"What was learnt must be a frozenset of questions: {stage}.")
        rule(all(isinstance(question, str) for question in learnt), f"Questions must be texts: {stage}.")
    if isinstance(stage, Local):
        rule(type(stage.runs_here) is bool, f"runs_here must be true or false: {stage}.")
        rule(type(stage.work) is str and bool(stage.work), f"work must be a text: {stage}.")
    if isinstance(stage, Reacher):
        rule(type(stage.reaches) is bool, f"reaches must be true or false: {stage}.")
    if isinstance(stage, TextOnly):
        rule(type(stage.text_only) is bool, f"text_only must be true or false: {stage}.")
    if isinstance(stage, Composite):
        rule(bool(stage.uses), f"A retriever that uses others must name them: {stage}.")
        rule(all(isinstance(one, Retriever) for one in stage.uses), f"uses must be retrievers: {stage}.")
        own = {one.index_spec for one in stage.uses}
        rule(stage.index_spec not in own, f"What others have must not be built again: {stage}.")
    if isinstance(stage, Wrapper) and stage.inner is not None:
        rule(stage.index_spec == stage.inner.index_spec, f"A retriever around another must share its index: {stage}.")
