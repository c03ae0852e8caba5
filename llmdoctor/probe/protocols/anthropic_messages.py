"""Anthropic Messages: named events from message_start to message_stop."""

from dataclasses import replace
from typing import Literal

from llmdoctor.probe.pieces import (
    Example,
    Json,
    Message,
    Piece,
    Usage,
    closing,
    content,
    inner,
    items,
    together,
    tokens,
    word,
)

PATHS: tuple[str, ...] = ("/v1/messages", "/messages")
STREAM_PATHS: tuple[str, str] | None = None
SIGNS: tuple[tuple[bytes, ...], ...] = (
    (b'"type":"message_start"',),
    (b"event:message_start",),
    (b'"type":"message"', b'"content":[', b'"stop_reason":'),
)
LIMIT_AT: tuple[str, ...] = ("max_tokens",)
KEY_ENV: tuple[str, ...] = ("ANTHROPIC_API_KEY",)
FRAMING: Literal["sse", "ndjson", "elements"] = "sse"
ENDS_WITH: tuple[str, ...] = ("finish_reason", "terminal")

_EVENTS = (
    "message_start",
    "content_block_start",
    "content_block_delta",
    "content_block_stop",
    "message_delta",
    "message_stop",
    "ping",
)


def headers(key: str, host: str = "") -> dict[str, str]:  # noqa: ARG001 - the same everywhere
    """The version, and the key in a header of its own."""
    return {"anthropic-version": "2023-06-01", **({"x-api-key": key} if key else {})}


def body(model: str, prompt: str, max_tokens: int, stream: bool, tools: bool) -> dict[str, Json]:
    """One user message."""
    asked: dict[str, Json] = {
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": max_tokens,
        "stream": stream,
    }
    if model:
        asked["model"] = model
    if tools:
        schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
        asked["tools"] = [{"name": "get_time", "description": "The time of day in a city", "input_schema": schema}]
    return asked


def _usage(told: dict[str, Json]) -> Usage | None:
    """Their input_tokens are without the cached ones; ours are with them."""
    if not told:
        return None
    read, cached = tokens(told.get("input_tokens")), tokens(told.get("cache_read_input_tokens"))
    return Usage(
        None if read is None else together(read, cached, tokens(told.get("cache_creation_input_tokens"))),
        cached,
        tokens(told.get("output_tokens")),
    )


def _block(block: dict[str, Json]) -> list[Piece]:
    """The pieces of a content block: of a whole answer, or as a stream opens it."""
    kind = block.get("type")
    if kind in ("tool_use", "server_tool_use", "mcp_tool_use"):
        return content("tool", block.get("name"))
    if kind == "redacted_thinking":
        return content("reasoning", block.get("data"))
    return content("reasoning", block.get("thinking")) + content("text", block.get("text"))


def _delta(given: dict[str, Json]) -> list[Piece]:
    return (
        content("reasoning", given.get("thinking"))
        + content("text", given.get("text"))
        + content("tool", given.get("partial_json"))
    )


def delta(message: Message) -> list[Piece]:
    """One event of a stream. `ping` and signatures are plain events."""
    document = message.document if isinstance(message.document, dict) else {}
    kind = document.get("type") or message.name
    if kind not in _EVENTS:
        return []
    found: list[Piece] = []
    if kind == "message_start":
        found = closing([Piece("role")], _usage(inner(document, "message", "usage")), None)
    elif kind == "content_block_start":
        found = _block(inner(document, "content_block"))
    elif kind == "content_block_delta":
        found = _delta(inner(document, "delta"))
    elif kind == "message_delta":
        found = closing([], _usage(inner(document, "usage")), word(inner(document, "delta").get("stop_reason")))
    elif kind == "message_stop":
        found = [Piece("terminal")]
    found = found or [Piece("event")]
    if not message.name:
        found[0] = replace(found[0], faults=(*found[0].faults, "no_event_name"))
    return found


def answer(document: Json) -> list[Piece]:
    """A whole answer: a message with its content blocks."""
    if not isinstance(document, dict) or not isinstance(document.get("content"), list):
        return []
    found = [piece for block in items(document["content"]) for piece in _block(block)]
    return closing(found, _usage(inner(document, "usage")), word(document.get("stop_reason")), terminal=True)


def _event(kind: str, rest: str = "") -> bytes:
    return f'event: {kind}\ndata: {{"type":"{kind}"{rest}}}\n\n'.encode()


_START = _event(
    "message_start",
    ',"message":{"id":"msg_1","type":"message","role":"assistant","content":[],"stop_reason":null,"usage":'
    '{"input_tokens":5,"cache_read_input_tokens":20,"cache_creation_input_tokens":7,"output_tokens":1}}',
)
_OPEN = _event("content_block_start", ',"index":0,"content_block":{"type":"text","text":""}')
_TEXT = _event("content_block_delta", ',"index":0,"delta":{"type":"text_delta","text":"Hello"}')
_STOP = _event("message_delta", ',"delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":12}')
_END = _event("message_stop")

EXAMPLES: tuple[Example, ...] = (
    Example(
        "text with pings; the prompt's usage comes first, the answer's last",
        _START + _OPEN + _event("ping") + _TEXT + _event("content_block_stop", ',"index":0') + _STOP + _END,
        "role usage event event text:5 event usage terminal",
        finish_reason="end_turn",
        usage=Usage(32, 20, 12),
    ),
    Example(
        "thinking with its signature, then a tool call",
        _START
        + _event("content_block_start", ',"index":0,"content_block":{"type":"thinking","thinking":""}')
        + _event("content_block_delta", ',"index":0,"delta":{"type":"thinking_delta","thinking":"Let me"}')
        + _event("content_block_delta", ',"index":0,"delta":{"type":"signature_delta","signature":"c2ln"}')
        + _event("content_block_start", ',"index":1,"content_block":{"type":"tool_use","name":"get_time","input":{}}')
        + _event("content_block_delta", ',"index":1,"delta":{"type":"input_json_delta","partial_json":""}')
        + _event("content_block_delta", ',"index":1,"delta":{"type":"input_json_delta","partial_json":"{}"}')
        + _event("message_delta", ',"delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":12}')
        + _END,
        "role usage event reasoning:6 event tool:8 event tool:2 usage terminal",
        finish_reason="tool_use",
        usage=Usage(32, 20, 12),
    ),
    Example(
        "a gateway that translates knows the usage only at the end",
        _event(
            "message_start", ',"message":{"role":"assistant","content":[],"usage":{"input_tokens":0,"output_tokens":0}}'
        )
        + _OPEN
        + _TEXT
        + _event(
            "message_delta",
            ',"delta":{"stop_reason":"max_tokens"},'
            '"usage":{"input_tokens":1,"output_tokens":20,"cache_read_input_tokens":40}',
        )
        + _END,
        "role usage event text:5 usage terminal",
        finish_reason="max_tokens",
        usage=Usage(41, 40, 20),
    ),
    Example(
        "overloaded in mid-answer",
        _START
        + _OPEN
        + _TEXT
        + b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n',
        "role usage event text:5 error",
        "failed",
        usage=Usage(32, 20, 1),
        error_type="overloaded",
    ),
    Example(
        "cut before message_stop",
        _START + _OPEN + _TEXT + _STOP,
        "role usage event text:5 usage",
        "incomplete",
        "end_turn",
        Usage(32, 20, 12),
        faults=("no_terminator",),
    ),
    Example(
        "a whole answer",
        b'{"id":"msg_1","type":"message","role":"assistant","content":[{"type":"text","text":"Hello"}],'
        b'"stop_reason":"max_tokens","usage":{"input_tokens":5,"output_tokens":2}}',
        "text:5 usage terminal",
        finish_reason="max_tokens",
        usage=Usage(5, None, 2),
        stream=False,
    ),
)
