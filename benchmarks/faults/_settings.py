"""Specs, pipelines, layouts, measures, surefind.toml, addresses and paths: what the owner writes."""

from __future__ import annotations

from pathlib import Path

from _target import Target, ensure, texts

from surefind.base import spec
from surefind.base.access import Access, PathRule, access_lists
from surefind.base.prompts.prompt import parse_prompt
from surefind.engine.files.git import GitOrigin, source
from surefind.engine.llm.address import parse_model
from surefind.engine.net.trust import check, host_of
from surefind.engine.search.pipeline import Pipeline
from surefind.engine.write.layout import Layout
from surefind.kb.settings.config import parse_settings
from surefind.kb.settings.file import changed
from surefind.kb.settings.template import TEMPLATE
from surefind.lab.bench.plan import expand, expand_layout, parse_measures

SPECS = [
    "bm25(k1=1.5, b=0.75, analyzer=auto)",
    "dense(model=minilm)",
    "tfidf",
    "hyde(inner=dense(model=minilm), drafts=2)",
    "rrf(k=60, weights=[1, 2])",
    "convex(alpha=0.3, missing=score)",
    'weighted(bm25=0.5, "dense"=1)',
    "learned(model=mine)",
    "cross_encoder(top=20, keep=5, blend=0.5)",
    "conditional(inner=cross_encoder(top=5), when=gap, below=0.2)",
    "markdown(tokens=250, min_tokens=50)",
    "hierarchical(tokens=[800, 200])",
    "fixed(tokens=300, overlap=30)",
    "json(text=[question, answer])",
    "code",
    "pdf(ocr=true)",
    "concat(models=[minilm, minilm])",
    'hosted(url="http://localhost:1/v1", model="a b", api=jina)',
    'llm_listwise(model="openai:gpt", window=20, step=10)',
    "ppr(extract=phrases, damping=0.5)",
    "multi_query(inner=bm25, queries=3)",
    "neighbors(before=1, after=1)",
    "phrases",
]
SPEC_TOKENS = (
    '( ) [ ] , = + >> @ @50 " \\ bm25 dense tfidf rrf(k=60) convex(alpha= alpha=[0.1,0.2,0.3] tokens=[1,'
    "2,3,4,5,6,7,8,9] "
    'weights=[ inner= model=minilm true false null -1 0 1e5 .5 a/b:c@d "\\u00" "\\ud800" headings neighbors k= top= 2'
)
PIPELINES = [
    "bm25",
    "bm25 + dense @50 >> rrf(k=60)",
    "bm25 + tfidf >> convex(alpha=[0.1, 0.3]) >> cross_encoder(top=[5, 10])",
    "hyde(inner=dense) + bm25(k1=[1, 1.5, 2], b=[0.1, 0.5]) @200 >> weighted >> cross_encoder >> conditional",
]
LAYOUTS = [
    "markdown(tokens=250) + headings",
    "fixed(tokens=[300, 700]) + headings + neighbors",
    "hierarchical",
    "whole",
]
SETTINGS = [
    TEMPLATE,
    '[sync]\nexclude = ["*.tmp"]\nmax_seconds = 5\nkeep_generations = 2\nreaders = ["json(text=[a])"]\n'
    '[index]\nchunk = "fixed(tokens=300)"\nenrich = ["headings"]\n[search]\npipeline = "p"\nk = 5\n'
    '[pipelines.p]\nretrieve = ["bm25", "tfidf"]\nfuse = "rrf(k=60)"\nrerank = []\ndepth = 50\n',
    '[[access]]\npath = "hr/**"\ngroups = ["hr"]\n[llm]\nmodel = "openai:gpt-4.1-mini"\nbudget = 1.5\n'
    'prices = { "openai:gpt" = [1, 2] }\n[exam]\nkeep_queries = true\nkeep_days = 30\n[bench]\npreset = "fusion"\n',
    '[access]\ndefault = ["staff"]\nisolation = "statistics"\n[[access.rules]]\npath = "*.md"\ngroups = ["a", "b"]\n',
]
TOML_TOKENS = (
    '[ ] [[ ]] = , { } . " \'\'\' """ # true false 1979-05-27 07:32:00 inf nan 0x1F \\n \\uD800 access '
    "pipelines llm sync "
    "search index bench exam retrieve fuse rerank groups path k depth default rules prices "
    '"bm25" [access] [pipelines.a]'
)
RULES = ["hr/**", "**/private/*.md", "a/*/b?.txt", "./docs/", "**", "**/a/**/b/**/c/**"]
PATHS = ["hr/pay/a.md", "docs/private/x.md", "a/b/b1.txt", "a/" * 40 + "b/c", "ä/ö.md", "a.zip/b.md"]
FILTERS = ["status=approved", "tags!=draft", "effective>=2025-01-01", "doc_type=sop,policy", "fee<=25.5"]
ADDRESSES = [
    "openai:gpt-4.1-mini",
    "http://localhost:8080/v1#NAME",
    "https://api.example.org/v1?api-version=2#m",
    "ollama:llama3",
    "git+https://user@example.org/a/b.git@v1.0",
    "git@example.org:a/b.git",
    "git+ssh://git@example.org/a@main",
    "git+file:///tmp/a",
    "https://[::1]:80/v1#m",
]
PROMPT = "[system]\nYou rank passages.\n[user]\nQuery: $query\n\n${passages}\n"


def targets(folder: Path) -> list[Target]:
    kinds = list(spec.KINDS)
    one = texts(SPECS, SPEC_TOKENS)
    rule, path = texts(RULES, "** * ? / . a/ [ ] ( \\ **/"), texts(PATHS, "/ a/ .. . b/ c/")
    address = texts(ADDRESSES, "http:// https:// git+ :// @ # ? & : / [ ] [:: %zz openai: .. ..@ ssh:// 127.0.0.1")
    return [
        Target("spec", 20, lambda chance: (chance.choice(kinds), one(chance)), _spec),
        Target("pipeline", 10, texts(PIPELINES + SPECS, SPEC_TOKENS), _pipeline),
        Target("layout", 10, texts(LAYOUTS + SPECS, SPEC_TOKENS), _layout),
        Target("grid", 4, texts(PIPELINES + LAYOUTS, SPEC_TOKENS), _grid),
        Target(
            "measure", 5, texts(["nDCG@10", "R@5:span", "T1EM", "AP", "Success@1"], "@ : 10 span nDCG R P @@"), _measure
        ),
        Target("settings", 3, texts(SETTINGS, TOML_TOKENS), lambda text: parse_settings(text, "surefind.toml")),
        Target("settings edit", 0.5, texts(SETTINGS, TOML_TOKENS), _edit),
        Target("filter", 10, texts(FILTERS, "= != >= <= < > ! , status"), _filter),
        Target("path rule", 2, lambda chance: (rule(chance), path(chance)[:4000]), _covers),
        Target("address", 8, address, _address),
        Target("repository", 8, address, _repository),
        Target("prompt", 5, texts([PROMPT], "[system] [user] [assistant] $ $$ ${ } $query $passages \r\n"), _prompt),
    ]


def _spec(case: tuple[str, str]) -> None:
    stage = spec.make(*case)
    ensure(spec.make(case[0], str(stage)) == stage, f"{stage} does not read back")


def _pipeline(text: str) -> None:
    pipeline = Pipeline.parse(text)
    ensure(Pipeline.parse(str(pipeline)) == pipeline, f"{pipeline} does not read back")


def _layout(text: str) -> None:
    layout = Layout.read(text)
    ensure(Layout.read(str(layout)) == layout, f"{layout} does not read back")


def _grid(text: str) -> None:
    expand(text)
    expand_layout(text)


def _measure(text: str) -> None:
    for measure in parse_measures([text]):
        ensure(parse_measures([str(measure)]) == (measure,), f"{measure} does not read back")


def _edit(text: str) -> None:
    after = changed(text, {("search", "k"): 7}, "surefind.toml")
    ensure(parse_settings(after, "surefind.toml").k == 7, "the edit is not there")


def _filter(text: str) -> None:
    access = Access.of("hr", where=[text])
    str(access)
    for value in ("approved", "2025-01-01", "1e999", "", "nan"):
        access.where[0].accepts(value)


def _covers(case: tuple[str, str]) -> None:
    rule, path = case
    access_lists([], [path], [PathRule(rule, ("hr",)), PathRule("**", ("staff",), default=True)])


def _address(text: str) -> None:
    address = parse_model(text)
    _ = address.free
    host_of(address.url)
    if address.url:
        check(address.url, address.key_env)


def _repository(text: str) -> None:
    found = source(text)
    if isinstance(found, GitOrigin):
        _ = found.key, found.name, found.address
        ensure(GitOrigin.parse(str(found)) == found, f"{found} does not read back")


def _prompt(text: str) -> None:
    prompt = parse_prompt("step", "v1", text, ("query", "passages"))
    prompt.messages(query="a $b", passages=["c"])
