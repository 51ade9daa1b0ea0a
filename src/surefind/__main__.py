"""Starts the program: `surefind`, and `python -m surefind`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line. Its imports take a moment: Ctrl-C during them ends quietly, as it does later."""
    try:
        from surefind.running.cores import collect_less
        from surefind.serve.cli import main as run
    except KeyboardInterrupt:
        sys.exit(130)
    collect_less()
    run()


if __name__ == "__main__":
    main()
