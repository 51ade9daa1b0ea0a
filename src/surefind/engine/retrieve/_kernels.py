"""The numba kernels of BM25: building postings and scoring queries.

Scoring works one term at a time and adds into one array of accumulators. Three things make it fast:

- A posting's *shape* is the pair of its frequency and its chunk's length. There are few shapes, so for given k1
  and b a small table holds the gain f(k1 + 1)/(f + k1(…)) of every shape, and no posting needs a division.
- A term that occurs in more than one chunk in `DENSE_SHARE` stores its gains as one row over all chunks. Adding a row
  is a vectorised loop; following a posting list would access memory at random.
- Chunks are processed in strips. Scores above 0 keep their order when their bits are read as integers, so the
  maximum of a strip is a vectorised loop. At least k chunks reach the k-th greatest maximum. Strips below it are
  skipped twice: frequent terms are not added if they cannot lift a strip that high, and the final selection of the
  best k ignores such strips.
"""

from __future__ import annotations

import numpy as np
from numba import njit

STRIP = 128
_FORBIDDEN = np.float32(-1e30)
"""Initial score of a chunk that the mask forbids; no sum of weights lifts it above 0."""
LAST = 0x7FFFFFFF


@njit(cache=True, nogil=True)
def expand(tokens, sizes, firsts, terms):  # type: ignore[no-untyped-def]
    """Replaces tokens by terms. `terms[firsts[t]:firsts[t+1]]` are the terms of token t; `sizes`: tokens per text."""
    total = 0
    for t in tokens:
        total += firsts[t + 1] - firsts[t]
    stream = np.empty(total, np.int32)
    lengths = np.zeros(len(sizes), np.int32)
    at = 0
    i = 0
    for d in range(len(sizes)):
        before = at
        for _ in range(sizes[d]):
            for j in range(firsts[tokens[i]], firsts[tokens[i] + 1]):
                stream[at] = terms[j]
                at += 1
            i += 1
        lengths[d] = at - before
    return stream, lengths


@njit(cache=True, nogil=True)
def count_postings(terms, offsets, n_terms):  # type: ignore[no-untyped-def]
    """Counts the chunks that contain each term. `terms[offsets[d]:offsets[d+1]]` are the terms of chunk d."""
    df = np.zeros(n_terms, np.int64)
    last = np.full(n_terms, -1, np.int32)
    for d in range(len(offsets) - 1):
        for i in range(offsets[d], offsets[d + 1]):
            t = terms[i]
            if last[t] != d:
                last[t] = d
                df[t] += 1
    return df


@njit(cache=True, nogil=True)
def fill_postings(terms, counts, offsets, starts):  # type: ignore[no-untyped-def]
    """Converts the chunk-by-chunk form to postings. `counts` are the frequencies of `terms` (1 each for raw text)."""
    n_terms = len(starts) - 1
    docs = np.empty(starts[n_terms], np.int32)
    tfs = np.empty(starts[n_terms], np.uint16)
    at = starts[:n_terms].copy()
    last = np.full(n_terms, -1, np.int32)
    for d in range(len(offsets) - 1):
        for i in range(offsets[d], offsets[d + 1]):
            t = terms[i]
            if last[t] == d:
                p = at[t] - 1
                tfs[p] = min(np.int64(tfs[p]) + counts[i], 65535)
            else:
                last[t] = d
                docs[at[t]] = d
                tfs[at[t]] = min(counts[i], 65535)
                at[t] += 1
    return docs, tfs


@njit(cache=True, nogil=True)
def transpose(starts, docs, tfs, kept, n_docs):  # type: ignore[no-untyped-def]
    """Converts postings back to the chunk-by-chunk form; `kept` renumbers the chunks (-1: dropped)."""
    offsets = np.zeros(n_docs + 1, np.int64)
    for p in range(len(docs)):
        d = kept[docs[p]]
        if d >= 0:
            offsets[d + 1] += 1
    for d in range(n_docs):
        offsets[d + 1] += offsets[d]
    terms = np.empty(offsets[n_docs], np.int32)
    counts = np.empty(offsets[n_docs], np.int32)
    at = offsets[:n_docs].copy()
    for t in range(len(starts) - 1):
        for p in range(starts[t], starts[t + 1]):
            d = kept[docs[p]]
            if d >= 0:
                terms[at[d]] = t
                counts[at[d]] = tfs[p]
                at[d] += 1
    return offsets, terms, counts


@njit(cache=True, nogil=True)
def greatest_tfs(docs, tfs, kind, n_kinds):  # type: ignore[no-untyped-def]
    """The greatest frequency among the chunks of each kind; `kind` holds the kind of each chunk."""
    found = np.zeros(n_kinds, np.int64)
    for p in range(len(docs)):
        found[kind[docs[p]]] = max(found[kind[docs[p]]], np.int64(tfs[p]))
    return found


@njit(cache=True, nogil=True)
def fill_shapes(docs, tfs, kind, firsts, shapes):  # type: ignore[no-untyped-def]
    for p in range(len(docs)):
        shapes[p] = firsts[kind[docs[p]]] + tfs[p]


@njit(cache=True, nogil=True)
def dense_rows(starts, docs, shapes, gains, rows, n_docs):  # type: ignore[no-untyped-def]
    """The gain per chunk for each term of `rows`, and the peak of each row."""
    table = np.zeros((len(rows), n_docs), np.float32)
    peaks = np.zeros(len(rows), np.float32)
    for r in range(len(rows)):
        for p in range(starts[rows[r]], starts[rows[r] + 1]):
            gain = gains[shapes[p]]
            table[r, docs[p]] = gain
            peaks[r] = max(peaks[r], gain)
    return table, peaks


@njit(cache=True, nogil=True)
def add_sparse(scores, docs, shapes, gains, weight):  # type: ignore[no-untyped-def]
    for p in range(len(docs)):
        scores[np.uint32(docs[p])] += weight * gains[shapes[p]]  # unsigned: no check for negative indexes


@njit(cache=True, nogil=True)
def add_dense(scores, row, weight):  # type: ignore[no-untyped-def]
    for d in range(len(scores)):
        scores[d] += weight * row[d]


@njit(cache=True, nogil=True)
def greatest(bits):  # type: ignore[no-untyped-def]
    best = np.int32(0)
    for i in range(len(bits)):
        if bits[i] > best:
            best = bits[i]
    return best


@njit(cache=True, nogil=True)
def _keep_greatest(keys, k):  # type: ignore[no-untyped-def]
    """Reorders the keys so that the k greatest come first, and returns the k-th greatest (quickselect)."""
    low, high = 0, len(keys) - 1
    while low < high:
        pivot = keys[(low + high) // 2]
        i, j = low, high
        while i <= j:
            while keys[i] > pivot:
                i += 1
            while keys[j] < pivot:
                j -= 1
            if i <= j:
                keys[i], keys[j] = keys[j], keys[i]
                i += 1
                j -= 1
        if k - 1 <= j:
            high = j
        elif k - 1 >= i:
            low = i
        else:
            break
    return keys[k - 1]


@njit(cache=True, nogil=True)
def _sort(keys):  # type: ignore[no-untyped-def]
    """Sorts the keys, greatest first (heapsort). Numba's own sort takes several times as long to compile."""
    unordered, size = len(keys) // 2, len(keys)
    while size > 1:
        if unordered:  # keys[unordered:] is a heap, least key first
            unordered -= 1
        else:  # the least key goes behind the heap
            size -= 1
            keys[0], keys[size] = keys[size], keys[0]
        at = unordered
        while 2 * at + 1 < size:
            child = 2 * at + 1
            if child + 1 < size and keys[child + 1] < keys[child]:
                child += 1
            if keys[at] <= keys[child]:
                break
            keys[at], keys[child] = keys[child], keys[at]
            at = child


@njit(cache=True, nogil=True)
def _floor(maxima, k):  # type: ignore[no-untyped-def]
    """The k-th greatest of the strips' maxima: a score that at least k chunks reach. If there are fewer than k strips,
    the smallest score above 0."""
    if len(maxima) < k:
        return np.int32(1)
    return max(np.int32(1), _keep_greatest(maxima.copy(), k))


@njit(cache=True, nogil=True)
def _add_frequent(scores, bits, maxima, rows, weights, table, peaks, k):  # type: ignore[no-untyped-def]
    """Adds the frequent terms, but only in strips where they can lift a chunk into the best k."""
    bound = np.float32(0)
    for r in range(len(rows)):
        bound += weights[r] * peaks[rows[r]] * np.float32(1.00001)  # so that rounding cannot make the bound too low
    highest = maxima.view(np.float32)
    floor = np.array([_floor(maxima, k)], np.int32).view(np.float32)[0]
    for s in range(len(maxima)):
        if highest[s] + bound < floor:
            maxima[s] = 0
            continue
        first, last = s * STRIP, min((s + 1) * STRIP, len(scores))
        strip = scores[first:last]
        for r in range(len(rows)):
            add_dense(strip, table[rows[r], first:last], weights[r])
        maxima[s] = greatest(bits[first:last])


@njit(cache=True, nogil=True)
def best_keys(bits, maxima, k, keys):  # type: ignore[no-untyped-def]
    """The k best scores as keys: the bits of the score, then the chunk's number counted backwards. So the earlier of
    two chunks with equal scores has the greater key."""
    floor = _floor(maxima, k)
    size = 0
    for s in range(len(maxima)):
        if maxima[s] < floor:
            continue
        if size + STRIP > len(keys):
            floor = max(floor, np.int32(_keep_greatest(keys[:size], k) >> 32))
            size = k
        strip = bits[s * STRIP : (s + 1) * STRIP]
        for i in range(len(strip)):
            if strip[i] >= floor:
                keys[size] = (np.int64(strip[i]) << 32) | (LAST - (s * STRIP + i))
                size += 1
    if size > k:
        _keep_greatest(keys[:size], k)
        size = k
    _sort(keys[:size])
    return keys[:size]


@njit(cache=True, nogil=True)
def _join_equal(terms, weights):  # type: ignore[no-untyped-def]
    """Merges equal terms by adding their weights. Returns how many terms are left."""
    n = 0
    for i in range(len(terms)):
        j = 0
        while j < n and terms[j] != terms[i]:
            j += 1
        if j == n:
            terms[n], weights[n] = terms[i], weights[i]
            n += 1
        else:
            weights[j] += weights[i]
    return n


@njit(cache=True, nogil=True)
def search(terms, offsets, weights, starts, docs, shapes, gains, dense_of, table, peaks, allow, k, out_d, out_s):  # type: ignore[no-untyped-def]
    """Finds the top k for each query; the terms of query q are terms[offsets[q]:offsets[q+1]], each with its weight.

    Terms and weights are overwritten as working space. A mask of length 0 allows everything.
    """
    n = table.shape[1]
    scores = np.empty(n, np.float32)
    bits = scores.view(np.int32)
    maxima = np.empty((n + STRIP - 1) // STRIP, np.int32)
    keys = np.empty(4 * k + 2 * STRIP, np.int64)
    for q in range(len(offsets) - 1):
        scores[:] = 0
        for d in range(len(allow)):
            if not allow[d]:
                scores[d] = _FORBIDDEN
        wanted, weight = terms[offsets[q] : offsets[q + 1]], weights[offsets[q] : offsets[q + 1]]
        frequent = 0
        for i in range(_join_equal(wanted, weight)):
            t = wanted[i]
            if dense_of[t] >= 0:
                wanted[frequent], weight[frequent] = dense_of[t], weight[i]
                frequent += 1
            else:
                first, last = starts[t], starts[t + 1]
                add_sparse(scores, docs[first:last], shapes[first:last], gains, weight[i])
        for s in range(len(maxima)):
            maxima[s] = greatest(bits[s * STRIP : (s + 1) * STRIP])
        if frequent:
            _add_frequent(scores, bits, maxima, wanted[:frequent], weight[:frequent], table, peaks, k)
        best = best_keys(bits, maxima, k, keys)
        for i in range(len(best)):
            out_d[q, i] = LAST - (best[i] & LAST)
            out_s[q, i] = scores[out_d[q, i]]
