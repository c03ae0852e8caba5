"""OpenAI chat completions, and what speaks like it: vLLM, llama.cpp, SGLang, DeepSeek, Azure, LiteLLM, OpenRouter."""

import re
from dataclasses import replace
from typing import Literal

from llmdoctor.probe.pieces import (
    DONE,
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

PATHS: tuple[str, ...] = ("/v1/chat/completions", "/chat/completions")
STREAM_PATHS: tuple[str, str] | None = None
SIGNS: tuple[tuple[bytes, ...], ...] = ((b'"chat.completion',), (b'"choices":[{', b'"delta":{'))
LIMIT_AT: tuple[str, ...] = ("max_tokens", "max_completion_tokens")
KEY_ENV: tuple[str, ...] = ("OPENAI_API_KEY", "AZURE_OPENAI_API_KEY")
FRAMING: Literal["sse", "ndjson", "elements"] = "sse"
ENDS_WITH: tuple[str, ...] = ("finish_reason", "terminal")

_AZURE = (".azure.com", ".azure-api.net")
# The models that refuse max_tokens; every other server knows only that.
_NEW_LIMIT = re.compile(r"(?:.*/)?(?:o\d|gpt-5)")
TOOL: dict[str, Json] = {
    "type": "function",
    "function": {
        "name": "get_time",
        "description": "The time of day in a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


def headers(key: str, host: str = "") -> dict[str, str]:
    """A bearer token; Azure wants its keys in a header of its own."""
    if not key:
        return {}
    return {"api-key": key} if host.endswith(_AZURE) else {"authorization": f"Bearer {key}"}


def body(model: str, prompt: str, max_tokens: int, stream: bool, tools: bool) -> dict[str, Json]:
    """One user message; a stream asks for its usage."""
    limit = "max_completion_tokens" if _NEW_LIMIT.match(model) else "max_tokens"
    asked: dict[str, Json] = {"messages": [{"role": "user", "content": prompt}], limit: max_tokens, "stream": stream}
    if model:
        asked["model"] = model
    if stream:
        asked["stream_options"] = {"include_usage": True}
    if tools:
        asked["tools"] = [TOOL]
    return asked


def usage(document: dict[str, Json]) -> Usage | None:
    """The usage of an event or answer, from the places where servers put it; None where there is none."""
    told = inner(document, "usage") or inner(document, "x_groq", "usage")
    for choice in items(document.get("choices")):
        told = told or inner(choice, "usage")
    if not told:
        timings = inner(document, "timings")
        read = together(tokens(timings.get("prompt_n")), tokens(timings.get("cache_n")))
        return Usage(read, tokens(timings.get("cache_n")), tokens(timings.get("predicted_n"))) if timings else None
    cached = tokens(inner(told, "prompt_tokens_details").get("cached_tokens"))
    return Usage(
        tokens(told.get("prompt_tokens")),
        tokens(told.get("prompt_cache_hit_tokens")) if cached is None else cached,
        tokens(told.get("completion_tokens")),
        tokens(inner(told, "completion_tokens_details").get("reasoning_tokens")),
    )


def stopped(finish_reason: str | None) -> list[Piece]:
    """An error piece where the finish reason says that the engine gave up."""
    if finish_reason == "error":
        return [Piece("error", problem=Problem("server_error", "the answer ended with finish_reason error"))]
    if finish_reason == "abort":
        return [Piece("error", problem=Problem("cancelled", "the engine aborted the answer"))]
    return []


def _reasoning(given: dict[str, Json], choice: int) -> list[Piece]:
    """Reasoning under the first of its names that is not empty: some servers send the same text under two."""
    for key in ("reasoning_content", "reasoning"):
        found = content("reasoning", given.get(key), choice)
        if found:
            return found
    for part in items(given.get("reasoning_details")):
        found = content("reasoning", part.get("text") or part.get("summary") or part.get("data"), choice)
        if found:
            return found
    return []


def _parts(parts: object, choice: int) -> list[Piece]:
    """Content as a list of parts (Mistral and others): text, and thinking that holds parts itself."""
    found: list[Piece] = []
    for part in items(parts):
        found += content("text", part.get("text"), choice)
        for thought in items(part.get("thinking")):
            found += content("reasoning", thought.get("text"), choice)
    return found


def _said(given: dict[str, Json], choice: int) -> list[Piece]:
    """The pieces of one delta or message."""
    text = given.get("content")
    found = _reasoning(given, choice)
    found += content("text", text, choice) if isinstance(text, str) else _parts(text, choice)
    found += content("text", given.get("refusal"), choice, refusal=True)
    calls = [inner(call, "function") or inner(call, "custom") for call in items(given.get("tool_calls"))]
    for call in [*calls, inner(given, "function_call")]:
        words = [one for one in (call.get("name"), call.get("arguments"), call.get("input")) if isinstance(one, str)]
        found += content("tool", "".join(words), choice)
    audio = inner(given, "audio")
    found += content("text", audio.get("transcript"), choice)
    if audio.get("data") and not audio.get("transcript"):
        found.append(Piece("text", choice=choice))
    return found


def _choice(given: dict[str, Json], place: int) -> list[Piece]:
    """The pieces of one entry of `choices` in a stream."""
    index = given.get("index")
    choice = index if isinstance(index, int) else place
    told, faults = inner(given, "delta"), list[str]()
    if not told and inner(given, "message"):
        told, faults = inner(given, "message"), ["message_instead_of_delta"]
    found = _said(told, choice)
    reason = word(given.get("finish_reason"))
    if not found and told.get("role") and not reason:
        found = [Piece("role", choice=choice)]
    found += stopped(reason)
    if not found and (faults or reason):
        found = [Piece("event", choice=choice)]
    if faults:
        found[0] = replace(found[0], faults=(*faults, *found[0].faults))
    if reason:
        found[-1] = replace(found[-1], finish_reason=reason, choice=choice)
    return found


def delta(message: Message) -> list[Piece]:
    """One event of a stream. An empty `choices` (usage only, content-filter results first) is a plain event."""
    if message.text == DONE:
        return [Piece("terminal")]
    document = message.document
    if not isinstance(document, dict) or ("choices" not in document and not inner(document, "usage")):
        return []
    found = [piece for place, one in enumerate(items(document.get("choices"))) for piece in _choice(one, place)]
    return closing(found, usage(document), None)


def answer(document: Json) -> list[Piece]:
    """A whole answer: `choices` with a `message`."""
    if not isinstance(document, dict):
        return []
    choices = items(document.get("choices"))
    if not any(inner(one, "message") for one in choices):
        return []
    found: list[Piece] = []
    for place, one in enumerate(choices):
        found += _said(inner(one, "message"), place) + stopped(word(one.get("finish_reason")))
    return closing(found, usage(document), word(choices[0].get("finish_reason")), terminal=True)


def _chunk(choices: str, rest: str = "") -> bytes:
    head = '{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1795600000,"model":"m","choices":'
    return f"data: {head}[{choices}]{rest}}}\n\n".encode()


_ROLE = _chunk('{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}')
_STOP = _chunk('{"index":0,"delta":{},"finish_reason":"stop"}')
_END = b"data: [DONE]\n\n"


def _text(key: str, words: str) -> bytes:
    return _chunk(f'{{"index":0,"delta":{{"{key}":"{words}"}},"finish_reason":null}}')


EXAMPLES: tuple[Example, ...] = (
    Example(
        "a plain stream with its usage",
        _ROLE
        + _text("content", "Good")
        + _text("content", " día 🙂")
        + _STOP
        + _chunk(
            "",
            ',"usage":{"prompt_tokens":21,"completion_tokens":5,"total_tokens":26,'
            '"prompt_tokens_details":{"cached_tokens":16},"completion_tokens_details":{"reasoning_tokens":0}}',
        )
        + _END,
        "role text:4 text:6 event usage terminal",
        finish_reason="stop",
        usage=Usage(21, 16, 5, 0),
    ),
    Example(
        "reasoning first, under two names at once, and content that is null meanwhile",
        _ROLE
        + _chunk('{"index":0,"delta":{"content":null,"reasoning":"Hm","reasoning_content":"Hm"},"finish_reason":null}')
        + _text("reasoning_content", "so")
        + _text("content", "4")
        + _STOP
        + _END,
        "role reasoning:2 reasoning:2 text:1 event terminal",
        finish_reason="stop",
    ),
    Example(
        "tool calls only: a name, its arguments in parts",
        _chunk(
            '{"index":0,"delta":{"role":"assistant","content":null,"tool_calls":[{"index":0,"id":"call_1",'
            '"type":"function","function":{"name":"get_time","arguments":""}}]},"finish_reason":null}'
        )
        + _chunk('{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\\"city\\":"}}]}}')
        + _chunk('{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\\"Rome\\"}"}}]}}')
        + _chunk('{"index":0,"delta":{},"finish_reason":"tool_calls"}')
        + _END,
        "tool:8 tool:8 tool:7 event terminal",
        finish_reason="tool_calls",
    ),
    Example(
        "Azure: results of the content filter first, text and finish reason in one event, heartbeats between",
        b": ping\n\n"
        + b'data: {"choices":[],"prompt_filter_results":[{"prompt_index":0}],"usage":null}\n\n'
        + b": ping\n\n"
        + _chunk('{"index":0,"delta":{"role":"assistant","content":"Yes"},"finish_reason":"length"}')
        + _END,
        "comment event comment text:3 terminal",
        finish_reason="length",
    ),
    Example(
        "a refusal is text",
        _text("refusal", "No.") + _STOP + _END,
        "text:3 event terminal",
        finish_reason="stop",
    ),
    Example(
        "llama.cpp tells its counts in timings",
        _text("content", "Hi")
        + _chunk(
            '{"finish_reason":"stop","index":0,"delta":{}}', ',"timings":{"cache_n":30,"prompt_n":4,"predicted_n":2}'
        )
        + _END,
        "text:2 event usage terminal",
        finish_reason="stop",
        usage=Usage(34, 30, 2),
    ),
    Example(
        "an error inside a 200, after the first text",
        _text("content", "Hi")
        + b'data: {"error":{"message":"The engine is overloaded","type":"server_error","code":503}}\n\n'
        + _END,
        "text:2 error terminal",
        outcome="failed",
        error_type="overloaded",
    ),
    Example("nothing but a finish reason", _ROLE + _STOP + _END, "role event terminal", "empty", "stop"),
    Example(
        "cut after the first text",
        _ROLE + _text("content", "Hi"),
        "role text:2",
        "incomplete",
        faults=("no_terminator",),
    ),
    Example(
        "a whole answer",
        b'{"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"Hello"},'
        b'"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11}}',
        "text:5 usage terminal",
        finish_reason="stop",
        usage=Usage(9, None, 2),
        stream=False,
    ),
)
