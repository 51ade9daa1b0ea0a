"""`python -m surefind` is `surefind`."""

from surefind.serve.cli import main

main()
