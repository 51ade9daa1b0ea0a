"""Starts the program: `surefind`, and `python -m surefind`."""

from __future__ import annotations

import gc
import sys

_GARBAGE = 50_000
"""New objects after which Python looks for unused ones. A command on 100,000 files makes millions that stay, and its
default of 700 takes a tenth of the time."""


def main() -> None:
    """Run the command line. Its imports take a moment: Ctrl-C during them ends quietly, as it does later."""
    try:
        from surefind.serve.cli import main as run
    except KeyboardInterrupt:
        sys.exit(130)
    collect_less()
    run()


def collect_less() -> None:
    """Makes Python look for unused objects less often."""
    gc.set_threshold(_GARBAGE)


if __name__ == "__main__":
    main()
