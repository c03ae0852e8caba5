"""What goes wrong in the field: every fault gives the right outcome and its name, and healthy oddities give none."""

import pytest

from llmdoctor.probe.faults import FAULTS
from llmdoctor.probe.pieces import Ending, Usage
from llmdoctor.probe.protocols import load
from llmdoctor.probe.reading import Reading, read

CHAT = load("openai_chat")
TEXT = b'data: {"choices":[{"index":0,"delta":{"content":"Hello"}}]}\n\n'
STOP = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
DONE = b"data: [DONE]\n\n"
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":1}}\n\n'
GOOD = TEXT + STOP + USAGE + DONE


def _chat(raw: bytes, clean: bool = True, status: int = 200) -> Ending:
    """Read at once and byte by byte: both must agree."""
    ending = read(CHAT, raw, clean=clean, status=status)
    slow = Reading(CHAT, status=status)
    for at in range(len(raw)):
        slow.feed(raw[at : at + 1])
    slow.end(clean)
    assert slow.ending() == ending
    return ending


HEALTHY = {
    "an ordinary stream": GOOD,
    "heartbeats before, between and behind": b": ping\n\n" * 3 + TEXT + b":\n\n" + STOP + DONE + b": bye\n\n",
    "empty choices first": b'data: {"choices":[],"prompt_filter_results":[]}\n\n' + GOOD,
    "content null": b'data: {"choices":[{"delta":{"role":"assistant","content":null}}]}\n\n' + GOOD,
    "usage null in every event": TEXT.replace(b"]}\n", b'],"usage":null}\n') + STOP + DONE,
    "usage in every event": TEXT.replace(b"]}\n", b'],"usage":{"completion_tokens":1}}\n') + GOOD,
    "many tokens in an event": TEXT.replace(b"Hello", b"Hello there, all of you") + STOP + DONE,
    "parallel answers that end one after the other": STOP + TEXT.replace(b'"index":0', b'"index":1') + STOP + DONE,
    "an event named message": b"event: message\n" + TEXT + STOP + DONE,
    "ids and retry": b"retry: 3000\n\nid: 1\n" + TEXT + STOP + DONE,
    "white space is text": TEXT.replace(b"Hello", b" ") + STOP + DONE,
    "an escaped pair of surrogates": TEXT.replace(b"Hello", b"\\ud83d\\ude00") + STOP + DONE,
}


@pytest.mark.parametrize("raw", HEALTHY.values(), ids=HEALTHY.keys())
def test_what_is_healthy_has_no_fault(raw: bytes) -> None:
    ending = _chat(raw)
    assert (ending.outcome, ending.finish_reason, dict(ending.faults)) == ("completed", "stop", {})


# name of the fault, outcome, bytes
FAULTY = [
    ("no_terminator", "incomplete", TEXT + STOP),
    ("no_terminator", "incomplete", TEXT),
    ("no_terminator", "incomplete", b": ping\n\n: ping\n\n"),
    ("no_finish_reason", "completed", TEXT + DONE),
    ("event_unfinished", "completed", TEXT + STOP + b"data: [DONE]\n"),
    ("event_unfinished", "completed", TEXT + STOP + b"data: [DONE]"),
    ("event_unfinished", "incomplete", TEXT + STOP + b"data: [DO"),
    ("no_blank_line", "completed", TEXT.strip() + b"\n" + STOP + DONE),
    ("no_blank_line", "completed", TEXT + STOP.strip() + b"\n" + DONE),
    ("no_blank_line", "completed", TEXT.strip() + STOP + DONE),
    ("no_blank_line", "incomplete", (TEXT + STOP + DONE).replace(b"\n\n", b"\n")),
    (
        "double_encoded",
        "completed",
        b'data: "{\\"choices\\":[{\\"delta\\":{\\"content\\":\\"Hello\\"}}]}"\n\n' + STOP + DONE,
    ),
    ("double_encoded", "completed", TEXT + STOP + b'data: "[DONE]"\n\n'),
    ("json_over_lines", "completed", b'data: {"choices":[\ndata: {"delta":{"content":"Hello"}}]}\n\n' + STOP + DONE),
    ("double_data_prefix", "completed", b"data: " + TEXT + STOP + DONE),
    ("double_data_prefix", "completed", TEXT + STOP + b"data: " + DONE),
    ("cr_lines", "completed", GOOD.replace(b"\n", b"\r")),
    ("crlf_lines", "completed", GOOD.replace(b"\n", b"\r\n")),
    ("mixed_line_ends", "completed", TEXT.replace(b"\n", b"\r\n") + STOP + DONE),
    ("no_space_after_colon", "completed", GOOD.replace(b"data: ", b"data:")),
    ("byte_order_mark", "completed", b"\xef\xbb\xbf" + GOOD),
    ("done_without_data", "completed", TEXT + STOP + b"[DONE]\n"),
    ("done_without_data", "completed", TEXT + STOP + b"[DONE]\n\n"),
    ("comment_in_data", "completed", TEXT + b"data: : ping\n\n" + STOP + DONE),
    ("empty_data", "completed", TEXT + b"data:\n\n" + STOP + DONE),
    ("empty_data", "completed", TEXT + b'data: ""\n\n' + STOP + DONE),
    ("event_without_data", "completed", TEXT + b"id: 4\n: ping\n\n" + STOP + DONE),
    ("event_without_data", "completed", b"event: ping\n\n" + GOOD),
    ("unknown_field", "completed", b"date: today\n" + GOOD),
    ("invalid_json", "completed", TEXT + b"data: {'choices': []}\n\n" + STOP + DONE),
    ("not_strict_json", "completed", TEXT.replace(b"]}\n", b'],"logprob":NaN}\n') + STOP + DONE),
    ("unknown_event", "completed", TEXT + b'data: {"progress":3}\n\n' + STOP + DONE),
    ("terminator_twice", "completed", GOOD + DONE),
    ("data_after_terminator", "completed", GOOD + TEXT),
    ("usage_after_terminator", "completed", TEXT + STOP + DONE + USAGE),
    ("text_after_finish", "completed", TEXT + STOP + TEXT + DONE),
    ("message_instead_of_delta", "completed", TEXT.replace(b'"delta"', b'"message"') + STOP + DONE),
    ("invalid_utf8", "completed", TEXT.replace(b"Hello", b"caf\xe9") + STOP + DONE),
    ("replacement_character", "completed", TEXT.replace(b"Hello", "a\ufffd".encode()) + STOP + DONE),
    ("split_character", "completed", TEXT.replace(b"Hello", b"\\ud83d") + STOP + DONE),
    ("json_without_data", "failed", TEXT + b'{"error":{"message":"boom"}}\n\n'),
    ("json_without_data", "completed", TEXT.replace(b"data: ", b"").replace(b"\n\n", b"\n") * 2 + b"[DONE]\n"),
    ("http_in_body", "failed", TEXT + b"HTTP/1.1 500 Internal Server Error\r\nConnection: close\r\n\r\n<html></html>"),
    ("http_in_body", "failed", TEXT + b'data: {"choiHTTP/1.1 500 Internal Server Error\n\n'),
    ("html_in_body", "failed", TEXT + b"<html><title>502 Bad Gateway</title></html>\n"),
    ("html_in_body", "failed", b"<!DOCTYPE html>\n<html>\n<head><title>Sign in</title>"),
    ("text_instead_of_stream", "failed", b"upstream request timeout"),
    ("text_instead_of_stream", "incomplete", b"Hello. How are you?"),
    ("json_instead_of_stream", "failed", b'{\n  "error": {"message": "model not found", "code": 404}\n}\n'),
    ("unknown_protocol", "incomplete", b'data: {"type":"message_start"}\n\n'),
]


@pytest.mark.parametrize(
    ("fault", "outcome", "raw"), FAULTY, ids=[f"{number} {one[0]}" for number, one in enumerate(FAULTY)]
)
def test_a_fault_of_the_field_is_named_and_the_outcome_is_right(fault: str, outcome: str, raw: bytes) -> None:
    ending = _chat(raw)
    assert ending.outcome == outcome
    breaking = {name for name in ending.faults if FAULTS[name].level == "breaks"}
    assert fault in ending.faults
    if FAULTS[fault].level == "breaks":
        # One cause has one name; an end mark that nobody reads may add how the end was not seen.
        assert breaking - {fault} <= {"no_terminator", "done_without_data"}


def test_every_fault_has_one_sentence() -> None:
    assert all(fault.text.endswith(".") and len(fault.text) <= 120 for fault in FAULTS.values())


def test_every_fault_is_met_in_some_test() -> None:
    met = {name for name, _, _ in FAULTY}
    for name in ("ollama_chat", "gemini", "openai_responses", "llamacpp_completion", "tgi"):
        met |= {fault for example in load(name).EXAMPLES for fault in example.faults}
    elsewhere = {
        "line_too_long",
        "stream_instead_of_json",
        "unexpected_framing",
        "wrong_content_type",
        "foreign_terminator",
        "no_event_name",
        "unclean_end",
    }
    assert met | elsewhere == set(FAULTS)


def test_text_behind_a_wrong_wrapping_is_counted() -> None:
    for fault, outcome, raw in FAULTY:
        if outcome == "completed" and fault not in ("invalid_utf8", "replacement_character", "split_character"):
            assert _chat(raw).text_chars >= 5, fault


def test_a_connection_that_is_lost_is_no_fault_of_the_protocol() -> None:
    ending = _chat(TEXT + STOP[:20], clean=False)
    assert (ending.outcome, ending.chunks, dict(ending.faults)) == ("incomplete", 1, {})


def test_a_connection_that_is_lost_behind_the_end_mark_loses_nothing() -> None:
    ending = _chat(GOOD, clean=False)
    assert (ending.outcome, dict(ending.faults)) == ("completed", {"unclean_end": 1})


def test_nothing_at_all_is_an_empty_answer() -> None:
    assert (_chat(b"").outcome, _chat(b"").shape) == ("empty", "none")
    assert _chat(b"\n\n").outcome == "empty"
    assert _chat(b"", clean=False).outcome == "incomplete"


def test_reasoning_alone_is_an_empty_answer_with_chunks() -> None:
    ending = _chat(TEXT.replace(b'"content"', b'"reasoning"') + STOP + DONE)
    assert (ending.outcome, ending.chunks, ending.reasoning_chars, ending.text_chars) == ("empty", 1, 5, 0)


def test_an_error_behind_the_end_mark_does_not_undo_the_answer() -> None:
    assert _chat(GOOD + b"HTTP/1.1 500 Internal Server Error\r\n\r\n").outcome == "completed"


def test_usage_behind_the_end_mark_is_still_known() -> None:
    assert _chat(TEXT + STOP + DONE + USAGE).usage == Usage(5, None, 1)


def test_a_whole_answer_in_place_of_a_stream_is_read() -> None:
    raw = CHAT.EXAMPLES[-1].raw
    ending = _chat(raw)
    assert (ending.outcome, ending.shape, ending.text_chars) == ("completed", "json", 5)
    assert dict(ending.faults) == {"json_instead_of_stream": 1}


def test_a_stream_in_place_of_a_whole_answer_is_a_fault() -> None:
    assert dict(read(CHAT, GOOD, stream=False).faults) == {"stream_instead_of_json": 1}


@pytest.mark.parametrize(
    ("status", "body", "outcome", "error_type"),
    [
        (401, b'{"error":{"message":"Incorrect API key provided","code":"invalid_api_key"}}', "failed", "auth"),
        (401, b"<html><title>401 Authorization Required</title></html>", "failed", "auth"),
        (404, b'{"detail":"Not Found"}', "failed", "invalid_request"),
        (429, b'{"message":"API rate limit exceeded"}', "rate_limited", "rate_limit"),
        (
            429,
            b'{"error":{"code":"insufficient_quota","message":"You exceeded your current quota"}}',
            "rate_limited",
            "quota",
        ),
        (429, b"", "rate_limited", "rate_limit"),
        (
            400,
            b'{"object":"error","message":"maximum context length is 4096 tokens","code":400}',
            "failed",
            "context_length",
        ),
        (422, b'{"detail":[{"loc":["body"],"msg":"field required"}]}', "failed", "invalid_request"),
        (502, b"<html>\r\n<head><title>502 Bad Gateway</title></head></html>", "failed", "upstream_error"),
        (503, b"no healthy upstream", "failed", "overloaded"),
        (504, b"upstream request timeout", "failed", "timeout"),
        (504, b"", "failed", "timeout"),
        (500, b'{"status":500,"error":"Internal Server Error","path":"/v1"}', "failed", "server_error"),
        (529, b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}', "failed", "overloaded"),
        (302, b"", "failed", "other"),
    ],
)
def test_an_error_status_is_an_error_whatever_the_body(status: int, body: bytes, outcome: str, error_type: str) -> None:
    ending = _chat(body, status=status)
    assert ending.problem is not None
    assert (ending.outcome, ending.problem.error_type, dict(ending.faults)) == (outcome, error_type, {})


def test_an_html_page_is_told_by_its_title() -> None:
    ending = _chat(b"<html>\n<head>\n<title>504 Gateway Time-out</title>\n" + b"x" * 100_000)
    assert ending.shape == "html"
    assert ending.problem is not None
    assert ending.problem.error_type == "timeout"
    assert ending.problem.message == "an HTML page: 504 Gateway Time-out"


def test_an_event_beyond_the_limit_is_cut_and_the_rest_is_read() -> None:
    ending = read(CHAT, b'data: {"choices":[{"delta":{"content":"' + b"x" * 5_000_000 + b'"}}]}\n\n' + GOOD)
    assert (ending.outcome, dict(ending.faults)) == ("completed", {"line_too_long": 1})


def test_the_content_type_must_fit_the_body() -> None:
    def faults(content_type: str | None, raw: bytes = GOOD, name: str = "openai_chat") -> list[str]:
        reading = Reading(load(name), content_type=content_type)
        reading.feed(raw)
        reading.end()
        return list(reading.ending().faults)

    ollama = load("ollama_chat").EXAMPLES[0].raw
    assert faults("text/event-stream; charset=utf-8") == []
    assert faults(None) == []
    assert faults("text/plain") == ["wrong_content_type"]
    assert faults("") == ["wrong_content_type"]
    assert faults("application/x-ndjson", ollama, "ollama_chat") == []
    assert faults("text/event-stream", ollama, "ollama_chat") == ["wrong_content_type"]


def test_an_event_stream_where_json_lines_are_spoken_is_a_fault() -> None:
    lines = load("ollama_chat").EXAMPLES[1].raw.splitlines()
    ending = read(load("ollama_chat"), b"".join(b"data: " + line + b"\n\n" for line in lines))
    assert (ending.outcome, dict(ending.faults)) == ("completed", {"unexpected_framing": 1})


def test_done_is_not_the_end_of_an_api_with_an_end_mark_of_its_own() -> None:
    dialect = load("anthropic_messages")
    (cut,) = (example.raw for example in dialect.EXAMPLES if example.outcome == "incomplete")
    ending = read(dialect, cut + DONE)
    assert ending.outcome == "incomplete"
    assert "foreign_terminator" in ending.faults


def test_named_events_without_their_names_are_a_fault() -> None:
    lines = load("anthropic_messages").EXAMPLES[0].raw.splitlines(keepends=True)
    ending = read(load("anthropic_messages"), b"".join(line for line in lines if not line.startswith(b"event:")))
    assert (ending.outcome, set(ending.faults)) == ("completed", {"no_event_name"})


def test_the_place_of_a_piece_is_its_event() -> None:
    reading = Reading(CHAT)
    placed = reading.feed(b": hi\n\n" + TEXT + STOP.replace(b"]}\n", b'],"usage":{"completion_tokens":1}}\n'))
    assert [(one.piece.kind, one.end) for one in placed[:2]] == [("comment", 5), ("text", 6 + len(TEXT))]
    assert [(one.piece.kind, one.bytes > 0) for one in placed[2:]] == [("event", True), ("usage", False)]


def test_an_error_message_shows_no_prompt_and_no_key() -> None:
    raw = (
        b'data: {"error":{"message":"Bad request for \'tell me a secret\' with key sk-abcdefgh12345678: '
        b'[{\\"role\\": \\"user\\"}]","type":"invalid_request_error"}}\n\n'
    )
    told = _chat(raw).problem
    assert told is not None
    assert (told.error_type, told.message) == ("invalid_request", "Bad request for '…' with key [key]: …")


def test_an_apostrophe_is_no_quote() -> None:
    raw = b'data: {"error":{"message":"This model\'s maximum context length is 8192 tokens."}}\n\n'
    told = _chat(raw).problem
    assert told is not None
    assert (told.error_type, told.message) == ("context_length", "This model's maximum context length is 8192 tokens.")
