"""Fusers: several rankings of the same queries -> one. One method per file; `surefind.fusion` holds the shared code."""
