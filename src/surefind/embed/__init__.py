"""Encoders: texts -> unit vectors. One model or provider a file; `_cache` remembers what was paid for."""
