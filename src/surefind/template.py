"""The surefind.toml that `surefind init` writes: what it says are the defaults.

It stands by itself because shell completion reads it, and has no time to import what `config` needs.
"""

TEMPLATE = """\
# Surefind: how this knowledge base is read, cut, indexed and searched.
# A stage is written like a call, name(parameter=value), here and on the command line alike.
# `surefind doctor` lists every stage there is.

[sync]
# Files to ignore, as patterns on the path below the folder: "drafts/*", "*.tmp.md".
exclude = []
# Symbolic links: "inside" = followed within the synced folder, "anywhere" = wherever they lead, or "never".
follow_links = "inside"
# Files above this size are skipped and reported; `surefind help ingest` has the other limits.
max_file_mb = 50
# Readers with other settings than their own, such as the fields of JSON records: 'json(title=subject, text=[body])'.
readers = []
# How many generations are kept: `surefind rollback` can go back to each of them. Each has indexes on disk.
keep_generations = 3

[index]
# How documents are cut into passages: hierarchical = small ones are searched and larger ones around them returned;
# or markdown, semantic, sentence_window, fixed, whole. `surefind bench --preset chunking` compares them.
chunk = "hierarchical(parent=1500, child=250, overlap=0)"
# What is indexed beside a passage's own text: headings = the titles above it, neighbors = lead sentences.
enrich = ["headings"]

[search]
# The pipeline that answers when none is named, and how many hits it gives.
pipeline = "hybrid"
k = 10

# A pipeline: retrievers, a fuser if there are several, optional rerankers.
# `surefind search --pipeline NAME` uses one; sync builds the indexes that these need.
[pipelines.hybrid]
retrieve = ["bm25", "dense"]
fuse = "convex(alpha=0.5, missing=score)"      # half meaning, half words, both for every candidate

[pipelines.words]
retrieve = ["bm25(k1=1.5, b=0.75)"]

[pipelines.meaning]
retrieve = ["dense(model=minilm)"]

# The bundled reranker reads the first 20 again, in under a second on two cores: see `surefind help rerank`.
# [pipelines.careful]
# retrieve = ["bm25", "dense"]
# fuse = "convex(alpha=0.5, missing=score)"
# rerank = ["cross_encoder"]

# Who may read what, by path, for files of every format; a front matter's own `acl` holds beside it.
# See `surefind help access`.
# [[access]]
# path = "hr/**"
# groups = ["hr"]

# The language model of stages that ask one, and what it may cost. Keys are read from the environment.
# See `surefind help llm`.
# [llm]
# model = "ollama:llama3.2"        # or openai:…, anthropic:…, gemini:…, bedrock:…, gguf:PATH, http://host:8080/v1#NAME
# fallback = ""                    # asked where the model fails
# budget = 5.00                    # dollars a run may spend
# timeout = 60                     # seconds for one try; total_timeout = 180 for all of them
# concurrency = 8

# What `surefind bench` compares. Without this table: the fifteen configurations of the context-layer study and the
# pipelines above. A list inside a spec stands for alternatives.
# [bench]
# layouts = ["markdown(tokens=[150, 250]) + headings", "hierarchical(parent=1000, child=200, overlap=0)"]
# pipelines = ["hybrid", "words", "bm25 + dense >> convex(alpha=[0.1, 0.3, 0.5])"]
# measures = ["nDCG@10", "R@5", "T1EM"]
"""
