"""What is asked of one HTTP request, and all that it gave: phases, timed reads, its ending. Values only."""

import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from llmdoctor.probe.certificate import Certificate

Ending = Literal[
    "complete",  # the answer came whole, as far as its framing can tell
    "incomplete",  # the framing broke off or broke: see framing_error
    "timeout",  # one of our limits: see timeout_phase
    "refused",  # nothing listens there
    "unreachable",  # no way to that address, or the proxy opens none
    "dns",  # the name has no address
    "tls",  # no TLS session: see detail and certificate
    "reset",  # the other side broke the connection
    "protocol",  # what came, or what was to be sent, is not HTTP
    "too_large",  # more than our limits allow
    "cancelled",  # the consumer wanted no more
]
Phase = Literal["connect", "first_token", "idle", "total"]
Action = Literal["waiting", "stop"]
"""What a consumer may answer to a read: `waiting` = no token yet, so the limit for the first token still runs (bytes
that came may be heartbeats); `stop` = no more is needed."""

FRAMING_ERRORS: dict[str, str] = {
    "no_answer": "the connection was closed without an answer",
    "cut_header": "the connection was closed within the response headers",
    "cut_chunked": "the connection was closed before the chunk that ends a chunked body",
    "bad_chunk": "something else stands where the size of a chunk must stand",
    "http_in_body": "another HTTP response was written into the chunked body",
    "short_length": "the connection was closed before as many bytes as Content-Length announced",
    "trailing_bytes": "more bytes came than Content-Length announced",
    "tls_cut": "TLS was closed without its farewell, so the end of the body may be missing",
    "h2_reset": "the HTTP/2 stream was reset",
    "h2_goaway": "the HTTP/2 connection was ended by the other side (GOAWAY) before the answer was whole",
    "h2_closed": "the connection was closed before the end of the HTTP/2 stream",
    "h2_length": "the HTTP/2 stream holds another number of bytes than content-length announced",
    "coding_cut": "the compressed data end early",
    "coding_broken": "the body is not what Content-Encoding says",
    "coding_unknown": "Content-Encoding names a coding that was not asked for and is not known",
    "coding_trailing": "other bytes follow the end of the compressed data",
}
"""Every value of `Exchange.framing_error`, each with a sentence."""


@dataclass(frozen=True)
class Limits:
    """How long and how much. Seconds count from the send, `idle` from the last read; bytes are wire or decoded ones,
    whichever are more. Reads are bounded too, since a million reads of one byte cost far more than their bytes."""

    connect_s: float = 10.0
    first_token_s: float = 120.0
    idle_s: float = 60.0
    total_s: float = 600.0
    kept_bytes: int = 16 << 20
    read_bytes: int = 64 << 20
    reads: int = 200_000


@dataclass(frozen=True)
class Request:
    """One request. `connect_to` is the HOST:PORT where the connection goes while the URL's host stays in Host and SNI;
    `resolve` gives addresses to (host, port) pairs. `http2` is offered over TLS only; the answer tells what was chosen.
    `accept_encoding` None sends no such header. `proxy` is the URL of an HTTP proxy to go through (by CONNECT); that of
    the environment is not taken unless given here. Headers (keys among them) go to the URL's origin only."""

    url: str
    method: str = "POST"
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    connect_to: str | None = None
    resolve: tuple[tuple[str, int, str], ...] = ()
    http2: bool = False
    accept_encoding: str | None = "identity"
    verify: bool = True
    ca_file: str | None = None
    proxy: str | None = None

    def __repr__(self) -> str:
        """Without user, query, headers and body: they hold keys and prompts."""
        url = re.sub(r"//[^/]*@", "//", self.url.partition("?")[0])
        return f"Request({self.method} {url!r}, {len(self.body)} bytes)"


@dataclass(frozen=True, slots=True)
class Read:
    """What one socket read brought of the body. `no` counts all reads of the connection from 1, so the first of a body
    is often not 1. `wire_bytes` = with chunk framing or HTTP/2 frames, without response headers, after TLS;
    `payload_bytes` = without framing, still compressed; `data` = the decoded bytes that this read made readable (it may
    be empty: framing only, or a compressor that holds back). `at_ms` since the send, before anything was decoded."""

    no: int
    at_ms: float
    wire_bytes: int
    payload_bytes: int
    data: bytes = field(repr=False)  # what a model said is nobody's else


@dataclass(frozen=True)
class Phases:
    """Milliseconds since the send, each the end of its phase; None = never reached. After a redirect those of the last
    connection, on the clock of the first send. `header_start` is the read that began the response (over HTTP/2 the one
    that ended the headers, as earlier ones may hold settings only), `headers` the one that ended its headers,
    `first_byte` the first with payload, `last_byte` the last with payload, `end` the read, close or moment that ended
    the exchange."""

    start: float = 0.0
    dns: float | None = None
    connect: float | None = None
    tls: float | None = None
    sent: float | None = None
    header_start: float | None = None
    headers: float | None = None
    first_byte: float | None = None
    last_byte: float | None = None
    end: float = 0.0

    @property
    def dns_ms(self) -> float | None:
        """How long the look-up of the name took."""
        return _between(self.start, self.dns)

    @property
    def connect_ms(self) -> float | None:
        """How long the TCP connection took, tries at other addresses included."""
        return _between(self.dns, self.connect)

    @property
    def tls_ms(self) -> float | None:
        """How long the TLS handshake took; None without TLS."""
        return _between(self.connect, self.tls)


@dataclass(frozen=True)
class Exchange:
    """All that one request gave. `detail` is one plain sentence about an ending that is not `complete`, without keys,
    bodies or queries. `facts` are (name, value) pairs of the fixed list of the table `facts`. `reads` holds decoded
    data up to the limit of bytes kept; `body_cut` tells that there was more. `redirect_to` is a redirect that was not
    followed, without its query. `tried` are addresses that failed before `address`."""

    url: str
    started_at: datetime
    started_ns: int
    ending: Ending
    phases: Phases
    timeout_phase: Phase | None = None
    detail: str = ""
    framing_error: str | None = None
    status: int | None = None
    http_version: str | None = None
    address: str | None = None
    tried: tuple[str, ...] = ()
    reads: tuple[Read, ...] = ()
    wire_bytes: int = 0
    payload_bytes: int = 0
    decoded_bytes: int = 0
    body_cut: bool = False
    facts: tuple[tuple[str, str], ...] = ()
    certificate: Certificate | None = None
    redirects: tuple[str, ...] = ()
    redirect_to: str | None = None

    @property
    def body(self) -> bytes:
        """The decoded body, as far as it was kept."""
        return b"".join(read.data for read in self.reads)

    def fact(self, name: str) -> str | None:
        """The value of one fact, None where the response had none."""
        return next((value for known, value in self.facts if known == name), None)


def _between(start: float | None, end: float | None) -> float | None:
    return None if start is None or end is None else end - start
