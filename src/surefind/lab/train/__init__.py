"""Trains on one half of an exam and reports on the other: fusion weights per query (`fusion`) or static (`weights`),
prompts (`prompt`), encoders and rerankers (`neural`)."""
