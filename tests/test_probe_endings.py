"""A probe of an address where no stream comes: one clear line each time, in bounded time, and the key stays here."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from llmdoctor.probe.asking import Target
from llmdoctor.probe.plan import Hop, plan
from llmdoctor.probe.run import run
from llmdoctor.probe.trace import rows
from tests.wires import CHUNKED, LAST, Script, Server, certificate, chunk, says, silent, tls_server

KEY = "sk-test-abcdEFGH1234567890abcdEFGH"
LIMITS = ("--connect-timeout", "3", "--first-token-timeout", "1", "--idle-timeout", "1", "--total-timeout", "2")
PIECE = b'data: {"id":"x","choices":[{"index":0,"delta":{"content":"word "},"finish_reason":null}]}\n\n'


def whole(status: str, body: bytes, *headers: str, kind: str = "application/json") -> Script:
    """A script that answers with this body, whatever it is asked."""
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(body)}", *headers, "", ""]
    return says("\r\n".join(lines).encode() + body)


REFUSED_KEY = json.dumps(
    {"error": {"message": f"Incorrect API key provided: {KEY}", "code": "invalid_api_key"}}
).encode()
SIGN_IN = b"<!doctype html><html><head><title>Sign in</title></head><body>please</body></html>"
SENT = chunk(PIECE) * 40
OUT_OF_MEMORY = chunk(b'data: {"error":{"message":"CUDA out of memory","type":"server_error"}}\n\n')
NO_END = says(CHUNKED, *(chunk(PIECE) for _ in range(200)), gap_s=0.05)
ANSWERS: dict[str, tuple[Script, str, str]] = {
    "a refused key": (
        whole("401 Unauthorized", REFUSED_KEY),
        "errors",
        "it answers 401: the key is missing or refused",
    ),
    "a wrong path": (
        whole("404 Not Found", b'{"detail":"Not Found"}'),
        "errors",
        "it answers 404: no such path or model",
    ),
    "a rate limit": (
        whole("429 Too Many Requests", b'{"error":{"message":"slow down"}}', "Retry-After: 20"),
        "rate_limited",
        "it answers 429 and asks to wait 20 s",
    ),
    "a page": (whole("200 OK", SIGN_IN, kind="text/html"), "errors", "it answers with an HTML page: Sign in"),
    "another place": (
        whole("307 Temporary Redirect", b"", "Location: https://login.example.com/in?token=abc"),
        "errors",
        "it redirects to https://login.example.com/in, which was not followed",
    ),
    "a request that it refuses": (
        whole("400 Bad Request", b'{"error":{"message":"model is required","type":"invalid_request_error"}}'),
        "errors",
        "it answers 400 and says: model is required: it does not take this request (look at --protocol",
    ),
    "an unknown model": (
        whole("404 Not Found", b'{"error":{"message":"No such model here","type":"NotFoundError"}}'),
        "errors",
        "it answers 404 and says: No such model here: no such path or model",
    ),
    "an error with status 200": (
        whole("200 OK", b'{"error":{"message":"model overloaded","code":503}}'),
        "errors",
        "the answer tells an error: model overloaded",
    ),
    "an error in mid-stream": (
        says(CHUNKED, SENT, OUT_OF_MEMORY, LAST, gap_s=0.01),
        "incomplete_streams",
        "the answer tells an error: CUDA out of memory",
    ),
    "no end mark": (
        says(CHUNKED, SENT, LAST, gap_s=0.01),
        "incomplete_streams",
        "the answer is not whole: the body ends in good order but without the end mark of this API",
    ),
    "plain text": (
        whole("200 OK", b"some words " * 50, kind="text/plain"),
        "errors",
        "plain text came where an answer of this API was expected (look at the path and --protocol",
    ),
    "another API": (
        whole("200 OK", b'{"status":"ok"}'),
        "errors",
        "no event is one of this API: probably another protocol is spoken here (look at the path and --protocol",
    ),
    "a closed connection": (says(), "errors", "the connection was closed without an answer"),
    "silence": (silent, "client_timeouts", "nothing was generated within 1 s (--first-token-timeout waits longer)"),
    "no end": (NO_END, "client_timeouts", "the answer had not ended after 2 s"),
}


BEGUN = ("an error in mid-stream", "no end mark", "plain text", "another API")
"""Answers that broke off, as far as can be told: all others are none."""


def probed(work: Path, url: str, *more: str) -> tuple[dict[str, Any], str]:
    """The report of a quick probe, and all that it printed or wrote."""
    outputs = ("--json", "r.json", "-o", "r.html", "--md", "r.md", "--save", "t.jsonl", "-v")
    command = [sys.executable, "-m", "llmdoctor", "probe", url, "--quick", "--key-env", "K", *LIMITS, *outputs, *more]
    done = subprocess.run(
        command, cwd=work, env=os.environ | {"K": KEY}, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    written = "".join(path.read_text() for path in work.iterdir() if path.suffix in (".json", ".html", ".md", ".jsonl"))
    return json.loads((work / "r.json").read_text()), done.stdout + done.stderr + written


@pytest.mark.parametrize("case", ANSWERS)
def test_what_answers_in_place_of_a_stream_is_said_in_one_line(case: str, tmp_path: Path) -> None:
    script, symptom, sentence = ANSWERS[case]
    with Server(script) as server:
        found, said = probed(tmp_path, server.url)
    present = {one["id"]: one for one in found["symptoms"] if one["state"] == "present"}
    assert present[symptom]["subject"] == "hop=127.0.0.1"
    assert sentence in found["verdict"]["text"]
    assert ("incomplete_streams" in present) == (case in BEGUN)
    assert not [one for one in found["causes"] if one["layer"] == "caller"]
    assert KEY not in said
    assert "token=abc" not in said


@pytest.mark.parametrize(
    ("opened", "scheme", "sentence"),
    [
        (lambda _: None, "http", "nothing listens there: connection refused"),
        (lambda _: Server(says(CHUNKED, LAST)), "https", "what answers on that port speaks no TLS"),
        (
            lambda folder: Server(says(CHUNKED, LAST), tls_server(certificate(folder))),
            "https",
            "the certificate is not trusted",
        ),
    ],
)
def test_what_does_not_answer_at_all_is_said_in_one_line(
    opened: Callable[[Path], Server | None], scheme: str, sentence: str, tmp_path: Path
) -> None:
    folder = tmp_path / "tls"
    folder.mkdir()
    with ExitStack() as stack:
        server = opened(folder)
        if server is not None:
            stack.enter_context(server)
        port = server.port if server is not None else 1
        found, said = probed(tmp_path, f"{scheme}://127.0.0.1:{port}/v1/chat/completions")
    assert sentence in found["verdict"]["text"]
    assert found["causes"] == []
    assert KEY not in said


def test_the_place_that_does_not_answer_is_named_beside_the_one_that_does(tmp_path: Path) -> None:
    body = json.dumps({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}).encode()
    live = says(
        CHUNKED, *(chunk(PIECE) for _ in range(40)), chunk(b"data: " + body + b"\n\ndata: [DONE]\n\n"), LAST, gap_s=0.01
    )
    with Server(live) as server:
        found, _ = probed(tmp_path, "http://127.0.0.1:1/v1/chat/completions", "--direct", f"127.0.0.1:{server.port}")
    assert found["verdict"]["text"].startswith("public: calls fail, 2 of 2 attempts: nothing listens there")
    attempts = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
    asked = [one["hop"] for one in attempts if "table" not in one]
    assert (asked.count("public"), asked.count("direct")) == (2, 3)  # nobody waits a third time for what is not there


STREAM = says(
    CHUNKED,
    *(chunk(PIECE) for _ in range(40)),
    chunk(b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'),
    LAST,
    gap_s=0.005,
)


def test_nothing_that_listens_at_two_places_is_no_fault_of_the_service(tmp_path: Path) -> None:
    found, _ = probed(tmp_path, "http://127.0.0.1:1/v1/chat/completions", "--direct", "127.0.0.1:2")
    present = [one for one in found["symptoms"] if one["state"] == "present"]
    assert [(one["id"], one["subject"]) for one in present] == [("errors", "hop=direct"), ("errors", "hop=public")]
    assert all(one["reason"].startswith("nothing listens there") for one in present)
    assert found["causes"] == []


def test_what_the_outer_place_cuts_is_no_fault_of_the_service_inside(tmp_path: Path) -> None:
    cut = says(CHUNKED, *(chunk(PIECE) for _ in range(40)), gap_s=0.01)
    with Server(STREAM) as inner, Server(cut) as outer:
        found, said = probed(tmp_path, outer.url, "--direct", f"127.0.0.1:{inner.port}")
    assert found["verdict"]["text"].startswith("public: calls fail, 3 of 3 attempts: the connection was closed before")
    assert "server_errors" not in {one["id"] for one in found["causes"]}
    assert "others were not asked: no limit is broken that they would explain" in " ".join(said.split())


def test_a_key_that_a_server_quotes_is_written_nowhere(tmp_path: Path) -> None:
    quoted = b'{"error":{"message":"No account for hunter2hunter2 here","type":"invalid_request_error"}}'
    with Server(whole("400 Bad Request", quoted)) as server:
        found, said = probed(tmp_path, server.url, "--header", "Authorization: Bearer hunter2hunter2")
    assert "it answers 400 and says: No account for … here" in found["verdict"]["text"]
    assert "hunter2" not in said


def posts(server: Server) -> int:
    return sum(request.startswith(b"POST") for request in server.requests)


def test_a_silent_place_is_asked_once_and_told_beside_the_one_that_answers(tmp_path: Path) -> None:
    with Server(STREAM) as inner, Server(silent) as outer:
        found, _ = probed(tmp_path, outer.url, "--direct", f"127.0.0.1:{inner.port}")
        assert posts(outer) == 1
        assert posts(inner) == 4
    assert found["verdict"]["text"].startswith("public: calls reach a time limit before they are answered, 1 of 1")
    assert [one["hop"] for one in found["arrivals"]] == ["direct", "public"]


def test_a_place_that_refuses_is_not_hammered(tmp_path: Path) -> None:
    with Server(ANSWERS["a rate limit"][0]) as server:
        probed(tmp_path, server.url)
        assert posts(server) == 2


def test_a_first_answer_that_fails_costs_nothing_where_the_next_is_good(tmp_path: Path) -> None:
    asked: list[bytes] = []

    def script(plug: socket.socket, request: bytes) -> None:
        asked.append(request)
        first = sum(one.startswith(b"POST") for one in asked) == 1
        (whole("503 Service Unavailable", b"loading") if first else STREAM)(plug, request)

    with Server(script) as server:
        found, _ = probed(tmp_path, server.url)
    assert found["verdict"]["level"] == "healthy"
    assert {one["total"] for one in found["symptoms"] if one["id"] == "errors"} == {3}


def test_an_answer_of_any_size_is_not_read_to_its_end(tmp_path: Path) -> None:
    def script(plug: socket.socket, _: bytes) -> None:
        plug.sendall(CHUNKED)
        while True:
            plug.sendall(chunk(b": filled up to a kilobyte" + b"." * 1000 + b"\n\n" + PIECE) * 100)

    with Server(script) as server:
        found, _ = probed(tmp_path, server.url, "--total-timeout", "60")
        assert posts(server) == 2
    assert "the answer is larger than 8 MB, and is not read on" in found["verdict"]["text"]


def test_a_date_to_come_back_is_told_in_seconds() -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)
    with Server(whole("429 Too Many Requests", b"{}", f"Retry-After: {date}")) as server:
        traces = list(run(Target("openai_chat", "m"), plan([Hop("direct", server.url)], repeat=1, quick=True)))
    assert all(80_000 < next(rows(trace))["retry_after_ms"] < 92_000 for trace in traces)


def test_ctrl_c_leaves_what_was_measured(tmp_path: Path) -> None:
    with Server(says(CHUNKED, *(chunk(PIECE) for _ in range(60)), LAST, gap_s=0.02)) as server:
        command = [sys.executable, "-m", "llmdoctor", "probe", server.url, "--md", "r.md", "--save", "t.jsonl"]
        with subprocess.Popen(
            command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as running:
            while posts(server) < 4:
                time.sleep(0.05)
            running.send_signal(signal.SIGINT)
            said, complaints = running.communicate(timeout=60)
    assert running.returncode == 130, complaints
    assert "Interrupted after 2 of 12 requests" in said
    assert (tmp_path / "r.md").exists()
    assert '"request_id": "127.0.0.1-stream-2"' in (tmp_path / "t.jsonl").read_text()
