"""The figures that the support-chatbot study printed, table by table, as it printed them."""

from __future__ import annotations

SETS = ("FIQA", "SciDocs", "Help Articles", "HotpotQA")
_Rows = dict[str, tuple[str, ...]]


def _percent(rows: dict[str, str]) -> _Rows:
    """Rows of percentages, separated by spaces, in the order of the paper: two figures for each set."""
    return {name: tuple(f"{figure}%" for figure in text.split()) for name, text in rows.items()}


BM25, CHAMPION = "BM25", "Champion"
_GEMINI, _STELLA, _OPENAI, _QWEN = "gemini_large_03_07", "Stella 1.5B", "text-embedding-3-large", "gte-Qwen2-1.5B"

RECALL = _percent(
    {
        _GEMINI: "81.8 65.7 45.5 27.1 88.0 69.4 97.8 94.6",
        _STELLA: "81.7 63.2 46.5 26.9 86.4 68.5 95.91 89.9",
        _OPENAI: "78.0 63.0 42.5 25.1 86.3 67.0 94.6 87.9",
        _QWEN: "80.3 61.8 43.7 24.7 83.7 63.0 92.4 85.2",
        BM25: "38.1 23.9 21.6 12.3 54.3 34.8 70.1 61.2",
    }
)
"""Table 2: R@50 and R@10."""
NDCG = _percent(
    {
        _GEMINI: "61.7 56.9 32.5 25.6 62.9 58.2 91.5 90.6",
        _STELLA: "61.2 55.6 32.5 25.1 62.5 58.2 87.6 85.9",
        _OPENAI: "59.7 55.1 29.8 23.4 61.2 56.8 85.3 83.4",
        _QWEN: "59.3 53.9 30.4 23.3 56.7 51.6 83.8 81.8",
        BM25: "22.7 18.8 15.2 11.8 32.1 27.0 57.9 55.4",
    }
)
"""Table 11: nDCG@50 and nDCG@10."""
FUSED = _percent(
    {
        CHAMPION: "81.8 65.7 45.5 27.1 88.0 69.4 97.8 94.6",
        f"{CHAMPION} + {_STELLA}": "84.3 66.7 47.3 27.5 89.1 71.5 97.7 93.4",
        f"{CHAMPION} + {_OPENAI}": "82.3 66.6 45.4 26.8 89.2 73.2 97.7 92.6",
        f"{CHAMPION} + {_QWEN}": "84.8 65.8 46.3 27.2 89.8 70.8 97.4 90.8",
        f"{CHAMPION} + {BM25}": "75.1 49.0 41.0 20.8 87.0 58.1 97.4 89.1",
    }
)
"""Table 3: R@50 and R@10 of reciprocal rank fusion."""
FUSED_NDCG = _percent(
    {
        CHAMPION: "61.7 56.9 32.5 25.6 62.9 58.2 91.5 90.6",
        f"{CHAMPION} + {_STELLA}": "64.1 58.9 33.4 25.9 64.3 60.4 90.4 89.2",
        f"{CHAMPION} + {_OPENAI}": "62.9 58.2 32.3 25.3 63.0 59.2 89.5 88.1",
        f"{CHAMPION} + {_QWEN}": "63.5 57.9 32.7 25.5 62.9 58.7 88.6 86.8",
        f"{CHAMPION} + {BM25}": "46.6 39.1 27.0 19.5 63.9 60.2 83.4 81.0",
    }
)
"""Table 12: nDCG@50 and nDCG@10 of reciprocal rank fusion."""
JOINED = _percent(
    {
        CHAMPION: "81.8 65.7 45.5 27.1 88.0 69.4 97.8 94.6",
        f"{CHAMPION} + {_STELLA}": "84.5 66.8 47.8 27.8 88.0 71.8 97.6 93.7",
        f"{CHAMPION} + {_OPENAI}": "81.7 66.6 45.0 27.1 88.4 71.0 97.3 92.8",
        f"{CHAMPION} + {_QWEN}": "84.1 65.2 46.5 27.4 88.8 71.6 96.4 91.6",
    }
)
"""Table 9: R@50 and R@10 of concatenated vectors."""
JOINED_NDCG = _percent(
    {
        CHAMPION: "61.7 56.9 32.5 25.6 62.94 58.21 91.5 90.6",
        f"{CHAMPION} + {_STELLA}": "64.5 59.3 33.7 26.2 64.60 60.62 90.8 89.7",
        f"{CHAMPION} + {_OPENAI}": "63.1 58.6 32.3 25.6 64.36 60.25 89.8 88.6",
        f"{CHAMPION} + {_QWEN}": "63.6 57.9 32.9 25.7 64.85 60.81 89.0 87.6",
    }
)
"""Table 10: nDCG@50 and nDCG@10 of concatenated vectors."""

CE, LLM, SLIDE = f"{CHAMPION} + Cross Encoder", f"{CHAMPION} + LLM Reranking", f"{CHAMPION} + SlideGAR"
BM25_CE, BM25_LLM = f"{BM25} + Cross Encoder", f"{BM25} + LLM Reranking"
RERANKED: _Rows = {
    CHAMPION: ("84.3%", "66.7%", "47.3%", "27.5%", "89.2%", "73.2%", "97.8%", "94.6%"),
    CE: ("84.3%", "61.6%", "47.3%", "22.9%", "89.2%", "69.4%", "97.8%", "94.3%"),
    LLM: (
        "84.0% ± 0.0",
        "64.7% ± 0.4",
        "47.4% ± 0.0",
        "24.9% ± 0.2",
        "89.2% ± 0.0",
        "74.7% ± 0.0",
        "97.8% ± 0.0",
        "96.4% ± 0.0",
    ),
    SLIDE: (
        "84.0% ± 0.0",
        "66.7% ± 0.5",
        "47.4% ± 0.0",
        "27.7% ± 0.1",
        "89.2% ± 0.0",
        "72.2% ± 0.0",
        "97.8%",
        "96.1%",
    ),
    BM25: ("38.1%", "23.9%", "21.6%", "12.3%", "54.3%", "34.9%", "70.1%", "61.2%"),
    BM25_CE: ("40.2%", "34.9%", "21.7%", "14.9%", "67.9%", "55.2%", "71.0%", "69.2%"),
    BM25_LLM: ("38.1%", "23.9%", "21.7%", "16.5%", "67.9%", "55.3%", "70.1%", "61.2%"),
}
"""Table 4: R@50 and R@10 after reranking 50 passages."""
RERANKED_NDCG: _Rows = {
    CHAMPION: ("64.1%", "58.9%", "33.4%", "25.9%", "63.0%", "59.2%", "91.6%", "90.6%"),
    CE: ("58.2%", "51.5%", "30.3%", "21.3%", "61.1%", "55.9%", "91.7%", "90.7%"),
    LLM: (
        "63.9%±0.1",
        "57.8%±0.2",
        "32.7%±0.2",
        "24.0%±0.2",
        "65.3%±0.0",
        "61.2%±0.0",
        "94.0%±0.0",
        "93.6%±0.0",
    ),
    SLIDE: ("62.8%±0.2", "57.1%±0.2", "33.3%±0.0", "25.6%±0.1", "62.6%±0.0", "58.9%±0.0", "94.2%", "93.7%"),
    BM25: ("22.7%", "18.8%", "15.2%", "11.8%", "32.1%", "27.0%", "57.9%", "55.4%"),
    BM25_CE: ("33.3%", "31.8%", "15.5%", "11.9%", "50.3%", "47.1%", "69.1%", "68.6%"),
    BM25_LLM: ("22.7%", "18.8%", "19.2%", "16.4%", "51.7%", "48.5%", "57.9%", "55.4%"),
}
"""Table 13: nDCG@50 and nDCG@10 after reranking 50 passages."""

SIZES = (512, 1024, 2048, 4096)
CHUNKS = {
    512: ("81.9%", "63.0%", "53.9%", "33.5%"),
    1024: ("83.0%", "65.7%", "54.6%", "34.5%"),
    2048: ("84.9%", "66.5%", "54.3%", "34.8%"),
    4096: ("85.5%", "67.5%", "54.6%", "35.2%"),
}
"""Table 6: R@50 and R@10 on Help Articles, of Stella 1.5B and of BM25."""

ZERO, CHEAP = f"{CHAMPION} + LLM Reranking", f"{CHAMPION} + LLM Reranking, cheaper model"
ONE, META = f"{CHAMPION} + One-shot LLM Reranking", f"{CHAMPION} + One-shot + Meta-prompting"
PROMPTS = _percent(
    {
        CHAMPION: "84.3 66.7 47.3 27.5",
        ZERO: "84.3 63.5 47.3 26.5",
        CHEAP: "84.3 63.1 47.3 24.9",
        ONE: "84.3 63.3 47.3 27.4",
        META: "84.3 64.8 47.3 28.4",
    }
)
"""Table 7: R@50 and R@10 on FIQA and SciDocs."""

HYDE = {"Baseline": ("82.8%", "66.4%"), "HyDE": ("82.4%", "62.8%")}
"""Appendix E: R@50 and R@10 on 300 questions of Help Articles."""

COST = {"gpt-4.1-nano": 2.5, "gpt-4.1-mini": 10.0, "gpt-4.1": 50.0}
"""Table 5: dollars for 1,000 questions; the paper prints dollars for one ($0.0025, $0.01 and $0.05)."""

TUNED = {
    "stella 400M, fine-tuned on Qwen questions, 2048": ("46.1%", "51.2%", "63.1%", "85.3%"),
    "stella 400M, 2048": ("48.2%", "52.4%", "63.3%", "83.5%"),
    "stella 400M, fine-tuned on Qwen questions, 512": ("41.9%", "47.6%", "59.0%", "82.8%"),
    "stella 400M, fine-tuned on GPT triplets, 2048": ("45.3%", "49.9%", "58.1%", "80.1%"),
    "stella 400M, 512": ("43.7%", "49.0%", "59.3%", "79.7%"),
    "stella 400M, fine-tuned on GPT triplets, 512": ("42.3%", "48.0%", "55.8%", "76.2%"),
    "finBERT GPL, 512": ("20.9%", "25.0%", "34.7%", "62.5%"),
    "finBERT, 512": ("9.8%", "12.5%", "15.4%", "36.8%"),
}
"""Table 8: nDCG@5, nDCG@10, R@10 and R@50 on Help Articles."""
