"""Fusers: several rankings of the same queries -> one. One method a file; `surefind.fusion` adds up contributions."""
