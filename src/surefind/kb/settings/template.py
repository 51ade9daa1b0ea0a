"""The surefind.toml that `surefind init` writes. Its values are also the defaults. And the built-in pipelines.

It is a module of its own because shell completion reads it and cannot wait for the imports of `config`.
"""

BASES = {
    "hybrid": "bm25 + dense >> convex(alpha=0.5, missing=score)",
    "pair": "bm25 + dense + dense(model=arctic) >> weighted(weights=[0.4, 0.3, 0.3], missing=score)",
}
"""What the default is for English documents: `pair`, or `hybrid` where the second encoder would take too long."""
WORDS, LANGUAGES = "words", "languages"
"""The defaults for documents of which a twentieth is in other languages: words alone, because the bundled encoders read
English; and with the encoder of `surefind[languages]`."""
LINKED = "bm25 + dense + dense(model=arctic) + ppr(when=names) >> weighted(weights=[4, 3, 3, 4], missing=score)"
"""`pair` with walks over the graph for questions with two names; other questions are ranked as by `pair`."""
RERANKED = {
    "careful": "cross_encoder(max_tokens=128)",
    "thorough": "cross_encoder(top=50, keep=16, max_tokens=128) >> cross_encoder(model=large, top=16, blend=0.7)",
}
"""What is added to the base for the pipelines that reread hits. `thorough` has `LINKED` in place of `pair`; a knowledge
base whose base is `hybrid` has no graph, because it is large, or older than this."""
BUILT_IN = (*BASES, *RERANKED)
"""Names of pipelines that every knowledge base knows. They are rows of the default benchmark. A pipeline of
surefind.toml with the same name takes the place of the built-in one."""
AUTO, LEAST, BEST = "auto", "hybrid", "pair"


def bases_of(base: str) -> dict[str, str]:
    """The built-in pipelines without rerankers of a knowledge base with this default: `languages de en` is that for
    documents in German and English. A question in one of these languages, or in an uncertain one, counts words and
    meaning; in another language it shares few words with the documents, so its meaning counts nine times as much."""
    name, *spoken = base.split()
    if name == WORDS:
        return {**BASES, WORDS: "bm25"}
    if name != LANGUAGES:
        return BASES
    listed = ", ".join(spoken)
    if spoken == ["en"]:
        own, weights = "dense(within=[en]) + dense(model=arctic, within=[en])", "4, 3, 3, 36"
    else:
        own, weights = f"dense(model=multilingual, within=[{listed}])", "4, 6, 36"
    other = f"dense(model=multilingual, beyond=[{listed}])"
    return {**BASES, LANGUAGES: f"bm25 + {own} + {other} >> weighted(weights=[{weights}], missing=score)"}


TEMPLATE = """\
# Surefind: how this knowledge base is read, cut, indexed and searched.
# A stage is written like a function call, name(parameter=value), both here and on the command line.
# `surefind doctor` lists all stages.

[sync]
# Files to ignore, as patterns for the path below the synced folder: "drafts/**", "**/*.tmp.md".
exclude = []
# Symbolic links to follow: "inside" = those that stay in the synced folder, "anywhere" = all, "never" = none.
follow_links = "inside"
# Files above this size, in MB, are skipped and reported; `surefind help ingest` lists the other limits.
max_file_mb = 50
# Readers with settings of your own, such as the fields of JSON records: 'json(title=subject, text=[body])'.
readers = []
# How many generations to keep: `surefind rollback` can restore each of them. Each takes disk space for its indexes.
keep_generations = 3
# Whether to ask the standing exam before new documents become visible, and to refuse them if nDCG@10 falls by more than
# gate_margin and by more than chance explains: see `surefind help drift`.
gate = false
gate_margin = 0.01

[index]
# How to cut documents into passages. hierarchical searches small passages and returns the larger ones around them;
# others: markdown, semantic, sentence_window, fixed, whole. `surefind bench --preset chunking` compares them.
chunk = "hierarchical(parent=1500, child=250, overlap=0)"
# What to index with the text of a passage: headings = the titles above it, neighbors = lead sentences around it.
enrich = ["headings"]

[search]
# The default pipeline (`surefind use NAME` changes it), and how many hits a search returns. auto = pair: words and two
# encoders; hybrid, with one encoder, where the second would take more than an hour, or the knowledge base is older;
# words or languages for documents in other languages than English: see `surefind help languages`.
pipeline = "auto"
k = 10
# How a search finds out how sure it is that its first hit answers the question: read = a small model reads the first
# hits (about 0.3 s of a processor), quick = from the scores alone (1 ms, less reliable), off. auto = read in the
# terminal and on the pages, quick for programs. See `surefind help confidence`.
confidence = "auto"
# A search that is less sure than this says that nothing here answers the question; 0 shows every hit.
min_confidence = 0
# The metadata to filter by on the pages, such as ["path", "status"]. Empty: those with few values on many documents.
filters = []

[exam]
# The exam that the gate and `surefind drift` ask. Without a name, it is the only exam besides known-item, or
# known-item if there are several or none.
standing = ""
# Whether `surefind search` keeps queries on this machine, as questions for an exam, and for how many days:
# see `surefind help your-questions`.
keep_queries = false
keep_days = 90

[drafts]
# How many people must approve a draft before it is published through the server. Nobody approves their own.
approvals = 1
# A git repository that gets a commit for each published draft, such as "../handbook"; empty for none.
git = ""
# The formats that are written there; a draft of another format is published, but not committed.
formats = [".md", ".rst", ".txt", ".html", ".pdf", ".docx", ".pptx", ".xlsx"]

# A pipeline has retrievers, a fuser if there are several, and optional rerankers.
# Choose one with `surefind search --pipeline NAME`. Sync builds the indexes for all pipelines in this file.
[pipelines.hybrid]
retrieve = ["bm25", "dense"]
fuse = "convex(alpha=0.5, missing=score)"      # half bm25, half dense; every candidate gets both scores

[pipelines.words]
retrieve = ["bm25(k1=1.5, b=0.75)"]

[pipelines.meaning]
retrieve = ["dense(model=minilm)"]

# `pair` needs no table: it is `hybrid` with a second encoder, `arctic`. Nor does `careful`, the default with a small
# model that rereads the first 20 hits, or `thorough`, with a large one that rereads the best of 50 (`surefind help
# rerank`). A table of the same name takes their place.

# Who may read which paths, for files of every format; an `acl` in a file's front matter applies as well.
# default = who may read a document that neither an `acl` nor a rule covers: groups, or "public" for everybody.
# See `surefind help access`.
# [access]
# default = ["staff"]
# [[access.rules]]
# path = "hr/**"
# groups = ["hr"]

# Where the indexes of bm25 and dense are: "local" = on this machine, "milvus" = in a Milvus server, or in milvus-lite
# if uri is a path that ends in .db. See `surefind help milvus`.
# [store]
# backend = "milvus"
# uri = "http://localhost:19530"
# token_env = "SUREFIND_MILVUS_TOKEN"

# The language model for stages that use one, and its budget. API keys are read from the environment.
# See `surefind help llm`.
# [llm]
# model = "ollama:llama3.2"        # or openai:…, anthropic:…, gemini:…, bedrock:…, http://host:8080/v1#NAME
# fallback = ""                    # another model, used when the first one fails
# budget = 5.00                    # the most dollars that a run may spend
# timeout = 60                     # seconds for one attempt; total_timeout = 180 for all attempts
# concurrency = 8

# What `surefind bench` compares. Without this table, it compares the configurations of the context-layer study,
# `hybrid`, `pair`, `careful`, `thorough` and the pipelines above. A list inside a spec means alternatives.
# [bench]
# layouts = ["markdown(tokens=[150, 250]) + headings", "hierarchical(parent=1000, child=200, overlap=0)"]
# pipelines = ["hybrid", "words", "bm25 + dense >> convex(alpha=[0.1, 0.3, 0.5])"]
# measures = ["nDCG@10", "R@5", "T1EM"]
"""
