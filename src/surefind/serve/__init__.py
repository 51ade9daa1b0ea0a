"""The doors: they only call `KnowledgeBase` and show what it returns."""
