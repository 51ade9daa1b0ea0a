"""The routes of all pages."""

from __future__ import annotations

from surefind.doors.web import (
    ask,
    documents,
    drafts,
    first_key,
    graph,
    jobs,
    label,
    pictures,
    report,
    reports,
    retiring,
    review,
    search,
    settings,
    signing,
)

_PAGES = (
    signing, first_key, search, ask, documents, pictures, retiring, drafts, review, label, reports, report, jobs, graph,
    settings,
)  # fmt: skip
ROUTERS = tuple(pages.router for pages in _PAGES)
