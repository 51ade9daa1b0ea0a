"""Questions that a language model writes: one hop (sf1h), two hops in one file (sf2h) or in two (mf2h)."""
