"""Prints the tables of docs/scale.md from constants that were measured: bytes, hours, nodes, dollars, milliseconds.

    python benchmarks/scale_arithmetic.py

Every line of `MEASURED` has its source. Replace what you measured on your documents and machines, and print again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

SIZES = (10_000_000, 100_000_000, 1_000_000_000)
HOURS = 730
"""Hours in a month."""


@dataclass(frozen=True)
class Measured:
    """What one chunk takes. The sources are in docs/scale.md."""

    chunks_per_document: float = 9.3
    text_bytes: float = 962
    """Bytes of a chunk's share of the catalogue: text, rows and checksums."""
    terms: float = 68
    """Distinct terms of a chunk."""
    dimension: int = 384
    cpu_texts: float = 45.5
    """Texts a second that the bundled encoder embeds on two cores."""
    gpu_texts: float = 44_000
    """Texts a second on one GPU. The tokenizer on 16 cores is the limit; the GPU alone encodes 86,000."""
    prepare_files: float = 169
    """Files a second that one core reads and cuts."""


@dataclass(frozen=True)
class Prices:
    """Dollars, on demand, without discounts: assumptions of the order of magnitude that clouds ask."""

    gpu_hour: float = 4.00
    memory_gb_month: float = 3.50
    """Of a machine of 8 GB for each core, with its cores."""
    disk_gb_month: float = 0.10
    object_gb_month: float = 0.023


M, P = Measured(), Prices()
NODE_GB = 128
"""Memory of a query node."""
FILL = 0.7
"""The share of a node's memory that data may take."""
REPLICAS = 2
OTHERS_GB = 96
"""Memory of the coordinators, proxies, etcd and the log of a cluster, and of the machine that writes."""


def bytes_per_chunk() -> dict[str, float]:
    """Bytes of a chunk in each place. Rows of Milvus have an id, two numbers and some hashes (8 bytes each)."""
    row = 8 * (3 + 2 + 6 + 4)
    return {
        "catalogue: texts and rows (disk here)": M.text_bytes,
        "table of chunks (mapped here)": 7 * 8,
        "bm25, local postings": 539,
        "dense, local float32 (mapped here)": M.dimension * 4,
        "dense, local 8-bit codes and cells, besides": M.dimension + 4,
        "bm25, Milvus sparse (number and weight)": M.terms * 8 + row,
        "dense, Milvus HNSW (vector and 32 links)": M.dimension * 4 + 32 * 4 + row,
        "dense, Milvus HNSW-SQ8": M.dimension + 32 * 4 + row,
        "dense, Milvus DiskANN (in memory)": M.dimension / 4 + row,
    }


def giga(amount: float) -> str:
    if amount >= 1e12:
        return f"{amount / 1e12:,.1f} TB"
    return f"{amount / 1e9:,.2g} GB" if amount < 1e10 else f"{amount / 1e9:,.0f} GB"


def table(title: str, rows: dict[str, list[str]]) -> None:
    print(f"\n| {title} | " + " | ".join(f"{size // 1_000_000:,}M chunks" for size in SIZES) + " |")
    print("|---|" + "---|" * len(SIZES))
    for name, cells in rows.items():
        print(f"| {name} | " + " | ".join(cells) + " |")


def main() -> None:
    each = bytes_per_chunk()
    sizes = {f"{name}: {size:,.0f}": [giga(n * size) for n in SIZES] for name, size in each.items()}
    table("bytes per chunk, and in all", sizes)
    per_hour = M.chunks_per_document * M.prepare_files * 3600
    encode = {
        "encoding, hours on two cores": [f"{n / M.cpu_texts / 3600:,.0f}" for n in SIZES],
        "encoding, GPU hours": [f"{n / M.gpu_texts / 3600:,.2f}" for n in SIZES],
        "encoding, dollars on GPUs": [f"${n / M.gpu_texts / 3600 * P.gpu_hour:,.2f}" for n in SIZES],
        "reading and cutting, core hours": [f"{n / per_hour:,.1f}" for n in SIZES],
    }
    table("once", encode)
    fast = each["bm25, Milvus sparse (number and weight)"] + each["dense, Milvus HNSW (vector and 32 links)"]
    small = each["bm25, Milvus sparse (number and weight)"] + each["dense, Milvus HNSW-SQ8"]
    disk = each["bm25, Milvus sparse (number and weight)"] / 8 + each["dense, Milvus DiskANN (in memory)"]
    plans = {"HNSW": fast, "HNSW-SQ8": small, "DiskANN, mapped postings": disk}
    nodes = {
        f"{name}: query nodes of {NODE_GB} GB, {REPLICAS} replicas": [
            str(REPLICAS * math.ceil(n * size / (NODE_GB * 1e9 * FILL))) for n in SIZES
        ]
        for name, size in plans.items()
    }
    table("nodes", nodes)
    monthly = {
        f"{name}: dollars a month": [f"${_monthly(n, size):,.0f}" for n in SIZES] for name, size in plans.items()
    }
    table("cost", monthly)
    local = each["table of chunks (mapped here)"] + M.text_bytes
    alone = {
        "disk of the catalogue and table": [giga(n * local) for n in SIZES],
        "memory of one caller's mask": [giga(n) for n in SIZES],
    }
    table("what stays on the writing machine", alone)


def _monthly(chunks: int, size: float) -> float:
    """Memory of all nodes, one copy of the rows in object storage, and the catalogue on a disk."""
    each = bytes_per_chunk()
    memory = REPLICAS * math.ceil(chunks * size / (NODE_GB * 1e9 * FILL)) * NODE_GB + OTHERS_GB
    stored = each["bm25, Milvus sparse (number and weight)"] + each["dense, Milvus HNSW (vector and 32 links)"]
    objects, disk = chunks * stored / 1e9, chunks * M.text_bytes / 1e9
    return memory * P.memory_gb_month + objects * P.object_gb_month + disk * P.disk_gb_month


if __name__ == "__main__":
    main()
