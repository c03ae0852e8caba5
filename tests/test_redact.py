"""Secrets do not leave the machine, and what is no secret stays readable."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmdoctor.redact import SHOWN, TEXT, hash_id, mask, name, snippet, unquoted
from tests.planted import SECRETS as PLANTED

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


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (
            '{"ts": "2026-01-01 10:00:00.5", "ttft_ms": "12ms", "n": 3}',
            '{"ts": "2026-01-01 10:00:00.5", "ttft_ms": "12ms", "n": 3}',
        ),
        ('{"total_ms":"HUSH","model":"gpt","ok":true}', '{"total_ms":"…","model":"…","ok":true}'),
        ('{"status":200,"rt":3.911,"uht":-, 0.017}', '{"status":200,"rt":3.911,"uht":-, …}'),
        ('{"ids": [101, 2023], "HUSH tell me": 1, "cut": "HUSH', '{"ids": […, …], "…": 1, "cut": "…"'),
        ('USH", "b": {"a": 1} HUSH, "c": HUSH 7', '… {"a": 1} …, "c": … …'),
        ("x {'messages': [{'role': 'HUSH'}], 'n': 1}", "… {'messages': [{'role': \"…\"}], 'n': 1}"),
        (
            '{"time":"25/Nov/2026:09:12:08 +0000","v":null,"w":""}',
            '{"time":"25/Nov/2026:09:12:08 +0000","v":null,"w":""}',
        ),
    ],
)
def test_snippets_show_keys_numbers_and_times_only(line: str, shown: str) -> None:
    assert snippet(line) == shown


def test_nothing_is_left_of_a_secret_that_is_masked_and_masking_again_changes_nothing() -> None:
    every = json.dumps([text for text, _ in PLANTED.values()])
    shown = mask(every)
    assert not [kind for kind, (_, core) in PLANTED.items() if core in shown]
    assert mask(shown) == shown


def test_a_password_of_several_words_is_masked_whole() -> None:
    assert mask('{"password": "correct horse", "n": 1}') == '{"password": [secret]", "n": 1}'


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("could not convert string to float: 'it's HUSH'", "could not convert string to float: '…'"),
        ("Could not convert string 'a' b' to INT32", "Could not convert string '…' to INT32"),
        ("division by zero", "division by zero"),
        ("cut 'HUSH of a first line", "cut '…'"),
    ],
)
def test_sentences_about_data_lose_what_they_quote(text: str, shown: str) -> None:
    assert unquoted(text) == shown


def test_a_name_is_shown_and_a_sentence_in_its_place_is_not() -> None:
    assert name("meta-llama/Llama 3.1 70B Instruct") == "meta-llama/Llama 3.1 70B Instruct"
    assert name("tell nobody that I am in love with you") == TEXT
    assert name("x" * 300) == TEXT


@given(st.text(alphabet="sk-AIzaeyJ.@:/?&=\"'\\[]{}() ,bearerapi_key019", max_size=300))
def test_masking_twice_is_masking_once(text: str) -> None:
    assert mask(mask(text)) == mask(text)


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
