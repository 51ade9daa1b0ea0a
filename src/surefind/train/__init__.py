"""Training on one half of an exam, reporting on the other: weights per query (`fusion`) or static (`weights`), encoders
and rerankers (`neural`)."""
