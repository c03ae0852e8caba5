"""The self-check of the client: how late its stamps are on this machine, now."""

import contextlib
import math
import socket
import threading
import time
from dataclasses import dataclass

from llmdoctor.probe.client import send
from llmdoctor.probe.exchange import Limits, Request

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
