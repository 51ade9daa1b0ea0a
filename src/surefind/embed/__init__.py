"""Encoders: texts -> unit vectors. One file per model or provider; `surefind.store.vectors` caches the vectors."""
