"""Telling whoever has documents in another language what the bundled models are for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from surefind.kb import KnowledgeBase

_SAMPLE = 100
_BUNDLED = "minilm"


def advice(base: KnowledgeBase) -> str:
    """What to do where an English encoder is given documents that are not English; else nothing."""
    from surefind.analyze._language import is_english

    if not any(_BUNDLED in str(pipeline) for pipeline in base.settings.pipelines.values()):
        return ""
    snapshot = base.snapshot()
    step = max(1, len(snapshot) // _SAMPLE)
    if is_english(snapshot.entry(ordinal)[0].text for ordinal in range(0, len(snapshot), step)):
        return ""
    return (
        f"Most documents here are not in English, the language of the bundled encoder ({_BUNDLED}): bm25 finds their "
        "words, dense hardly their meaning. A multilingual encoder is one line: see docs/embedding-models.md."
    )
