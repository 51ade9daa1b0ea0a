"""The cells, verdicts and notes of the support-chatbot study's tables that are computed."""

from __future__ import annotations

from surefind.lab.study.scores import judge, mean, row_of
from surefind.lab.study.studies.support_chatbot import _paper as paper
from surefind.lab.study.studies.support_chatbot._collections import KEYS
from surefind.lab.study.tables import Columns, TableLine
from surefind.lab.study.values import Cell, Column, Result, Support


def counted(columns: Columns, stage: str) -> list[TableLine]:
    """A row for each collection, as Table 1 counts it."""
    return [TableLine(column.name, cells=tuple(column.results[stage].get(key) for key in KEYS)) for column in columns]


def varied(result: Result, row: str, measure: str) -> Cell:
    """The mean, with ± the half-width of its 95% interval if the row was run several times."""
    here, entry = mean(result, row, measure), row_of(result, row) or {}
    if here is None or "spread" not in entry:
        return here
    return f"{here:.1%} ± {100 * entry['spread'][measure]:.1f}"


def gap(result: Result, row: str) -> Cell:
    deep, shallow = mean(result, row, "R@50"), mean(result, row, "R@10")
    return None if deep is None or shallow is None else deep - shallow


def best_against_bm25(column: Column, stage: str) -> Support:
    return judge(column, stage, str(column.results[stage].get("encoder")), paper.BM25)


def best_against_champion(column: Column, stage: str) -> Support:
    """Whether the best pair beats the champion."""
    result = column.results[stage]
    others = [name for name in result.get("rows", {}) if name != paper.CHAMPION]
    best = max(others, key=lambda name: mean(result, name, "R@10") or 0.0, default="a second retriever")
    return judge(column, stage, best, paper.CHAMPION)


def champions(columns: Columns) -> list[str]:
    names = ", ".join(f"{column.name}: {column.results['encoders'].get('champion')}" for column in columns)
    return [f"The champion is the best by R@50 ({names})."]
