"""Calibrates how sure searches are (confidence), and from which confidence on a question need not be reranked (run)."""
