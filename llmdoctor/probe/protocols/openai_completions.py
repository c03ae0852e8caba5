"""OpenAI completions: a prompt is continued. vLLM, SGLang, llama.cpp and others serve it too."""

from typing import Literal

from llmdoctor.probe.pieces import DONE, Example, Json, Message, Piece, Usage, closing, content, inner, items, word
from llmdoctor.probe.protocols import openai_chat
from llmdoctor.probe.protocols.openai_chat import headers, usage

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

PATHS: tuple[str, ...] = ("/v1/completions", "/completions")
STREAM_PATHS: tuple[str, str] | None = None
SIGNS: tuple[tuple[bytes, ...], ...] = ((b'"text_completion"',), (b'"choices":[{', b'"text":"', b'"logprobs":'))
LIMIT_AT: tuple[str, ...] = ("max_tokens",)
KEY_ENV: tuple[str, ...] = openai_chat.KEY_ENV
FRAMING: Literal["sse", "ndjson", "elements"] = "sse"
ENDS_WITH: tuple[str, ...] = ("finish_reason", "terminal")


def body(model: str, prompt: str, max_tokens: int, stream: bool, tools: bool) -> dict[str, Json]:  # noqa: ARG001 - none here
    """The prompt as it is; this API knows no tools."""
    asked: dict[str, Json] = {"prompt": prompt, "max_tokens": max_tokens, "stream": stream}
    if model:
        asked["model"] = model
    if stream:
        asked["stream_options"] = {"include_usage": True}
    return asked


def _read(document: dict[str, Json], terminal: bool) -> list[Piece]:
    found: list[Piece] = []
    reason = None
    for place, one in enumerate(items(document.get("choices"))):
        index = one.get("index")
        found += content("reasoning", one.get("reasoning_content") or one.get("reasoning"), place)
        found += content("text", one.get("text"), index if isinstance(index, int) else place)
        reason = reason or word(one.get("finish_reason"))
        found += openai_chat.stopped(word(one.get("finish_reason")))
    return closing(found, usage(document), reason, terminal)


def delta(message: Message) -> list[Piece]:
    """One event of a stream."""
    if message.text == DONE:
        return [Piece("terminal")]
    document = message.document
    if not isinstance(document, dict) or ("choices" not in document and not inner(document, "usage")):
        return []
    return _read(document, terminal=False)


def answer(document: Json) -> list[Piece]:
    """A whole answer: `choices` with a `text` and a finish reason."""
    choices = items(document.get("choices")) if isinstance(document, dict) else []
    whole = any("text" in one and word(one.get("finish_reason")) for one in choices)
    return _read(document, terminal=True) if whole else []


def _chunk(choices: str, rest: str = "") -> bytes:
    return f'data: {{"id":"cmpl-1","object":"text_completion","choices":[{choices}]{rest}}}\n\n'.encode()


_END = b"data: [DONE]\n\n"

EXAMPLES: tuple[Example, ...] = (
    Example(
        "a stream with its usage",
        _chunk('{"index":0,"text":" one","finish_reason":null}')
        + _chunk('{"index":0,"text":" two","finish_reason":"length"}')
        + _chunk("", ',"usage":{"prompt_tokens":3,"completion_tokens":2}')
        + _END,
        "text:4 text:4 usage terminal",
        finish_reason="length",
        usage=Usage(3, None, 2),
    ),
    Example(
        "an empty text is no chunk",
        _chunk('{"index":0,"text":"","finish_reason":"stop"}') + _END,
        "event terminal",
        "empty",
        "stop",
    ),
    Example(
        "the engine gave up",
        _chunk('{"index":0,"text":"a","finish_reason":null}')
        + _chunk('{"index":0,"text":"","finish_reason":"abort"}')
        + _END,
        "text:1 error terminal",
        "failed",
        "abort",
        error_type="cancelled",
    ),
    Example(
        "a whole answer",
        b'{"object":"text_completion","choices":[{"index":0,"text":" one two","finish_reason":"stop"}],'
        b'"usage":{"prompt_tokens":3,"completion_tokens":2}}\n',
        "text:8 usage terminal",
        finish_reason="stop",
        usage=Usage(3, None, 2),
        stream=False,
    ),
)
