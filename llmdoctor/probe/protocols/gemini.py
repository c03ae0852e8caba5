"""Gemini streamGenerateContent: an event stream with alt=sse, without it a JSON array that grows."""

import json
from typing import Literal

from llmdoctor.probe.pieces import (
    Example,
    Json,
    Message,
    Piece,
    Problem,
    Usage,
    closing,
    content,
    inner,
    items,
    together,
    tokens,
    word,
)

PATHS: tuple[str, ...] = (
    "/v1beta/models/{model}:streamGenerateContent",
    ":streamGenerateContent",
    ":generateContent",
)
STREAM_PATHS: tuple[str, str] | None = (":streamGenerateContent", ":generateContent")
SIGNS: tuple[tuple[bytes, ...], ...] = ((b'"candidates":[',), (b'"usageMetadata":{',))
LIMIT_AT: tuple[str, ...] = ("generationConfig.maxOutputTokens",)
KEY_ENV: tuple[str, ...] = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
FRAMING: Literal["sse", "ndjson", "elements"] = "elements"
ENDS_WITH: tuple[str, ...] = ("finish_reason", "terminal")


def headers(key: str, host: str = "") -> dict[str, str]:  # noqa: ARG001 - the same everywhere
    """The key in a header: in the URL it would end up in logs."""
    return {"x-goog-api-key": key} if key else {}


def body(model: str, prompt: str, max_tokens: int, stream: bool, tools: bool) -> dict[str, Json]:  # noqa: ARG001 - in the path
    """One user turn; the model and whether it streams stand in the path."""
    asked: dict[str, Json] = {
        "contents": [{"role": "user", "parts": [{"text": prompt}]}],
        "generationConfig": {"maxOutputTokens": max_tokens},
    }
    if tools:
        city = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
        tool = {"name": "get_time", "description": "The time of day in a city", "parameters": city}
        asked["tools"] = [{"functionDeclarations": [tool]}]
    return asked


def _usage(document: dict[str, Json]) -> Usage | None:
    """Their candidatesTokenCount is without the thoughts; our output is with them."""
    told = inner(document, "usageMetadata")
    thoughts = tokens(told.get("thoughtsTokenCount"))
    return Usage(
        tokens(told.get("promptTokenCount")),
        tokens(told.get("cachedContentTokenCount")),
        together(tokens(told.get("candidatesTokenCount")), thoughts),
        thoughts,
    )


def _part(part: dict[str, Json], choice: int) -> list[Piece]:
    call = inner(part, "functionCall") or inner(part, "executableCode")
    if call:
        words = (call.get("name") or "", json.dumps(call["args"]) if call.get("args") else "", call.get("code") or "")
        return content("tool", "".join(str(one) for one in words), choice)
    if inner(part, "inlineData"):
        return [Piece("text", choice=choice)]
    return content("reasoning" if part.get("thought") is True else "text", part.get("text"), choice)


def delta(message: Message) -> list[Piece]:
    """One event of a stream, or a whole answer: they have the same keys. A finish reason is the end mark."""
    document = inner(message.document, "response") or inner(message.document)
    candidates = items(document.get("candidates"))
    blocked = word(inner(document, "promptFeedback").get("blockReason"))
    if not candidates and not blocked and "usageMetadata" not in document:
        return []
    found: list[Piece] = []
    reason = None
    for place, one in enumerate(candidates):
        index = one.get("index")
        for part in items(inner(one, "content").get("parts")):
            found += _part(part, index if isinstance(index, int) else place)
        given = word(one.get("finishReason"))
        reason = reason or (None if given == "FINISH_REASON_UNSPECIFIED" else given)
    if blocked and not candidates:
        found.append(Piece("error", problem=Problem("content_filter", f"the prompt was blocked: {blocked}")))
    return closing(found, _usage(document), reason, terminal=reason is not None)


def answer(document: Json) -> list[Piece]:
    """A whole answer: an object with a finish reason."""
    found = delta(Message("", "", document))
    return found if found and found[-1].kind == "terminal" else []


def _document(parts: str, rest: str = "", counts: str = '"promptTokenCount":6') -> str:
    candidate = f'{{"content":{{"parts":[{parts}],"role":"model"}}{rest},"index":0}}'
    return f'{{"candidates":[{candidate}],"usageMetadata":{{{counts}}},"modelVersion":"gemini-2.5-flash"}}'


_STOP = ',"finishReason":"STOP"'
_COUNTS = '"promptTokenCount":6,"candidatesTokenCount":4,"thoughtsTokenCount":3,"totalTokenCount":13'
_FIRST, _SECOND = _document('{"text":"Hm","thought":true}'), _document('{"text":"Hello"},{"text":" you"}')
_LAST = _document('{"text":"!"}', _STOP, _COUNTS)

EXAMPLES: tuple[Example, ...] = (
    Example(
        "an event stream with CR LF",
        "".join(f"data: {one}\r\n\r\n" for one in (_FIRST, _SECOND, _LAST)).encode(),
        "reasoning:2 usage text:5 text:4 usage text:1 usage terminal",
        finish_reason="STOP",
        usage=Usage(6, None, 7, 3),
        faults=("crlf_lines",),
    ),
    Example(
        "an array that grows",
        f"[{_FIRST}\n,\r\n{_SECOND}\n,\r\n{_LAST}\n]\n".encode(),
        "reasoning:2 usage text:5 text:4 usage text:1 usage terminal",
        finish_reason="STOP",
        usage=Usage(6, None, 7, 3),
    ),
    Example(
        "older models say STOP in every event",
        "".join(f"data: {_document(words, _STOP)}\n\n" for words in ('{"text":"a"}', '{"text":"b"}')).encode(),
        "text:1 usage terminal text:1 usage terminal",
        finish_reason="STOP",
        usage=Usage(6),
    ),
    Example(
        "a gateway that translates: a finish reason that is null, the last event without text",
        b'data: {"candidates": [{"content": {"parts": [{"text": "a"}], "role": "model"}, "finishReason": null}]}\n\n'
        b'data: {"candidates": [{"content": {"parts": [], "role": "model"}, "finishReason": "MAX_TOKENS"}], '
        b'"usageMetadata": {"promptTokenCount": 41, "candidatesTokenCount": 20, "totalTokenCount": 61}}\n\n',
        "text:1 usage terminal",
        finish_reason="MAX_TOKENS",
        usage=Usage(41, None, 20),
    ),
    Example(
        "a function call",
        b"data: " + _document('{"functionCall":{"name":"f","args":{"a":1}}}', _STOP).encode() + b"\n\n",
        "tool:9 usage terminal",
        finish_reason="STOP",
        usage=Usage(6),
    ),
    Example(
        "a blocked prompt",
        b'data: {"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":6}}\n\n',
        "error usage",
        "failed",
        usage=Usage(6),
        error_type="content_filter",
    ),
    Example(
        "an error in the array",
        b'[{\n  "error": {\n    "code": 429,\n    "message": "Slow down",\n'
        b'    "status": "RESOURCE_EXHAUSTED"\n  }\n}\n]\n',
        "error",
        "rate_limited",
        error_type="rate_limit",
    ),
    Example(
        "the array is cut between two elements",
        f"[{_FIRST}\n,\r\n{_SECOND}\n,".encode(),
        "reasoning:2 usage text:5 text:4 usage",
        "incomplete",
        usage=Usage(6),
        faults=("array_not_closed", "no_terminator"),
    ),
    Example(
        "a whole answer",
        _LAST.encode(),
        "text:1 usage terminal",
        "completed",
        "STOP",
        Usage(6, None, 7, 3),
        stream=False,
    ),
)
