"""Model strings, prices, the [llm] table, Bedrock, a model in this process; and keys, which must be seen nowhere."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from helpers import Home
from llm_server import LLMServer
from surefind.base.errors import AnswerError, ConfigError, SurefindError, UsageError
from surefind.base.prompts.values import Calls, Message
from surefind.engine.llm.address import LLMSettings, parse_model
from surefind.engine.llm.models import CallQuote, quote
from surefind.engine.llm.prices import Price, price_of, tokens
from surefind.engine.services import LocalServices
from surefind.kb.settings.config import TEMPLATE, parse_settings

CANARY = "sk-canary-7d1f0e5a9b"
ASK = [Message("system", "Be brief."), Message("user", "What is it?")]
SCHEMA = {"type": "object", "properties": {"order": {"type": "array", "items": {"type": "integer"}}}}
VARIABLES = ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "AZURE_OPENAI_ENDPOINT", "OLLAMA_HOST")


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


# ---------------------------------------------------------------- model strings


@pytest.mark.parametrize(
    ("text", "wire", "model", "url", "key_env"),
    [
        ("openai:gpt-4.1-mini", "openai", "gpt-4.1-mini", "https://api.openai.com/v1", "OPENAI_API_KEY"),
        ("anthropic:claude-x", "anthropic", "claude-x", "https://api.anthropic.com/v1", "ANTHROPIC_API_KEY"),
        ("ollama:llama3.2:3b", "openai", "llama3.2:3b", "http://localhost:11434/v1", ""),
        ("bedrock:amazon.nova-lite-v1:0", "bedrock", "amazon.nova-lite-v1:0", "", ""),
        ("http://localhost:8080/v1#tiny", "openai", "tiny", "http://localhost:8080/v1", "LLM_API_KEY"),
        (
            "https://me.openai.azure.com/openai/deployments/small?api-version=2024-10-21#small",
            "openai", "small", "https://me.openai.azure.com/openai/deployments/small?api-version=2024-10-21",
            "AZURE_OPENAI_API_KEY",
        ),
    ],
)  # fmt: skip
def test_model_string(text: str, wire: str, model: str, url: str, key_env: str) -> None:
    found = parse_model(text)
    assert (found.wire, found.model, found.url, found.key_env) == (wire, model, url, key_env)


@pytest.mark.parametrize(
    ("variable", "value", "text", "url"),
    [
        ("OLLAMA_HOST", "0.0.0.0:11434", "ollama:a", "http://127.0.0.1:11434/v1"),
        ("OPENAI_BASE_URL", "https://gateway.example/openai/", "openai:a", "https://gateway.example/openai"),
        ("AZURE_OPENAI_ENDPOINT", "https://me.openai.azure.com", "azure:a", "https://me.openai.azure.com/openai/v1"),
    ],
)
def test_address_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, text: str, url: str
) -> None:
    monkeypatch.setenv(variable, value)
    assert parse_model(text).url == url


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("opnai:gpt", "names no provider. Did you mean openai"),
        ("gpt-4", "names no provider"),
        ("openai:", "has no name. Write it like 'openai:MODEL'"),
        ("http://localhost:8080/v1", "is not a URL with a model"),
        ("azure:x", "needs the environment variable AZURE_OPENAI_ENDPOINT"),
    ],
)
def test_bad_model_string(text: str, expected: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_model(text)
    assert expected in str(caught.value)


@pytest.mark.parametrize("text", [f"https://me:{CANARY}@host/v1#m", f"https://host/v1?key={CANARY}#m"])
def test_model_string_takes_no_secrets(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_model(text)
    assert CANARY not in str(caught.value)


# ---------------------------------------------------------------- prices and quotes


@pytest.mark.parametrize(
    ("model", "price"),
    [
        ("openai:gpt-4o-mini-2024-07-18", (0.15, 0.60)),
        ("openai:gpt-4o", (2.50, 10.00)),
        ("anthropic:claude-3-5-haiku-20241022", (0.80, 4.00)),
        ("bedrock:us.anthropic.claude-3-5-haiku-20241022-v1:0", (0.80, 4.00)),
        ("ollama:llama3.2", (0.0, 0.0)),
        ("http://127.0.0.1:8000/v1#x", (0.0, 0.0)),
        ("https://gpu.example/v1#x", None),
        ("openai:gpt-99", None),
    ],
)
def test_list_price(model: str, price: tuple[float, float] | None) -> None:
    assert price_of(parse_model(model), {}) == price


def test_a_listed_model_behind_a_local_gateway_has_its_price(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:4000")
    assert price_of(parse_model("openai:gpt-4o"), {}) == (2.50, 10.00)
    assert price_of(parse_model("openai:my-own"), {}) == (0.0, 0.0)


def test_own_price_goes_first() -> None:
    assert price_of(parse_model("openai:gpt-4o"), {"openai:gpt-4o": (1.0, 2.0)}) == Price(1.0, 2.0)


def test_price_arithmetic() -> None:
    """The study's Haiku 3.5: $0.80 and $4.00 a million; 10,000 in and 500 out are 0.008 + 0.002."""
    assert Price(0.8, 4.0).of(10_000, 500) == pytest.approx(0.010)
    assert tokens(3500) == 1000


def test_quote_adds_up_and_reads_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """2,310 calls of 2 s at 8 a time are 9.6 minutes; 3M in and 0.1M out of gpt-4.1-mini are 1.20 + 0.16 dollars."""
    models = LocalServices(llm=LLMSettings()).llm
    quoted = quote(models, [Calls("openai:gpt-4.1-mini", 2310, 3_000_000, 100_000)])
    assert quoted.dollars == pytest.approx(1.36)
    assert str(quoted) == "2,310 calls, 3.1M tokens, about $1.36, about 10 minutes"
    more = quote(models, [Calls("https://gpu.example/v1#x", 8, 10, 10)])
    assert (
        str(more)
        == "8 calls, 20 tokens, about $0.00 plus the cost of https://gpu.example/v1#x, which is unknown, about 2 s"
    )
    assert more.costs
    assert not CallQuote().costs


def test_quote_uses_measured_times(llm: LLMServer, tmp_path: Path) -> None:
    services = LocalServices(tmp_path, llm=LLMSettings(concurrency=1))
    llm.delay = 0.2
    services.chat(llm.model).complete(ASK)
    quoted = quote(services.llm, [Calls(llm.model, 60, 0, 0)])
    assert 0.2 <= quoted.minutes < 1.5


# ---------------------------------------------------------------- surefind.toml


def test_llm_table() -> None:
    text = (
        TEMPLATE
        + """
[llm]
model = "ollama:llama3.2"
fallback = "openai:gpt-4.1-mini"
budget = 5
timeout = 20
[llm.prices]
"openai:gpt-4.1-mini" = [0.4, 1.6]
"""
    )
    llm = parse_settings(text, "here").llm
    assert (llm.model, llm.fallback, llm.budget, llm.timeout) == ("ollama:llama3.2", "openai:gpt-4.1-mini", 5, 20)
    assert llm.prices == {"openai:gpt-4.1-mini": (0.4, 1.6)}


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ('[llm]\nmodle = "x"', "line 2: [llm] has no setting 'modle'. Did you mean model"),
        ("[llm]\nmodel = 3", "line 2: model must be a string"),
        ("[llm]\nretries = 1\ntimeout = 0", "line 3: timeout must be at least"),
        ("[llm]\nbudget = -1", "line 2: budget must be 0 or more dollars"),
        ('[llm.prices]\n"openai:x" = 3', "line 2: the price of openai:x must be two numbers"),
        (f'[llm]\nkey_env = "{CANARY}"', "line 2: key_env must be the name of an environment variable"),
    ],
)
def test_bad_llm_table_names_the_line(lines: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_settings(lines, "surefind.toml")
    assert f"surefind.toml, {expected}" in str(caught.value)
    assert CANARY not in str(caught.value)


def test_knowledge_base_uses_its_table(llm: LLMServer, home: Home) -> None:
    home.configure(f'[llm]\nmodel = "{llm.model}"\n')
    with home.open() as kb:
        assert kb.services.chat().complete(ASK).text == "fine"
    assert (home.folder / ".surefind" / "cache" / "answers.db").exists()


# ---------------------------------------------------------------- keys


def test_key_appears_nowhere(
    llm: LLMServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("LLM_API_KEY", CANARY)
    monkeypatch.setenv("ANTHROPIC_API_KEY", CANARY)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", llm.url)
    services = LocalServices(tmp_path, llm=LLMSettings(model=llm.model, retries=1))
    shown: list[str] = []
    llm.say(f"You sent me {CANARY}.")
    for model in (llm.model, "anthropic:claude-3-5-haiku"):
        done = services.chat(model).complete(ASK)
        llm.script = ["echo", "html", "500", "500", "malformed"]
        for turn in range(4):
            with pytest.raises(SurefindError) as caught:
                services.chat(model).complete([Message("user", f"Again {turn}?")])
            shown += [str(caught.value), repr(caught.value), str(caught.value.__cause__)]
        shown += [repr(done), repr(services.chat(model)), repr(services.llm.settings), str(services.llm.meter.spent)]
    assert {header.get("authorization", header.get("x-api-key")) for header in llm.headers} == {
        CANARY,
        f"Bearer {CANARY}",
    }
    services.close()
    assert [text for text in (*shown, caplog.text) if CANARY[:12] in text] == []
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    assert [path for path in files if CANARY.encode() in path.read_bytes()] == []


def test_missing_key_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(UsageError, match="the environment variable OPENAI_API_KEY is not set"):
        LocalServices().chat("openai:gpt-4.1-mini").complete(ASK)


def test_own_endpoint_is_not_sent_the_key_of_another(llm: LLMServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    monkeypatch.delenv("LLM_API_KEY", raising=False)
    LocalServices().chat(llm.model).complete(ASK)
    assert CANARY not in str(llm.headers)


# ---------------------------------------------------------------- Bedrock


@pytest.fixture
def bedrock(llm: LLMServer, monkeypatch: pytest.MonkeyPatch) -> LLMServer:
    pytest.importorskip("boto3")
    monkeypatch.setenv("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", llm.url.removesuffix("/v1"))
    for name, value in {
        "AWS_ACCESS_KEY_ID": "AKID",
        "AWS_SECRET_ACCESS_KEY": CANARY,
        "AWS_DEFAULT_REGION": "eu-west-1",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    for name in ("HTTP_PROXY", "ALL_PROXY"):  # boto3 asks a proxy about the loopback, too
        monkeypatch.delenv(name)
    return llm


def test_bedrock_converses(bedrock: LLMServer) -> None:
    bedrock.say('{"order": [3, 1]}')
    services = LocalServices(llm=LLMSettings(model="bedrock:us.amazon.nova-lite-v1:0"))
    done = services.chat().complete(ASK, schema=SCHEMA, max_tokens=7)
    assert done.text == '{"order": [3, 1]}'
    assert done.dollars == pytest.approx((done.tokens_in * 0.06 + done.tokens_out * 0.24) / 1e6)
    body = bedrock.bodies[0]
    assert body["system"] == [{"text": "Be brief."}]
    assert body["messages"] == [{"role": "user", "content": [{"text": "What is it?"}]}]
    assert body["inferenceConfig"] == {"maxTokens": 7, "temperature": 0.0}
    assert bedrock.paths[0].endswith("/converse")
    services.close()


def test_bedrock_failure_is_told(bedrock: LLMServer) -> None:
    bedrock.script = ["500"] * 3
    chat = LocalServices(llm=LLMSettings(model="bedrock:m", retries=1)).chat()
    with pytest.raises(SurefindError, match=r"Bedrock \(model m\)"):
        chat.complete(ASK)


def test_bedrock_that_drips_is_left_in_time(bedrock: LLMServer) -> None:
    """boto3 would read for ever: each byte comes within the timeout."""
    bedrock.script = ["crawl"] * 3
    chat = LocalServices(llm=LLMSettings(model="bedrock:m", total_timeout=1.0)).chat()
    with pytest.raises(AnswerError, match=r"Bedrock \(model m\) did not answer within [01]\.?\d* s"):
        chat.complete(ASK)
