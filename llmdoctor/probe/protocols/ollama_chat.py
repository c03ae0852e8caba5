"""Ollama /api/chat and /api/generate: one JSON object a line, the last with `done: true`."""

from typing import Literal

from llmdoctor.probe.pieces import Example, Json, Message, Piece, Usage, closing, content, inner, items, tokens, word
from llmdoctor.probe.protocols.openai_chat import TOOL

PATHS: tuple[str, ...] = ("/api/chat", "/api/generate")
STREAM_PATHS: tuple[str, str] | None = None
SIGNS: tuple[tuple[bytes, ...], ...] = ((b'"created_at":', b'"done":'),)
LIMIT_AT: tuple[str, ...] = ("options.num_predict",)
KEY_ENV: tuple[str, ...] = ("OLLAMA_API_KEY",)
FRAMING: Literal["sse", "ndjson", "elements"] = "ndjson"
ENDS_WITH: tuple[str, ...] = ("terminal",)


def headers(key: str, host: str = "") -> dict[str, str]:  # noqa: ARG001 - the same everywhere
    """A bearer token where there is one: a local server needs none."""
    return {"authorization": f"Bearer {key}"} if key else {}


def body(model: str, prompt: str, max_tokens: int, stream: bool, tools: bool) -> dict[str, Json]:
    """One user message, and the prompt itself for /api/generate: each of the two ignores what the other reads."""
    asked: dict[str, Json] = {
        "model": model,
        "prompt": prompt,
        "messages": [{"role": "user", "content": prompt}],
        "stream": stream,
        "options": {"num_predict": max_tokens},
    }
    if tools:
        asked["tools"] = [TOOL]
    return asked


def _calls(said: dict[str, Json]) -> list[Piece]:
    found: list[Piece] = []
    for call in items(said.get("tool_calls")):
        function = inner(call, "function")
        found += content("tool", f"{function.get('name') or ''}{function.get('arguments') or ''}")
    return found


def delta(message: Message) -> list[Piece]:
    """One line of a stream, or a whole answer: they have the same keys."""
    document = message.document
    if not isinstance(document, dict) or not isinstance(document.get("done"), bool):
        return []
    said = inner(document, "message")
    found = content("reasoning", said.get("thinking") or document.get("thinking"))
    found += content("text", said.get("content") or document.get("response")) + _calls(said)
    if not document["done"]:
        return found or [Piece("role" if said.get("role") else "event")]
    counts = Usage(tokens(document.get("prompt_eval_count")), None, tokens(document.get("eval_count")))
    return closing(found, counts, word(document.get("done_reason")), terminal=True)


def answer(document: Json) -> list[Piece]:
    """A whole answer: a line with `done: true`."""
    return delta(Message("", "", document)) if inner(document) and document.get("done") is True else []


def _line(rest: str) -> bytes:
    return f'{{"model":"qwen3:8b","created_at":"2026-11-25T09:12:08.306020118Z",{rest}}}\n'.encode()


_LAST = '"done":true,"done_reason":"stop","total_duration":5201734112,"prompt_eval_count":34,"eval_count":12'

EXAMPLES: tuple[Example, ...] = (
    Example(
        "chat: thinking, then text",
        _line('"message":{"role":"assistant","content":"","thinking":"Hm"},"done":false')
        + _line('"message":{"role":"assistant","content":""},"done":false')
        + _line('"message":{"role":"assistant","content":"Grüß"},"done":false')
        + _line('"message":{"role":"assistant","content":""},' + _LAST),
        "reasoning:2 role text:4 usage terminal",
        finish_reason="stop",
        usage=Usage(34, None, 12),
    ),
    Example(
        "generate",
        _line('"response":"Hi","done":false') + _line('"response":"",' + _LAST),
        "text:2 usage terminal",
        finish_reason="stop",
        usage=Usage(34, None, 12),
    ),
    Example(
        "a tool call, whole in one line; the prompt was cached, so its count is absent",
        _line(
            '"message":{"role":"assistant","content":"","tool_calls":[{"function":{"name":"f","arguments":{}}}]},"done":false'
        )
        + _line('"message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","eval_count":3'),
        "tool:1 usage terminal",
        finish_reason="stop",
        usage=Usage(None, None, 3),
    ),
    Example(
        "an error in mid-answer",
        _line('"response":"Hi","done":false') + b'{"error":"an error was encountered while running the model"}\n',
        "text:2 error",
        "failed",
        error_type="server_error",
    ),
    Example(
        "cut before the last line",
        _line('"response":"Hi","done":false') + _line('"response":"!","done":false')[:40],
        "text:2",
        "incomplete",
        faults=("event_unfinished", "no_terminator"),
    ),
    Example(
        "a whole answer without a newline at its end",
        _line('"message":{"role":"assistant","content":"Hello"},' + _LAST)[:-1],
        "text:5 usage terminal",
        finish_reason="stop",
        usage=Usage(34, None, 12),
        stream=False,
    ),
)
