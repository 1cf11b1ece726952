"""Keys in texts and settings are hidden in every form; what only sounds like a key stays."""

from typing import Any

import pytest

from truthgym.datasets.redaction import HIDDEN, redact, redacted

KEY = "pLaNtEd5ecret9"


@pytest.mark.parametrize(
    "text",
    [
        f"sk-{KEY}abc", f"sk-ant-api03-{KEY}", f"hf_{KEY}", f"github_pat_{KEY}{KEY}", f"eyJhbGciOi.{KEY}xx.sig",
        f"http://user:{KEY}@host:8000/x", f"https://u:p@{KEY}@host", f"redis://:{KEY}@h/0", f"https://{KEY}abc@host/x",
        f"Authorization: Bearer {KEY}", f"authorization: Basic {KEY}==", f'curl -H "Authorization: Token {KEY}"',
        f"api_key={KEY}", f"{{'api_key': '{KEY}'}}", f'{{\\"token\\": \\"{KEY}\\"}}',
        f"headers={{'X-Api-Key': '{KEY}'}}",
        f"--hub_token {KEY}", f"--hub-token={KEY}", f"https://h/x?token={KEY}&a=1", f"password: {KEY}",
        f"a=b:token={KEY}",
        f"OPENAI_KEY={KEY}", f"accessToken: {KEY}", f'api_key="{KEY} with a space"', f"-M api_key={KEY}",
    ],
)  # fmt: skip
def test_a_key_in_a_text_is_hidden(text: str) -> None:
    assert KEY not in redact(text)
    assert HIDDEN in redact(text)
    assert redact(redact(text)) == redact(text)


@pytest.mark.parametrize(
    "text",
    [
        "max_tokens=1000", "eos_token=<|im_end|>", 'pad_token="</s>"', "key=brier_score", "the last token: yes",
        "http://localhost:8000/v1", "http://host:80/path?a=b@c", "token_file=/home/x", "set HF_TOKEN=... first",
        "api_key=None", "FILE.py@task", "s3://bucket/x.eval", 'api_key="OPENAI_API_KEY"', "token 5 of 7",
        "basic understanding of things", "monkey=banana1234567890123456", "tokens=[1, 2]", "stop_token=END",
    ],
)  # fmt: skip
def test_what_is_no_key_stays(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize(
    ("settings", "without"),
    [
        ({"a": {"token": KEY, "max_tokens": 4}}, {"a": {"token": HIDDEN, "max_tokens": 4}}),
        ({"headers": [["api-key", KEY], ["n", "x"]]}, {"headers": [["api-key", HIDDEN], ["n", "x"]]}),
        (["train", "--hub_token", KEY, "--lr", "1"], ["train", "--hub_token", HIDDEN, "--lr", "1"]),
        ({"credentials": {"user": "x", "more": [KEY]}}, {"credentials": {"user": HIDDEN, "more": [HIDDEN]}}),
        ({"password": 12345, "eos_token": "<|e|>", "key": "b"}, {"password": HIDDEN, "eos_token": "<|e|>", "key": "b"}),
        (("secret", "public"), ("secret", "public")),
        ({"api_key": None, "seed": 3, "cache": True}, {"api_key": None, "seed": 3, "cache": True}),
    ],
)
def test_settings_are_searched_at_any_depth(settings: Any, without: Any) -> None:
    assert redacted(settings) == without


def test_variables_that_hold_a_key_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "plain words that no form gives away")
    assert redact("it is plain words that no form gives away.") == "it is [SOME_API_KEY]."
