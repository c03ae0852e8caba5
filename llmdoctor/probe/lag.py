"""The self-check of the client: how late its stamps are on this machine, before and while it probes."""

import contextlib
import math
import socket
import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import Self

from llmdoctor.probe.client import send
from llmdoctor.probe.exchange import Exchange, Limits, Request

_STEP_S = 0.005
_KEPT = 200_000
"""Wake-ups that are remembered: a quarter of an hour."""

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


@dataclass(frozen=True)
class Lag:
    """Milliseconds from the instant of sending to our stamp, over `events` events (nearest rank; with few events `p99`
    is the largest). No events: the check itself failed, for the `reason`."""

    events: int
    median_ms: float | None = None
    p99_ms: float | None = None
    reason: str = ""


def loop_lag(duration_s: float = 0.5, gap_s: float = 0.02) -> Lag:
    """Reads stamped events from a small server of its own on loopback, with the very client that probes. Takes
    `duration_s`. The server shares this process, so what keeps the process busy shows as well."""
    count = max(1, round(duration_s / gap_s))
    sent: list[int] = []
    try:
        listener = socket.create_server(("127.0.0.1", 0))
    except OSError as error:
        return Lag(0, reason=f"no server can listen on loopback: {error.strerror}")
    with listener:
        thread = threading.Thread(target=_serve, args=(listener, count, gap_s, sent), daemon=True, name="lag")
        thread.start()
        limits = Limits(connect_s=2, first_token_s=5, idle_s=5, total_s=duration_s + 10)
        exchange = send(Request(f"http://127.0.0.1:{listener.getsockname()[1]}/", method="GET"), limits)
        thread.join(5)
    if exchange.ending != "complete":
        return Lag(0, reason=f"the stream on loopback ended early: {exchange.detail}")
    arrived = [
        (exchange.started_ns / 1e6 + read.at_ms, line)
        for read in exchange.reads
        for line in read.data.split(b"\n")
        if line
    ]
    late = sorted(at - sent[int(line)] / 1e6 for at, line in arrived)
    return Lag(len(late), median_ms=_rank(late, 0.5), p99_ms=_rank(late, 0.99))


class Watch:
    """Wakes up every 5 ms for as long as a `with` block and notes how late it was: what keeps this thread from running
    keeps the one that stamps from it, too."""

    def __init__(self) -> None:
        self._late: deque[tuple[int, float]] = deque(maxlen=_KEPT)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="watch")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            before = time.perf_counter_ns()
            time.sleep(_STEP_S)
            now = time.perf_counter_ns()
            self._late.append((now, max(0.0, (now - before) / 1e6 - _STEP_S * 1e3)))

    def late_ms(self, exchange: Exchange) -> float | None:
        """How late one wake-up in ten was, at the least, while this exchange ran (nearest rank): single hiccups hit a
        few pieces of a stream and change no verdict. None where it was over before the first."""
        end = exchange.started_ns + int(exchange.phases.end * 1e6)
        # A wake-up that began within it and came after its end belongs to it as well.
        found = sorted(late for at, late in self._late.copy() if exchange.started_ns <= at <= end + late * 1e6)
        return _rank(found, 0.9)


def _serve(listener: socket.socket, count: int, gap_s: float, sent: list[int]) -> None:
    listener.settimeout(5)
    with contextlib.suppress(OSError):
        plug, _ = listener.accept()
        with plug:
            plug.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            plug.recv(1 << 16)
            plug.sendall(_HEAD)
            for number in range(count):
                time.sleep(gap_s)
                event = b"%d\n" % number
                sent.append(time.perf_counter_ns())
                plug.sendall(b"%x\r\n%b\r\n" % (len(event), event))
            plug.sendall(b"0\r\n\r\n")


def _rank(ordered: list[float], share: float) -> float | None:
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else None
