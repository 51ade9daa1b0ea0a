"""Calibrates conditional reranking: the confidence from which on a question need not be reranked."""
