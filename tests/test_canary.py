"""The canary and the relay, over real sockets, read with the probe's client."""

import http.client
import json
import socket
import threading
from typing import Any

import pytest

from llmdoctor.probe.canary import Settings, canary
from llmdoctor.probe.client import send
from llmdoctor.probe.exchange import Exchange, Limits, Request
from llmdoctor.probe.holding import Hold
from llmdoctor.probe.relay import relay
from tests.wires import CHUNKED, Server, chunk, says

QUICK = Settings(tokens=6, first_ms=30, gap_ms=20)


def _has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


def ask(url: str, query: str = "", **body: object) -> Exchange:
    """A chat request; streamed unless told otherwise."""
    asked = {"model": "canary", "messages": [{"role": "user", "content": "a private question"}], "stream": True, **body}
    headers = (("Content-Type", "application/json"),)
    request = Request(f"{url}/v1/chat/completions{query}", headers=headers, body=json.dumps(asked).encode())
    return send(request, Limits(total_s=30))


def events(exchange: Exchange) -> list[dict[str, Any]]:
    """The JSON of each event but [DONE]."""
    lines = [line.removeprefix(b"data: ") for line in exchange.body.split(b"\n") if line.startswith(b"data: {")]
    return [json.loads(line) for line in lines]


def text(exchange: Exchange) -> str:
    """What the deltas say."""
    deltas = [choice["delta"] for event in events(exchange) for choice in event["choices"]]
    return "".join(delta.get("content", "") for delta in deltas)


def test_a_stream_is_shaped_as_openais_chat_and_says_when_each_event_was_sent() -> None:
    with canary(settings=QUICK) as server:
        exchange = ask(server.url)
    assert (exchange.ending, exchange.status) == ("complete", 200)
    assert exchange.fact("content_type") == "text/event-stream; charset=utf-8"
    assert exchange.fact("transfer_encoding") == "chunked"
    found = events(exchange)
    assert found[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert text(exchange) == "one two three four five six "
    assert found[-1]["choices"][0]["finish_reason"] == "stop"
    assert exchange.body.endswith(b"data: [DONE]\n\n")
    assert [event["canary"]["seq"] for event in found] == list(range(1, 9))
    assert {event["object"] for event in found} == {"chat.completion.chunk"}


def test_each_stamp_lies_before_the_read_that_brought_it() -> None:
    with canary(settings=QUICK) as server:
        exchange = ask(server.url)
    sent = [event["canary"]["clock_ns"] for event in events(exchange)]
    assert sent == sorted(sent)
    arrived = [
        exchange.started_ns + read.at_ms * 1e6 for read in exchange.reads for _ in range(read.data.count(b'"seq"'))
    ]
    assert all(at >= clock for at, clock in zip(arrived, sent, strict=True))
    planned = [30 + 20 * number for number in (0, 0, 1, 2, 3, 4, 5, 5)]
    assert all(event["canary"]["sent_ms"] >= due for event, due in zip(events(exchange), planned, strict=True))


def test_max_tokens_sets_the_length_and_the_finish_reason() -> None:
    with canary(settings=QUICK) as server:
        short = ask(server.url, max_tokens=2)
        newer = ask(server.url, max_completion_tokens=3)
        enough = ask(server.url, max_tokens=500)
        long = ask(server.url, "?tokens=40&gap_ms=0", max_tokens=30)
    assert text(short) == "one two "
    assert events(short)[-1]["choices"][0]["finish_reason"] == "length"
    assert text(newer).split() == ["one", "two", "three"]
    assert events(enough)[-1]["choices"][0]["finish_reason"] == "stop"
    assert len(text(long).split()) == 30


def test_usage_comes_in_a_last_event_where_it_is_asked_for() -> None:
    with canary(settings=QUICK) as server:
        exchange = ask(server.url, stream_options={"include_usage": True})
        without = ask(server.url)
    last = events(exchange)[-1]
    assert last["choices"] == []
    assert last["usage"]["completion_tokens"] == 6
    assert last["usage"]["prompt_tokens"] > 0
    assert not any("usage" in event for event in events(without))


def test_without_a_stream_the_answer_is_whole_and_takes_as_long() -> None:
    with canary(settings=QUICK) as server:
        exchange = ask(server.url, stream=False)
    answer = json.loads(exchange.body)
    assert answer["object"] == "chat.completion"
    assert answer["choices"][0]["message"]["content"] == "one two three four five six "
    assert answer["usage"]["completion_tokens"] == 6
    first_byte = exchange.phases.first_byte
    assert first_byte is not None
    assert first_byte >= QUICK.generation_s() * 1e3  # it sleeps that long


def test_nothing_of_the_question_comes_back() -> None:
    with canary(settings=QUICK) as server:
        for exchange in (ask(server.url), ask(server.url, stream=False), ask(server.url, "?gap_ms=private")):
            assert b"private question" not in exchange.body


def test_settings_stand_in_the_query_or_in_the_body() -> None:
    with canary(settings=QUICK) as server:
        assert text(ask(server.url, "?tokens=2")) == "one two "
        assert text(ask(server.url, tokens=3)) == "one two three "
        assert ask(server.url, "?accel=1").fact("x_accel_buffering") == "no"
        assert ask(server.url).fact("x_accel_buffering") is None
        close = ask(server.url, "?close=true")
    assert close.fact("transfer_encoding") is None
    assert (close.ending, text(close)) == ("complete", "one two three four five six ")


@pytest.mark.parametrize("query", ["?tokens=many", "?gap_ms=-1", "?first_ms=nan", "?max_tokens=x", "?gap_ms=1e99"])
def test_a_setting_that_cannot_be_used_is_a_400(query: str) -> None:
    with canary(settings=QUICK) as server:
        exchange = ask(server.url, query)
    assert exchange.status == 400
    assert "error" in json.loads(exchange.body)


def test_a_body_that_is_no_object_and_an_unknown_path_are_refused() -> None:
    with canary() as server:
        assert send(Request(f"{server.url}/v1/chat/completions", body=b"[1")).status == 400
        assert send(Request(f"{server.url}/v1/chat/completions", body=b"[1]")).status == 400
        assert send(Request(f"{server.url}/v1/embeddings", body=b"{}")).status == 404
        assert send(Request(f"{server.url}/favicon.ico", method="GET")).status == 404


def test_heartbeats_fill_the_silence() -> None:
    with canary(settings=QUICK) as server:
        exchange = ask(server.url, "?first_ms=200&heartbeat_ms=30")
        assert b": still here" not in ask(server.url).body
    beats = exchange.body.count(b": still here\n\n")
    assert 2 <= beats <= 7
    assert exchange.body.startswith(b": still here\n\n")
    assert text(exchange) == "one two three four five six "


def test_it_says_that_it_is_well_and_which_model_it_has() -> None:
    with canary() as server:
        well = send(Request(f"{server.url}/healthz", method="GET"))
        assert (well.status, json.loads(well.body)) == (200, {"status": "ok"})
        assert json.loads(send(Request(f"{server.url}/v1/models", method="GET")).body)["data"][0]["id"] == "canary"
        assert send(Request(f"{server.url}/v1/chat/completions?tokens=1", method="GET")).body.endswith(b"[DONE]\n\n")


def test_several_are_answered_at_once() -> None:
    found: list[Exchange] = []
    with canary(settings=Settings(tokens=20, first_ms=100, gap_ms=50)) as server:
        threads = [threading.Thread(target=lambda: found.append(ask(server.url))) for _ in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    first = [exchange.started_ns + (exchange.phases.first_byte or 0) * 1e6 for exchange in found]
    last = [exchange.started_ns + exchange.phases.end * 1e6 for exchange in found]
    assert max(first) < min(last)
    assert {text(exchange) for exchange in found} == {text(found[0])}


def test_an_http10_client_gets_no_chunks() -> None:
    with canary(settings=QUICK) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port)
        connection._http_vsn, connection._http_vsn_str = 10, "HTTP/1.0"  # type: ignore[attr-defined]  # as old proxies ask
        connection.request("GET", "/v1/chat/completions")
        response = connection.getresponse()
        assert response.getheader("transfer-encoding") is None
        assert response.read().endswith(b"data: [DONE]\n\n")


def test_one_connection_serves_several_requests() -> None:
    with canary(settings=QUICK) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port)
        for _ in range(3):
            connection.request("POST", "/v1/chat/completions", b'{"stream": true, "tokens": 1}')
            assert connection.getresponse().read().endswith(b"data: [DONE]\n\n")
        connection.close()


@pytest.mark.skipif(not _has_ipv6(), reason="this machine has no IPv6")
def test_it_listens_on_ipv6_too() -> None:
    with canary("::1", settings=QUICK) as server:
        exchange = ask(server.url)
    assert (exchange.ending, text(exchange)) == ("complete", "one two three four five six ")
    assert exchange.address == f"[::1]:{server.port}"


def test_a_request_in_chunks_is_read() -> None:
    with canary(settings=QUICK) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port)
        body = iter([b'{"stream": tr', b'ue, "tokens": 1}'])
        connection.request(
            "POST", "/v1/chat/completions", body, encode_chunked=True, headers={"Transfer-Encoding": "chunked"}
        )
        assert b'"one "' in connection.getresponse().read()
        connection.close()


# The relay


@pytest.mark.parametrize(
    ("word", "hold"),
    [
        ("whole", Hold("whole")),
        ("none", Hold("none")),
        ("4096", Hold("bytes", 4096)),
        ("16k", Hold("bytes", 16384)),
        ("250ms", Hold("period", 250)),
        (" 2S ", Hold("period", 2000)),
        ("behind", Hold("behind")),
        ("4k/s", Hold("rate", 4096)),
        ("deadline=5s", Hold("deadline", 5000)),
        ("idle=500ms", Hold("idle", 500)),
    ],
)
def test_a_hold_is_read_from_a_word(word: str, hold: Hold) -> None:
    assert Hold.parse(word) == hold


@pytest.mark.parametrize("word", ["", "0", "0ms", "all", "-5", "5m", "1.5s", "idle=4k", "deadline=5", "idle"])
def test_another_word_is_no_hold(word: str) -> None:
    with pytest.raises(ValueError, match="none of whole"):
        Hold.parse(word)


def through(hold: str, settings: Settings = QUICK) -> tuple[Exchange, Exchange]:
    """The same request directly and through a relay."""
    with canary(settings=settings) as server, relay(server.url, Hold.parse(hold)) as held:
        return ask(server.url), ask(held.url)


def test_a_relay_that_holds_nothing_changes_nothing() -> None:
    direct, relayed = through("none")
    assert text(direct) == text(relayed)
    assert len(relayed.reads) > 4
    assert relayed.fact("via") == "1.1 relay"


def test_a_relay_can_hold_the_whole_answer() -> None:
    direct, held = through("whole")
    assert text(direct) == text(held)
    assert held.fact("content_length") == str(held.payload_bytes)
    last_sent = events(held)[-1]["canary"]["clock_ns"]
    assert held.started_ns + (held.phases.headers or 0) * 1e6 > last_sent


def test_a_relay_can_hold_blocks_of_bytes() -> None:
    _, held = through("1k")
    assert held.reads[0].payload_bytes % 1024 == 0
    assert text(held) == "one two three four five six "
    first = held.started_ns + (held.phases.headers or 0) * 1e6
    assert first > events(held)[2]["canary"]["clock_ns"]  # the headers waited for the first block


def test_a_relay_can_hold_for_a_period() -> None:
    direct, held = through("60ms", Settings(tokens=15, first_ms=20, gap_ms=15))
    assert text(direct) == text(held)
    assert len([read for read in held.reads if read.data]) < len([read for read in direct.reads if read.data])


def test_a_relay_can_be_one_event_behind() -> None:
    direct, held = through("behind", Settings(tokens=6, first_ms=20, gap_ms=30))
    assert text(direct) == text(held)
    stamps = [one["canary"]["clock_ns"] for one in events(held)]
    arrived = [held.started_ns + read.at_ms * 1e6 for read in held.reads if read.data]
    assert all(at > sent for at, sent in zip(arrived, stamps[1:], strict=False))


def test_a_relay_can_limit_the_rate() -> None:
    direct, held = through("1k/s", QUICK)
    assert text(direct) == text(held)
    assert len([read for read in held.reads if read.data]) > 2 * len([read for read in direct.reads if read.data])


@pytest.mark.parametrize("hold", ["deadline=200ms", "idle=200ms"])
def test_a_relay_can_cut_a_stream(hold: str) -> None:
    direct, cut = through(hold, Settings(tokens=6, first_ms=20, gap_ms=300))
    assert direct.ending == "complete"
    assert (cut.ending, cut.framing_error) == ("incomplete", "cut_chunked")
    assert 0 < len(text(cut)) < len(text(direct))


def test_a_relay_before_nothing_answers_502_and_passes_refusals_on() -> None:
    with relay("http://127.0.0.1:9", Hold("none")) as lost:
        assert ask(lost.url).status == 502
    with canary() as server, relay(server.url, Hold("whole")) as held:
        assert ask(held.url, "?tokens=many").status == 400
    with pytest.raises(ValueError, match="no http"):
        relay("ftp://x", Hold())


def test_a_stream_that_breaks_off_behind_a_relay_breaks_off_before_it() -> None:
    with Server(says(CHUNKED + chunk(b"data: 1\n\n"))) as broken, relay(broken.url, Hold("none")) as passing:
        exchange = ask(passing.url)
    assert (exchange.ending, exchange.framing_error) == ("incomplete", "cut_chunked")
