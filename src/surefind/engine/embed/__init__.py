"""Encoders: texts -> unit vectors. One file per model or provider; `surefind.engine.store.vectors` caches the
vectors."""
