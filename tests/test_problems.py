"""Errors as services word them: the type of schema.sql, and a message that can be shown."""

import pytest

from llmdoctor.probe.pieces import Json, Problem
from llmdoctor.probe.problems import error_type, shown, told_problem

TOLD: list[tuple[str, Json]] = [
    (
        "rate_limit",
        {"error": {"message": "Rate limit reached for gpt-4o", "type": "tokens", "code": "rate_limit_exceeded"}},
    ),
    ("quota", {"error": {"message": "You exceeded your current quota", "type": "insufficient_quota"}}),
    (
        "auth",
        {
            "error": {
                "message": "Incorrect API key provided",
                "type": "invalid_request_error",
                "code": "invalid_api_key",
            }
        },
    ),
    ("auth", {"type": "error", "error": {"type": "authentication_error", "message": "invalid x-api-key"}}),
    ("context_length", {"error": {"type": "invalid_request_error", "code": "context_length_exceeded", "message": ""}}),
    ("context_length", {"object": "error", "message": "This model's maximum context length is 4096", "code": 400}),
    (
        "context_length",
        {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 9 > 8"}},
    ),
    ("context_length", {"error": {"code": 400, "message": "too big", "type": "exceed_context_size_error"}}),
    ("content_filter", {"error": {"code": "content_filter", "message": "The response was filtered", "status": 400}}),
    ("overloaded", {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
    ("overloaded", {"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}),
    ("overloaded", {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}),
    ("overloaded", {"error": "Model is overloaded", "error_type": "overloaded"}),
    (
        "overloaded",
        {"error": {"message": "no healthy deployments, service unavailable", "type": "None", "code": "503"}},
    ),
    ("rate_limit", {"error": {"code": 429, "message": "Resource has been exhausted", "status": "RESOURCE_EXHAUSTED"}}),
    (
        "rate_limit",
        {"error": {"message": "litellm.RateLimitError: OpenAIException - slow", "type": None, "code": "429"}},
    ),
    ("rate_limit", {"message": "API rate limit exceeded"}),
    ("timeout", {"error": {"code": 504, "message": "Deadline expired", "status": "DEADLINE_EXCEEDED"}}),
    ("timeout", {"error": {"message": "litellm.Timeout: APITimeoutError - Request timed out", "code": "408"}}),
    ("upstream_error", {"error": {"code": 502, "message": "Provider returned error"}}),
    ("invalid_request", {"error": "model 'qwen3' not found"}),
    ("invalid_request", {"error": {"message": "Unrecognized request argument", "type": "invalid_request_error"}}),
    ("server_error", {"error": {"message": "The server had an error", "type": "server_error"}}),
    ("server_error", {"error": {"message": "boom", "type": "api_error"}}),
    ("server_error", {"error": "Request failed during generation", "error_type": "generation"}),
    ("server_error", {"status": 500, "error": "Internal Server Error", "path": "/x", "timestamp": "2026-11-30"}),
    ("invalid_request", {"detail": [{"loc": ["body", "messages"], "msg": "field required"}], "status": 422}),
    ("auth", {"detail": "Not authenticated"}),
    ("auth", {"statusCode": 401, "message": "Access denied due to missing subscription key"}),
    ("cancelled", {"error": {"message": "the request was cancelled", "type": "cancelled"}}),
    ("other", {"error": {"message": "hm"}}),
    ("other", {"error": {}, "message": "hm"}),
]


@pytest.mark.parametrize(("kind", "document"), TOLD)
def test_the_type_of_an_error(kind: str, document: Json) -> None:
    told = told_problem(document, failed=True)
    assert told is not None
    assert told.error_type == kind


@pytest.mark.parametrize(
    "document",
    [
        {"choices": []},
        {"error": None, "choices": []},
        {"error": False},
        {"message": "hello"},
        {"code": 200, "message": "ok"},
        {"type": "message_start"},
        {"errors": []},
        ["error"],
        "error",
        5,
        None,
    ],
)
def test_what_is_no_error(document: Json) -> None:
    assert told_problem(document) is None


def test_a_status_alone_has_a_type() -> None:
    types = {status: error_type([status]) for status in (400, 401, 404, 408, 429, 499, 500, 502, 503, 504, 529)}
    assert types == {
        400: "invalid_request",
        401: "auth",
        404: "invalid_request",
        408: "timeout",
        429: "rate_limit",
        499: "cancelled",
        500: "server_error",
        502: "upstream_error",
        503: "overloaded",
        504: "timeout",
        529: "overloaded",
    }


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("This model's limit is 8 tokens", "This model's limit is 8 tokens"),
        ("bad value 'my secret plan' for \"x\"", "bad value '…' for '…'"),
        ("bad value 'my secret plan", "bad value '…'"),
        ("first\nsecond", "first"),
        ("failed: {'messages': [...]}", "failed: …"),
        ("key sk-abcdefgh12345678 is wrong", "key [key] is wrong"),
        ('E: Exc - {"error":{"message":"unknown endpoint","type":"x"}}', "E: Exc - unknown endpoint"),
        ('E - {\\"error\\":{\\"message\\":\\"it isn\'t here\\"}}', "E - it isn't here"),
        ("E - {'messages': [{'content': 'my plan'}]}", "E - …"),
        ("a\x1b[31mred", "a·…"),
        (None, ""),
    ],
)
def test_a_message_fit_to_be_shown(message: object, text: str) -> None:
    assert shown(message) == text


def test_a_message_is_short() -> None:
    assert len(shown("word " * 1000)) == 160


def test_a_problem_in_a_list_is_found_where_the_answer_failed() -> None:
    assert told_problem([{"error": {"code": 429, "message": "slow"}}], failed=True) == Problem("rate_limit", "slow")
