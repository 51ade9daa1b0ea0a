"""Editing surefind.toml as a whole: validated, nothing lost, no secret shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from cases import each
from helpers import WORDS, Home
from surefind.base.errors import ConfigError
from surefind.kb.adoption import MARK, StaleError, hidden, prepare_undo, save_settings, shown_settings, write
from surefind.kb.settings.config import TEMPLATE

SECRETS = """# OPENAI_API_KEY=sk-abcdefghijklmnopqrstuvwxyz123456
# model = "https://me:hunter2@models.example.com/v1#small"
# password: swordfish
[search]
pipeline = "words"
[index]
chunk = "markdown(tokens=60)"
[pipelines.words]
retrieve = ["bm25"]
[llm]
key_env = "MY_API_KEY"
"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def text_of(home: Home) -> str:
    return (home.folder / "surefind.toml").read_text()


def test_a_valid_text_is_written_and_can_be_undone(home: Home) -> None:
    shown = shown_settings(home.folder)
    assert shown.text == WORDS and shown.exists
    edited = WORDS.replace("[pipelines", "k = 7\n[pipelines")
    save_settings(home.folder, edited.replace("\n", "\r\n"), shown.mark)  # browsers send CRLF
    assert text_of(home) == edited
    write(home.folder, prepare_undo(home.folder))
    assert text_of(home) == WORDS


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        (
            '[search]\npipeline = "word"\n[pipelines.words]\nretrieve = ["bm25"]\n',
            "line 2: there is no pipeline 'word'",
        ),
        ("[search]\nk = 0\n", "line 2: k must be at least 1"),
        ("[search\n", "line 1"),
        ('[pipelines.words]\nretrieve = ["bm26"]\n[search]\npipeline = "words"\n', "line 2:.*bm26"),
        ("[serve]\nprot = 1\n", "prot"),
        ("[serve]\nport = 99999\n", "65535"),
        ("x" * 300_000, "200,000"),
    ],
)
def test_a_text_that_is_not_valid_changes_nothing(home: Home, bad: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        save_settings(home.folder, bad, shown_settings(home.folder).mark)
    assert text_of(home) == WORDS


def test_a_file_that_changed_since_it_was_shown_is_not_overwritten(home: Home) -> None:
    shown = shown_settings(home.folder)
    home.configure(WORDS + "# somebody else\n")
    with pytest.raises(StaleError, match="Open it again"):
        save_settings(home.folder, WORDS + "# me\n", shown.mark)
    assert text_of(home) == WORDS + "# somebody else\n"


def test_without_a_file_the_defaults_are_shown_and_saving_makes_one(home: Home) -> None:
    (home.folder / "surefind.toml").unlink()
    shown = shown_settings(home.folder)
    assert shown.text == TEMPLATE and not shown.exists
    save_settings(home.folder, TEMPLATE.replace("k = 10", "k = 5"), shown.mark)
    assert "k = 5" in text_of(home)
    with pytest.raises(StaleError):
        save_settings(home.folder, TEMPLATE, shown.mark)


def test_secrets_are_not_shown_and_stay_in_the_file(home: Home) -> None:
    home.configure(SECRETS)
    shown = shown_settings(home.folder)
    for secret in ("sk-abc", "hunter2", "swordfish"):
        assert secret not in shown.text
    assert shown.text.count(MARK) == 3 and "tokens=60" in shown.text and "MY_API_KEY" in shown.text
    save_settings(home.folder, shown.text.replace("tokens=60", "tokens=80"), shown.mark)
    assert text_of(home) == SECRETS.replace("tokens=60", "tokens=80")


def test_a_changed_line_with_a_mark_is_refused(home: Home) -> None:
    home.configure(SECRETS)
    shown = shown_settings(home.folder)
    with pytest.raises(ConfigError, match=r"line 3.*redacted"):
        save_settings(home.folder, shown.text.replace("# password", "# my password"), shown.mark)
    assert text_of(home) == SECRETS


def test_the_settings_of_init_show_nothing_hidden() -> None:
    assert hidden(TEMPLATE) == TEMPLATE


@each(
    ("line", "shown"),
    [
        ('api_key = "abc def"', f'api_key = "{MARK}"'),
        ("""password = "it's 'quoted'" # kept""", f'password = "{MARK}" # kept'),
        ("token = 'xyz'", f"token = '{MARK}'"),
        ("my_secret_key: hunter2", f"my_secret_key: {MARK}"),
        ('access_token = "unclosed', f'access_token = "{MARK}"'),
        ('token_env = "MY_TOKEN"', 'token_env = "MY_TOKEN"'),
        ('api_key_env = "OPENAI_API_KEY"', 'api_key_env = "OPENAI_API_KEY"'),
    ],
)
def test_all_of_a_secret_is_hidden_and_names_of_variables_are_not(line: str, shown: str) -> None:
    assert hidden(line) == shown
