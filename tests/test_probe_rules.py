"""A probe's rows through the rules: which place changes the stream, by what, and which streams are left alone.

The traces are real ones: our reference server, relays before it and small servers with one fault each, over sockets of
this machine. Nothing rests on how fast that is, only on how the places compare."""

import http.client
import json
import socket
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from http.server import HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from llmdoctor import ingest, rulebook
from llmdoctor.diagnose import Diagnosis, diagnose
from llmdoctor.probe.asking import Target
from llmdoctor.probe.canary import Settings, canary
from llmdoctor.probe.holding import Hold
from llmdoctor.probe.plan import BASE_TOKENS, BROWSER, LONG_TOKENS, SHORT_TOKENS, Hop, Plan, Step
from llmdoctor.probe.relay import relay
from llmdoctor.probe.run import run
from llmdoctor.probe.serving import Answer, Serving, serve
from llmdoctor.probe.trace import rows
from llmdoctor.store import Store

PATH = "/v1/chat/completions"
MODEL = Settings(tokens=4000, first_ms=80, gap_ms=5)
BOOK = rulebook.load()

Open = Callable[[Serving], Serving]
"""Turns a server into another one before it."""


def _event(text: str, reason: str | None = None, kind: str = "content") -> bytes:
    call = [{"index": 0, "id": "c", "function": {"name": "f", "arguments": text}}]
    delta = {kind: call if kind == "tool_calls" else text} if text else {}
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return b"data: " + json.dumps({"id": "x", "pad": "." * 150, "choices": [choice]}).encode() + b"\n\n"


class _App(Answer):
    """An application that is no good: `kind` says how. Its model takes 80 ms and 5 ms a token."""

    kind = ""
    stalled: tuple[str, ...] = ()
    server_version = "uvicorn"

    def do_GET(self) -> None:  # noqa: N802 - http.server calls it by this name
        self.answer_json({"data": []})

    def do_POST(self) -> None:  # noqa: N802 - http.server calls it by this name
        asked = json.loads(self.read_body(1 << 20))
        wanted = int(asked.get("max_tokens") or asked.get("max_completion_tokens") or 100)
        if not asked.get("stream") or self.kind == "json":
            time.sleep(0.08 + 0.005 * wanted)
            message = {"role": "assistant", "content": "word " * wanted}
            self.answer_json({"id": "x", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})
            return
        self._stream(wanted, "tools" in asked)

    def _stream(self, wanted: int, with_tools: bool) -> None:
        guard = {"x-litellm-applied-guardrails": "answers"} if self.kind == "guarded" else {}
        self.begin(200, {"Content-Type": "text/event-stream"} | guard)
        late = self.kind in ("burst", "paced", "guarded") or (self.kind == "tools" and with_tools)
        if self.kind == "stalls" and with_tools and not self.stalled:
            type(self).stalled, late = ("once",), True
        time.sleep(0.08 + (0.005 * wanted if late else 0))
        several = 4 if self.kind == "speculative" else 1
        pieces = self._pieces(wanted, several)
        if self.kind == "terse" or (late and self.kind != "paced"):
            self.send(b"".join(pieces))
        else:
            pace = 0.003 if self.kind == "paced" else 0.005 * several
            for piece in pieces[: len(pieces) // 2] if self.kind == "cut" else pieces:
                time.sleep(pace * piece.count(b"data: "))
                self.send(piece)
        if self.kind == "cut":
            self.close_connection = True
            return
        self.send(_event("", "stop") + (b"" if self.kind == "no_end" else b"data: [DONE]\n\n"))
        self.finish_stream()

    def _pieces(self, wanted: int, several: int) -> list[bytes]:
        """The events of the answer, as they are sent."""
        if self.kind == "terse":
            return [_event("word ") for _ in range(5)]
        if self.kind == "calls":
            return [_event("word", kind="tool_calls") for _ in range(wanted)]
        if self.kind == "reasoning":
            first = [_event("hm ", kind="reasoning_content") for _ in range(wanted // 2)]
            return [*first, *(_event("word ") for _ in range(wanted - len(first)))]
        if self.kind == "paired":
            return [_event("word ") + _event("word ") for _ in range(wanted // 2)]
        return [_event("word " * several) for _ in range(wanted // several)]


class _Corked(Answer):
    """A proxy whose socket waits for more to send, as long as the kernel lets it."""

    upstream = ""

    def do_POST(self) -> None:  # noqa: N802 - http.server calls it by this name
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
        place = urlsplit(self.upstream)
        connection = http.client.HTTPConnection(place.hostname or "", place.port)
        connection.request("POST", self.path, self.read_body(1 << 20), {"Content-Type": "application/json"})
        response = connection.getresponse()
        self.begin(200, {"Content-Type": "text/event-stream"})
        while piece := response.read1(1 << 16):
            self.send(piece)
        self.finish_stream()
        connection.close()


class _Gzip(Answer):
    """A proxy that compresses and never flushes."""

    upstream = ""

    def do_POST(self) -> None:  # noqa: N802 - http.server calls it by this name
        place = urlsplit(self.upstream)
        connection = http.client.HTTPConnection(place.hostname or "", place.port)
        packed = "gzip" in self.headers.get("Accept-Encoding", "")
        connection.request("POST", self.path, self.read_body(1 << 20), {"Content-Type": "application/json"})
        response = connection.getresponse()
        headers = {"Content-Type": "text/event-stream", "Server": "express"}
        self.begin(200, headers | ({"Content-Encoding": "gzip"} if packed else {}))
        coder = zlib.compressobj(wbits=31)
        while piece := response.read1(1 << 16):
            self.send(coder.compress(piece) if packed else piece)
        self.send(coder.flush() if packed else b"")
        self.finish_stream()
        connection.close()


def _model(**changed: Any) -> Serving:
    return canary(settings=replace(MODEL, **changed))


def _app(kind: str) -> Serving:
    return serve("127.0.0.1", 0, type("App", (_App,), {"kind": kind}))


def _one_at_a_time() -> Serving:
    """A server that answers nobody else while it streams."""
    return Serving(HTTPServer(("127.0.0.1", 0), type("App", (_App,), {})))  # type: ignore[arg-type]  # not threading


def _held(hold: str) -> Open:
    return lambda server: relay(server.url, Hold.parse(hold))


def _compressing(server: Serving) -> Serving:
    return serve("127.0.0.1", 0, type("Gzip", (_Gzip,), {"upstream": server.url}))


def _corking(server: Serving) -> Serving:
    return serve("127.0.0.1", 0, type("Corked", (_Corked,), {"upstream": server.url}))


def _steps(hops: Sequence[Hop]) -> Iterator[Step]:
    for _ in range(3):
        yield from (Step(hop, "stream", BASE_TOKENS) for hop in hops)
    for hop in hops:
        yield Step(hop, "short", SHORT_TOKENS)
        yield Step(hop, "encoded", encoding=BROWSER)
        yield Step(hop, "long", LONG_TOKENS)
        yield Step(hop, "tools", tools=True)
    yield Step(hops[0], "whole", stream=False)
    yield Step(hops[0], "pair", beside="pair")
    yield Step(hops[0], "cheap", beside="cheap")


def _streams(hops: Sequence[Hop]) -> Iterator[Step]:
    """What `--quick` asks for."""
    for _ in range(3):
        yield from (Step(hop, "stream", BASE_TOKENS) for hop in hops)


def _probed(
    start: Callable[[], Serving],
    before: Sequence[Open],
    shown: Sequence[str],
    steps: Callable[[Sequence[Hop]], Iterator[Step]] = _steps,
) -> list[dict[str, Any]]:
    """The rows of a probe: a server, relays before it, and which of those places are asked."""
    with ExitStack() as stack:
        servers = [stack.enter_context(start())]
        for one in before:
            servers.append(stack.enter_context(one(servers[-1])))
        places = dict(zip(("direct", "public", "edge"), servers, strict=False))
        hops = [Hop(name, places[name].url + PATH) for name in shown]
        return [row for trace in run(Target("openai_chat", "m"), Plan(tuple(steps(hops)))) for row in rows(trace)]


BOTH = ("direct", "public")


def _quick(start: Callable[[], Serving], *before: Open) -> Callable[[], list[dict[str, Any]]]:
    """Streams only, over the server and what is before it."""
    return partial(_probed, start, before, BOTH[: len(before) + 1], _streams)


CASES: Mapping[str, Callable[[], list[dict[str, Any]]]] = {
    "whole": partial(_probed, _model, [_held("whole")], BOTH),
    "whole seen from outside": partial(_probed, _model, [_held("whole")], ("public",)),
    "passed on": partial(_probed, _model, [_held("none")], BOTH),
    "4096": partial(_probed, _model, [_held("4096")], BOTH),
    "250ms": partial(_probed, _model, [_held("250ms")], BOTH),
    "edge only": partial(_probed, _model, [_held("none"), _held("16k")], ("direct", "public", "edge")),
    "compressed": partial(_probed, _model, [_compressing], BOTH),
    "faked": partial(_probed, partial(_app, "burst"), [_held("none")], BOTH),
    "faked at a pace": partial(_probed, partial(_app, "paced"), [], ("direct",)),
    "tools": partial(_probed, partial(_app, "tools"), [_held("none")], BOTH),
    "one stall": partial(_probed, partial(_app, "stalls"), [], ("direct",)),
    "document": partial(_probed, partial(_app, "json"), [], ("direct",)),
    "no end mark": partial(_probed, partial(_app, "no_end"), [], ("direct",)),
    "cut in the middle": partial(_probed, partial(_app, "cut"), [], ("direct",), _streams),
    "several tokens an event": partial(_probed, partial(_app, "speculative"), [_held("none")], BOTH),
    "one at a time": partial(_probed, _one_at_a_time, [], ("direct",)),
    "short answers": partial(
        _probed, partial(canary, settings=Settings(tokens=6, first_ms=300, gap_ms=1)), [], ("direct",)
    ),
    "behind": _quick(partial(_model, gap_ms=25), _held("behind")),
    "slowed": _quick(_model, _held("8k/s")),
    "two lumps, the second 200 ms behind": _quick(partial(_model, gap_ms=6), _held("16k")),
    "cut at a deadline": _quick(partial(_model, gap_ms=25), _held("deadline=1500ms")),
    "cut at a deadline with heartbeats": _quick(
        partial(_model, first_ms=2000, heartbeat_ms=150), _held("deadline=1500ms")
    ),
    "cut for silence": _quick(partial(_model, first_ms=1800), _held("idle=1200ms")),
    "corked": _quick(partial(_model, gap_ms=10), _corking),
    "guarded": partial(_probed, partial(_app, "guarded"), [_held("none")], BOTH),
    "both whole": _quick(partial(_app, "burst"), _held("none")),
    "long prefill": _quick(partial(_model, first_ms=2000), _held("none")),
    "2 ms a token": _quick(partial(_model, gap_ms=2), _held("none")),
    "heartbeats": _quick(partial(_model, first_ms=900, heartbeat_ms=100), _held("none")),
    "reasoning first": _quick(partial(_app, "reasoning"), _held("none")),
    "tool calls only": _quick(partial(_app, "calls"), _held("none")),
    "two events a read": _quick(partial(_app, "paired"), _held("none")),
    "short answer in one read": _quick(partial(_app, "terse"), _held("none")),
}


@pytest.fixture(scope="session")
def traces() -> dict[str, list[dict[str, Any]]]:
    """The rows of every case; a few at a time, since they mostly wait."""
    with ThreadPoolExecutor(4) as pool:
        return dict(zip(CASES, pool.map(lambda case: case(), CASES.values()), strict=True))


@pytest.fixture
def judged(traces: dict[str, list[dict[str, Any]]], tmp_path: Path) -> Callable[..., Diagnosis]:
    """The diagnosis of one case, its rows changed by `change` first."""

    def judge(case: str, change: Callable[[dict[str, Any]], dict[str, Any]] = lambda row: row) -> Diagnosis:
        path = tmp_path / "trace.jsonl"
        quiet = [row | {"value": "0.4"} if row.get("name") == "loop_lag_ms" else row for row in traces[case]]
        path.write_text("".join(json.dumps(change(row)) + "\n" for row in quiet))
        with Store() as store:
            store.create()
            ingest.read(store, [str(path)])
            return diagnose(store, BOOK)

    return judge


Judged = Callable[..., Diagnosis]


def _findings(diagnosis: Diagnosis) -> set[tuple[str, str]]:
    return {(one.id, one.subject) for one in diagnosis.present}


@pytest.mark.parametrize(
    ("case", "place", "cause"),
    [
        ("whole", "public", "full_body_buffering"),
        ("4096", "public", "proxy_buffering"),
        ("250ms", "public", "timer_flush"),
        ("edge only", "edge", "proxy_buffering"),
        ("compressed", "public", "compression_buffering"),
        ("faked", "direct", "fake_streaming"),
        ("tools", "direct", "tools_buffering"),
        ("behind", "public", "one_event_behind"),
        ("corked", "public", "nagle_delay"),
        ("guarded", "direct", "guardrail_holdback"),
    ],
)
def test_the_place_and_the_cause_are_named(judged: Judged, case: str, place: str, cause: str) -> None:
    found = judged(case)
    assert ("burst_delivery", f"hop={place}") in _findings(found)
    assert {one.subject for one in found.present if one.id == "burst_delivery"} == {f"hop={place}"}
    assert found.causes[0].id == cause
    assert found.causes[0].confidence >= 0.7
    assert all(other.confidence < 0.7 for other in found.causes[1:])
    assert found.verdict.level == "unhealthy"
    assert found.verdict.text.startswith(f"{place}: ")


def test_the_size_of_the_buffer_is_estimated(judged: Judged) -> None:
    assert "a buffer of 4 KB" in str(judged("4096").causes[0].evidence)
    assert "a buffer of 16 KB" in str(judged("edge only").causes[0].evidence)


@pytest.mark.parametrize(
    "case",
    [
        "passed on",
        "one stall",
        "several tokens an event",
        "long prefill",
        "2 ms a token",
        "heartbeats",
        "reasoning first",
        "tool calls only",
        "two events a read",
    ],
)
def test_a_live_stream_is_called_live(judged: Judged, case: str) -> None:
    found = judged(case)
    assert _findings(found) == set()
    assert found.verdict.level == "healthy"
    assert found.verdict.text.startswith("The stream is live at direct")


def test_the_rest_of_a_stream_is_no_period_of_a_timer(judged: Judged) -> None:
    found = judged("two lumps, the second 200 ms behind")
    assert found.causes[0].id == "proxy_buffering"
    assert all(one.confidence < 0.5 for one in found.causes if one.id == "nagle_delay")


def test_from_outside_it_is_held_back_or_faked(judged: Judged) -> None:
    found = judged("whole seen from outside")
    assert {"fake_streaming", "full_body_buffering"} <= {one.id for one in found.causes}
    assert all(one.confidence < 0.7 for one in found.causes)


def test_one_place_is_enough_where_the_first_token_waits_for_the_length(judged: Judged) -> None:
    found = judged("faked at a pace")
    assert ("burst_delivery", "hop=direct") in _findings(found)
    assert found.causes[0].id == "fake_streaming"


def test_a_document_is_no_stream(judged: Judged) -> None:
    found = judged("document")
    assert ("protocol_fault", "fault=json_instead_of_stream at direct") in _findings(found)
    assert found.causes[0].id == "not_streaming"


def test_a_missing_end_mark_is_a_fault_of_the_protocol(judged: Judged) -> None:
    assert ("protocol_fault", "fault=no_terminator at direct") in _findings(judged("no end mark"))


def test_who_is_cut_off_in_the_middle_is_not_told_of_a_forgotten_mark(judged: Judged) -> None:
    found = judged("cut in the middle")
    assert ("incomplete_streams", "hop=direct") in _findings(found)
    assert "missing_finish" not in {one.id for one in found.causes}


def test_a_server_that_takes_one_at_a_time_is_found(judged: Judged) -> None:
    found = judged("one at a time")
    assert _findings(found) == {("high_ttft", "hop=direct")}
    assert found.causes[0].id == "event_loop_stall"
    assert found.verdict.text.startswith("direct: ")


def test_a_rate_that_a_place_does_not_exceed_is_found(judged: Judged) -> None:
    found = judged("slowed")
    assert _findings(found) == {("slow_decode", "hop=public")}
    assert found.causes[0].id == "rate_shaping"


@pytest.mark.parametrize(
    ("case", "cause"),
    [
        ("cut at a deadline", "deadline_cut"),
        ("cut at a deadline with heartbeats", "deadline_cut"),
        ("cut for silence", "idle_timeout_cut"),
    ],
)
def test_the_timer_that_cuts_is_named_with_its_place(judged: Judged, case: str, cause: str) -> None:
    found = judged(case)
    assert {("errors", "hop=public"), ("incomplete_streams", "hop=public")} == _findings(found)
    assert found.causes[0].id == cause
    assert all(other.confidence < found.causes[0].confidence for other in found.causes[1:])
    assert found.verdict.text.startswith("public: ")


def test_one_event_behind_is_found_without_stamps_too(judged: Judged) -> None:
    found = judged("behind", lambda row: {key: value for key, value in row.items() if key != "sent_at_ms"})
    assert found.causes[0].id == "one_event_behind"


def test_where_nothing_streams_anywhere_it_is_said(judged: Judged) -> None:
    found = judged("both whole")
    assert _findings(found) == {("burst_delivery", "hop=direct")}
    assert found.causes[0].id == "fake_streaming"


@pytest.mark.parametrize("case", ["short answers", "short answer in one read"])
def test_answers_too_short_to_judge_are_not_judged(judged: Judged, case: str) -> None:
    found = judged(case)
    assert _findings(found) == set()
    assert found.verdict.level == "undetermined"


def test_a_header_that_is_used_up_inside_names_the_second_proxy(judged: Judged) -> None:
    def sent(row: dict[str, Any]) -> dict[str, Any]:
        inner = str(row.get("request_id", "")).startswith("direct") and row.get("name") == "cache_control"
        return row | {"name": "x_accel_buffering", "value": "no"} if inner else row

    assert judged("4096", sent).causes[0].id == "inner_hop_consumes_header"


def test_a_lagging_client_is_not_believed(judged: Judged) -> None:
    found = judged("whole", lambda row: row | {"value": "40"} if row.get("name") == "loop_lag_ms" else row)
    assert found.verdict.level == "undetermined"
    assert "40 ms late" in found.verdict.text
    assert found.causes == ()


def test_the_fix_is_that_of_the_product_that_the_headers_name(judged: Judged) -> None:
    def renamed(row: dict[str, Any]) -> dict[str, Any]:
        return row | {"value": "1.1 Caddy"} if row.get("name") == "via" else row

    assert judged("whole", renamed).causes[0].fix[0].product == "Caddy"
