"""Answers with evidence: every sentence cites the passages that say it."""
