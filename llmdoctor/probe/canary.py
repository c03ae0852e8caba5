"""The reference server: streams in the shape of OpenAI's chat completions, at a known pace, and stamps the time of
sending into each event. Behind a proxy under test it shows what that does to a stream, without any model.

It says nothing of what it was asked: the answer depends on settings and lengths only. Every setting can also stand in
the query or in the body of a request (`?gap_ms=50`). Paths: POST or GET .../chat/completions, GET .../models, /healthz.
"""

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any
from urllib.parse import parse_qs, urlsplit

from llmdoctor.probe.serving import Answer, Serving, serve

MODEL = "canary"
MOST_BODY = 16 << 20
_WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


@dataclass(frozen=True)
class Settings:
    """How a stream goes. `tokens` = length of an answer that `max_tokens` does not cut; `first_ms` = until the first
    token; `gap_ms` = between tokens; `heartbeat_ms` = a comment this often while nothing else is sent (0 = never);
    `accel` = send `X-Accel-Buffering: no`; `close` = end the answer by closing, without chunks."""

    tokens: int = 100
    first_ms: float = 200.0
    gap_ms: float = 20.0
    heartbeat_ms: float = 0.0
    accel: bool = False
    close: bool = False

    def generation_s(self) -> float:
        """How long a whole answer takes, streamed or not."""
        return (self.first_ms + self.gap_ms * max(0, self.tokens - 1)) / 1e3


@dataclass(frozen=True)
class Ask:
    """What one request asks for; `limited` = its max_tokens cut the answer."""

    settings: Settings
    stream: bool
    include_usage: bool
    limited: bool
    prompt_tokens: int


def canary(host: str = "127.0.0.1", port: int = 0, settings: Settings | None = None) -> Serving:
    """A running canary; port 0 takes a free one. OSError where the port cannot be had."""
    usual = settings or Settings()

    class Handler(_Handler):
        defaults = usual

    return serve(host, port, Handler)


class _Handler(Answer):
    defaults: Settings

    def do_GET(self) -> None:  # noqa: N802 - http.server calls it by this name
        path = urlsplit(self.path).path
        if path == "/healthz":
            self.answer_json({"status": "ok"})
        elif path.endswith("/models"):
            self.answer_json({"object": "list", "data": [{"id": MODEL, "object": "model", "owned_by": "llmdoctor"}]})
        elif path.endswith("/chat/completions"):
            self._chat({"stream": True})
        else:
            self._no("no such path", 404)

    def do_POST(self) -> None:  # noqa: N802 - http.server calls it by this name
        body = self.read_body(MOST_BODY)
        if not urlsplit(self.path).path.endswith("/chat/completions"):
            self._no("no such path", 404)
            return
        try:
            asked = json.loads(body or b"{}")
        except ValueError:
            asked = None
        if not isinstance(asked, dict):
            self._no("the body is no JSON object", 400)
            return
        self._chat(asked)

    def _no(self, message: str, status: int) -> None:
        self.answer_json({"error": {"message": message, "type": "invalid_request_error"}}, status)

    def _chat(self, asked: dict[str, Any]) -> None:
        received = time.perf_counter_ns()
        query = {name: values[-1] for name, values in parse_qs(urlsplit(self.path).query).items()}
        try:
            ask = read_ask(self.defaults, asked, query)
        except (TypeError, ValueError) as error:
            self._no(f"a setting cannot be used: {error}", 400)
            return
        if ask.stream:
            self._stream(ask, received)
        else:
            time.sleep(ask.settings.generation_s())
            self.answer_json(_whole(ask))

    def _stream(self, ask: Ask, received: int) -> None:
        headers = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"}
        if ask.settings.accel:
            headers["X-Accel-Buffering"] = "no"
        self.begin(200, headers, close=ask.settings.close)
        events = Events(ask, received)
        heartbeat_ns = int(ask.settings.heartbeat_ms * 1e6)
        for due, piece in events.pieces():
            while heartbeat_ns and due - time.perf_counter_ns() > heartbeat_ns:
                time.sleep(heartbeat_ns / 1e9)
                self.send(b": still here\n\n")
            time.sleep(max(0, due - time.perf_counter_ns()) / 1e9)
            self.send(events.stamped(piece))
        self.send(b"data: [DONE]\n\n")
        self.finish_stream()


class Events:
    """The events of one answer. Each says when it was sent: `sent_ms` since the request came, `clock_ns` on the
    machine's monotonic clock (perf_counter_ns, for a client on the same machine), `unix_ms` for one elsewhere."""

    def __init__(self, ask: Ask, received_ns: int) -> None:
        self._ask, self._received, self._sent = ask, received_ns, 0

    def pieces(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """When each is due (perf_counter_ns), and what it says. Times are those of a plan, so a late event does not
        move the others."""
        settings = self._ask.settings
        first = self._received + int(settings.first_ms * 1e6)
        yield first, _choice({"role": "assistant", "content": ""})
        for number in range(settings.tokens):
            yield first + int(number * settings.gap_ms * 1e6), _choice({"content": _word(number)})
        end = first + int(max(0, settings.tokens - 1) * settings.gap_ms * 1e6)
        yield end, _choice({}, "length" if self._ask.limited else "stop")
        if self._ask.include_usage:
            yield end, {"choices": [], "usage": _usage(self._ask)}

    def stamped(self, piece: dict[str, Any]) -> bytes:
        """The event with the time of now."""
        now = time.perf_counter_ns()
        self._sent += 1
        stamp = {
            "seq": self._sent,
            "sent_ms": round((now - self._received) / 1e6, 3),
            "clock_ns": now,
            "unix_ms": round(time.time() * 1e3, 3),
        }
        whole = {**_identity("chat.completion.chunk"), **piece, "canary": stamp}
        return b"data: " + json.dumps(whole, separators=(",", ":")).encode() + b"\n\n"


def read_ask(defaults: Settings, asked: Mapping[str, Any], query: Mapping[str, str]) -> Ask:
    """What a request asks for: defaults, then its body, then its query. TypeError or ValueError for an unusable one."""
    given = {**asked, **query}
    changed = {field.name: _number(field.name, given[field.name]) for field in fields(Settings) if field.name in given}
    settings = replace(defaults, **changed)
    limit = given.get("max_completion_tokens", given.get("max_tokens"))
    limited = limit is not None and int(limit) <= settings.tokens
    if limited and limit is not None:
        settings = replace(settings, tokens=max(0, int(limit)))
    options = asked.get("stream_options")
    return Ask(
        settings=settings,
        stream=_number("stream", given.get("stream", False)) is True,
        include_usage=isinstance(options, dict) and options.get("include_usage") is True,
        limited=limited,
        # About four letters a token; only the length is looked at.
        prompt_tokens=max(1, len(json.dumps(asked.get("messages", ""))) // 4),
    )


def _number(name: str, value: Any) -> Any:
    """The value in the type that the setting has; queries give text. ValueError where that cannot be."""
    if name in ("accel", "close", "stream"):
        return value if isinstance(value, bool) else str(value).lower() in ("1", "true", "yes", "on")
    number = float(value)
    if not 0 <= number < 1e7:
        raise ValueError(f"{name} must be between 0 and 10 million")
    return int(number) if name == "tokens" else number


def _word(number: int) -> str:
    return f"{_WORDS[number % len(_WORDS)]} "


def _identity(kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-canary", "object": kind, "created": int(time.time()), "model": MODEL}


def _choice(delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]}


def _usage(ask: Ask) -> dict[str, int]:
    prompt, completion = ask.prompt_tokens, ask.settings.tokens
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def _whole(ask: Ask) -> dict[str, Any]:
    text = "".join(_word(number) for number in range(ask.settings.tokens))
    message = {"role": "assistant", "content": text}
    reason = "length" if ask.limited else "stop"
    choices = [{"index": 0, "message": message, "finish_reason": reason}]
    return {**_identity("chat.completion"), "choices": choices, "usage": _usage(ask)}
