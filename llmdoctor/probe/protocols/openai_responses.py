"""OpenAI Responses: typed events; the answer ends with response.completed, response.incomplete or response.failed."""

from typing import Literal

from llmdoctor.probe.pieces import (
    Example,
    Json,
    Kind,
    Message,
    Piece,
    Problem,
    Usage,
    closing,
    content,
    inner,
    items,
    tokens,
    word,
)
from llmdoctor.probe.problems import told_problem
from llmdoctor.probe.protocols import openai_chat
from llmdoctor.probe.protocols.openai_chat import headers

__all__ = [
    "ENDS_WITH",
    "EXAMPLES",
    "FRAMING",
    "KEY_ENV",
    "LIMIT_AT",
    "PATHS",
    "SIGNS",
    "STREAM_PATHS",
    "answer",
    "body",
    "delta",
    "headers",
]

PATHS: tuple[str, ...] = ("/v1/responses", "/responses")
STREAM_PATHS: tuple[str, str] | None = None
SIGNS: tuple[tuple[bytes, ...], ...] = ((b'"type":"response.',), (b"event:response.",), (b'"object":"response"',))
LIMIT_AT: tuple[str, ...] = ("max_output_tokens",)
KEY_ENV: tuple[str, ...] = openai_chat.KEY_ENV
FRAMING: Literal["sse", "ndjson", "elements"] = "sse"
ENDS_WITH: tuple[str, ...] = ("finish_reason", "terminal")

_CALLS = ("function_call", "custom_tool_call", "mcp_call")
_LAST = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")


def body(model: str, prompt: str, max_tokens: int, stream: bool, tools: bool) -> dict[str, Json]:
    """One text as input. The API refuses a limit below 16 tokens."""
    asked: dict[str, Json] = {
        "input": prompt,
        "max_output_tokens": max(max_tokens, 16),
        "stream": stream,
        "store": False,
    }
    if model:
        asked["model"] = model
    if tools:
        asked["tools"] = [{"type": "function", **openai_chat.TOOL["function"]}]
    return asked


def _usage(response: dict[str, Json]) -> Usage | None:
    told = inner(response, "usage")
    if not told:
        return None
    return Usage(
        tokens(told.get("input_tokens")),
        tokens(inner(told, "input_tokens_details").get("cached_tokens")),
        tokens(told.get("output_tokens")),
        tokens(inner(told, "output_tokens_details").get("reasoning_tokens")),
    )


def _output(response: dict[str, Json]) -> list[Piece]:
    """The pieces of the items of a finished response."""
    found: list[Piece] = []
    for item in items(response.get("output")):
        if item.get("type") in _CALLS:
            words = [
                one for one in (item.get("name"), item.get("arguments"), item.get("input")) if isinstance(one, str)
            ]
            found += content("tool", "".join(words))
        reasoning = item.get("type") == "reasoning"
        for part in [*items(item.get("summary")), *items(item.get("content"))]:
            found += content("reasoning" if reasoning else "text", part.get("text"))
            found += content("text", part.get("refusal"), refusal=True)
    return found


def _last(kind: str, response: dict[str, Json]) -> list[Piece]:
    """The pieces of the event that ends a stream."""
    found: list[Piece] = []
    if kind == "response.failed":
        found = [Piece("error", problem=told_problem({"error": response.get("error") or {}}, failed=True))]
    if kind == "response.cancelled":
        found = [Piece("error", problem=Problem("cancelled", "the response was cancelled"))]
    reason = word(inner(response, "incomplete_details").get("reason")) or kind.removeprefix("response.")
    whole = sum(piece.text_chars for piece in _output(response) if piece.kind == "text")
    return closing(found, _usage(response), reason, terminal=True, whole_chars=whole)


def _kind(name: str) -> Kind:
    if "reasoning" in name:
        return "reasoning"
    return "text" if "text" in name or "refusal" in name or "audio" in name else "tool"


def delta(message: Message) -> list[Piece]:
    """One event of a stream. What the `.done` events repeat is no new content."""
    document = message.document if isinstance(message.document, dict) else {}
    kind = document.get("type") or message.name
    if not isinstance(kind, str) or not kind.startswith("response."):
        return []
    if kind in _LAST:
        return _last(kind, inner(document, "response"))
    return _opened(kind, inner(document, "item")) or _added(kind, document.get("delta")) or [Piece("event")]


def _opened(kind: str, item: dict[str, Json]) -> list[Piece]:
    """An item of the output begins: a call tells its name."""
    if kind != "response.output_item.added":
        return []
    if item.get("type") == "message":
        return [Piece("role")]
    return content("tool", item.get("name")) if item.get("type") in _CALLS else []


def _added(kind: str, added: Json) -> list[Piece]:
    """New content. Sound is counted by its transcript."""
    if not kind.endswith(".delta"):
        return []
    if kind == "response.audio.delta":
        return [Piece("text")] if added else []
    return content(_kind(kind), added, refusal="refusal" in kind)


def answer(document: Json) -> list[Piece]:
    """A whole answer: a response that is no longer in progress."""
    if not isinstance(document, dict) or not isinstance(document.get("output"), list):
        return []
    status = word(document.get("status")) or "completed"
    return [*_output(document), *_last(f"response.{status}", document)] if status != "in_progress" else []


def _event(kind: str, rest: str) -> bytes:
    return f'event: {kind}\ndata: {{"type":"{kind}","sequence_number":1,{rest}}}\n\n'.encode()


_START = _event("response.created", '"response":{"id":"resp_1","status":"in_progress","output":[],"error":null}')
_USAGE = (
    '"usage":{"input_tokens":30,"input_tokens_details":{"cached_tokens":8},"output_tokens":9,'
    '"output_tokens_details":{"reasoning_tokens":5}}'
)
_TEXT = _event("response.output_text.delta", '"item_id":"msg_1","output_index":0,"content_index":0,"delta":"Hello"')

EXAMPLES: tuple[Example, ...] = (
    Example(
        "reasoning summary, then text",
        _START
        + _event("response.output_item.added", '"item":{"type":"reasoning","summary":[]}')
        + _event("response.reasoning_summary_text.delta", '"delta":"Think"')
        + _event("response.output_item.added", '"item":{"type":"message","role":"assistant","content":[]}')
        + _TEXT
        + _event("response.output_text.done", '"text":"Hello"')
        + _event(
            "response.completed",
            '"response":{"status":"completed","output":[{"type":"message","content":[{"type":"output_text",'
            f'"text":"Hello"}}]}}],{_USAGE}}}',
        ),
        "event event reasoning:5 role text:5 event usage terminal:5",
        finish_reason="completed",
        usage=Usage(30, 8, 9, 5),
    ),
    Example(
        "a function call",
        _START
        + _event("response.output_item.added", '"item":{"type":"function_call","name":"get_time","arguments":""}')
        + _event("response.function_call_arguments.delta", '"delta":"{}"')
        + _event("response.completed", '"response":{"status":"completed","output":[]}'),
        "event tool:8 tool:2 terminal",
        finish_reason="completed",
    ),
    Example(
        "the limit of tokens was reached, and a gateway adds [DONE]",
        _START
        + _TEXT
        + _event("response.incomplete", '"response":{"incomplete_details":{"reason":"max_output_tokens"},"output":[]}')
        + b"data: [DONE]\n\n",
        "event text:5 terminal event",
        finish_reason="max_output_tokens",
    ),
    Example(
        "the model failed in mid-answer",
        _START
        + _TEXT
        + _event("response.failed", '"response":{"error":{"code":"rate_limit_exceeded","message":"Slow down"}}'),
        "event text:5 error terminal",
        "rate_limited",
        "failed",
        error_type="rate_limit",
    ),
    Example(
        "an error event",
        _START + b'event: error\ndata: {"type":"error","code":"server_error","message":"Something broke"}\n\n',
        "event error",
        "failed",
        error_type="server_error",
    ),
    Example(
        "a stream whose text is only in its last event",
        _START
        + _event("response.completed", '"response":{"output":[{"type":"message","content":[{"text":"Hello"}]}]}'),
        "event terminal:5",
        finish_reason="completed",
        faults=("text_only_at_end",),
    ),
    Example(
        "a whole answer",
        b'{"object":"response","status":"completed","error":null,"output":[{"type":"message","content":'
        b'[{"type":"output_text","text":"Hello"}]}],' + _USAGE.encode() + b"}",
        "text:5 usage terminal:5",
        finish_reason="completed",
        usage=Usage(30, 8, 9, 5),
        stream=False,
    ),
)
