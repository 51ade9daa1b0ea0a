"""Language models: one string names a model, one function calls it, and no call is paid for twice."""
