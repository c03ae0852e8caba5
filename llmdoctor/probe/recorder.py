"""What one connection gave so far: stamps, reads, the state of its body; and how much time is left."""

import re
import time
from collections.abc import Callable
from typing import Literal

from llmdoctor.probe.coding import Decoding
from llmdoctor.probe.exchange import Action, Limits, Phase, Phases, Read
from llmdoctor.probe.wire import FullError, Stamped

Consumer = Callable[[Read], Action | None]
Framing = Literal["chunked", "length", "close", "h2"]
Stage = Literal["dns", "connect", "tls", "send", "header", "body"]

_HEADER_END = re.compile(rb"\r?\n\r?\n")
_INTERIM = re.compile(rb"HTTP/1\.[01] 1(?!01)")


class ExpiredError(Exception):
    """One of our limits was reached."""

    def __init__(self, phase: Phase) -> None:
        super().__init__(phase)
        self.phase: Phase = phase


class CancelledError(Exception):
    """The consumer wants no more."""


class Recorder:
    """Grows while one connection lives. `stage` is what is being done; `framing` is known once headers are."""

    def __init__(self, start_ns: int, limits: Limits, consumer: Consumer | None) -> None:
        self.start_ns, self.limits, self.consumer = start_ns, limits, consumer
        self.stage: Stage = "dns"
        self.framing: Framing | None = None
        self.decoding = Decoding("")
        self.began_ns = self._last_ns = time.perf_counter_ns()
        self.wrote_ns = self.began_ns
        self.end_ns: int | None = None
        self.stamps: dict[str, float] = {}
        self.reads: list[Read] = []
        self.wire_bytes = self.payload_bytes = self.decoded_bytes = self.kept_bytes = 0
        self.eof = self.any_bytes = False
        self.no_http = False  # what came first begins no HTTP/1 response
        self.consumer_error: BaseException | None = None
        self.newest = b""  # the bytes of the last read, without headers
        self._head = bytearray()
        self._token_seen = False
        self._open: Stamped | None = None
        self._open_wire = self._open_payload = 0
        self._open_data: list[bytes] = []

    def ms(self, at_ns: int) -> float:
        """Milliseconds since the send."""
        return (at_ns - self.start_ns) / 1e6

    def begin(self) -> None:
        """The look-up begins now, and with it the time for connecting."""
        self.began_ns = self._last_ns = time.perf_counter_ns()

    def mark(self, name: str) -> None:
        """A phase of `Phases` ends now."""
        self.stamps[name] = self.ms(time.perf_counter_ns())

    def sent(self) -> None:
        """The request has been written; it was sent when its last write began."""
        self.stamps["sent"] = self.ms(self.wrote_ns)
        self.stage = "header"

    def connect_left(self) -> float:
        """Seconds that are left for look-up, connection and TLS together. Raises ExpiredError."""
        ends: list[tuple[int, Phase]] = [
            (self.began_ns + _ns(self.limits.connect_s), "connect"),
            (self.start_ns + _ns(self.limits.total_s), "total"),
        ]
        end, phase = min(ends)
        left = end - time.perf_counter_ns()
        if left <= 0:
            raise self.expire(end, phase)
        return left / 1e9

    def deadline(self) -> tuple[int, Phase]:
        """When waiting must end (perf_counter_ns), and the limit that says so."""
        first: tuple[int, Phase] = (self.start_ns + _ns(self.limits.first_token_s), "first_token")
        idle: tuple[int, Phase] = (self._last_ns + _ns(self.limits.idle_s), "idle")
        total: tuple[int, Phase] = (self.start_ns + _ns(self.limits.total_s), "total")
        return min(idle if self._token_seen else first, total)

    def expire(self, at_ns: int, phase: Phase) -> ExpiredError:
        """Notes the moment that a limit was reached; the error to raise for it."""
        self.end_ns = at_ns
        return ExpiredError(phase)

    def take(self, stamped: Stamped) -> None:
        """The next read; the one before must be finished."""
        self._open, self._last_ns, self.newest = stamped, stamped.at_ns, stamped.data
        self._open_wire, self._open_payload, self._open_data = len(stamped.data), 0, []
        self.eof = not stamped.data
        self.any_bytes = self.any_bytes or bool(stamped.data)
        if self.framing is None:
            self._head += stamped.data
            self.no_http = not self._head.startswith(b"HTTP/"[: len(self._head)])
            self.stamps.setdefault("header_start", self.ms(stamped.at_ns))

    def headers_end(self, framing: Framing, coding: str) -> None:
        """The response headers ended with the read that was taken last."""
        self.framing, self.decoding, self.stage = framing, Decoding(coding), "body"
        if self._open is None:
            return
        self.stamps["headers"] = self.ms(self._open.at_ns)
        if framing == "h2":
            self.stamps["header_start"] = self.stamps["headers"]
        else:
            self.newest = bytes(self._head[_header_bytes(bytes(self._head)) :])
            self._open_wire = len(self.newest)
        self._head.clear()

    def payload(self, part: bytes) -> None:
        """Body bytes, without framing, out of the read that was taken last. Raises CodingError or FullError."""
        if not part or self._open is None:
            return
        self._open_payload += len(part)
        self.payload_bytes += len(part)
        at = self.ms(self._open.at_ns)
        self.stamps.setdefault("first_byte", at)
        self.stamps["last_byte"] = at
        for data in self.decoding.feed(part):
            self._open_data.append(data)
            self.decoded_bytes += len(data)
            if self.decoded_bytes > self.limits.read_bytes:
                raise FullError

    def finish_read(self) -> None:
        """All of the last read has been parsed: it is kept and shown to the consumer. Raises CancelledError, and
        whatever the consumer raises."""
        if (read := self._closed()) is None:
            return
        keep = max(0, self.limits.kept_bytes - self.kept_bytes)
        kept = read.data if len(read.data) <= keep else read.data[:keep]
        self.kept_bytes += len(kept)
        self.reads.append(read if kept is read.data else Read(read.no, read.at_ms, *_sizes(read), kept))
        action = self._consume(read)
        if read.data and action != "waiting":
            self._token_seen = True
        if action == "stop":
            raise CancelledError

    def _closed(self) -> Read | None:
        if self._open is None or self.framing is None or not self._open_wire:
            return None
        read = Read(
            self._open.no, self.ms(self._open.at_ns), self._open_wire, self._open_payload, b"".join(self._open_data)
        )
        self.wire_bytes += self._open_wire
        self._open_wire, self._open_payload, self._open_data = 0, 0, []
        return read

    def _consume(self, read: Read) -> Action | None:
        if self.consumer is None:
            return None
        try:
            return self.consumer(read)
        except BaseException as error:
            self.consumer_error = error
            raise

    def phases(self) -> Phases:
        """All stamps; `end` is the last read of a whole answer, else the moment of giving up."""
        end = self.end_ns if self.end_ns is not None else time.perf_counter_ns()
        return Phases(start=self.ms(self.began_ns), end=self.ms(end), **self.stamps)

    def broke(self) -> None:
        """It ended otherwise: with the last read if an answer had begun, else now, unless the moment is known."""
        if self.end_ns is None:
            self.end_ns = self._last_ns if self._open is not None else time.perf_counter_ns()

    def whole(self) -> None:
        """The answer came whole: it ended with the last read."""
        self.end_ns = self._last_ns


def _sizes(read: Read) -> tuple[int, int]:
    return read.wire_bytes, read.payload_bytes


def _ns(seconds: float) -> int:
    return int(seconds * 1e9)


def _header_bytes(head: bytes) -> int:
    """How long the headers are, those of interim (1xx) responses before them included."""
    at = 0
    while match := _HEADER_END.search(head, at):
        interim, at = _INTERIM.match(head, at), match.end()
        if not interim:
            break
    return at
