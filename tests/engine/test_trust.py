"""A foreign surefind.toml sends neither text nor keys to a server that the user has not confirmed."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest

from exam_helpers import surefind
from helpers import Home
from llm_server import LLMServer
from surefind.base.errors import ConfigError, SurefindError, UsageError
from surefind.base.prompts.values import Message
from surefind.engine.llm.address import LLMSettings, parse_model
from surefind.engine.net import trust
from surefind.engine.services import LocalServices

pytest.importorskip("httpx")

SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCY"
ASK = [Message("user", "What is it?")]


@pytest.fixture
def evil(llm: LLMServer, monkeypatch: pytest.MonkeyPatch) -> LLMServer:
    """A server that answers as http://evil.invalid: requests to other machines go through it."""
    monkeypatch.setenv("HTTP_PROXY", llm.url.removesuffix("/v1"))
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    return llm


def complete(folder: Path | None = None, **settings: Any) -> str:
    services = LocalServices(folder, llm=LLMSettings(**{"retries": 0, **settings}))
    try:
        return services.chat().complete(ASK).text
    finally:
        services.close()


# ---------------------------------------------------------------- servers


def test_a_search_with_a_foreign_file_sends_nothing(evil: LLMServer, home: Home) -> None:
    home.write("docs/a.md", "# Fees\n\nThe wire fee is 25 dollars.\n")
    home.sync("docs")
    home.configure(
        '[llm]\nmodel = "http://evil.invalid/v1#toy"\nkey_env = "AWS_SECRET_ACCESS_KEY"\n'
        '[search]\npipeline = "p"\n[pipelines.p]\nretrieve = ["multi_query(retriever=bm25)"]\n'
    )
    ran = surefind("search", "wire fee", kb=home.folder)
    assert ran.code == 2
    assert ran.err.count("surefind: ") == 1 and "Traceback" not in ran.err
    assert "surefind trust evil.invalid --key AWS_SECRET_ACCESS_KEY" in ran.err
    assert evil.bodies == []


def test_an_encoder_of_a_foreign_file_sends_nothing(evil: LLMServer) -> None:
    from surefind.engine.embed.openai import OpenAI

    with pytest.raises(UsageError, match=r"surefind trust evil.invalid --key OPENAI_API_KEY"):
        OpenAI(url="http://evil.invalid/v1").embed(["a restricted text"])
    assert evil.headers == []


def test_a_server_is_confirmed_once(evil: LLMServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_API_KEY", "sk-0123456789")
    with pytest.raises(UsageError, match=r"evil.invalid is not confirmed yet.*run: surefind trust evil.invalid$"):
        complete(model="http://evil.invalid/v1#toy")
    assert surefind("trust", "evil.invalid").code == 0
    assert complete(model="http://evil.invalid/v1#toy") == "fine"
    assert evil.headers[0]["authorization"] == "Bearer sk-0123456789"


def test_a_confirmed_server_gets_no_other_key(evil: LLMServer, monkeypatch: pytest.MonkeyPatch) -> None:
    trust.confirm("evil.invalid")
    given = {"model": "http://evil.invalid/v1#toy", "key_env": "AWS_SECRET_ACCESS_KEY"}
    with pytest.raises(UsageError, match=r"surefind trust evil.invalid --key AWS_SECRET_ACCESS_KEY"):
        complete(**given)
    assert evil.headers == []
    trust.confirm("other.invalid", ["AWS_SECRET_ACCESS_KEY"])
    with pytest.raises(UsageError, match="--key AWS_SECRET_ACCESS_KEY"):
        complete(**given)
    trust.confirm("evil.invalid", ["AWS_SECRET_ACCESS_KEY"])
    assert complete(**given) == "fine"


def test_this_machine_gets_the_keys_of_services_alone(llm: LLMServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another user of the machine may listen there."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("SUREFIND_GATEWAY", "sk-0123456789")
    with pytest.raises(UsageError, match=r"surefind trust 127.0.0.1 --key AWS_SECRET_ACCESS_KEY"):
        complete(model=llm.model, key_env="AWS_SECRET_ACCESS_KEY")
    assert llm.headers == []
    assert complete(model=llm.model, key_env="SUREFIND_GATEWAY") == "fine"


@pytest.mark.parametrize(
    ("url", "key_env"),
    [
        ("https://api.openai.com/v1", "OPENAI_API_KEY"),
        ("https://api.anthropic.com/v1/messages", "ANTHROPIC_API_KEY"),
        ("https://me.openai.azure.com/openai/v1", "AZURE_OPENAI_API_KEY"),
        ("https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY"),
        ("https://api.cohere.com/v2/rerank", "COHERE_API_KEY"),
        ("https://api.jina.ai/v1/rerank", "JINA_API_KEY"),
        ("https://api.voyageai.com/v1", "VOYAGE_API_KEY"),
        ("https://API.OPENAI.COM/v1", "OPENAI_API_KEY"),
        ("https://api.openai.com/v1", "SUREFIND_OPENAI"),
        ("http://localhost:11434/v1", ""),
        ("http://[::1]:8000/v1", "LLM_API_KEY"),
    ],
)
def test_known_services_need_no_confirmation(url: str, key_env: str) -> None:
    trust.check(url, key_env)


@pytest.mark.parametrize(
    ("url", "key_env"),
    [
        ("https://me.cloudapp.azure.com/v1", "AZURE_OPENAI_API_KEY"),
        ("https://me.eastus.cloudapp.azure.com/v1", ""),
        ("https://openai.azure.com.evil.example/v1", "AZURE_OPENAI_API_KEY"),
        ("https://evilapi.openai.com/v1", "OPENAI_API_KEY"),
        ("https://api.openai.com.evil.example/v1", "OPENAI_API_KEY"),
        ("http://api.openai.com/v1", "OPENAI_API_KEY"),
        ("https://api.openai.com./v1", "OPENAI_API_KEY"),
        ("https://evil.example\\.openai.azure.com/v1", "AZURE_OPENAI_API_KEY"),
        ("https://api.\u043epenai.com/v1", "OPENAI_API_KEY"),
        ("https://api.openai.com/v1", "ANTHROPIC_API_KEY"),
        ("https://api.openai.com/v1", "AWS_SECRET_ACCESS_KEY"),
        ("https://127.0.0.1.evil.example/v1", ""),
        ("http://192.168.0.4/v1", ""),
        ("http://169.254.169.254/latest", ""),
    ],
)
def test_everything_else_does(url: str, key_env: str) -> None:
    with pytest.raises(UsageError, match=r"surefind trust "):
        trust.check(url, key_env)


def test_a_rented_machine_is_not_azure_openai() -> None:
    assert parse_model("https://me.cloudapp.azure.com/v1#m").key_env == "LLM_API_KEY"
    assert trust.bearer("https://me.cloudapp.azure.com/v1", "k" * 9) == {"Authorization": "Bearer " + "k" * 9}


def test_an_address_in_the_environment_is_the_users_own(evil: LLMServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://gateway.invalid/v1")
    assert complete(model="openai:toy") == "fine"
    with pytest.raises(UsageError, match="--key ANTHROPIC_API_KEY"):
        trust.check("http://gateway.invalid/v1", "ANTHROPIC_API_KEY")


# ---------------------------------------------------------------- what the user has confirmed


def test_the_list_is_outside_the_knowledge_base_and_private(home: Home) -> None:
    ran = surefind("trust", "https://LLM.example.com:8443/v1", "--key", "GATEWAY_KEY", "--json")
    assert ran.json["hosts"] == {"llm.example.com": ["GATEWAY_KEY"]}
    path = Path(ran.json["file"])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert home.folder not in path.parents
    assert "llm.example.com   keys: GATEWAY_KEY" in surefind("trust").out
    assert "llm.example.com (GATEWAY_KEY)" in surefind("doctor", kb=home.folder).out
    assert surefind("trust", "llm.example.com", "--forget").out == "Forgot llm.example.com.\n"
    assert trust.remembered() == {}


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["not a host"], "'not a host' is not the name of a server"),
        (["llm.example.com", "--key", "sk-secret-0123"], "the name of an environment variable in capitals"),
        (["llm.example.com", "--forget"], "llm.example.com is not in the list. It has: no servers."),
        (["--forget"], "Name the server"),
    ],
)
def test_wrong_usage_is_explained(words: list[str], complaint: str) -> None:
    ran = surefind("trust", *words)
    assert ran.code == 2 and complaint in ran.err and "sk-secret" not in ran.err
    assert trust.remembered() == {}


@pytest.mark.parametrize("content", ["", "[]", '{"hosts": 3}', '{"hosts": {"a": 1}}', "\xff", "[" * 100_000])
def test_a_damaged_list_trusts_nobody(content: str) -> None:
    path = trust.memory()
    path.parent.mkdir(parents=True)
    path.write_text(content, encoding="latin-1")
    with pytest.raises(ConfigError, match=r"trusted.json cannot be read .*Delete the file"):
        trust.check("https://llm.example.com", "")


# ---------------------------------------------------------------- keys in answers


@pytest.mark.parametrize("act", ["good", "escaped", "parts"])
def test_the_key_that_a_model_repeats_does_not_reach_the_disk(
    llm: LLMServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, act: str
) -> None:
    monkeypatch.setenv("LLM_API_KEY", SECRET)
    llm.say(f"You sent me {SECRET}.")
    llm.script = [act]
    assert complete(tmp_path, model=llm.model) == "You sent me [key]."
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files and not any(SECRET.encode() in path.read_bytes() for path in files)


def test_claude_behind_a_gateway_does_not_store_the_key_either(
    llm: LLMServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", llm.url)
    llm.say(f"You sent me {SECRET}.")
    llm.script = ["parts"]
    assert complete(tmp_path, model="anthropic:claude-3-5-haiku") == "You sent me [key]."


def test_an_error_does_not_show_the_key(llm: LLMServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_API_KEY", SECRET)
    llm.refuses, llm.complaint = ("max_tokens",), f"bad key {SECRET}"
    with pytest.raises(SurefindError) as caught:
        complete(model=llm.model)
    assert "[key]" in str(caught.value) and SECRET not in str(caught.value)


def test_short_placeholders_are_words_of_an_answer() -> None:
    assert trust.without("none", "There is none.") == "There is none."
