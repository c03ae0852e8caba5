"""What one request of a probe gave, as the rows of a native log: what `probe --save` writes is what `analyze` reads."""

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, timedelta
from email.utils import parsedate_to_datetime
from http.client import responses
from itertools import accumulate, pairwise
from typing import Any

from llmdoctor.probe.exchange import Exchange
from llmdoctor.probe.faults import FAULTS
from llmdoctor.probe.pieces import CONTENT, Ending, Placed, Problem
from llmdoctor.probe.stamps import sent_ms

Row = dict[str, Any]

LAG_MS = 25.0
"""A client whose stamps are later than this is not believed about gaps of twice that."""
SAME_MS = 2.0
"""Pieces that come within less of each other are one portion."""

# Faults that say more than the others why an answer is none, the first of them most; and those of another protocol.
_OTHER = ("unknown_protocol", "text_instead_of_stream")
_WHY = ("no_blank_line", *_OTHER, "no_terminator")
# Statuses whose words are not passed on: servers quote the key in them, or say no more than the status.
_SAY_ENOUGH = (401, 402, 403, 407, 429)

_ERROR = {"dns": "other", "tls": "other", "protocol": "other", "refused": "connection_reset"}
_ERROR |= {"too_large": "other", "unreachable": "connection_reset", "reset": "connection_reset"}


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
    place: int = 1


@dataclass(frozen=True)
class Trace:
    """One request and what came of it: the exchange, the pieces of its answer in order, how the answer ended (None for
    a request that is no call, `cheap`), how late the client's own stamps were, and the dialect in which it was read."""

    ask: Ask
    exchange: Exchange
    placed: tuple[Placed, ...]
    ending: Ending | None
    loop_lag_ms: float | None = None
    dialect: str = ""

    @property
    def request_id(self) -> str:
        """The name of the request within its probe."""
        return f"{self.ask.hop}-{self.ask.variant}-{self.ask.number}"

    def usable(self) -> bool:
        """Whether an answer came that is neither a refusal nor an error: worth asking for more of them."""
        good = self.exchange.status is not None and self.exchange.status < 300 and not self.ran_out()
        return good and (self.ending is None or self.ending.problem is None)

    def ran_out(self) -> bool:
        """Whether one of our limits ended it, of time or of size."""
        return self.exchange.ending in ("timeout", "too_large")

    def endless(self) -> bool:
        """Whether an answer flowed until it had used up the time or the size for a whole one."""
        return self.exchange.ending == "too_large" or (self.ran_out() and self.exchange.timeout_phase == "total")

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

    def arrivals(self) -> float:
        """Portions of content over pieces of content, 0 to 1: 1 where each piece comes by itself, 2 ms or more after
        the one before; 0 without content."""
        content = [at for at, _, one in self.timed() if one.piece.kind in CONTENT]
        alone = sum(later - earlier >= SAME_MS for earlier, later in pairwise(content))
        return (1 + alone) / len(content) if content else 0.0


def rows(trace: Trace) -> Iterator[Row]:
    """The attempt, then its chunks and facts; keys whose value is not known are left out."""
    yield _known(_attempt(trace))
    name = {"vantage": "probe", "request_id": trace.request_id}
    for chunk in _chunks(trace):
        yield _known({"table": "chunks", **name, **chunk})
    for fact, value in _facts(trace):
        yield {"table": "facts", **name, "name": fact, "value": value}


def _streamed(trace: Trace) -> bool:
    """Whether a stream was asked for and came. A document has no pieces: it would only seem to have a first token."""
    return trace.ask.stream and trace.ending is not None and trace.ending.shape in ("sse", "ndjson", "elements")


def _chunks(trace: Trace) -> Iterator[Row]:
    """One row a piece. Wire bytes are those since the piece before: a read that completed none counts with the next,
    further pieces of one read have none."""
    pieces = trace.timed() if _streamed(trace) else []
    sent = sent_ms([(at_ms, one.stamp) for at_ms, _, one in pieces], trace.exchange.started_ns)
    reads = trace.exchange.reads
    until = dict(zip((read.no for read in reads), accumulate(read.wire_bytes for read in reads), strict=True))
    before = 0
    for seq, ((at_ms, read_no, one), sent_at) in enumerate(zip(pieces, sent, strict=True), 1):
        yield {
            "seq": seq,
            "read_no": read_no,
            "at_ms": _ms(at_ms),
            "kind": one.piece.kind,
            "event_name": one.name or None,
            "bytes": one.bytes,
            "wire_bytes": until[read_no] - before,
            "text_chars": one.piece.text_chars or None,
            "sent_at_ms": _ms(sent_at),
        }
        before = until[read_no]


def _attempt(trace: Trace) -> Row:
    exchange, ending, ask = trace.exchange, trace.ending, trace.ask
    phases, streamed = exchange.phases, _streamed(trace)
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
    if exchange.status is not None and exchange.ending in ("complete", "incomplete"):
        return ending.outcome, None
    return ("incomplete" if ending.chunks else "failed"), None


def _error(trace: Trace) -> str | None:
    if trace.ending is not None and trace.ending.problem is not None:
        return trace.ending.problem.error_type
    if trace.exchange.ending == "incomplete" and _outcome(trace)[0] != "completed":
        return "connection_reset"  # whoever is cut off learns of it by the framing; an orderly end says nothing
    return _ERROR.get(trace.exchange.ending)


def _retry_after(exchange: Exchange) -> float | None:
    """Seconds, or a date (RFC 9110, section 10.2.3), which counts from now on."""
    text = exchange.fact("retry_after") or ""
    if text.isascii() and text.isdigit() and len(text) < 9:
        return float(text) * 1000
    try:
        until = parsedate_to_datetime(text)
    except ValueError:
        return None
    until = until if until.tzinfo else until.replace(tzinfo=UTC)
    return max(0.0, round((until - exchange.started_at).total_seconds() * 1000 - exchange.phases.end))


def _facts(trace: Trace) -> Iterator[tuple[str, str]]:
    yield from trace.exchange.facts
    if trace.exchange.certificate is not None and trace.exchange.fact("cert_issuer") is None:
        yield "cert_issuer", trace.exchange.certificate.issuer
    for name in sorted(trace.ending.faults if trace.ending else ()):
        if FAULTS[name].level != "note":
            yield "protocol_fault", name
    if told := _ended(trace):
        yield "ending", told
    yield "place", f"{trace.ask.place:02d}"
    if trace.loop_lag_ms is not None:
        yield "loop_lag_ms", f"{trace.loop_lag_ms:.3f}"


def _ended(trace: Trace) -> str | None:
    """One plain sentence about an answer that is none, or not whole; of its body the title of an HTML page or the
    message of an error at most."""
    exchange, ending = trace.exchange, trace.ending
    if exchange.redirect_to is not None:
        if exchange.redirects:
            return f"it redirects to {exchange.redirect_to} even after {len(exchange.redirects)} redirects: in a circle"
        return f"it redirects to {exchange.redirect_to}, which was not followed (probe that, if it is right)"
    if exchange.ending != "complete" or ending is None:
        return exchange.detail or None
    if ending.problem is not None:
        return _told(ending.problem, ending.shape == "html", exchange.status or 200)
    return _amiss(ending)


def _amiss(ending: Ending) -> str | None:
    """Why an answer without a word of an error is none, or not whole."""
    why = {"empty": "the answer holds no text", "incomplete": "the answer is not whole"}.get(ending.outcome)
    if why is None:
        return None
    faults = [
        name for name in (*_WHY, *sorted(ending.faults)) if name in ending.faults and FAULTS[name].level != "note"
    ]
    if not faults:
        return f"{why} (look at the path, --protocol and --model)"
    text = FAULTS[faults[0]].text.rstrip(".")
    other = " (look at the path and --protocol, or describe your own with --custom)" if faults[0] in _OTHER else ""
    return f"{why}: {text[0].lower()}{text[1:]}{other}"


def _told(problem: Problem, page: bool, status: int) -> str | None:
    """What an answer says of its own failure."""
    if page:
        return f"it answers {f'{status} ' if status >= 300 else ''}with {problem.message}"
    if status < 300:
        return f"the answer tells an error: {problem.message or problem.error_type}"
    plain = {*responses.get(status, "").lower().split(), "error", "status", str(status)}
    new = set(re.findall(r"\w+", problem.message.lower())) - plain
    if status < 400 or status in _SAY_ENOUGH or not new:
        return None
    return f"it answers {status} and says: {problem.message.rstrip('.')}"


def _ms(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _known(row: Row) -> Row:
    return {key: value for key, value in row.items() if value is not None}
