"""Checks analyzers and encoders."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from surefind.base.protocols import Analyzer, Embedder
from surefind.testing._rule import rule
from surefind.testing.rankings import TOLERANCE

TEXTS = (
    "A currency transaction report is due within 15 calendar days.",
    "Restart kube-apiserver v1.2.3 when KubeAPIErrorBudgetBurn fires.",
    "Holds follow 31 CFR 1020.320(d); see CU*BASE job EOD-7.",
    "Crème brûlée für 東京 — naïve café 🍮",
    "cash",
    "The teller counts cash twice and the cash report once.",
)


def check_analyzer(analyzer: Analyzer, texts: Sequence[str] = TEXTS) -> None:
    """Checks that an analyzer is deterministic and finds terms in texts with words."""
    for text in texts:
        tokens = analyzer.tokens(text)
        rule(tokens, f"A text with words must have tokens: {text!r}.")
        rule(analyzer.tokens(text) == tokens, f"The same text must give the same tokens each time: {text!r}.")
        for token in tokens:
            terms = analyzer.terms(token)
            rule(isinstance(terms, tuple), f"Terms must be a tuple: {token!r}.")
            rule(all(isinstance(t, str) and t.strip() for t in terms), f"A term must be a non-blank str: {token!r}.")
            rule(analyzer.terms(token) == terms, f"The same token must give the same terms each time: {token!r}.")
    for text in ("", " \n", "…—!?"):
        rule(analyzer.tokens(text) == [], f"A text without words must have no tokens: {text!r}.")


def check_embedder(embedder: Embedder, texts: Sequence[str] = TEXTS) -> None:
    """Checks that an encoder returns unit vectors that do not depend on the batch."""
    vectors = embedder.embed(texts)
    shape = (len(texts), embedder.dimension)
    rule(vectors.shape == shape, f"There must be a row for each text: expected {shape}, got {vectors.shape}.")
    rule(vectors.dtype == np.float32, f"Vectors must be float32, not {vectors.dtype}.")
    lengths = np.linalg.norm(vectors, axis=1)
    rule(np.allclose(lengths, 1, atol=1e-4), f"Vectors must have unit length; these have {lengths}.")
    backwards = embedder.embed(list(reversed(texts)))[::-1]
    rule(np.allclose(vectors, backwards, atol=TOLERANCE), "A vector must not depend on the order of the batch.")
    alone = np.vstack([embedder.embed([text]) for text in texts])
    rule(np.allclose(vectors, alone, atol=TOLERANCE), "A vector must not depend on the rest of the batch.")
    nothing = embedder.embed([])
    rule(nothing.shape == (0, embedder.dimension), f"No texts must give a matrix without rows, not {nothing.shape}.")
    blank = embedder.embed([""])
    rule(bool(np.isfinite(blank).all()), "An empty text must have a vector of finite numbers.")
    rule(embedder.fingerprint and embedder.fingerprint == embedder.fingerprint, "The fingerprint must be stable.")
