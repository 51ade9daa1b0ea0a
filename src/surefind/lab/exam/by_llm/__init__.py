"""Questions written by a language model: one hop (sf1h), two hops in one file (sf2h) or in two files (mf2h)."""
