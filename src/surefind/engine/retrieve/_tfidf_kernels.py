"""The numba kernels of TF-IDF, and of its mixture with BM25: score every chunk, then take the best.

Postings hold final weights, so scoring a query is a sum. The best chunks are selected as in BM25.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from surefind.engine.retrieve._kernels import LAST, STRIP, add_dense, add_sparse, best_keys, greatest


@njit(cache=True, nogil=True)
def _cosines(q, tfidf, scores):  # type: ignore[no-untyped-def]
    """Computes TF-IDF of query q for every chunk; q has `amounts` of features[offsets[q]:offsets[q+1]]."""
    features, amounts, offsets, starts, docs, weights = tfidf
    scores[:] = 0
    for i in range(offsets[q], offsets[q + 1]):
        for p in range(starts[features[i]], starts[features[i] + 1]):
            scores[np.uint32(docs[p])] += amounts[i] * weights[p]


@njit(cache=True, nogil=True)
def _words(q, bm25, scores):  # type: ignore[no-untyped-def]
    """Computes BM25 of query q for every chunk, from the same arrays as `_kernels.search`."""
    terms, offsets, idf, starts, docs, shapes, gains, dense_of, table = bm25
    scores[:] = 0
    for i in range(offsets[q], offsets[q + 1]):
        t = terms[i]
        if dense_of[t] >= 0:
            add_dense(scores, table[dense_of[t]], idf[t])
        else:
            first, last = starts[t], starts[t + 1]
            add_sparse(scores, docs[first:last], shapes[first:last], gains, idf[t])


@njit(cache=True, nogil=True)
def _share(weight, scores):  # type: ignore[no-untyped-def]
    """The factor that scales the highest score to `weight`; 0 if no score is above 0."""
    highest = np.float32(0)
    for score in scores:
        if score > highest:
            highest = score
    return np.float32(weight / highest) if highest > 0 else np.float32(0)


@njit(cache=True, nogil=True)
def _mixture(q, bm25, tfidf, weight, scores, others):  # type: ignore[no-untyped-def]
    """Mixes BM25 (share `weight`) and TF-IDF (the rest), each divided by its highest score over all chunks."""
    _words(q, bm25, scores)
    _cosines(q, tfidf, others)
    bm25_share, tfidf_share = _share(weight, scores), _share(1 - weight, others)
    for d in range(len(scores)):
        scores[d] = bm25_share * scores[d] + tfidf_share * others[d]


@njit(cache=True, nogil=True)
def _take_best(scores, allow, maxima, keys, k, out_d, out_s):  # type: ignore[no-untyped-def]
    """Takes the k best allowed chunks with a score above 0. A mask of length 0 allows everything."""
    for d in range(len(allow)):
        if not allow[d]:
            scores[d] = 0
    bits = scores.view(np.int32)
    for s in range(len(maxima)):
        maxima[s] = greatest(bits[s * STRIP : (s + 1) * STRIP])
    best = best_keys(bits, maxima, k, keys)
    for i in range(len(best)):
        out_d[i] = LAST - (best[i] & LAST)
        out_s[i] = scores[out_d[i]]


@njit(cache=True, nogil=True)
def _pick(scores, ordinals, out):  # type: ignore[no-untyped-def]
    for i in range(len(ordinals)):
        out[i] = scores[ordinals[i]] if ordinals[i] >= 0 else -np.inf


@njit(cache=True, nogil=True)
def search(tfidf, n, allow, k, out_d, out_s):  # type: ignore[no-untyped-def]
    """Finds the best k of n chunks for each query."""
    scores = np.empty(n, np.float32)
    maxima = np.empty((n + STRIP - 1) // STRIP, np.int32)
    keys = np.empty(4 * k + 2 * STRIP, np.int64)
    for q in range(len(out_d)):
        _cosines(q, tfidf, scores)
        _take_best(scores, allow, maxima, keys, k, out_d[q], out_s[q])


@njit(cache=True, nogil=True)
def search_both(bm25, tfidf, weight, n, allow, k, out_d, out_s):  # type: ignore[no-untyped-def]
    scores, others = np.empty(n, np.float32), np.empty(n, np.float32)
    maxima = np.empty((n + STRIP - 1) // STRIP, np.int32)
    keys = np.empty(4 * k + 2 * STRIP, np.int64)
    for q in range(len(out_d)):
        _mixture(q, bm25, tfidf, weight, scores, others)
        _take_best(scores, allow, maxima, keys, k, out_d[q], out_s[q])


@njit(cache=True, nogil=True)
def score(tfidf, n, ordinals, out):  # type: ignore[no-untyped-def]
    """The scores of given chunks for each query; -inf for padding."""
    scores = np.empty(n, np.float32)
    for q in range(len(ordinals)):
        _cosines(q, tfidf, scores)
        _pick(scores, ordinals[q], out[q])


@njit(cache=True, nogil=True)
def score_both(bm25, tfidf, weight, n, ordinals, out):  # type: ignore[no-untyped-def]
    scores, others = np.empty(n, np.float32), np.empty(n, np.float32)
    for q in range(len(ordinals)):
        _mixture(q, bm25, tfidf, weight, scores, others)
        _pick(scores, ordinals[q], out[q])
