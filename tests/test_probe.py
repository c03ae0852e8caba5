"""The probe from end to end: real sockets, a stand-in model server, a relay that holds streams back."""

import contextlib
import json
import os
import pty
import re
import subprocess
import sys
import termios
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from llmdoctor.ingest import read
from llmdoctor.probe.asking import Target
from llmdoctor.probe.canary import Settings, canary
from llmdoctor.probe.holding import Hold
from llmdoctor.probe.plan import Hop, Plan, Step, plan
from llmdoctor.probe.relay import relay
from llmdoctor.probe.run import run
from llmdoctor.probe.trace import rows
from llmdoctor.store import Store
from tests.wires import Server, says

PATH = "/v1/chat/completions"
FAST = Settings(tokens=40, first_ms=60, gap_ms=8)


@pytest.fixture
def served() -> Iterator[str]:
    with canary(settings=FAST) as server:
        yield server.url


@pytest.fixture
def held(served: str) -> Iterator[str]:
    with relay(served, Hold.parse("whole")) as server:
        yield server.url


def cli(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "llmdoctor", "probe", *words]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=120)


def test_a_trace_is_a_native_log_of_what_was_sent_and_seen(served: str) -> None:
    traces = list(run(Target("openai_chat", "m"), plan([Hop("direct", served + PATH)], repeat=2)))
    written = [row for trace in traces for row in rows(trace)]
    attempts = [row for row in written if "table" not in row]
    assert [row["request_id"] for row in attempts[:2]] == ["direct-stream-1", "direct-stream-2"]
    assert {row["variant"] for row in attempts} >= {
        "stream",
        "short",
        "encoded",
        "whole",
        "long",
        "pair",
        "cheap",
        "tools",
    }
    stream = attempts[0]
    assert (stream["outcome"], stream["chunks"], stream["output_tokens"]) == ("completed", 40, 40)
    assert 50 < stream["ttft_ms"] < stream["total_ms"]
    whole = next(row for row in attempts if row["variant"] == "whole")
    assert "ttft_ms" not in whole
    assert whole["outcome"] == "completed"
    short = next(row for row in attempts if row["variant"] == "short")
    assert short["chunks"] == 16
    kinds = [row["kind"] for row in written if row.get("table") == "chunks" and row["request_id"] == "direct-stream-1"]
    assert kinds.count("text") == 40
    assert kinds[-1] == "terminal"
    assert any(row.get("name") == "http_version" and row["value"] == "HTTP/1.1" for row in written)


def test_each_piece_says_what_it_took_on_the_wire_and_when_it_was_sent(served: str) -> None:
    hops = [Hop("direct", served + PATH)]
    [trace] = list(run(Target("openai_chat", "m"), plan(hops, repeat=1, quick=True)))
    chunks = [row for row in rows(trace) if row.get("table") == "chunks"]
    assert sum(row["wire_bytes"] for row in chunks) <= trace.exchange.wire_bytes
    assert all(row["wire_bytes"] == 0 or row["wire_bytes"] > row["bytes"] for row in chunks)
    stamped = [row for row in chunks if row["kind"] == "text"]
    assert all(0 < row["sent_at_ms"] <= row["at_ms"] for row in stamped)
    assert stamped == sorted(stamped, key=lambda row: row["sent_at_ms"])
    assert "sent_at_ms" not in chunks[-1]  # [DONE] bears no stamp


def test_a_document_has_no_first_token(tmp_path: Path) -> None:
    answer = json.dumps(
        {"choices": [{"index": 0, "message": {"content": "all of it"}, "finish_reason": "stop"}]}
    ).encode()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(answer)
    with Server(says(head + answer)) as server:
        cli(server.url, "--quick", "--repeat", "2", "--save", "t.jsonl", cwd=tmp_path)
    with Store() as store:
        store.create()
        read(store, [str(tmp_path / "t.jsonl")])
        assert store.run("select count(*), count(ttft_ms), count(chunks), min(outcome) from attempts") == [
            (2, 0, 0, "completed")
        ]


def test_a_long_answer_that_is_cut_is_asked_for_once_more() -> None:
    slow = Settings(tokens=400, first_ms=20, gap_ms=20)
    steps = (Step(Hop("direct", ""), "long", 12), Step(Hop("direct", ""), "long", 200))
    with canary(settings=slow) as server, relay(server.url, Hold.parse("deadline=1100ms")) as cut:
        hop = Hop("public", cut.url + PATH)
        wanted = Plan(tuple(replace(step, hop=hop) for step in steps))
        traces = list(run(Target("openai_chat", "m"), wanted))
        without = list(run(Target("openai_chat", "m"), replace(wanted, spare=0)))
    assert len(without) == 2, "the budget holds no more"
    assert [trace.request_id for trace in traces] == ["public-long-1", "public-long-2", "public-long-3"]
    assert [trace.exchange.ending for trace in traces] == ["complete", "incomplete", "incomplete"]


def test_a_terminal_shows_the_answers_as_they_arrive_and_is_left_clean(served: str, held: str, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    command = [sys.executable, "-m", "llmdoctor", "probe", held + PATH, "--direct", served, "--quick", "--repeat", "2"]
    environment = os.environ | {"TERM": "xterm"}
    with subprocess.Popen(command, cwd=tmp_path, stdout=-1, stderr=theirs, env=environment) as process:
        os.close(theirs)
        seen = b""
        with contextlib.suppress(OSError):  # how Linux says that the other end is closed
            while piece := os.read(ours, 4096):
                seen += piece
        process.communicate(timeout=120)
    os.close(ours)
    frames = seen.decode().split("\x1b[J")
    assert any("llmdoctor: request 1 of 4: direct, stream, " in frame for frame in frames)
    assert any(re.search(r"\n  direct ·*│+", frame) and "\n  public" in frame for frame in frames)
    assert re.fullmatch(r"\r(\x1b\[\d+A)?", frames[-2])
    assert frames[-1] == ""
    assert all(len(line) < 80 for frame in frames for line in re.sub(r"\x1b\[\d*[A-Z]", "", frame).splitlines())


def test_without_a_terminal_there_are_no_control_characters(served: str, tmp_path: Path) -> None:
    done = cli(served + PATH, "--quick", "--repeat", "1", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stderr == ""
    assert "\x1b" not in done.stdout
    assert "\r" not in done.stdout


def test_a_saved_trace_analyzed_says_what_the_probe_said(served: str, held: str, tmp_path: Path) -> None:
    probed = cli(held + PATH, "--direct", served, "--quick", "--save", "t.jsonl", "--json", "p.json", cwd=tmp_path)
    assert probed.returncode == 0, probed.stderr
    command = [sys.executable, "-m", "llmdoctor", "analyze", "t.jsonl", "--json", "a.json", "-q"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    found, again = (json.loads((tmp_path / name).read_text()) for name in ("p.json", "a.json"))
    for key in ("symptoms", "causes", "metrics", "arrivals", "window"):
        assert found[key] == again[key]
    assert [one["hop"] for one in found["arrivals"]] == ["direct", "public"]
    assert len(found["arrivals"][0]["lumps"]) > 20
    assert len(found["arrivals"][1]["lumps"]) <= 3
    assert any(one["id"] == "burst_delivery" and one["state"] == "present" for one in found["symptoms"])


def test_the_picture_shows_where_the_stream_was_held(served: str, held: str, tmp_path: Path) -> None:
    said = cli(held + PATH, "--direct", served, "--quick", cwd=tmp_path).stdout.splitlines()
    at = next(number for number, line in enumerate(said) if line.startswith("How one answer arrived"))
    direct, public = said[at + 1], said[at + 2]
    assert direct.count("│") > 10
    assert public.count("│") + public.count("█") <= 2
    assert all(len(line) <= 80 for line in said)


def test_a_probe_is_told_place_by_place_and_nothing_mixes_them(served: str, held: str, tmp_path: Path) -> None:
    cli(held + PATH, "--direct", served, "--json", "r.json", "-o", "r.html", cwd=tmp_path)
    found = json.loads((tmp_path / "r.json").read_text())
    assert not [one for one in found["symptoms"] if (one["vantage"], one["subject"]) == ("probe", "all")]
    assert (found["metrics"], found["timeouts"], found["timeline"]["bins"], found["story"]) == ([], [], [], None)
    page = (tmp_path / "r.html").read_text()
    assert "Over time" not in page
    assert "How one answer arrived" in page


def test_one_place_under_two_names_is_told(served: str, tmp_path: Path) -> None:
    place = served.removeprefix("http://")
    said = cli(served + PATH, "--direct", place, "--quick", "--repeat", "1", cwd=tmp_path).stdout
    assert f"direct and public are one and the same place, {place}" in " ".join(said.split())


def test_keys_and_prompts_are_nowhere(served: str, tmp_path: Path) -> None:
    key = "sk-test-abcdEFGH1234567890abcdEFGH"
    command = [sys.executable, "-m", "llmdoctor", "probe", served + PATH, "--quick", "--repeat", "1", "--key-env", "K"]
    outputs = ["--save", "t.jsonl", "-o", "r.html", "--json", "r.json", "--md", "r.md", "--header", f"X-Extra: {key}"]
    done = subprocess.run(
        [*command, *outputs, "-v"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={"K": key, "PATH": ""},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for text in (done.stdout, done.stderr, *(path.read_text() for path in tmp_path.iterdir())):
        assert key not in text
        assert "Write the numbers" not in text


def test_a_dry_run_sends_nothing_and_shows_no_key(tmp_path: Path) -> None:
    said = cli("http://127.0.0.1:9/v1/chat/completions", "--direct", "127.0.0.1:8", "--dry-run", cwd=tmp_path)
    assert said.returncode == 0
    assert (
        "direct: http://127.0.0.1:9/v1/chat/completions (connects to 127.0.0.1:8), dialect openai_chat" in said.stdout
    )
    assert "requests, at most" in said.stdout
    secret = cli("http://me:hunter2@127.0.0.1:9/v1?key=hunter2", "--dry-run", cwd=tmp_path)
    assert "127.0.0.1: http://127.0.0.1:9/v1, dialect openai_chat\n" in secret.stdout
    assert "hunter2" not in secret.stdout


def test_a_line_end_behind_a_key_does_no_harm_and_one_within_it_is_told(served: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "llmdoctor", "probe", served + PATH, "--key-env", "K", "--dry-run"]
    for key, code in (("sk-test\n", 0), ("sk-\ntest", 2), ("sk-t\u00e9st", 2)):
        done = subprocess.run(
            command, cwd=tmp_path, env=os.environ | {"K": key}, capture_output=True, text=True, check=False
        )
        assert done.returncode == code, done.stderr
        assert "sk-" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["ftp://x"], 2, "no http or https URL"),
        (["http://127.0.0.1:1", "--hop", "x"], 2, "NAME=URL"),
        (["http://127.0.0.1:1", "--direct", "nowhere"], 2, "HOST:PORT"),
        (["http://127.0.0.1:1", "--hop", "public=http://127.0.0.1:2"], 2, "same name"),
        (["http://127.0.0.1:1", "--protocol", "smoke"], 2, "openai_chat"),
        (["http://127.0.0.1:1", "--key-env", "NO_SUCH_KEY"], 2, "NO_SUCH_KEY"),
        (["http://127.0.0.1:1", "--body", "no.json"], 2, "no.json"),
        (["http://127.0.0.1:1", "--resolve", "x"], 2, "HOST:PORT:ADDRESS"),
        (["http://127.0.0.1:1", "--resolve", "127.0.0.1:1:nowhere"], 2, "HOST:PORT:ADDRESS"),
        (["http://127.0.0.1:1", "--resolve", "127.0.0.1:99999:10.0.0.5"], 2, "HOST:PORT:ADDRESS"),
        (["http://127.0.0.1:1", "--resolve", "x.test:80:10.0.0.5"], 2, "no place that is probed"),
        (["http://127.0.0.1:1", "--direct", "127.0.0.1:99999"], 2, "HOST:PORT"),
        (["http://127.0.0.1:1", "--custom", "words=$.t"], 2, "NAME one of text, "),
        (["http://127.0.0.1:1", "--custom", "text=t"], 2, "must begin with $"),
        (["http://127.0.0.1:1", "--custom", "text=$.t", "--protocol", "tgi"], 2, "choose one"),
        (["http://127.0.0.1:1", "--quick", "--long"], 2, "choose one"),
        (["http://no.such.host.invalid"], 3, "no hop has an address"),
        (["http://127.0.0.1:1", "--direct", "127.0.0.1:2", "--budget", "1"], 3, "2 places need at least 2 requests"),
        (["http://127.0.0.1:1", "--header", "a team: x"], 2, "NAME:VALUE"),
        (["http://127.0.0.1:1", "--header", "X-Team: é"], 2, "plain ASCII"),
        (["http://127.0.0.1:1", "--idle-timeout", "nan"], 2, "nan"),
        (["http://127.0.0.1:1", "--connect-timeout", "-1"], 2, "-1"),
        (["http://127.0.0.1:1", "--save", "no/t.jsonl"], 2, "there is no folder no"),
        (["http://127.0.0.1:1", "--save", "-"], 2, "name a file"),
        (["http://127.0.0.1:1", "--save", "r", "-o", "r"], 2, "the same file"),
    ],
)
def test_what_cannot_be_probed_is_one_line(tmp_path: Path, words: list[str], code: int, says: str) -> None:
    result = cli(*words, cwd=tmp_path)
    assert (result.returncode, result.stdout) == (code, "")
    assert says in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_port_where_nothing_listens_is_an_answer_and_no_error(tmp_path: Path) -> None:
    result = cli("http://127.0.0.1:1/v1/chat/completions", "--quick", "--json", "r.json", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    found = json.loads((tmp_path / "r.json").read_text())
    assert found["arrivals"][0]["outcome"] == "failed"
    assert "no answer" in result.stdout
