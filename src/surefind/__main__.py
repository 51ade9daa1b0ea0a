"""Runs the command line: `python -m surefind` is the same as `surefind`."""

from surefind.serve.cli import main

main()
