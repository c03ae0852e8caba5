"""Stand-in servers that speak each API dialect as its documentation has it, on real sockets: what they are asked is
checked as strictly as the real ones check it, and how they send is the test's to choose."""

import json
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from tests.wires import LAST, Script, chunk

Json = Any
Sent = Iterable[tuple[float, bytes]]
"""Bytes and how many seconds to wait before each."""
Pace = Callable[[list[bytes], list[bytes], list[bytes]], Sent]
"""How an answer is sent: what stands before its tokens, its tokens, what comes after them."""


class RefusedError(Exception):
    """What the API answers with 400 for."""


@dataclass(frozen=True)
class Api:
    """One API. `path` with query; `kind` is its content type for a stream; `events` gives the beginning, the tokens and
    the end of a stream of so many tokens; `whole` the answer without streaming; `ask` reads (tokens, stream) from a
    path and body and refuses what the API refuses."""

    path: str
    kind: str
    events: Callable[[int], tuple[list[bytes], list[bytes], list[bytes]]]
    whole: Callable[[int], Json]
    ask: Callable[[str, dict[str, Json]], tuple[int, bool]]


def live(first_s: float = 0.15, gap_s: float = 0.02) -> Pace:
    """Each token when it is there."""

    def sent(before: list[bytes], tokens: list[bytes], after: list[bytes]) -> Iterator[tuple[float, bytes]]:
        yield from ((0.0, one) for one in before)
        yield from ((gap_s if number else first_s, one) for number, one in enumerate(tokens))
        yield from ((0.0, one) for one in after)

    return sent


def faked(first_s: float = 0.15, gap_s: float = 0.02, replay_s: float = 0.002) -> Pace:
    """The answer is complete before its first token is sent; then they come quickly."""

    def sent(before: list[bytes], tokens: list[bytes], after: list[bytes]) -> Iterator[tuple[float, bytes]]:
        yield from ((0.0, one) for one in before)
        wait = first_s + gap_s * (len(tokens) - 1)
        yield from ((replay_s if number else wait, one) for number, one in enumerate(tokens))
        yield from ((0.0, one) for one in after)

    return sent


def speaks(api: Api, pace: Pace | None = None, most: int = 96, asked: list[Json] | None = None) -> Script:
    """A script that answers as this API does, with at most `most` tokens. What was asked is added to `asked`."""
    pace = pace or live()

    def script(plug: socket.socket, request: bytes) -> None:
        head, _, body = request.partition(b"\r\n\r\n")
        method, path, _ = head.split(b"\r\n")[0].decode().split(" ")
        if method == "GET":
            _document(plug, "404 Not Found", {"error": "not found"})
            return
        try:
            document = json.loads(body)
            count, stream = api.ask(path, document)
        except (RefusedError, ValueError) as error:
            _document(plug, "400 Bad Request", {"error": {"message": str(error), "type": "invalid_request_error"}})
            return
        if asked is not None:
            asked.append((path, document))
        count = min(count, most)
        if not stream:
            time.sleep(sum(wait for wait, _ in pace([], [b""] * count, [])))
            _document(plug, "200 OK", api.whole(count))
            return
        plug.sendall(f"HTTP/1.1 200 OK\r\nContent-Type: {api.kind}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        due = time.monotonic()
        for wait_s, piece in pace(*api.events(count)):
            due += wait_s
            time.sleep(max(0.0, due - time.monotonic()))
            plug.sendall(chunk(piece))
        plug.sendall(LAST)

    return script


def _document(plug: socket.socket, status: str, document: Json) -> None:
    body = json.dumps(document).encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    plug.sendall(head.encode() + body)


def _event(document: Json, name: str = "", space: str = " ") -> bytes:
    line = json.dumps(document, separators=(",", ":"))
    return (f"event:{space}{name}\n" * bool(name) + f"data:{space}{line}\n\n").encode()


def _words(count: int) -> list[str]:
    return ["word "] * count


def _only(body: dict[str, Json], *known: str) -> None:
    if unknown := sorted(set(body) - set(known)):
        raise RefusedError(f"unrecognized request argument: {', '.join(unknown)}")


def _must(holds: bool, message: str) -> None:
    if not holds:
        raise RefusedError(message)


# OpenAI chat completions, completions.


def _chat_ask(_: str, body: dict[str, Json]) -> tuple[int, bool]:
    _only(body, "model", "messages", "max_tokens", "max_completion_tokens", "stream", "stream_options", "tools")
    _must(isinstance(body.get("messages"), list), "messages is required")
    stream = body.get("stream", False)
    _must(stream or "stream_options" not in body, "stream_options is only allowed when stream is true")
    return int(body.get("max_tokens") or body.get("max_completion_tokens") or 96), stream


def _chat_chunk(delta: Json, reason: str | None = None) -> bytes:
    return _event(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 1764000000,
            "model": "m",
            "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}],
        }
    )


def _openai_usage(count: int) -> Json:
    return {"prompt_tokens": 30, "completion_tokens": count, "total_tokens": 30 + count}


def _chat_events(count: int) -> tuple[list[bytes], list[bytes], list[bytes]]:
    usage = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": [], "usage": _openai_usage(count)}
    return (
        [_chat_chunk({"role": "assistant", "content": ""})],
        [_chat_chunk({"content": word}) for word in _words(count)],
        [_chat_chunk({}, "length"), _event(usage), b"data: [DONE]\n\n"],
    )


def _chat_whole(count: int) -> Json:
    message = {"role": "assistant", "content": "".join(_words(count))}
    choice = {"index": 0, "message": message, "finish_reason": "length"}
    return {"id": "chatcmpl-1", "object": "chat.completion", "choices": [choice], "usage": _openai_usage(count)}


def _completions_ask(_: str, body: dict[str, Json]) -> tuple[int, bool]:
    _only(body, "model", "prompt", "max_tokens", "stream", "stream_options")
    _must(isinstance(body.get("prompt"), str), "prompt is required")
    stream = body.get("stream", False)
    _must(stream or "stream_options" not in body, "stream_options is only allowed when stream is true")
    return int(body.get("max_tokens", 16)), stream


def _completions_chunk(text: str, reason: str | None = None) -> Json:
    choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": reason}
    return {"id": "cmpl-1", "object": "text_completion", "created": 1764000000, "model": "m", "choices": [choice]}


def _completions_events(count: int) -> tuple[list[bytes], list[bytes], list[bytes]]:
    words = [_event(_completions_chunk(word)) for word in _words(count)]
    usage = {"id": "cmpl-1", "object": "text_completion", "choices": [], "usage": _openai_usage(count)}
    return [], words, [_event(_completions_chunk("", "length")), _event(usage), b"data: [DONE]\n\n"]


def _completions_whole(count: int) -> Json:
    return {**_completions_chunk("".join(_words(count)), "length"), "usage": _openai_usage(count)}


# OpenAI Responses.


def _responses_ask(_: str, body: dict[str, Json]) -> tuple[int, bool]:
    _only(body, "model", "input", "max_output_tokens", "stream", "store", "tools")
    count = int(body.get("max_output_tokens", 96))
    _must(count >= 16, "max_output_tokens must be at least 16")
    _must(all("name" in tool for tool in body.get("tools", [])), "tools[0].name is required")
    return count, body.get("stream", False)


def _responses_whole(count: int, status: str = "incomplete") -> Json:
    part = {"type": "output_text", "text": "".join(_words(count)), "annotations": []}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "status": status, "content": [part]}
    return {
        "id": "resp_1",
        "object": "response",
        "status": status,
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"},
        "output": [message],
        "usage": {"input_tokens": 30, "output_tokens": count, "total_tokens": 30 + count},
    }


def _responses_events(count: int) -> tuple[list[bytes], list[bytes], list[bytes]]:
    numbers = iter(range(count + 20))

    def event(kind: str, **more: Json) -> bytes:
        return _event({"type": kind, "sequence_number": next(numbers), **more}, kind)

    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    open_part = {"type": "output_text", "text": "", "annotations": []}
    item = {"id": "msg_1", "type": "message", "role": "assistant", "status": "in_progress", "content": []}
    begun: dict[str, Json] = {
        "id": "resp_1",
        "object": "response",
        "status": "in_progress",
        "output": [],
        "usage": None,
    }
    whole = _responses_whole(count)
    before = [
        event("response.created", response=begun),
        event("response.in_progress", response=begun),
        event("response.output_item.added", output_index=0, item=item),
        event("response.content_part.added", **place, part=open_part),
    ]
    tokens = [event("response.output_text.delta", **place, delta=word, logprobs=[]) for word in _words(count)]
    after = [
        event("response.output_text.done", **place, text="".join(_words(count))),
        event("response.content_part.done", **place, part=whole["output"][0]["content"][0]),
        event("response.output_item.done", output_index=0, item=whole["output"][0]),
        event("response.incomplete", response=whole),
    ]
    return before, tokens, after


# Anthropic Messages.


def _messages_ask(_: str, body: dict[str, Json]) -> tuple[int, bool]:
    _only(body, "model", "messages", "max_tokens", "stream", "tools")
    _must("max_tokens" in body, "max_tokens: Field required")
    _must(all("input_schema" in tool for tool in body.get("tools", [])), "tools.0.input_schema: Field required")
    return int(body["max_tokens"]), body.get("stream", False)


def _messages_whole(count: int) -> Json:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": "".join(_words(count))}],
        "stop_reason": "max_tokens",
        "stop_sequence": None,
        "usage": {"input_tokens": 30, "output_tokens": count},
    }


def _messages_events(count: int) -> tuple[list[bytes], list[bytes], list[bytes]]:
    def event(kind: str, **more: Json) -> bytes:
        return _event({"type": kind, **more}, kind)

    begun = {
        **_messages_whole(0),
        "content": [],
        "stop_reason": None,
        "usage": {"input_tokens": 30, "output_tokens": 1},
    }
    before = [
        event("message_start", message=begun),
        event("content_block_start", index=0, content_block={"type": "text", "text": ""}),
        event("ping"),
    ]
    tokens = [
        event("content_block_delta", index=0, delta={"type": "text_delta", "text": word}) for word in _words(count)
    ]
    after = [
        event("content_block_stop", index=0),
        event(
            "message_delta", delta={"stop_reason": "max_tokens", "stop_sequence": None}, usage={"output_tokens": count}
        ),
        event("message_stop"),
    ]
    return before, tokens, after


# Ollama.


def _ollama_ask(path: str, body: dict[str, Json]) -> tuple[int, bool]:
    _must(isinstance(body.get("model"), str), "model is required")
    _must(("messages" if path.endswith("chat") else "prompt") in body, "nothing to answer")
    return int(body.get("options", {}).get("num_predict", 96)), body.get("stream", True)


def _ollama(said: Json, count: int | None = None) -> Json:
    last = {"done_reason": "length", "total_duration": 5 * 10**9, "prompt_eval_count": 30, "eval_count": count}
    begun: dict[str, Json] = {
        "model": "m",
        "created_at": "2026-11-25T09:12:08.306020118Z",
        **said,
        "done": count is not None,
    }
    return {**begun, **(last if count is not None else {})}


def _ollama_said(generate: bool, word: str) -> Json:
    return {"response": word} if generate else {"message": {"role": "assistant", "content": word}}


def _ollama_api(path: str, generate: bool) -> Api:
    def line(document: Json) -> bytes:
        return json.dumps(document).encode() + b"\n"

    def events(count: int) -> tuple[list[bytes], list[bytes], list[bytes]]:
        words = [line(_ollama(_ollama_said(generate, word))) for word in _words(count)]
        return [], words, [line(_ollama(_ollama_said(generate, ""), count))]

    def whole(count: int) -> Json:
        return _ollama(_ollama_said(generate, "".join(_words(count))), count)

    return Api(path, "application/x-ndjson", events, whole, _ollama_ask)


# Gemini: an event stream, or an array that grows.


def _gemini_ask(path: str, body: dict[str, Json]) -> tuple[int, bool]:
    _only(body, "contents", "generationConfig", "tools")
    _must(isinstance(body.get("contents"), list), "contents is not specified")
    return int(body["generationConfig"]["maxOutputTokens"]), ":streamGenerateContent" in path


def _gemini(text: str, count: int | None = None) -> Json:
    candidate = {"content": {"parts": [{"text": text}], "role": "model"}, "index": 0}
    usage = {"promptTokenCount": 30, "candidatesTokenCount": count or 1}
    reason = {"finishReason": "MAX_TOKENS"} if count is not None else {}
    return {"candidates": [{**candidate, **reason}], "usageMetadata": usage, "modelVersion": "m", "responseId": "r"}


def _gemini_sse(count: int) -> tuple[list[bytes], list[bytes], list[bytes]]:
    words = [_event(_gemini(word)).replace(b"\n", b"\r\n") for word in _words(count - 1)]
    return [], [*words, _event(_gemini("word", count)).replace(b"\n", b"\r\n")], []


def _gemini_array(count: int) -> tuple[list[bytes], list[bytes], list[bytes]]:
    words = [*(_gemini(word) for word in _words(count - 1)), _gemini("word", count)]
    texts = [json.dumps(word, indent=2).encode() for word in words]
    return [], [b"[" + texts[0], *(b"\n,\r\n" + text for text in texts[1:])], [b"\n]\n"]


# llama.cpp and TGI.


def _llama_ask(_: str, body: dict[str, Json]) -> tuple[int, bool]:
    _must("prompt" in body, "prompt is required")
    return int(body.get("n_predict", -1)), body.get("stream", False)


def _llama(text: str, count: int | None = None) -> Json:
    if count is None:
        return {"index": 0, "content": text, "tokens": [7], "stop": False, "id_slot": -1, "tokens_predicted": 1}
    timings = {"cache_n": 0, "prompt_n": 30, "predicted_n": count}
    end = {"stop": True, "model": "m", "tokens_predicted": count, "tokens_evaluated": 30, "stop_type": "limit"}
    return {"index": 0, "content": text, "tokens": [], **end, "timings": timings}


def _llama_events(count: int) -> tuple[list[bytes], list[bytes], list[bytes]]:
    return [], [_event(_llama(word)) for word in _words(count)], [_event(_llama("", count))]


def _tgi_ask(path: str, body: dict[str, Json]) -> tuple[int, bool]:
    _must(isinstance(body.get("inputs"), str), "inputs is required")
    return int(body["parameters"]["max_new_tokens"]), urlsplit(path).path.endswith("_stream")


def _tgi_whole(count: int) -> Json:
    details = {"finish_reason": "length", "generated_tokens": count, "input_length": 30, "seed": None}
    return {"generated_text": "".join(_words(count)), "details": details}


def _tgi_events(count: int) -> tuple[list[bytes], list[bytes], list[bytes]]:
    def event(number: int, last: bool) -> bytes:
        token = {"id": 5, "text": "word ", "logprob": -0.1, "special": False}
        end = _tgi_whole(count) if last else {"generated_text": None, "details": None}
        return _event({"index": number, "token": token, **end}, space="")

    return [], [event(number, number == count) for number in range(1, count + 1)], []


# A company's own.


def _custom_ask(_: str, body: dict[str, Json]) -> tuple[int, bool]:
    return int(body.get("max_tokens", 96)), body.get("stream", False)


def _custom_events(count: int) -> tuple[list[bytes], list[bytes], list[bytes]]:
    return [], [_event({"text": word}) for word in _words(count)], [b"data: [DONE]\n\n"]


SSE = "text/event-stream"
APIS: dict[str, Api] = {
    "openai_chat": Api("/v1/chat/completions", SSE, _chat_events, _chat_whole, _chat_ask),
    "openai_completions": Api("/v1/completions", SSE, _completions_events, _completions_whole, _completions_ask),
    "openai_responses": Api("/v1/responses", SSE, _responses_events, _responses_whole, _responses_ask),
    "anthropic_messages": Api("/v1/messages", SSE, _messages_events, _messages_whole, _messages_ask),
    "ollama_chat": _ollama_api("/api/chat", generate=False),
    "ollama_generate": _ollama_api("/api/generate", generate=True),
    "gemini_sse": Api(
        "/v1beta/models/m:streamGenerateContent?alt=sse",
        SSE,
        _gemini_sse,
        lambda count: _gemini("".join(_words(count)), count),
        _gemini_ask,
    ),
    "gemini_array": Api(
        "/v1beta/models/m:streamGenerateContent",
        "application/json; charset=UTF-8",
        _gemini_array,
        lambda count: _gemini("".join(_words(count)), count),
        _gemini_ask,
    ),
    "llamacpp": Api("/completion", SSE, _llama_events, lambda count: _llama("".join(_words(count)), count), _llama_ask),
    "tgi": Api("/generate_stream", SSE, _tgi_events, _tgi_whole, _tgi_ask),
    "custom": Api("/ask", SSE, _custom_events, lambda count: {"text": "".join(_words(count))}, _custom_ask),
}
