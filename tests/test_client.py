"""The client of the probe against real servers on loopback: phases, reads, framing, limits, endings."""

import contextlib
import gzip
import json
import os
import random
import signal
import socket
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import brotli
import pytest
import zstandard

from llmdoctor.probe.client import environment_proxy, send
from llmdoctor.probe.exchange import FRAMING_ERRORS, Action, Exchange, Limits, Read, Request
from llmdoctor.probe.lag import Watch, loop_lag
from tests.wires import (
    CHUNKED,
    H2,
    LAST,
    OK,
    Script,
    Server,
    Steps,
    certificate,
    chunk,
    reset,
    says,
    silent,
    tls_server,
)

KEY = "sk-test-0123456789abcdef"
PROMPT = b'{"messages":[{"role":"user","content":"a private question"}]}'
EVENTS = [b'data: {"n":%d}\n\n' % number for number in range(5)]
SHORT = Limits(connect_s=5, first_token_s=0.2, idle_s=0.2, total_s=5)


def ask(url: str, limits: Limits | None = None, **more: object) -> Exchange:
    """An answer to a request that holds a key and a prompt."""
    headers = (("Authorization", f"Bearer {KEY}"), ("Content-Type", "application/json"))
    return send(Request(url, headers=headers, body=PROMPT, **more), limits or Limits(total_s=30))  # type: ignore[arg-type]  # options by name


def answer(*pieces: bytes, gap_s: float = 0.0, limits: Limits | None = None) -> Exchange:
    """What the client makes of these bytes from a server that closes after them."""
    with Server(says(*pieces, gap_s=gap_s)) as server:
        return ask(server.url, limits)


def stepwise(head: bytes, *pieces: bytes) -> Exchange:
    """The same where each piece is a read of its own; the first goes with the headers."""
    steps = Steps()
    with Server(steps.says(head + pieces[0], *pieces[1:])) as server:
        return send(Request(server.url), Limits(total_s=30), on_read=steps.shown)


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return certificate(tmp_path_factory.mktemp("tls"))


# Phases and reads


def test_every_phase_is_stamped_and_they_are_in_order() -> None:
    phases = answer(CHUNKED, chunk(b"one"), chunk(b"two") + LAST, gap_s=0.02).phases
    stamps = [phases.start, phases.dns, phases.connect, phases.sent, phases.header_start, phases.headers]
    stamps += [phases.first_byte, phases.last_byte, phases.end]
    known = [stamp for stamp in stamps if stamp is not None]
    assert len(known) == len(stamps)
    assert known == sorted(known)
    assert phases.tls is None


def test_headers_that_come_in_parts_have_a_first_and_a_last_byte() -> None:
    phases = answer(b"HTTP/1.1 200 OK\r\n", b"Content-Length: 2\r\n\r\n", b"ok", gap_s=0.2).phases
    assert phases.header_start is not None
    assert phases.headers is not None
    assert phases.first_byte is not None
    assert phases.header_start < phases.headers < phases.first_byte


def test_chunk_framing_is_counted_apart_from_what_it_frames() -> None:
    exchange = stepwise(CHUNKED, *map(chunk, EVENTS), LAST)
    assert [read.data for read in exchange.reads] == [*EVENTS, b""]
    assert [read.wire_bytes for read in exchange.reads] == [*(len(chunk(event)) for event in EVENTS), len(LAST)]
    assert exchange.payload_bytes == exchange.decoded_bytes == sum(map(len, EVENTS))
    assert exchange.wire_bytes == sum(len(chunk(event)) for event in EVENTS) + len(LAST)
    assert exchange.ending == "complete"


def test_headers_are_no_bytes_of_the_body_that_came_with_them() -> None:
    early = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
    (read,) = answer(early + OK + b"Content-Length: 2\r\n\r\nok").reads
    assert (read.wire_bytes, read.payload_bytes, read.data) == (2, 2, b"ok")


def test_a_chunk_cut_anywhere_gives_the_same_body() -> None:
    whole = CHUNKED + b"".join(map(chunk, EVENTS)) + LAST
    for at in range(1, len(whole), 7):
        exchange = answer(whole[:at], whole[at:], gap_s=0.002)
        assert (exchange.ending, exchange.body) == ("complete", b"".join(EVENTS))
        assert exchange.wire_bytes == len(whole) - len(CHUNKED)


def test_a_consumer_that_dawdles_changes_no_stamp() -> None:
    sent: list[int] = []
    all_sent = threading.Event()
    shown: list[Read] = []

    def script(plug: socket.socket, _: bytes) -> None:
        plug.sendall(CHUNKED)
        for number in range(20):
            time.sleep(0.02)
            sent.append(time.perf_counter_ns())
            plug.sendall(chunk(b"%d\n" % number))
        plug.sendall(LAST)
        all_sent.set()

    released = 0

    def dawdle(read: Read) -> None:
        nonlocal released
        if not shown:
            all_sent.wait(30)
            released = time.perf_counter_ns()
        shown.append(read)
        time.sleep(0.05)

    with Server(script) as server:
        exchange = send(Request(server.url), on_read=dawdle)
    assert exchange.ending == "complete"
    assert len(exchange.reads) > 10  # one for each event, but for those that a busy machine joins; never one lump
    assert list(exchange.reads) == shown
    lines = [(read, int(line)) for read in exchange.reads for line in read.data.split()]
    assert [number for _, number in lines] == list(range(20))
    assert all(exchange.started_ns + read.at_ms * 1e6 >= sent[number] for read, number in lines)
    assert sum(exchange.started_ns + read.at_ms * 1e6 < released for read in exchange.reads) > 10


def test_a_consumer_may_stop_and_what_it_raises_comes_through() -> None:
    stop: Action = "stop"
    with Server(says(CHUNKED + chunk(b"one"), *[chunk(b"more")] * 50, gap_s=0.02)) as server:
        exchange = send(Request(server.url), on_read=lambda _: stop)
        assert (exchange.ending, exchange.body) == ("cancelled", b"one")

        def broken(_: Read) -> None:
            raise KeyError("mine")

        with pytest.raises(KeyError, match="mine"):
            send(Request(server.url), on_read=broken)
    assert _reading() == []


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C as Python takes it: a shell that runs the tests in the background lets them ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_ends_the_waiting_and_leaves_nothing_behind() -> None:
    with Server(silent) as server:
        timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            send(Request(server.url))
    assert _reading() == []


def _reading() -> list[str]:
    """The threads that still read, of those that a busy machine may take a moment to end."""
    for thread in threading.enumerate():
        if thread.name == "reads":
            thread.join(timeout=5)
    return [thread.name for thread in threading.enumerate() if thread.name == "reads"]


def test_several_at_once_do_not_mix() -> None:
    def script(plug: socket.socket, request: bytes) -> None:
        body = request.partition(b"\r\n\r\n")[2]
        says(CHUNKED, *[chunk(body)] * 5, LAST, gap_s=0.01)(plug, request)

    found: dict[int, bytes] = {}
    with Server(script) as server:

        def one(number: int) -> None:
            found[number] = send(Request(server.url, body=b"%d;" % number)).body

        threads = [threading.Thread(target=one, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == {number: b"%d;" % number * 5 for number in range(8)}


def test_the_client_knows_how_late_its_stamps_are() -> None:
    lag = loop_lag(duration_s=0.2, gap_s=0.02)
    assert lag.events == 10
    assert lag.median_ms is not None
    assert lag.p99_ms is not None
    assert 0 < lag.median_ms <= lag.p99_ms


def test_a_machine_that_lags_while_a_request_runs_is_noticed() -> None:
    numbers = [n * 7919 % 1_000_003 for n in range(1_000_003)]
    done = threading.Event()

    def hold_the_interpreter() -> None:
        while not done.is_set():
            sorted(numbers)  # no other thread runs meanwhile

    hog = threading.Thread(target=hold_the_interpreter)
    with (
        Server(says(CHUNKED, *(chunk(b"data: 1\n\n") for _ in range(30)), LAST, gap_s=0.02)) as server,
        Watch() as watch,
    ):
        hog.start()
        busy = ask(server.url)
        late = watch.late_ms(busy)
        done.set()
        hog.join()
    assert busy.ending == "complete"
    assert late is not None
    assert late > 25
    assert watch.late_ms(replace(busy, started_ns=0)) is None


# Framing


def _gunicorn() -> bytes:
    """A killed worker writes a whole response into the body."""
    return CHUNKED + chunk(EVENTS[0]) + b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n"


@pytest.mark.parametrize(
    ("wire", "ending", "error"),
    [
        (b"", "incomplete", "no_answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Ty", "incomplete", "cut_header"),
        (CHUNKED + chunk(EVENTS[0]), "incomplete", "cut_chunked"),
        (CHUNKED + b"ff\r\n" + EVENTS[0], "incomplete", "cut_chunked"),
        (CHUNKED + chunk(EVENTS[0]) + b"what?\r\n", "incomplete", "bad_chunk"),
        (_gunicorn(), "incomplete", "http_in_body"),
        (OK + b"Content-Length: 99\r\n\r\n" + EVENTS[0], "incomplete", "short_length"),
        (OK + b"Content-Length: 15\r\n\r\n" + EVENTS[0] + b"more", "complete", "trailing_bytes"),
        (OK + b"Content-Length: 15\r\n\r\n" + EVENTS[0], "complete", None),
        (OK + b"\r\n" + EVENTS[0], "complete", None),
        (b"HTTP/1.0 200 OK\r\n\r\n" + EVENTS[0], "complete", None),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "protocol", None),
    ],
)
def test_the_framing_tells_how_an_answer_ended(wire: bytes, ending: str, error: str | None) -> None:
    exchange = answer(wire)
    assert (exchange.ending, exchange.framing_error) == (ending, error)
    assert exchange.fact("framing_error") == error
    assert error is None or exchange.detail.startswith(FRAMING_ERRORS[error])
    assert exchange.body in (b"", EVENTS[0])
    assert exchange.status is None or exchange.body == EVENTS[0]


def test_a_reset_keeps_what_had_come() -> None:
    def script(plug: socket.socket, _: bytes) -> None:
        plug.sendall(CHUNKED + chunk(EVENTS[0]))
        time.sleep(0.1)
        reset(plug)

    with Server(script) as server:
        exchange = ask(server.url)
    assert (exchange.ending, exchange.status, exchange.body) == ("reset", 200, EVENTS[0])


def test_a_broken_answer_ended_with_its_last_read_however_long_it_was_looked_at() -> None:
    with Server(says(CHUNKED + chunk(b"one") + b"what?\r\n")) as server:
        exchange = send(Request(server.url), on_read=lambda _: time.sleep(0.2))
    assert (exchange.framing_error, exchange.body) == ("bad_chunk", b"one")
    assert exchange.phases.end == exchange.reads[-1].at_ms


def test_an_answer_without_a_body_is_complete() -> None:
    exchange = answer(b"HTTP/1.1 204 No Content\r\n\r\n")
    assert (exchange.ending, exchange.status, exchange.reads) == ("complete", 204, ())
    with Server(says(OK + b"Content-Length: 99\r\n\r\n")) as server:
        assert send(Request(server.url, method="HEAD")).ending == "complete"


def test_whatever_comes_is_a_value_and_leaves_nothing_running() -> None:
    whole = CHUNKED + b"".join(map(chunk, EVENTS)) + LAST
    chance = random.Random(7)
    wires = []
    for _ in range(150):
        at, size = chance.randrange(len(whole)), chance.randrange(4)
        wires.append(whole[:at] + chance.randbytes(chance.randrange(4)) + whole[at + size :])
    current = iter(wires)
    with Server(lambda plug, _: plug.sendall(next(current))) as server:
        endings = {ask(server.url, SHORT).ending for _ in wires}
    assert endings <= {"complete", "incomplete", "protocol", "reset", "timeout"}
    assert _reading() == []


def test_headers_without_end_end_all_the_same() -> None:
    endless = b"X-More: " + b"x" * 1000 + b"\r\n"
    assert answer(b"HTTP/1.1 200 OK\r\n", *[endless] * 500).ending == "protocol"


# Codings


def _flushed(coding: str) -> list[bytes]:
    """The events, compressed and flushed one by one."""
    if coding == "br":
        br = brotli.Compressor()
        return [br.process(event) + br.flush() for event in EVENTS] + [br.finish()]
    if coding == "zstd":
        zstd = zstandard.ZstdCompressor().compressobj()
        block = zstandard.COMPRESSOBJ_FLUSH_BLOCK
        return [zstd.compress(event) + zstd.flush(block) for event in EVENTS] + [zstd.flush()]
    wbits = {"gzip": 31, "deflate": 15, "raw deflate": -15}[coding]
    stream = zlib.compressobj(wbits=wbits)
    return [stream.compress(event) + stream.flush(zlib.Z_SYNC_FLUSH) for event in EVENTS] + [stream.flush()]


def _head(coding: str) -> bytes:
    return OK + b"Content-Encoding: %b\r\nTransfer-Encoding: chunked\r\n\r\n" % coding.encode()


def encoded(coding: str, *pieces: bytes, limits: Limits | None = None) -> Exchange:
    """What the client makes of a chunked body with that Content-Encoding."""
    return answer(_head(coding), *map(chunk, filter(None, pieces)), LAST, limits=limits)


@pytest.mark.parametrize("coding", ["gzip", "deflate", "raw deflate", "br", "zstd"])
def test_each_event_is_readable_with_the_read_that_brought_it(coding: str) -> None:
    exchange = stepwise(_head(coding.removeprefix("raw ")), *map(chunk, filter(None, _flushed(coding))), LAST)
    assert [read.data for read in exchange.reads if read.data] == EVENTS
    assert (exchange.ending, exchange.framing_error) == ("complete", None)
    assert exchange.payload_bytes == sum(map(len, _flushed(coding)))


@pytest.mark.parametrize("coding", ["gzip", "deflate", "raw deflate", "br", "zstd"])
def test_compressed_bytes_cut_anywhere_give_the_same(coding: str) -> None:
    whole = b"".join(_flushed(coding))
    for at in range(1, len(whole), 5):
        assert encoded(coding.removeprefix("raw "), whole[:at], whole[at:]).body == b"".join(EVENTS)


def test_a_compressor_that_holds_back_shows_as_reads_without_data() -> None:
    packed = gzip.compress(b"".join(EVENTS))
    reads = stepwise(_head("gzip"), chunk(packed[:10]), chunk(packed[10:]), LAST).reads
    assert [bool(read.data) for read in reads][:2] == [False, True]
    assert reads[0].payload_bytes == 10


def test_several_gzip_members_are_read_and_counted() -> None:
    members = [gzip.compress(event) for event in EVENTS]
    exchange = stepwise(_head("gzip"), *map(chunk, members), LAST)
    assert (exchange.body, exchange.fact("gzip_members")) == (b"".join(EVENTS), "5")
    assert [read.data for read in exchange.reads if read.data] == EVENTS
    joined = encoded("gzip", b"".join(members) + b"\0" * 20)
    assert (joined.body, joined.fact("gzip_members"), joined.framing_error) == (b"".join(EVENTS), "5", None)


@pytest.mark.parametrize(
    ("coding", "body", "ending", "error"),
    [
        ("gzip", gzip.compress(b"text", mtime=0)[:-9], "incomplete", "coding_cut"),
        ("gzip", b"\x1f", "incomplete", "coding_cut"),
        ("gzip", b"data: plain\n\n", "incomplete", "coding_broken"),
        ("gzip", gzip.compress(b"text", mtime=0)[:10] + b"\xff" * 40, "incomplete", "coding_broken"),
        ("gzip", gzip.compress(b"text", mtime=0) + b"HTTP", "complete", "coding_trailing"),
        ("deflate", zlib.compress(b"text")[:-5], "incomplete", "coding_cut"),
        ("br", brotli.compress(b"text" * 50)[:-2], "incomplete", "coding_cut"),
        ("br", b"data: plain\n\n", "incomplete", "coding_broken"),
        ("zstd", zstandard.compress(b"text")[:-2], "incomplete", "coding_cut"),
        ("zstd", b"data: plain\n\n", "incomplete", "coding_broken"),
        ("snappy", b"data: plain\n\n", "complete", "coding_unknown"),
        ("identity", b"data: plain\n\n", "complete", None),
        ("gzip", b"", "complete", None),
    ],
)
def test_what_is_wrong_with_a_coding_is_told(coding: str, body: bytes, ending: str, error: str | None) -> None:
    exchange = encoded(coding, body)
    assert (exchange.ending, exchange.framing_error) == (ending, error)


def test_codings_upon_codings_are_undone_in_order() -> None:
    assert encoded("gzip, br", brotli.compress(gzip.compress(b"text", mtime=0))).body == b"text"


def test_two_zstd_frames_are_read() -> None:
    assert encoded("zstd", zstandard.compress(b"one") + zstandard.compress(b"two")).body == b"onetwo"


@pytest.mark.parametrize("coding", ["gzip", "br", "zstd"])
def test_a_few_bytes_that_stand_for_many_are_not_unpacked_whole(coding: str) -> None:
    zeros: bytes = b"\0" * (64 << 20)
    packed = {
        "gzip": gzip.compress(zeros, 1),
        "br": brotli.compress(zeros, quality=5),
        "zstd": zstandard.compress(zeros),
    }
    exchange = encoded(coding, packed[coding], limits=Limits(read_bytes=1 << 20, kept_bytes=1000))
    assert exchange.ending == "too_large"
    assert exchange.decoded_bytes < 24 << 20
    assert len(exchange.body) == 1000
    assert exchange.body_cut


# Limits


@pytest.mark.parametrize(
    ("pieces", "limits", "phase"),
    [
        ([], SHORT, "first_token"),
        ([CHUNKED], SHORT, "first_token"),
        ([CHUNKED + chunk(b"one")], SHORT, "idle"),
        ([CHUNKED + chunk(b"one")], Limits(total_s=0.3), "total"),
        ([], Limits(total_s=0.3), "total"),
    ],
)
def test_each_limit_ends_a_silence(pieces: list[bytes], limits: Limits, phase: str) -> None:
    def script(plug: socket.socket, request: bytes) -> None:
        says(*pieces)(plug, request)
        silent(plug, request)

    with Server(script) as server:
        exchange = ask(server.url, limits)
    assert (exchange.ending, exchange.timeout_phase) == ("timeout", phase)
    assert exchange.body == (b"one" if len(pieces) and pieces[0] != CHUNKED else b"")


def test_a_stream_that_never_ends_is_ended_by_the_limit_for_the_whole() -> None:
    with Server(says(CHUNKED, *[chunk(b"x")] * 3000, gap_s=0.01)) as server:
        exchange = ask(server.url, Limits(total_s=0.5))
    assert (exchange.ending, exchange.timeout_phase) == ("timeout", "total")
    assert exchange.body.startswith(b"xx")
    assert all(read.at_ms <= 500 for read in exchange.reads)


def test_heartbeats_are_no_first_token() -> None:
    waiting: Action = "waiting"
    with Server(says(CHUNKED, *[chunk(b": beat\n\n")] * 300, gap_s=0.02)) as server:
        exchange = send(Request(server.url), SHORT, on_read=lambda _: waiting)
    assert (exchange.ending, exchange.timeout_phase) == ("timeout", "first_token")


def test_the_first_bytes_of_a_compressor_are_no_first_token() -> None:
    head = OK + b"Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"

    def script(plug: socket.socket, request: bytes) -> None:
        plug.sendall(head + chunk(gzip.compress(b"text")[:10]))
        silent(plug, request)

    with Server(script) as server:
        exchange = ask(server.url, SHORT)
    assert (exchange.ending, exchange.timeout_phase) == ("timeout", "first_token")


def test_a_handshake_that_never_ends_counts_as_connecting() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        exchange = ask(f"https://127.0.0.1:{deaf.getsockname()[1]}/", Limits(connect_s=0.2))
    assert (exchange.ending, exchange.timeout_phase) == ("timeout", "connect")


def test_a_gigabyte_is_not_read() -> None:
    sent = 0

    def script(plug: socket.socket, _request: bytes) -> None:
        nonlocal sent
        plug.sendall(CHUNKED)
        for _ in range(1024):
            plug.sendall(chunk(b"x" * (1 << 20)))
            sent += 1 << 20

    with Server(script) as server:
        exchange = ask(server.url, Limits(read_bytes=2 << 20, kept_bytes=1 << 20))
    assert exchange.ending == "too_large"
    assert sent < 100 << 20
    assert len(exchange.body) == 1 << 20
    assert exchange.body_cut


def test_more_reads_than_wanted_are_not_read() -> None:
    with Server(says(CHUNKED, *[chunk(b"x")] * 100, LAST, gap_s=0.002)) as server:
        assert ask(server.url, Limits(reads=10)).ending == "too_large"


# Where it goes


def _tunnel(target: int) -> Script:
    """A proxy that opens each tunnel to that port."""

    def script(plug: socket.socket, request: bytes) -> None:
        if b"Proxy-Authorization: Basic dXNlcjpzZWNyZXQ=" not in request:
            plug.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
            return
        with socket.create_connection(("127.0.0.1", target)) as other:
            plug.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            threading.Thread(target=_pass_on, args=(plug, other), daemon=True).start()
            _pass_on(other, plug)

    return script


def _pass_on(one: socket.socket, other: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := one.recv(65536):
            other.sendall(data)


@pytest.mark.parametrize("tls", [False, True])
def test_a_proxy_that_is_asked_for_opens_a_tunnel(pem: Path, tls: bool) -> None:
    with (
        Server(says(CHUNKED + chunk(b"through") + LAST), tls_server(pem) if tls else None) as server,
        Server(_tunnel(server.port)) as proxy,
    ):
        exchange = ask(server.url, proxy=f"http://user:secret@127.0.0.1:{proxy.port}", ca_file=str(pem))
        refused = ask(server.url, proxy=f"127.0.0.1:{proxy.port}")
    assert (exchange.ending, exchange.body) == ("complete", b"through")
    assert proxy.requests[0].startswith(b"CONNECT 127.0.0.1:%d HTTP/1.1\r\n" % server.port)
    assert KEY.encode() not in proxy.requests[0]
    assert (refused.ending, refused.detail) == ("unreachable", "the proxy answered 407 to CONNECT")
    assert "secret" not in repr(exchange)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def test_a_port_where_nothing_listens_refuses() -> None:
    exchange = ask(f"http://127.0.0.1:{_free_port()}/")
    assert (exchange.ending, exchange.status) == ("refused", None)
    assert exchange.address is not None


def test_a_name_without_address_is_a_value() -> None:
    assert ask("http://no-such-host.invalid/").ending == "dns"


@pytest.mark.parametrize("url", ["", "ftp://host/", "http://", "http://host:99999/", "not a url", "http://[::1"])
def test_an_unusable_url_is_a_value(url: str) -> None:
    exchange = ask(url)
    assert exchange.ending in ("protocol", "dns")


def test_a_header_that_cannot_be_sent_is_a_value_and_is_not_shown() -> None:
    with Server(says(CHUNKED + LAST)) as server:
        exchange = send(Request(server.url, headers=(("Authorization", f"{KEY}\nX: y"),)))
    assert exchange.ending == "protocol"
    assert KEY not in repr(exchange)
    assert server.requests == []


def test_connect_to_keeps_host_and_path() -> None:
    with Server(says(CHUNKED + LAST)) as server:
        exchange = ask("http://public.example:8080/v1/x?y=1", connect_to=f"127.0.0.1:{server.port}")
        assert (exchange.ending, exchange.address) == ("complete", f"127.0.0.1:{server.port}")
    assert server.requests[0].startswith(b"POST /v1/x?y=1 HTTP/1.1\r\n")
    assert b"host: public.example:8080\r\n" in server.requests[0].lower()


def test_a_given_address_takes_the_place_of_the_look_up() -> None:
    with Server(says(CHUNKED + LAST)) as server:
        url = f"http://public.example:{server.port}/"
        assert ask(url, resolve=(("public.example", server.port, "127.0.0.1"),)).ending == "complete"


def test_a_second_address_is_tried() -> None:
    with Server(says(CHUNKED + LAST)) as server:
        # localhost is often ::1 first, where this server does not listen.
        assert ask(f"http://localhost:{server.port}/").ending == "complete"


@pytest.fixture
def proxies(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with Server(says(CHUNKED + chunk(b"proxied") + LAST)) as proxy:
        for name in ("http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, f"http://user:secret@127.0.0.1:{proxy.port}")
        yield proxy


def test_a_proxy_of_the_environment_is_named_and_not_used(proxies: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with Server(says(CHUNKED + chunk(b"direct") + LAST)) as server:
        assert ask(server.url).body == b"direct"
        assert environment_proxy(server.url) == "http_proxy"
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        assert environment_proxy(server.url) is None
    assert proxies.requests == []


# Redirects


def _redirect(status: int, to: str) -> bytes:
    return b"HTTP/1.1 %d Moved\r\nLocation: %b\r\nContent-Length: 0\r\n\r\n" % (status, to.encode())


def test_a_redirect_within_the_origin_is_followed() -> None:
    def script(plug: socket.socket, request: bytes) -> None:
        plug.sendall(_redirect(307, "/new?x=1") if b" /v1" in request[:20] else CHUNKED + chunk(b"here") + LAST)

    with Server(script) as server:
        exchange = ask(server.url)
    assert (exchange.ending, exchange.body) == ("complete", b"here")
    assert exchange.redirects == (f"http://127.0.0.1:{server.port}/new",)
    assert PROMPT in server.requests[1]
    assert KEY.encode() in server.requests[1]


def test_nothing_is_sent_to_another_origin() -> None:
    with Server(says(CHUNKED + LAST)) as other, Server(says(_redirect(307, f"{other.url}?key={KEY}"))) as server:
        exchange = ask(server.url)
    assert (exchange.ending, exchange.status, exchange.redirect_to) == ("complete", 307, other.url)
    assert other.requests == []
    assert KEY not in repr(exchange)


@pytest.mark.parametrize("status", [301, 302, 303])
def test_a_redirect_that_would_turn_a_post_into_a_get_is_only_reported(status: int) -> None:
    with Server(says(_redirect(status, "/other"))) as server:
        exchange = ask(server.url)
    assert (exchange.status, len(server.requests)) == (status, 1)
    assert exchange.redirect_to == f"http://127.0.0.1:{server.port}/other"


def test_redirects_in_a_circle_end() -> None:
    with Server(says(_redirect(308, "/again"))) as server:
        exchange = ask(server.url)
    assert (exchange.status, len(server.requests), len(exchange.redirects)) == (308, 6, 5)


# TLS


def test_tls_has_its_own_stamp_and_its_certificate_is_told(pem: Path) -> None:
    script = says(CHUNKED, *map(chunk, EVENTS), LAST, gap_s=0.02)
    with Server(script, tls_server(pem)) as server:
        exchange = ask(server.url, ca_file=str(pem))
    assert (exchange.ending, exchange.body) == ("complete", b"".join(EVENTS))
    phases = exchange.phases
    assert phases.connect is not None
    assert phases.tls is not None
    assert phases.sent is not None
    assert phases.connect < phases.tls < phases.sent
    assert exchange.fact("cert_issuer") == "O=Test Authority, CN=stream.test"
    assert len(exchange.reads) >= 4


def test_an_untrusted_certificate_ends_before_anything_is_sent(pem: Path) -> None:
    with Server(says(CHUNKED + LAST), tls_server(pem)) as server:
        exchange = ask(server.url)
    assert exchange.ending == "tls"
    assert "self-signed" in exchange.detail or "self signed" in exchange.detail
    assert exchange.certificate is not None
    assert exchange.certificate.self_signed
    assert exchange.certificate.subject == "O=Test Authority, CN=stream.test"
    assert [request for request in server.requests if request.strip()] == []


def test_an_expired_certificate_and_one_for_another_host_are_told(tmp_path: Path) -> None:
    expired = certificate(tmp_path, days=-1)
    with Server(says(CHUNKED + LAST), tls_server(expired)) as server:
        exchange = ask(server.url, ca_file=str(expired))
        assert (exchange.ending, "expired" in exchange.detail) == ("tls", True)
    other = certificate(tmp_path, name="other.example")
    with Server(says(CHUNKED + LAST), tls_server(other)) as server:
        exchange = ask(server.url, ca_file=str(other))
        assert (exchange.ending, "127.0.0.1" in exchange.detail) == ("tls", True)


def test_without_verification_the_certificate_is_told_all_the_same(pem: Path) -> None:
    with Server(says(CHUNKED + LAST), tls_server(pem)) as server:
        exchange = ask(server.url, verify=False)
    assert (exchange.ending, exchange.fact("cert_issuer")) == ("complete", "O=Test Authority, CN=stream.test")


def test_connect_to_keeps_the_name_in_the_handshake(tmp_path: Path) -> None:
    named = certificate(tmp_path, name="public.example")
    with Server(says(CHUNKED + LAST), tls_server(named)) as server:
        exchange = ask("https://public.example/v1", connect_to=f"127.0.0.1:{server.port}", ca_file=str(named))
    assert (exchange.ending, server.names) == ("complete", ["public.example"])


def test_a_port_without_tls_is_told() -> None:
    with Server(says(b"HTTP/1.1 400 Bad Request\r\n\r\n")) as server:
        exchange = ask(server.url.replace("http:", "https:"))
    assert (exchange.ending, exchange.detail) == (
        "tls",
        "what answers on that port speaks no TLS (is it http:// there?)",
    )


def test_tls_that_ends_without_farewell_leaves_a_body_without_length_in_doubt(pem: Path) -> None:
    def script(plug: socket.socket, _: bytes) -> None:
        plug.sendall(OK + b"\r\n" + EVENTS[0])
        plug.close()

    with Server(script, tls_server(pem)) as server:
        exchange = ask(server.url, ca_file=str(pem))
    assert (exchange.ending, exchange.framing_error, exchange.body) == ("complete", "tls_cut", EVENTS[0])


def test_authorities_that_cannot_be_read_are_a_value() -> None:
    assert ask("https://127.0.0.1:1/", ca_file="/nowhere.pem").ending == "tls"


# HTTP/2


def h2_answer(pem: Path, script: Callable[[H2], None], steps: Steps | None = None) -> tuple[Exchange, Server]:
    """What the client makes of an HTTP/2 server."""
    context = tls_server(pem, ("h2", "http/1.1"))
    request = Request("", body=PROMPT, ca_file=str(pem), http2=True)
    with Server(lambda plug, _: script(H2(plug)), context) as server:
        shown = steps.shown if steps is not None else None
        return send(replace(request, url=server.url), Limits(total_s=30), on_read=shown), server


def test_http2_gives_reads_and_stamps_too(pem: Path) -> None:
    steps = Steps()

    def script(peer: H2) -> None:
        peer.headers((b"via", b"2 edge"))
        for event in EVENTS:
            peer.data(event, end=event is EVENTS[-1])
            steps.wait()

    exchange, server = h2_answer(pem, script, steps)
    assert (exchange.ending, exchange.http_version, exchange.body) == ("complete", "HTTP/2", b"".join(EVENTS))
    assert [read.data for read in exchange.reads if read.data] == EVENTS
    assert all(read.wire_bytes >= read.payload_bytes + 9 for read in exchange.reads if read.data)
    assert exchange.fact("via") == "2 edge"
    assert exchange.phases.headers is not None
    assert server.alpn == ["h2"]


def test_http2_is_only_spoken_where_it_is_wanted(pem: Path) -> None:
    context = tls_server(pem, ("h2", "http/1.1"))
    with Server(says(CHUNKED + LAST), context) as server:
        assert ask(server.url, ca_file=str(pem)).http_version == "HTTP/1.1"
    with Server(says(CHUNKED + LAST), tls_server(pem)) as server:
        assert ask(server.url, ca_file=str(pem), http2=True).http_version == "HTTP/1.1"


def test_headers_of_http1_over_http2_are_a_fact(pem: Path) -> None:
    def script(peer: H2) -> None:
        peer.headers((b"connection", b"keep-alive"), (b"transfer-encoding", b"chunked"))
        peer.data(EVENTS[0], end=True)
        peer.plug.recv(1)

    exchange, _ = h2_answer(pem, script)
    assert exchange.fact("connection_headers") == "connection, transfer-encoding"
    assert (exchange.ending, exchange.body) == ("complete", EVENTS[0])


def _reset(peer: H2) -> None:
    peer.state.reset_stream(peer.stream, error_code=2)
    peer.flush()


def _goaway(peer: H2) -> None:
    peer.state.close_connection(error_code=0)
    peer.flush()


def _too_short(peer: H2) -> None:
    peer.data(b"", end=True)


def _nothing(_: H2) -> None:
    pass


def _garbage(peer: H2) -> None:
    peer.plug.sendall(b"\0\0\1\4\0\0\0\0\0x")  # settings of one byte


@pytest.mark.parametrize(
    ("end", "ending", "error"),
    [
        (_reset, "incomplete", "h2_reset"),
        (_goaway, "incomplete", "h2_goaway"),
        (_too_short, "incomplete", "h2_length"),
        (_nothing, "incomplete", "h2_closed"),
        (_garbage, "protocol", None),
    ],
)
def test_http2_tells_how_an_answer_broke_off(
    pem: Path, end: Callable[[H2], None], ending: str, error: str | None
) -> None:
    def script(peer: H2) -> None:
        peer.headers((b"content-length", b"100"))
        peer.data(EVENTS[0])
        time.sleep(0.1)
        end(peer)
        if end is not _nothing:
            peer.plug.recv(1)

    exchange, _ = h2_answer(pem, script)
    assert (exchange.ending, exchange.framing_error, exchange.body) == (ending, error, EVENTS[0])


def test_a_gigabyte_over_http2_is_not_read(pem: Path) -> None:
    def script(peer: H2) -> None:
        peer.headers()
        for _ in range(1024):
            while peer.state.local_flow_control_window(peer.stream) < 16384:
                list(peer._events())
            peer.data(b"x" * 16384)

    context = tls_server(pem, ("h2",))
    with Server(lambda plug, _: script(H2(plug)), context) as server:
        exchange = ask(server.url, Limits(read_bytes=1 << 20), ca_file=str(pem), http2=True)
    assert exchange.ending == "too_large"


# What is kept


def test_only_the_fixed_list_of_headers_is_kept_and_nothing_private() -> None:
    secret = b"Set-Cookie: session=abcdef\r\nX-Request-Id: 7\r\nServer: nginx/1.22\r\nCache-Control: no-cache\r\n"
    more = b"Retry-After: 7\r\nX-Accel-Buffering: no\r\nVia: 1.1 a\r\nVia: 1.1 b\r\n"
    exchange = answer(OK + secret + more + b"Transfer-Encoding: chunked\r\n\r\n" + LAST)
    assert exchange.facts == (
        ("http_version", "HTTP/1.1"),
        ("status", "200"),
        ("content_type", "text/event-stream"),
        ("transfer_encoding", "chunked"),
        ("cache_control", "no-cache"),
        ("x_accel_buffering", "no"),
        ("via", "1.1 a, 1.1 b"),
        ("server", "nginx/1.22"),
        ("retry_after", "7"),
    )
    assert not any(word in repr(exchange) for word in (KEY, "session", "private question"))
    assert KEY not in repr(Request(f"http://user:{KEY}@h/?key={KEY}", headers=(("a", KEY),), body=KEY.encode()))


def test_accept_encoding_and_the_users_headers_are_sent_as_given() -> None:
    with Server(says(CHUNKED + LAST)) as server:
        ask(server.url, accept_encoding="gzip, br")
        ask(server.url, accept_encoding=None)
        send(Request(server.url, method="GET", headers=(("User-Agent", "mine"),)))
    first, second, third = server.requests
    assert b"accept-encoding: gzip, br\r\n" in first.lower()
    assert b"accept-encoding" not in second.lower()
    assert third.startswith(b"GET ")
    assert b"user-agent: mine\r\n" in third.lower()
    assert json.loads(first.partition(b"\r\n\r\n")[2]) == json.loads(PROMPT)
