"""Starts the program: `surefind`, and `python -m surefind`."""

from __future__ import annotations

import _thread
import sys
import time


def main() -> None:
    """Run the command line. Its imports take a moment: Ctrl-C during them ends quietly, as it does later."""
    sys.unraisablehook = keep_interrupts
    try:
        from surefind.base.running import collect_less
        from surefind.doors.cli import main as run
    except KeyboardInterrupt:
        sys.exit(130)
    collect_less()
    run()


def keep_interrupts(unraisable: sys.UnraisableHookArgs) -> None:
    """Raise a Ctrl-C again that arrived inside a finalizer or a callback of a weak reference: Python drops it there."""
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        _thread.start_new_thread(_interrupt_soon, ())  # here it would be dropped again
    else:
        sys.__unraisablehook__(unraisable)


def _interrupt_soon() -> None:
    time.sleep(0.02)
    _thread.interrupt_main()


if __name__ == "__main__":
    main()
