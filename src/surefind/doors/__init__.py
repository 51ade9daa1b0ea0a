"""The interfaces for users (the doors). They only call `KnowledgeBase` and show its results."""
