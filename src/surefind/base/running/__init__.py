"""How work runs: cores, threads, what a stage reports."""
