"""The language-model service: one string names a model, one verb asks it, and no call is paid for twice."""
