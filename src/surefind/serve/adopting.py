"""Makes a configuration that was measured the default of a knowledge base: builds what it needs, then writes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from surefind.bench.plan import Contender, short
from surefind.kb import KnowledgeBase
from surefind.kb.adoption import SettingsChange, build, build_calls, missing, prepare, write
from surefind.prompts.values import Calls
from surefind.protocols import OnProgress
from surefind.settings.config import Settings


def change_for(base: KnowledgeBase, found: Contender) -> SettingsChange:
    """Prepares the change of surefind.toml that makes this configuration the default."""
    name = found.pipeline.name or short(found.pipeline)
    return prepare(base.folder, name, found.pipeline, found.layout)


def adopt(
    base: KnowledgeBase,
    change: SettingsChange,
    agree: Callable[[Sequence[Calls]], None],
    report: OnProgress | None,
    say: Callable[[str], None],
    dry_run: bool = False,
) -> dict[str, Any]:
    """Builds what the change needs, then writes it. `agree` raises an error if the calls of language models may not be
    made. Returns what changed."""
    made = {**_compared(change), "file": str(base.folder / "surefind.toml"), "dry_run": dry_run}
    if change.empty:
        return {**made, "changed": False, "built": []}
    if dry_run:
        return {**made, "changed": True, "built": missing(base, change)}
    try:
        agree(build_calls(base, change))
        built = build(base, change, report)
    except BaseException:
        say("surefind.toml was not changed.")
        raise
    write(base.folder, change)
    return {**made, "changed": True, "built": built}


def _compared(change: SettingsChange) -> dict[str, Any]:
    old = {str(one) for pipeline in change.old.pipelines.values() for one in pipeline.retrieve}
    later = [str(one) for one in change.new.named(change.new.pipeline).retrieve if str(one) not in old]
    compared = {"before": _in_use(change.old), "after": _in_use(change.new), "later": later}
    return {"name": change.name, "undone": change.undoes, **compared}


def _in_use(settings: Settings) -> dict[str, str]:
    name = settings.pipeline
    return {"pipeline": name, "spec": str(settings.named(name)), "layout": str(settings.layout)}
