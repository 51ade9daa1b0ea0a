"""Makes a configuration that was measured the default of a knowledge base: builds what it needs, then writes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from surefind.base.prompts.values import Calls
from surefind.base.protocols import OnProgress
from surefind.kb import KnowledgeBase
from surefind.kb.adoption import SettingsChange, build, build_calls, missing, prepare, write
from surefind.kb.settings.config import FILE_NAME, Settings
from surefind.lab.bench.plan import Contender, short


def change_for(base: KnowledgeBase, contender: Contender) -> SettingsChange:
    """Prepares the change of surefind.toml that makes this configuration the default."""
    name = contender.pipeline.name or short(contender.pipeline)
    return prepare(base.folder, name, contender.pipeline, contender.layout)


@dataclass(frozen=True)
class ConfigInUse:
    pipeline: str
    """Its name."""
    spec: str
    layout: str


@dataclass(frozen=True, kw_only=True)
class Adoption:
    """What changed when a configuration became the default."""

    name: str
    undone: bool
    """Whether the change undoes an earlier one."""
    before: ConfigInUse
    after: ConfigInUse
    later: tuple[str, ...]
    """What later syncs build besides."""
    file: str
    dry_run: bool
    changed: bool = False
    built: tuple[str, ...] = ()


def adopt(
    base: KnowledgeBase,
    change: SettingsChange,
    agree: Callable[[Sequence[Calls]], None],
    report: OnProgress | None,
    say: Callable[[str], None],
    dry_run: bool = False,
) -> Adoption:
    """Builds what the change needs, then writes it. `agree` raises an error if the calls of language models may not be
    made."""
    old = {str(retriever) for pipeline in change.old.pipelines.values() for retriever in pipeline.retrieve}
    made = Adoption(
        name=change.name,
        undone=change.undoes,
        before=_in_use(change.old),
        after=_in_use(change.new),
        later=tuple(
            str(retriever) for retriever in change.new.named(change.new.pipeline).retrieve if str(retriever) not in old
        ),
        file=str(base.folder / FILE_NAME),
        dry_run=dry_run,
    )
    if change.empty:
        return made
    if dry_run:
        return replace(made, changed=True, built=tuple(missing(base, change)))
    try:
        agree(build_calls(base, change))
        built = build(base, change, report)
    except BaseException:
        say(f"{FILE_NAME} was not changed.")
        raise
    write(base.folder, change)
    return replace(made, changed=True, built=tuple(built))


def _in_use(settings: Settings) -> ConfigInUse:
    name = settings.pipeline
    return ConfigInUse(name, str(settings.named(name)), str(settings.layout))
