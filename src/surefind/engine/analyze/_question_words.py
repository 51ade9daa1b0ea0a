"""English question words, pronouns and auxiliary verbs: what a question contains besides its subject.

Left out on purpose, because they are also nouns, months or names: may, mine, will, might, us, it.
"""

from __future__ import annotations

QUESTION_WORDS = frozenset(
    "who whom whose what which when where why how "
    "i me my myself we our ours ourselves you your yours yourself he him his she her hers they them its itself "
    "someone anyone "
    "am is are was were be been being do does did doing done have has had having "
    "can could should would shall must".split()
)
