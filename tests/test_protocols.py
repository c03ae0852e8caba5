"""Every dialect reads its own examples, wherever they are cut, and each is recognised by its path and first bytes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmdoctor.probe.faults import FAULTS
from llmdoctor.probe.pieces import DONE, Ending, Example, Message, Placed
from llmdoctor.probe.protocols import Dialect, detect, load, names, path_for
from llmdoctor.probe.protocols.custom import Custom
from llmdoctor.probe.reading import Reading

CASES = [(name, example) for name in names() for example in load(name).EXAMPLES]
IDS = [f"{name}: {example.name}" for name, example in CASES]
KEYS = [
    "type",
    "choices",
    "delta",
    "message",
    "content",
    "text",
    "usage",
    "error",
    "done",
    "stop",
    "token",
    "response",
    "candidates",
    "parts",
    "finish_reason",
    "finishReason",
    "tool_calls",
    "function",
    "output",
    "item",
    "usageMetadata",
    "details",
]
by_example = pytest.mark.parametrize(("name", "example"), CASES, ids=IDS)


def _read(dialect: Dialect, stream: bool, *parts: bytes, clean: bool = True) -> tuple[list[Placed], Ending]:
    reading = Reading(dialect, stream)
    placed = [one for part in parts for one in reading.feed(part)] + reading.end(clean)
    return placed, reading.ending()


def _shown(placed: list[Placed]) -> str:
    return " ".join(f"{p.piece.kind}:{p.piece.text_chars}" if p.piece.text_chars else p.piece.kind for p in placed)


def test_all_dialects_are_there() -> None:
    assert names() == (
        "anthropic_messages",
        "custom",
        "gemini",
        "llamacpp_completion",
        "ollama_chat",
        "openai_chat",
        "openai_completions",
        "openai_responses",
        "tgi",
    )


def test_an_unknown_dialect_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        load("os")


@by_example
def test_an_example_gives_its_pieces_and_its_ending(name: str, example: Example) -> None:
    placed, ending = _read(load(name), example.stream, example.raw)
    assert _shown(placed) == example.pieces
    assert (ending.outcome, ending.finish_reason, ending.usage) == (
        example.outcome,
        example.finish_reason,
        example.usage,
    )
    assert (ending.problem.error_type if ending.problem else None) == example.error_type
    assert sorted(ending.faults) == sorted(example.faults)


@by_example
def test_an_example_reads_the_same_wherever_it_is_cut(name: str, example: Example) -> None:
    dialect, raw = load(name), example.raw
    whole = _read(dialect, example.stream, raw)
    for cut in range(len(raw) + 1):
        assert _read(dialect, example.stream, raw[:cut], raw[cut:]) == whole, cut
    assert _read(dialect, example.stream, *(raw[at : at + 1] for at in range(len(raw)))) == whole


@by_example
def test_a_piece_comes_with_the_byte_that_completes_it(name: str, example: Example) -> None:
    reading = Reading(load(name), example.stream)
    for at in range(len(example.raw)):
        for placed in reading.feed(example.raw[at : at + 1]):
            assert placed.end == at + 1
    for placed in reading.end():
        assert placed.end == len(example.raw)


@by_example
def test_an_answer_that_is_cut_before_its_end_mark_is_never_completed(name: str, example: Example) -> None:
    dialect = load(name)
    placed, _ = _read(dialect, example.stream, example.raw)
    if "every event" in example.name or not any(one.piece.kind == "terminal" for one in placed):
        return
    end = next(one.end for one in placed if one.piece.kind == "terminal")
    # The end mark of a stream may be there before the blank line that completes it.
    whole = len(example.raw[:end].rstrip())
    for cut in range(whole):
        ending = _read(dialect, example.stream, example.raw[:cut], clean=False)[1]
        assert ending.outcome in ("incomplete", "failed", "rate_limited"), cut
        assert not ending.terminal_seen
        assert set(ending.faults) <= set(example.faults), cut


@by_example
def test_no_text_is_kept(name: str, example: Example) -> None:
    placed, ending = _read(load(name), example.stream, example.raw)
    assert "Hello" not in repr(placed) + repr(ending)


@by_example
def test_faults_and_levels_are_on_the_list(name: str, example: Example) -> None:
    _, ending = _read(load(name), example.stream, example.raw)
    assert set(ending.faults) <= set(FAULTS)


@pytest.mark.parametrize("name", [name for name in names() if name != "custom"])
def test_a_dialect_is_recognised_by_its_path_and_by_what_comes(name: str) -> None:
    dialect = load(name)
    for path in dialect.PATHS:
        assert detect(f"https://example.com/base{path}?x=1") == name
    seen = [detect("https://example.com/ask", example.raw) for example in dialect.EXAMPLES if not example.error_type]
    assert set(seen) == {name}


def test_what_comes_says_more_than_the_path() -> None:
    chat = load("openai_chat").EXAMPLES[0].raw
    assert detect("http://localhost:3000/api/chat", chat) == "openai_chat"
    assert detect("http://localhost:3000/api/chat", b"<html>") == "ollama_chat"
    assert detect("http://localhost:3000/") is None
    assert detect("http://x/openai/deployments/d/chat/completions?api-version=1") == "openai_chat"
    assert detect("http://x/v1/models/gemini-2.5-flash:streamGenerateContent?alt=sse") == "gemini"


@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("tools", [True, False])
def test_a_request_is_json_and_holds_the_prompt(name: str, stream: bool, tools: bool) -> None:
    sent = json.dumps(load(name).body("some-model", "Say hello.", 50, stream, tools))
    assert "Say hello." in sent
    assert "some-model" in sent or name in ("gemini", "tgi", "custom")
    assert ("get_time" in sent) == (
        tools and name not in ("openai_completions", "llamacpp_completion", "tgi", "custom")
    )


@pytest.mark.parametrize("name", names())
def test_a_key_is_sent_once_and_none_where_there_is_none(name: str) -> None:
    dialect = load(name)
    assert sum("sesame" in value for value in dialect.headers("sesame").values()) == 1
    assert not any(
        header.lower() in ("authorization", "x-api-key", "api-key", "x-goog-api-key") for header in dialect.headers("")
    )


def test_azure_wants_its_key_in_a_header_of_its_own() -> None:
    assert load("openai_chat").headers("k", "x.openai.azure.com") == {"api-key": "k"}


def test_only_models_that_want_the_new_limit_get_it() -> None:
    body = load("openai_chat").body
    assert "max_completion_tokens" in body("gpt-5-mini", "p", 9, True, False)
    assert "max_tokens" in body("qwen3-8b", "p", 9, True, False)
    assert "max_tokens" in body("olmo", "p", 9, True, False)


def test_a_path_is_added_or_turned_where_the_api_has_two() -> None:
    assert path_for(load("openai_chat"), "/", True) == "/v1/chat/completions"
    assert path_for(load("openai_chat"), "/my/route", False) == "/my/route"
    assert path_for(load("gemini"), "", False, "some model") == "/v1beta/models/some%20model:generateContent"
    assert path_for(load("tgi"), "/generate_stream", False) == "/generate"
    assert path_for(load("tgi"), "/generate", True) == "/generate_stream"
    assert path_for(load("gemini"), "/v1/models/m:streamGenerateContent", False) == "/v1/models/m:generateContent"
    assert path_for(load("gemini"), "/v1/models/m:streamGenerateContent", True) == "/v1/models/m:streamGenerateContent"


@pytest.mark.parametrize("name", names())
@given(
    document=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(KEYS),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    ),
    event=st.sampled_from(["", "error", "message_start", "response.completed"]),
)
def test_no_document_whatever_its_shape_is_an_exception(name: str, document: object, event: str) -> None:
    dialect = load(name)
    dialect.delta(Message(event, json.dumps(document), document))
    dialect.answer(document)
    reading = Reading(dialect)
    reading.feed(f"event: {event}\ndata: {json.dumps(document)}\n\n{json.dumps(document)}\n".encode())
    reading.end()
    reading.ending()


def _custom(dialect: Custom, raw: bytes) -> tuple[str, str]:
    placed, ending = _read(dialect, True, raw)
    return _shown(placed), ending.outcome


def test_a_protocol_of_a_company_is_described_by_paths() -> None:
    dialect = Custom(
        text='$.data.choices[0]["the text"]', reasoning="$.data.thought", finish="$.data.why", terminal="$.data.end=1"
    )
    raw = (
        b'data: {"data":{"thought":"hm"}}\n\ndata: {"data":{"choices":[{"the text":"Hello"}]}}\n\n'
        b'data: {"data":{"end":0}}\n\ndata: {"data":{"end":1,"why":"stop"}}\n\n'
    )
    assert _custom(dialect, raw) == ("reasoning:2 text:5 event terminal", "completed")


def test_a_protocol_may_end_with_a_named_event() -> None:
    dialect = Custom(text="$.t", text_event="token", terminal="done")
    raw = b'event: token\ndata: {"t":"Hi"}\n\nevent: status\ndata: {"t":"busy"}\n\nevent: done\ndata: {}\n\n'
    assert _custom(dialect, raw) == ("text:2 event terminal", "completed")
    assert _custom(dialect, raw[: raw.index(b"event: done")]) == ("text:2 event", "incomplete")


def test_a_protocol_of_plain_text_keeps_its_blanks() -> None:
    dialect = Custom(text="$", terminal=DONE)
    assert _custom(dialect, b"data:  Good\n\ndata:  day\n\ndata: 42\n\ndata: [DONE]\n\n") == (
        "text:5 text:4 text:2 terminal",
        "completed",
    )


def test_a_protocol_without_an_end_mark_ends_with_its_body() -> None:
    dialect = Custom(text="$.t", terminal="")
    assert _custom(dialect, b'data: {"t":"Hi"}\n\n') == ("text:2", "completed")
    assert _read(dialect, True, b'data: {"t":"Hi"}\n\n', clean=False)[1].outcome == "incomplete"


def test_a_request_of_a_company_is_filled_in() -> None:
    dialect = Custom(
        template={"q": {"text": "Q: {prompt}"}, "n": "{max_tokens}", "stream": "{stream}", "x": ["{other}"]}
    )
    assert dialect.body("m", "Hi", 9, True, False) == {
        "q": {"text": "Q: Hi"},
        "n": 9,
        "stream": True,
        "x": ["{other}"],
    }


@pytest.mark.parametrize("path", ["text", "$.", "$.a[", "$.a..b", "$[x]"])
def test_a_path_that_cannot_be_read_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="JSON path"):
        Custom(text=path)
