"""Every table and figure of the four papers is made by its study, or named with the reason why it is not."""

from __future__ import annotations

from cases import each
from surefind.lab.study.stage import find_study, study_names
from surefind.lab.study.tables import absent

PRINTED = {
    "agentic-kb": [*(f"Table {n}" for n in range(1, 6)), *(f"Figure {n}" for n in range(1, 13))],
    "cascade": [*(f"Table {n}" for n in ("A", "B", "C", "I", "II", "III", "IV", "V", "VI", "VII")), "Fig: Pipeline"],
    "context-layer": ["Results", "Query categories", "Corpus"],
    "support-chatbot": [*(f"Table {n}" for n in range(1, 14)), *(f"Figure {n}" for n in range(1, 5)), "Appendix E"],
}
"""What the papers print, in their own numbers. The page of context-layer numbers nothing: these are its headings."""


def test_every_study_is_of_a_paper() -> None:
    assert sorted(PRINTED) == study_names()


@each("name", sorted(PRINTED))
def test_a_table_or_figure_that_is_missing_is_named_with_its_reason(name: str) -> None:
    made, missing = set(find_study(name).numbers), absent(name)
    assert [number for number in PRINTED[name] if number not in made and number not in missing] == []
    assert [number for number in missing if number in made or number not in PRINTED[name]] == []
    assert all(len(reason.split()) >= 5 for reason in missing.values())


@each("name", sorted(PRINTED))
def test_every_table_of_a_paper_has_rows_and_its_figures(name: str) -> None:
    """A table with columns for the paper's figures has figures in them."""
    for stage in find_study(name).stages:
        for table in stage.tables:
            promised = any(head.paper for block in table.columns for head in getattr(block, "titles", ()))
            assert bool(table.figures) or not promised, table.name
            widths = {len(cells) for cells in table.figures.values()}
            assert len(widths) <= 1, table.name
