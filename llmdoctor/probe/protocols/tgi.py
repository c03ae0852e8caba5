"""Text Generation Inference /generate_stream: one token an event, the last with the whole text and its details."""

from typing import Literal

from llmdoctor.probe.pieces import Example, Json, Message, Piece, Usage, closing, content, inner, tokens, word

PATHS: tuple[str, ...] = ("/generate_stream", "/generate")
STREAM_PATHS: tuple[str, str] | None = ("/generate_stream", "/generate")
SIGNS: tuple[tuple[bytes, ...], ...] = ((b'"token":{', b'"generated_text":'), (b'{"generated_text":"',))
LIMIT_AT: tuple[str, ...] = ("parameters.max_new_tokens",)
KEY_ENV: tuple[str, ...] = ("HF_TOKEN",)
FRAMING: Literal["sse", "ndjson", "elements"] = "sse"
ENDS_WITH: tuple[str, ...] = ("terminal",)


def headers(key: str, host: str = "") -> dict[str, str]:  # noqa: ARG001 - the same everywhere
    """A bearer token, for hosted endpoints."""
    return {"authorization": f"Bearer {key}"} if key else {}


def body(model: str, prompt: str, max_tokens: int, stream: bool, tools: bool) -> dict[str, Json]:  # noqa: ARG001 - in the path
    """The prompt as it is; the path says whether it streams, the server has one model and no tools here."""
    return {"inputs": prompt, "parameters": {"max_new_tokens": max_tokens, "details": True}}


def _end(document: dict[str, Json], found: list[Piece], whole_chars: int) -> list[Piece]:
    details = inner(document, "details")
    counts = Usage(tokens(details.get("input_length")), None, tokens(details.get("generated_tokens")))
    return closing(found, counts, word(details.get("finish_reason")), terminal=True, whole_chars=whole_chars)


def delta(message: Message) -> list[Piece]:
    """One event of a stream. A special token (end of text) is no content."""
    document = message.document
    if not isinstance(document, dict) or not isinstance(document.get("token"), dict):
        return []
    token = document["token"]
    found = [] if token.get("special") is True else content("text", token.get("text"))
    text = document.get("generated_text")
    if text is None and not inner(document, "details"):
        return found or [Piece("event")]
    return _end(document, found, len(text) if isinstance(text, str) else 0)


def answer(document: Json) -> list[Piece]:
    """A whole answer, alone or as the only element of a list."""
    if isinstance(document, list) and len(document) == 1:
        document = document[0]
    if not isinstance(document, dict) or "token" in document or not isinstance(document.get("generated_text"), str):
        return []
    return _end(document, content("text", document["generated_text"]), 0)


def _token(text: str, rest: str, special: str = "false") -> bytes:
    return (
        f'data:{{"index":1,"token":{{"id":5,"text":"{text}","logprob":-0.1,"special":{special}}},{rest}}}\n\n'.encode()
    )


_OPEN = '"generated_text":null,"details":null'

EXAMPLES: tuple[Example, ...] = (
    Example(
        "a stream; there is no space after the colon",
        _token(" Hello", _OPEN)
        + _token(
            "</s>",
            '"generated_text":" Hello","details":{"finish_reason":"eos_token","generated_tokens":2,"input_length":7}',
            "true",
        ),
        "text:6 usage terminal:6",
        finish_reason="eos_token",
        usage=Usage(7, None, 2),
        faults=("no_space_after_colon",),
    ),
    Example(
        "an error in mid-answer, in a 200",
        _token(" Hello", _OPEN)
        + b'data:{"error":"Request failed during generation: Server error: no memory","error_type":"generation"}\n\n',
        "text:6 error",
        "failed",
        error_type="server_error",
        faults=("no_space_after_colon",),
    ),
    Example(
        "refused before the first token, in a 200",
        b'data:{"error":"Model is overloaded","error_type":"overloaded"}\n\n',
        "error",
        "failed",
        error_type="overloaded",
        faults=("no_space_after_colon",),
    ),
    Example(
        "cut",
        _token(" Hello", _OPEN),
        "text:6",
        "incomplete",
        faults=("no_space_after_colon", "no_terminator"),
    ),
    Example(
        "a whole answer",
        b'{"generated_text":" Hello","details":{"finish_reason":"length","generated_tokens":1}}',
        "text:6 usage terminal",
        finish_reason="length",
        usage=Usage(None, None, 1),
        stream=False,
    ),
)
