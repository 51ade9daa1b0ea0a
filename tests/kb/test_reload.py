"""Settings that change while a knowledge base is open."""

from __future__ import annotations

import pytest

from helpers import Home
from surefind import Access
from surefind.base.errors import ConfigError, NotBuiltError

WORDS = '[search]\npipeline = "words"\n[pipelines.words]\nretrieve = ["bm25"]\n'
COUNTS = '[search]\npipeline = "counts"\n[pipelines.counts]\nretrieve = ["tfidf"]\n'


def test_new_settings_are_used_once_their_indexes_exist(home: Home) -> None:
    home.configure(WORDS)
    home.write("docs/a.md", "# Wires\n\nThe cutoff is 4 pm.")
    home.sync("docs")
    with home.open() as kb:
        assert not kb.reload()
        home.configure(COUNTS)
        with pytest.raises(NotBuiltError, match="tfidf"):
            kb.reload()
        assert kb.search("cutoff", Access.public()).hits and kb.settings.pipeline == "words"
        home.sync("docs")
        assert kb.reload() and kb.settings.pipeline == "counts"
        assert kb.search("cutoff", Access.public()).pipeline.startswith("tfidf")


def test_settings_that_are_not_valid_change_nothing(home: Home) -> None:
    with home.open() as kb:
        home.configure("[search\n")
        with pytest.raises(ConfigError):
            kb.reload()
        assert kb.settings.pipeline == "words"


def test_new_access_rules_hold_at_once(home: Home) -> None:
    home.write("docs/hr/pay.md", "# Pay\n\nThe zebra cutoff.")
    home.sync("docs")
    with home.open() as kb:
        assert kb.search("zebra", Access.public()).hits
        home.configure(WORDS + '[[access]]\npath = "hr/**"\ngroups = ["hr"]\n')
        assert kb.reload()
        assert not kb.search("zebra", Access.public()).hits
        assert kb.search("zebra", Access.of("hr")).hits


def test_access_rules_do_not_wait_for_an_index(home: Home) -> None:
    home.configure(WORDS)
    home.write("docs/hr/pay.md", "# Pay\n\nThe zebra cutoff.")
    home.sync("docs")
    with home.open() as kb:
        assert kb.search("zebra", Access.public()).hits
        home.configure(COUNTS + '[[access]]\npath = "hr/**"\ngroups = ["hr"]\n')
        with pytest.raises(NotBuiltError):
            kb.reload()
        assert kb.settings.pipeline == "words" and not kb.search("zebra", Access.public()).hits
