"""Watching folders: when files have changed, and then kept still for a moment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Event

_QUIET_MS = 300


def changes(roots: Sequence[Path], stop: Event | None = None) -> Iterator[None]:
    """Yields as soon as it watches (files may have changed until then), and again whenever files have changed and then
    kept still for a moment. Without end, unless `stop` is set."""
    from watchfiles import watch

    def matters(_: object, path: str) -> bool:  # the data folder may lie in a source, and is written by every sync
        below = next((Path(path).relative_to(root) for root in roots if root in Path(path).parents), Path())
        return not any(step.startswith(".") for step in below.parts)

    begun = False
    for changed in watch(
        *roots,
        watch_filter=matters,
        debounce=10 * _QUIET_MS,
        step=_QUIET_MS,
        rust_timeout=_QUIET_MS,
        yield_on_timeout=True,
        stop_event=stop,
    ):
        if changed or not begun:
            yield
        begun = True
