"""What a client can measure of one HTTP attempt at a chat completion, as a row of the native log.

The keys are the columns of llmdoctor's tables. What was not measured is left out. No prompt, answer or header is kept:
of a text only its length and a hash.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime

import httpx2

Row = dict[str, object]
ERROR_TYPES = {408: "timeout", 429: "rate_limit", 500: "server_error", 502: "upstream_error", 503: "overloaded"}


@dataclass
class Ask:
    """What is known of the attempt before it is sent."""

    request_id: str
    task_id: str
    attempt: int
    caller: str
    body: dict[str, object]
    route: str
    timeout_s: float | None


@dataclass
class Attempt:
    """One attempt while it runs: fed with reads, closed once, then `row()` and `chunks` are complete."""

    ask: Ask
    started: float = field(default_factory=time.perf_counter)
    started_at: float = field(default_factory=time.time)
    header_ms: float | None = None
    status: int | None = None
    retry_after_ms: float | None = None
    chunks: list[Row] = field(default_factory=list)
    reads: int = 0
    rest: bytes = b""
    facts: Row = field(default_factory=dict)
    done: bool = False
    ended_ms: float | None = None
    error: BaseException | None = None

    @property
    def streamed(self) -> bool:
        """Whether the caller asked for a stream."""
        return bool(self.ask.body.get("stream"))

    def now_ms(self) -> float:
        """Milliseconds since the attempt was sent."""
        return round((time.perf_counter() - self.started) * 1000, 3)

    def ended_at(self) -> str:
        """The instant of the end, ISO 8601 with zone."""
        ended = self.started_at + (self.ended_ms or 0) / 1000
        return datetime.fromtimestamp(ended, UTC).isoformat(timespec="milliseconds")

    def headers(self, status: int, headers: httpx2.Headers) -> None:
        """The response headers have come."""
        self.header_ms, self.status = self.now_ms(), status
        wait = headers.get("retry-after", "")
        self.retry_after_ms = float(wait) * 1000 if wait.isdigit() else None

    def feed(self, data: bytes) -> None:
        """One read of the body: cut into SSE events, each with the time at which its last byte came."""
        at_ms, self.reads = self.now_ms(), self.reads + 1
        self.rest += data
        if not self.streamed or (self.status or 0) != 200:
            return
        *events, self.rest = self.rest.split(b"\n\n")
        for event in events:
            self._event(event, at_ms)

    def _event(self, event: bytes, at_ms: float) -> None:
        payload = event.removeprefix(b"data:").strip()
        kind, characters = "event", 0
        if payload == b"[DONE]":
            kind, self.done, self.ended_ms = "terminal", True, at_ms
        elif payload.startswith(b"{"):
            kind, characters = self._note(json.loads(payload))
        row: Row = {"seq": len(self.chunks), "read_no": self.reads, "at_ms": at_ms, "kind": kind}
        self.chunks.append(row | {"bytes": len(event) + 2, "text_chars": characters})

    def _note(self, answer: dict[str, object]) -> tuple[str, int]:
        """Keep usage, finish reason and id; returns the kind of the event and its number of characters."""
        if answer.get("id"):
            self.facts["response_id"] = answer["id"]
        if answer.get("error"):
            return "error", 0
        kind = "event"
        if isinstance(usage := answer.get("usage"), dict):
            kind = "usage"
            self.facts["input_tokens"] = usage.get("prompt_tokens")
            self.facts["output_tokens"] = usage.get("completion_tokens")
            if isinstance(details := usage.get("prompt_tokens_details"), dict):
                self.facts["cached_tokens"] = details.get("cached_tokens")
        choices = answer.get("choices")
        if not isinstance(choices, list) or not choices:
            return kind, 0
        if choices[0].get("finish_reason"):
            self.facts["finish_reason"] = choices[0]["finish_reason"]
        delta = choices[0].get("delta") or choices[0].get("message") or {}
        text = delta.get("content") or ""
        if text:
            return "text", len(text)
        return ("role" if delta.get("role") else kind), 0

    def close(self, error: BaseException | None = None) -> None:
        """The attempt is over: at its terminal event, the end of its body, or with `error`."""
        if self.ended_ms is None:
            self.ended_ms = self.now_ms()
        if not self.done and self.error is None:
            self.error = error
        if not self.streamed and self.status == 200 and error is None and self.rest:
            self._note(json.loads(self.rest))
            self.done = True

    def row(self) -> Row:
        """The row of `attempts`; durations in milliseconds since the send."""
        ask = self.ask
        texts = [float(str(chunk["at_ms"])) for chunk in self.chunks if chunk["kind"] == "text"]
        gaps = [later - earlier for earlier, later in itertools.pairwise(texts)]
        row: Row = {
            "request_id": ask.request_id,
            "task_id": ask.task_id,
            "attempt": ask.attempt,
            "vantage": "client",
            "caller": ask.caller,
            "model": ask.body.get("model"),
            "route": ask.route,
            "stream": self.streamed,
            "max_tokens": ask.body.get("max_tokens"),
            "prompt_hash": hashlib.sha256(json.dumps(ask.body.get("messages")).encode()).hexdigest()[:12],
            "timeout_ms": ask.timeout_s and ask.timeout_s * 1000,
            "started_at": datetime.fromtimestamp(self.started_at, UTC).isoformat(timespec="microseconds"),
            "header_ms": self.header_ms,
            "total_ms": self.ended_ms,
            "http_status": self.status,
            "retry_after_ms": self.retry_after_ms,
        }
        if self.streamed and self.status == 200:
            row |= {"ttft_ms": texts[0] if texts else None, "chunks": len(texts), "terminal_seen": self.done}
            row["max_gap_ms"] = round(max(gaps), 3) if gaps else None
        return {key: value for key, value in (row | self.facts | self.outcome()).items() if value is not None}

    def outcome(self) -> Row:
        """How it ended: outcome, error_type and the phase of a timeout."""
        if isinstance(self.error, httpx2.TimeoutException):
            phase = "connect" if isinstance(self.error, httpx2.ConnectTimeout) else "total"
            if phase == "total" and self.streamed:
                phase = "idle" if any(chunk["kind"] == "text" for chunk in self.chunks) else "first_token"
            return {"outcome": "timeout", "error_type": "timeout", "timeout_phase": phase}
        if isinstance(self.error, httpx2.TransportError):
            return {"outcome": "incomplete" if self.chunks else "failed", "error_type": "connection_reset"}
        if self.error is not None and self.status in (None, 200):
            return {"outcome": "cancelled", "error_type": "cancelled"}
        if self.status != 200:
            outcome = "rate_limited" if self.status == 429 else "failed"
            return {"outcome": outcome, "error_type": ERROR_TYPES.get(self.status or 0, "other")}
        complete = self.done and "finish_reason" in self.facts
        return {"outcome": "completed" if complete else "incomplete"}
