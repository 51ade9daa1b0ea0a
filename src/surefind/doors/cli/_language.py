"""Advises users whose documents are not in English to choose another encoder."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from surefind.kb import KnowledgeBase

_SAMPLE = 100
"""Passages from which the language is guessed."""
_BUNDLED = "minilm"


def advice(base: KnowledgeBase) -> str:
    """Returns advice if the English encoder is used on documents that are not English; else an empty string."""
    from surefind.base.access import Access
    from surefind.lab.exam.language import is_english

    if not any(_BUNDLED in str(pipeline) for pipeline in base.settings.pipelines.values()):
        return ""
    view = base.reader().view
    ids = view.spans().ids[:: max(1, len(view) // _SAMPLE)].tolist()
    if is_english(chunk.text for chunk in view.chunks(ids, Access.owner())):
        return ""
    return (
        f"Most documents here are not in English, the only language of the bundled encoder ({_BUNDLED}): bm25 still "
        "matches words, but dense barely captures meaning. A multilingual encoder is one line in surefind.toml: see "
        "surefind help embedding-models."
    )
