"""Writers let Python look for unreachable objects less often, and leave the setting as it was."""

from __future__ import annotations

import gc
from pathlib import Path

from helpers import Home
from surefind.base.running import collecting_seldom


def test_threshold_is_raised_inside_and_restored_at_the_outermost_end() -> None:
    before = gc.get_threshold()
    with collecting_seldom():
        raised = gc.get_threshold()
        with collecting_seldom():
            assert gc.get_threshold() == raised
        assert gc.get_threshold() == raised and raised[0] > before[0] and raised[1:] == before[1:]
    assert gc.get_threshold() == before


def test_collection_that_was_switched_off_stays_off() -> None:
    before = gc.get_threshold()
    gc.set_threshold(0)
    try:
        with collecting_seldom():
            assert gc.get_threshold()[0] == 0
        assert gc.get_threshold()[0] == 0
    finally:
        gc.set_threshold(*before)


def test_a_sync_restores_it(tmp_path: Path) -> None:
    home, before, inside = Home(tmp_path), gc.get_threshold(), []
    home.write("docs/a.md", "cash")
    home.sync("docs", report=lambda what, done, total: inside.append(gc.get_threshold()[0]))
    assert max(inside) > before[0] and gc.get_threshold() == before
