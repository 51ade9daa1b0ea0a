"""Measures how Surefind grows: 10,000, 100,000 and 1,000,000 passages on one machine.

    python benchmarks/scale.py sentences DATA WORK     sentences of the texts in DATA, each embedded once
    python benchmarks/scale.py corpus WORK 100000      files with so many passages, from sentences of one source each
    python benchmarks/scale.py build WORK 100000       the first sync: time and peak memory of each part
    python benchmarks/scale.py update WORK 100000      nothing changed, one changed file, 1,000 new passages, status
    python benchmarks/scale.py search WORK 100000      opening, latency, filters, access groups, recall

WORK is a scratch folder. DATA holds collections in BEIR layout. The passages are recombined sentences: every file has
ten sections of four sentences from one collection, metadata of which a filter keeps a tenth, and an access list in one
file of five. The encoder is `scale_stage.Recombined`, which is declared to Surefind as a plugin.
"""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

SEED = 21
SOURCES = ("cranfield", "hotpotqa-sub", "policyqa", "scifact", "squad2-dev-half", "covidqa-partial", "zoomcamp-faq")
PER_SOURCE, QUERIES = 3_000, 40
SECTIONS, SENTENCES = 10, 4
SETTINGS = """[sync]
keep_generations = 2
[search]
pipeline = "hybrid"
[pipelines.hybrid]
retrieve = ["bm25", "dense(model=recombined)"]
fuse = "convex(alpha=0.5, missing=score)"
"""


def sentences(data: Path, work: Path) -> None:
    """Writes the distinct sentences of each source and the queries, and embeds them with the bundled encoder."""
    import numpy as np

    from surefind.services import LocalServices
    from surefind.text.sentences import sentence_spans

    chance = random.Random(SEED)
    found: dict[str, list[str]] = {}
    queries: list[str] = []
    for name in SOURCES:
        rows = [json.loads(line) for line in (data / name / "corpus.jsonl").read_text(encoding="utf-8").splitlines()]
        texts = (" ".join(row["text"].split()) for row in rows)
        spans = ((text, span) for text in texts for span in sentence_spans(text, 0, len(text)))
        distinct = sorted({s for text, (a, b) in spans if 60 <= len(s := text[a:b].strip()) <= 250 and _plain(s)})
        found[name] = chance.sample(distinct, min(PER_SOURCE, len(distinct)))
        asked = [json.loads(line)["text"] for line in (data / name / "queries.jsonl").read_text().splitlines()]
        queries += chance.sample(asked, min(QUERIES, len(asked)))
    every = [text for group in found.values() for text in group] + queries
    print({name: len(group) for name, group in found.items()}, len(queries), flush=True)
    embedder = LocalServices(work / "cache").embedder("minilm")
    np.save(work / "sentences.npy", embedder.embed(every, lambda done, total: None))
    (work / "sentences.json").write_text(json.dumps({"sources": found, "queries": queries}), encoding="utf-8")


def _plain(text: str) -> bool:
    """Whether a line of this text is a paragraph in Markdown, and nothing else."""
    return re.match(r"[A-Za-z0-9(\"]", text) is not None and not re.match(r"\d+[.)]\s", text)


def corpus(work: Path, passages: int) -> None:
    """Writes the files. The first files of a larger corpus are those of a smaller one."""
    texts = json.loads((work / "sentences.json").read_text(encoding="utf-8"))["sources"]
    folder = work / f"docs-{passages}"
    chance = random.Random(SEED)
    for i in range(passages // SECTIONS):
        path = folder / f"{i // 1000:03}" / f"{i:06}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_file(i, texts, chance), encoding="utf-8")


def _file(i: int, texts: dict[str, list[str]], chance: random.Random) -> str:
    source = chance.choice(SOURCES)
    acl = f"acl: [team{i % 3}]\n" if i % 5 == 0 else ""
    parts = [f"---\nshelf: {chance.randrange(10)}\nsource: {source}\n{acl}---\n# File {i} of {source}\n"]
    for section in range(SECTIONS):
        lines = chance.sample(texts[source], SENTENCES)
        parts.append(f"## Part {section}\n\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)
