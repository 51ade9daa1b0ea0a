"""Telling whoever has documents in another language what the bundled models are for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from surefind.kb import KnowledgeBase

_SAMPLE = 100
_BUNDLED = "minilm"


def advice(base: KnowledgeBase) -> str:
    """What to do where an English encoder is given documents that are not English; else nothing."""
    from surefind.access import Access
    from surefind.text.language import is_english

    if not any(_BUNDLED in str(pipeline) for pipeline in base.settings.pipelines.values()):
        return ""
    view = base.reader().view
    ids = view.spans().ids[:: max(1, len(view) // _SAMPLE)].tolist()
    if is_english(chunk.text for chunk in view.chunks(ids, Access.owner())):
        return ""
    return (
        f"Most documents here are not in English, the language of the bundled encoder ({_BUNDLED}): bm25 finds their "
        "words, dense hardly their meaning. A multilingual encoder is one line: see surefind help embedding-models."
    )
