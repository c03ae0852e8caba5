"""Secrets do not leave the machine, and what is no secret stays readable."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmdoctor.redact import SHOWN, hash_id, mask, snippet

SECRETS = [
    "sk-proj-abcdefghijklmnopqrstuvwx",
    "sk-ant-api03-abcdefghijklmnop",
    "Bearer abcdefgh12345678",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcDEF123",
    "AKIAIOSFODNN7EXAMPLE",
    "ghp_abcdefghijklmnopqrstuvwxyz",
    "jane.doe@example.com",
    "https://user:hunter22@host/path",
    "https://host/v1?api_key=abc123def&model=x",
    "https://host/blob?sig=abc%2Fdef123&se=2026",
    "api_key=abcdef123456",
    '"password": "correct horse"',
    "0123456789abcdef0123456789abcdef0123456789abcdef",
    "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEYabcd",
]


@pytest.mark.parametrize("secret", SECRETS)
def test_secrets_are_masked(secret: str) -> None:
    shown = mask(f"error: {secret} was refused")
    assert secret not in shown
    assert shown.startswith("error: ")
    assert "[" in shown


@pytest.mark.parametrize(
    "text",
    [
        "chatcmpl-R0skcuMrJa17Zc5GrFGtDjGDGm9D4yKt",
        "f8cd1c1c-ca82-4254-acda-d71be33a95fd",
        "88d7aadb2551931b171533cd91949cef",
        "2026-11-25T09:12:03.104Z POST /v1/chat/completions 200",
        "gpt-4o-mini-2024-07-18",
    ],
)
def test_ids_times_and_names_are_left_alone(text: str) -> None:
    assert mask(text) == text


@pytest.mark.parametrize(
    "line",
    [
        '{"a": 1, "prompt": "tell me HUSH", "b": 2}',
        '{"messages": [{"role": "user", "content": "HUSH"}], "b": 2}',
        '{"content": "cut HUSH',
        '{"response": {"text": "HUSH"}}',
        '{"log": "{\\"prompt\\": \\"HUSH\\"}"}',
        '{"Input":"HUSH \\" HUSH"}',
        '{"completion": ["HUSH", "HUSH"]}',
    ],
)
def test_snippets_show_no_prompt_and_no_answer(line: str) -> None:
    assert "HUSH" not in snippet(line)
    assert "HUSH" not in snippet(line.encode())


@given(st.binary(max_size=400))
def test_any_bytes_give_a_short_printable_snippet(line: bytes) -> None:
    shown = snippet(line)
    assert len(shown) <= SHOWN
    assert shown.isprintable()


def test_hashes_are_short_stable_and_different() -> None:
    assert hash_id("tenant-1") == hash_id("tenant-1")
    assert hash_id("tenant-1") != hash_id("tenant-2")
    assert "tenant" not in hash_id("tenant-1")
    assert len(hash_id("x")) < 20
