"""What one request of a probe gave, as the rows of a native log: what `probe --save` writes is what `analyze` reads."""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import accumulate, pairwise
from typing import Any

from llmdoctor.probe.exchange import Exchange
from llmdoctor.probe.faults import FAULTS
from llmdoctor.probe.pieces import CONTENT, Ending, Placed

Row = dict[str, Any]

_ERROR = {"dns": "other", "tls": "other", "protocol": "other", "refused": "connection_reset"}
_ERROR |= {"unreachable": "connection_reset", "reset": "connection_reset"}


@dataclass(frozen=True)
class Ask:
    """What was asked. `variant` says why: stream, short, whole, long, encoded, http2, tools, cheap, pair."""

    hop: str
    variant: str
    number: int
    model: str
    route: str
    stream: bool
    max_tokens: int | None


@dataclass(frozen=True)
class Trace:
    """One request and what came of it: the exchange, the pieces of its answer in order, how the answer ended (None for
    a request that is no call, `cheap`), and how late the client's own stamps were."""

    ask: Ask
    exchange: Exchange
    placed: tuple[Placed, ...]
    ending: Ending | None
    loop_lag_ms: float | None = None

    @property
    def request_id(self) -> str:
        """The name of the request within its probe."""
        return f"{self.ask.hop}-{self.ask.variant}-{self.ask.number}"

    def timed(self) -> list[tuple[float, int, Placed]]:
        """(milliseconds since the send, number of the read, piece) for each piece: the read that brought the last byte
        of its event gives it its time."""
        reads = self.exchange.reads
        ends = list(accumulate(len(read.data) for read in reads))
        found = []
        for one in self.placed:
            place = bisect_left(ends, one.end)
            if place < len(reads):
                found.append((reads[place].at_ms, reads[place].no, one))
        return found


def rows(trace: Trace) -> Iterator[Row]:
    """The attempt, then its chunks and facts; keys whose value is not known are left out."""
    yield _known(_attempt(trace))
    name = {"vantage": "probe", "request_id": trace.request_id}
    for seq, (at_ms, read_no, one) in enumerate(trace.timed(), 1):
        chunk = {"seq": seq, "read_no": read_no, "at_ms": round(at_ms, 3), "kind": one.piece.kind}
        more = {"event_name": one.name or None, "bytes": one.bytes, "text_chars": one.piece.text_chars or None}
        yield _known({"table": "chunks", **name, **chunk, **more})
    for fact, value in _facts(trace):
        yield {"table": "facts", **name, "name": fact, "value": value}


def _attempt(trace: Trace) -> Row:
    exchange, ending, ask = trace.exchange, trace.ending, trace.ask
    phases = exchange.phases
    streamed = ask.stream and ending is not None and ending.shape in ("sse", "ndjson", "elements")
    content = [(at, one) for at, _, one in trace.timed() if one.piece.kind in CONTENT and one.piece.text_chars]
    gaps = [later[0] - earlier[0] for earlier, later in pairwise(content)]
    outcome, phase = _outcome(trace)
    usage = ending.usage if ending else None
    return {
        "vantage": "probe",
        "request_id": trace.request_id,
        "hop": ask.hop,
        "variant": ask.variant,
        "model": ask.model or None,
        "route": ask.route,
        "operation": "chat" if ending is not None else "probe",
        "stream": ask.stream if ending is not None else None,
        "max_tokens": ask.max_tokens,
        "input_tokens": usage.input if usage else None,
        "cached_tokens": usage.cached if usage else None,
        "output_tokens": usage.output if usage else None,
        "reasoning_tokens": usage.reasoning if usage else None,
        "started_at": exchange.started_at.isoformat(),
        "ended_at": (exchange.started_at + timedelta(milliseconds=phases.end)).isoformat(),
        "time_basis": "both",
        "dns_ms": _ms(phases.dns_ms),
        "connect_ms": _ms(phases.connect_ms),
        "tls_ms": _ms(phases.tls_ms),
        "header_ms": _ms(phases.headers),
        "first_byte_ms": _ms(phases.first_byte),
        "ttft_ms": _ms(content[0][0]) if streamed and content else None,
        "ttfo_ms": _ms(next((at for at, one in content if one.piece.kind != "reasoning"), None)) if streamed else None,
        "total_ms": _ms(phases.end),
        "max_gap_ms": _ms(max(gaps, default=None)) if streamed else None,
        "chunks": len(content) if streamed else None,
        "terminal_seen": ending.terminal_seen if ending else None,
        "conn_reused": False,
        "outcome": outcome,
        "timeout_phase": phase,
        "http_status": exchange.status,
        "error_type": _error(trace),
        "finish_reason": ending.finish_reason if ending else None,
        "retry_after_ms": _retry_after(exchange),
    }


def _outcome(trace: Trace) -> tuple[str, str | None]:
    """Outcome and, of a timeout, its phase."""
    exchange, ending = trace.exchange, trace.ending
    if exchange.ending == "timeout":
        return "timeout", exchange.timeout_phase
    if exchange.ending == "cancelled":
        return "cancelled", None
    if ending is None:
        return ("completed" if exchange.ending == "complete" and (exchange.status or 0) < 400 else "failed"), None
    if exchange.ending in ("complete", "incomplete"):
        return ending.outcome, None
    return ("incomplete" if ending.chunks else "failed"), None


def _error(trace: Trace) -> str | None:
    if trace.ending is not None and trace.ending.problem is not None:
        return trace.ending.problem.error_type
    return _ERROR.get(trace.exchange.ending)


def _retry_after(exchange: Exchange) -> float | None:
    text = exchange.fact("retry_after") or ""
    return float(text) * 1000 if text.isdigit() and len(text) < 9 else None


def _facts(trace: Trace) -> Iterator[tuple[str, str]]:
    yield from trace.exchange.facts
    if trace.exchange.certificate is not None and trace.exchange.fact("cert_issuer") is None:
        yield "cert_issuer", trace.exchange.certificate.issuer
    for name in sorted(trace.ending.faults if trace.ending else ()):
        if FAULTS[name].level != "note":
            yield "protocol_fault", name
    if trace.loop_lag_ms is not None:
        yield "loop_lag_ms", f"{trace.loop_lag_ms:.3f}"


def _ms(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _known(row: Row) -> Row:
    return {key: value for key, value in row.items() if value is not None}
