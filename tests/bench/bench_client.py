"""How late the probe's stamps are: `python -m tests.bench.bench_client`. Asserts nothing.

A server in a process of its own stamps each event just before it sends it, on the clock that the client uses
(perf_counter_ns is CLOCK_MONOTONIC on Linux), 50 events a second. Error = our stamp - its stamp. Aim on an idle
machine: median under 0.5 ms, P99 under 3 ms, also where the consumer sleeps or computes 50 ms for each event.
"""

import math
import multiprocessing
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

from llmdoctor.probe.client import send
from llmdoctor.probe.exchange import Exchange, Read, Request
from llmdoctor.probe.lag import loop_lag
from tests.wires import CHUNKED, H2, LAST, Server, certificate, chunk, tls_server

EVENTS = 400
GAP_S = 0.02


def main() -> None:
    """Prints median, P99 and the largest error for each way of reading."""
    with tempfile.TemporaryDirectory() as folder:
        pem = certificate(Path(folder))
        ours, theirs = multiprocessing.Pipe()
        context = multiprocessing.get_context("spawn")
        process = context.Process(target=_serve, args=(theirs, str(pem)), daemon=True)
        process.start()
        plain, tls = ours.recv()
        ca = str(pem)
        ways: dict[str, tuple[Request, Callable[[Read], None] | None]] = {
            "HTTP/1.1": (Request(plain), None),
            "HTTP/1.1 over TLS": (Request(tls, ca_file=ca), None),
            "HTTP/2 over TLS": (Request(tls, ca_file=ca, http2=True), None),
            "consumer sleeps 50 ms": (Request(plain), lambda _: time.sleep(0.05)),
            "consumer computes 50 ms": (Request(plain), lambda _: _compute(0.05)),
        }
        print(f"stamp errors in ms, {EVENTS} events at {1 / GAP_S:.0f} a second:")
        _show("a bare socket, to compare", _bare(plain), "")
        for name, (request, consumer) in ways.items():
            exchange = send(request, on_read=consumer)
            _show(name, _errors(exchange), f"{len(exchange.reads)} reads, {exchange.ending}")
        lag = loop_lag()
        print(f"  {'self-check of the client':<26} median {lag.median_ms}, p99 {lag.p99_ms}  {lag.events} events")
        process.terminate()


_SHARES = {"median": 0.5, "p99": 0.99, "largest": 1.0}


def _show(name: str, late: list[float], note: str) -> None:
    figures = ", ".join(f"{word} {_rank(late, share):.3f}" for word, share in _SHARES.items()) if late else "-"
    print(f"  {name:<26} {figures}  {note}", flush=True)


def _bare(url: str) -> list[float]:
    """What no client can do better: one blocking socket that does nothing else."""
    late: list[float] = []
    with socket.create_connection(("127.0.0.1", int(url.split(":")[2].split("/", maxsplit=1)[0]))) as plug:
        plug.sendall(b"GET / HTTP/1.1\r\n\r\n")
        while data := plug.recv(1 << 16):
            at = time.perf_counter_ns()
            late += [(at - int(part.partition(b"}")[0])) / 1e6 for part in data.split(b'"at":')[1:]]
    return sorted(late)


def _serve(pipe: Connection, pem: str) -> None:
    plain = Server(_send_chunks)
    secure = Server(_send_either, tls_server(Path(pem), ("h2", "http/1.1")))
    pipe.send((plain.url, secure.url))
    threading.Event().wait()


def _event(number: int) -> bytes:
    time.sleep(GAP_S)
    padding = "x" * 200
    return f'data: {{"n":{number},"p":"{padding}","at":{time.perf_counter_ns()}}}\n\n'.encode()


def _send_chunks(plug: socket.socket, _: bytes) -> None:
    plug.sendall(CHUNKED)
    for number in range(EVENTS):
        plug.sendall(chunk(_event(number)))
    plug.sendall(LAST)


def _send_either(plug: socket.socket, request: bytes) -> None:
    if request:
        _send_chunks(plug, request)
        return
    peer = H2(plug)
    peer.headers()
    for number in range(EVENTS):
        peer.data(_event(number), end=number == EVENTS - 1)
    plug.recv(1)


def _errors(exchange: Exchange) -> list[float]:
    """Milliseconds from each event's stamp to that of the read that brought it, in order of size."""
    return sorted(
        exchange.started_ns / 1e6 + read.at_ms - int(part.partition(b"}")[0]) / 1e6
        for read in exchange.reads
        for part in read.data.split(b'"at":')[1:]
    )


def _compute(seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        sum(range(1000))


def _rank(ordered: list[float], share: float) -> float:
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


if __name__ == "__main__":
    main()
