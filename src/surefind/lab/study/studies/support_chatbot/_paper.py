"""The rows of the support-chatbot study. Its figures are in `support_chatbot.toml`, as it printed them."""

from __future__ import annotations

BM25, CHAMPION = "BM25", "Champion"
CE, LLM, SLIDE = f"{CHAMPION} + Cross Encoder", f"{CHAMPION} + LLM Reranking", f"{CHAMPION} + SlideGAR"
BM25_CE, BM25_LLM = f"{BM25} + Cross Encoder", f"{BM25} + LLM Reranking"
ZERO, CHEAP = LLM, f"{CHAMPION} + LLM Reranking, cheaper model"
ONE, META = f"{CHAMPION} + One-shot LLM Reranking", f"{CHAMPION} + One-shot + Meta-prompting"
SIZES = (512, 1024, 2048, 4096)
TUNED_SIZES = (512, 2048)
"""The sizes of Tables 1 and 8."""
