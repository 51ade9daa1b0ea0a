"""Watches folders and reports when files have changed and no further change has followed for a moment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Event

_QUIET_MS = 300
"""Milliseconds without a change after which changes are reported."""


def changes(roots: Sequence[Path], stop: Event | None = None) -> Iterator[None]:
    """Yields once when watching has begun (files may have changed before), and again whenever files have changed and no
    further change has followed for a moment. It ends only when `stop` is set."""
    from watchfiles import watch

    def matters(_: object, path: str) -> bool:  # every sync writes the data folder, which may lie in a source
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
