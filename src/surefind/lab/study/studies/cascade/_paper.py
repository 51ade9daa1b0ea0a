"""The rows of the cascade study. Its figures are in `cascade.toml`."""

from __future__ import annotations

DENSE, BI, TRI, CE, FULL = "Dense Only", "Bi-Modal", "Tri-Modal", "Tri-Modal + CE", "Full Pipeline"
STATIC, TUNED, DYNAMIC = "Static (0.50, 0.35, 0.15)", "Static (tuned here)", "Dynamic (query alone)"
RULE, INFORMED = "Dynamic by rule (no model)", "Dynamic (with score distributions)"
