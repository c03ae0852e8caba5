"""llama.cpp /completion: an event stream of `content`, the last event with `stop: true`."""

from typing import Literal

from llmdoctor.probe.pieces import Example, Json, Message, Piece, Usage, closing, content, inner, tokens, word

PATHS: tuple[str, ...] = ("/completion",)
STREAM_PATHS: tuple[str, str] | None = None
SIGNS: tuple[tuple[bytes, ...], ...] = ((b'"content":"', b'"stop":false'), (b'"content":"', b'"stop":true'))
LIMIT_AT: tuple[str, ...] = ("n_predict",)
KEY_ENV: tuple[str, ...] = ("LLAMA_API_KEY",)
FRAMING: Literal["sse", "ndjson", "elements"] = "sse"
ENDS_WITH: tuple[str, ...] = ("finish_reason", "terminal")

# Builds before 2025 have one flag for each reason.
_OLD_REASONS = (("stopped_eos", "eos"), ("stopped_word", "word"), ("stopped_limit", "limit"))


def headers(key: str, host: str = "") -> dict[str, str]:  # noqa: ARG001 - the same everywhere
    """A bearer token where the server was started with a key."""
    return {"authorization": f"Bearer {key}"} if key else {}


def body(model: str, prompt: str, max_tokens: int, stream: bool, tools: bool) -> dict[str, Json]:  # noqa: ARG001 - none here
    """The prompt as it is; this API knows no tools and mostly serves one model."""
    return {"prompt": prompt, "n_predict": max_tokens, "stream": stream, **({"model": model} if model else {})}


def delta(message: Message) -> list[Piece]:
    """One event of a stream, or a whole answer: they have the same keys. `tokens_evaluated` includes cached tokens."""
    document = message.document
    if not isinstance(document, dict) or not isinstance(document.get("stop"), bool):
        return []
    found = content("text", document.get("content"))
    if not document["stop"]:
        return found or [Piece("event")]
    reason = word(document.get("stop_type")) or next(
        (new for old, new in _OLD_REASONS if document.get(old) is True), None
    )
    counts = Usage(
        tokens(document.get("tokens_evaluated")),
        tokens(inner(document, "timings").get("cache_n")),
        tokens(document.get("tokens_predicted")),
    )
    return closing(found, counts, reason, terminal=True)


def answer(document: Json) -> list[Piece]:
    """A whole answer: an object with `stop: true`."""
    return delta(Message("", "", document)) if inner(document) and document.get("stop") is True else []


_LAST = (
    '"stop":true,"id_slot":0,"model":"m","tokens_predicted":2,"tokens_evaluated":40,"tokens_cached":41,"stop_type":"limit",'
    '"truncated":false,"timings":{"cache_n":30,"prompt_n":10,"predicted_n":2}'
)

EXAMPLES: tuple[Example, ...] = (
    Example(
        "a stream",
        b'data: {"index":0,"content":"Good","tokens":[7],"stop":false,"id_slot":0,"tokens_predicted":1}\n\n'
        b'data: {"index":0,"content":" day","tokens":[9],"stop":false,"id_slot":0,"tokens_predicted":2}\n\n'
        b'data: {"index":0,"content":"",' + _LAST.encode() + b"}\n\n",
        "text:4 text:4 usage terminal",
        finish_reason="limit",
        usage=Usage(40, 30, 2),
    ),
    Example(
        "an older build",
        b'data: {"content":"Hi","multimodal":false,"slot_id":0,"stop":false}\n\n'
        b'data: {"content":"","stop":true,"stopped_eos":true,"stopped_limit":false,"stopped_word":false,'
        b'"tokens_evaluated":4,"tokens_predicted":1}\n\n',
        "text:2 usage terminal",
        finish_reason="eos",
        usage=Usage(4, None, 1),
    ),
    Example(
        "older builds send errors in a field that the standard does not know",
        b'error: {"code":503,"message":"Loading model","type":"unavailable_error"}\n\n',
        "error",
        "failed",
        error_type="overloaded",
        faults=("json_without_data",),
    ),
    Example(
        "the prompt is too long",
        b'data: {"error":{"code":400,"message":"the request exceeds the available context size",'
        b'"type":"exceed_context_size_error"}}\n\n',
        "error",
        "failed",
        error_type="context_length",
    ),
    Example(
        "cut",
        b'data: {"content":"Hi","stop":false}\n\n',
        "text:2",
        "incomplete",
        faults=("no_terminator",),
    ),
    Example(
        "a whole answer",
        b'{"content":"Good day",' + _LAST.encode() + b"}",
        "text:8 usage terminal",
        finish_reason="limit",
        usage=Usage(40, 30, 2),
        stream=False,
    ),
)
