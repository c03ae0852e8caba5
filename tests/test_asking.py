"""What a probe asks, in which dialect it reads the answer, and each dialect from its request to the finding."""

import json
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from llmdoctor import ingest, rulebook
from llmdoctor.diagnose import Diagnosis, diagnose
from llmdoctor.probe.asking import Target, body, call, models_url
from llmdoctor.probe.holding import Hold
from llmdoctor.probe.plan import LONG_TOKENS, SHORT_TOKENS, Hop, Step, plan
from llmdoctor.probe.protocols.custom import Custom
from llmdoctor.probe.relay import relay
from llmdoctor.probe.run import run
from llmdoctor.probe.trace import rows
from llmdoctor.store import Store
from tests.dialects import APIS, faked, live, speaks
from tests.wires import CHUNKED, LAST, Script, Server, chunk, says

BOOK = rulebook.load()
CHAT = Hop("public", "http://127.0.0.1/v1/chat/completions")
GEMINI = Hop("public", "http://127.0.0.1/v1beta/models/m:streamGenerateContent?alt=sse")


def _probed(name: str) -> list[dict[str, Any]]:
    """The rows of a quick probe: the API live, and a relay before it that hands on whole answers only."""
    api = APIS[name]
    with Server(speaks(api, live(0.08, 0.008))) as server, relay(server.url, Hold.parse("whole")) as outer:
        hops = [Hop("direct", f"http://127.0.0.1:{server.port}{api.path}"), Hop("public", outer.url + api.path)]
        target = Target("custom" if name == "custom" else "", "m")
        return [row for trace in run(target, plan(hops, quick=True)) for row in rows(trace)]


@pytest.fixture(scope="module")
def probed() -> Mapping[str, list[dict[str, Any]]]:
    """The rows of all dialects; a few at a time, since they mostly wait."""
    with ThreadPoolExecutor(4) as pool:
        return dict(zip(APIS, pool.map(_probed, APIS), strict=True))


@pytest.mark.parametrize("name", APIS)
def test_each_dialect_is_live_inside_and_held_back_outside(
    name: str, probed: Mapping[str, list[dict[str, Any]]], tmp_path: Path
) -> None:
    told = [row | {"value": "0.4"} if row.get("name") == "loop_lag_ms" else row for row in probed[name]]
    attempts = [row for row in told if "table" not in row]
    assert {(row["outcome"], row["chunks"], row["terminal_seen"]) for row in attempts} == {("completed", 96, True)}
    assert {row.get("output_tokens") for row in attempts} == ({None} if name == "custom" else {96})
    assert not [row for row in told if row.get("name") == "protocol_fault"]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in told))
    with Store() as store:
        store.create()
        ingest.read(store, [str(tmp_path / "t.jsonl")])
        found = diagnose(store, BOOK)
    assert {(one.id, one.subject) for one in found.present} == {("burst_delivery", "hop=public")}
    assert found.causes[0].id == "full_body_buffering"


@pytest.mark.parametrize("name", APIS)
def test_each_api_takes_every_request_of_a_probe(name: str) -> None:
    api = APIS[name]
    hop = Hop("public", f"http://127.0.0.1{api.path}")
    target = Target("custom" if name == "custom" else "", "m")
    for step in (
        Step(hop, "stream"),
        Step(hop, "short", SHORT_TOKENS),
        Step(hop, "whole", stream=False),
        Step(hop, "tools", tools=True),
    ):
        request, limit = call(target, step)
        asked, streams = api.ask(request.url, json.loads(request.body))
        assert streams == step.stream
        assert name == "custom" or asked == limit == step.max_tokens


def test_ones_own_request_is_changed_only_where_a_step_needs_it() -> None:
    own = {
        "model": "gpt-5-mini",
        "messages": [{"role": "user", "content": "Hi"}],
        "max_completion_tokens": 300,
        "stream_options": {"include_usage": True},
    }
    target = Target(body=own)
    assert body(target, Step(CHAT, "stream")) == {**own, "stream": True}
    assert body(target, Step(CHAT, "long", LONG_TOKENS)) == {
        **own,
        "stream": True,
        "max_completion_tokens": LONG_TOKENS,
    }
    whole = body(target, Step(CHAT, "whole", stream=False))
    assert "stream_options" not in whole
    assert whole["stream"] is False
    assert call(target, Step(CHAT, "stream"))[1] == 300


def test_ones_own_request_without_a_limit_gets_one_where_an_answer_is_to_be_short() -> None:
    own = {"contents": [{"parts": [{"text": "Hi"}]}], "generationConfig": {"temperature": 0}}
    target = Target(body=own)
    assert body(target, Step(GEMINI, "stream")) == own
    short = body(target, Step(GEMINI, "short", SHORT_TOKENS))
    assert short == {**own, "generationConfig": {"temperature": 0, "maxOutputTokens": SHORT_TOKENS}}
    assert call(target, Step(GEMINI, "stream"))[1] is None


@pytest.mark.parametrize(
    ("url", "models"),
    [
        ("https://x.test/v1/chat/completions", "https://x.test/v1/models"),
        ("https://x.test/api/v1/chat/completions", "https://x.test/api/v1/models"),
        ("https://x.test/v1beta/models/m:streamGenerateContent?alt=sse", "https://x.test/v1beta/models?alt=sse"),
        ("https://x.test/api/chat", "https://x.test/v1/models"),
        ("https://x.test", "https://x.test/v1/models"),
    ],
)
def test_the_models_are_listed_beside_the_call(url: str, models: str) -> None:
    assert models_url(url) == models


def test_each_place_is_asked_in_the_dialect_of_its_own_path() -> None:
    with Server(speaks(APIS["openai_chat"])) as inner, Server(speaks(APIS["anthropic_messages"])) as outer:
        hops = [Hop("direct", inner.url), Hop("public", f"http://127.0.0.1:{outer.port}/v1/messages")]
        traces = list(run(Target("", "m"), plan(hops, repeat=1, quick=True)))
    assert [(one.dialect, one.ending.outcome) for one in traces if one.ending] == [
        ("openai_chat", "completed"),
        ("anthropic_messages", "completed"),
    ]


def _diagnosed(script: Script, path: Path, quick: bool) -> Diagnosis:
    with Server(script) as server:
        traces = run(Target("", "m"), plan([Hop("url", server.url)], repeat=3, budget=12, quick=quick))
        told = [row for trace in traces for row in rows(trace)]
    quiet = [row | {"value": "0.4"} if row.get("name") == "loop_lag_ms" else row for row in told]
    path.write_text("".join(json.dumps(row) + "\n" for row in quiet))
    with Store() as store:
        store.create()
        ingest.read(store, [str(path)])
        return diagnose(store, BOOK)


def test_a_server_that_ignores_the_limit_is_not_cleared_of_faking_by_it(tmp_path: Path) -> None:
    unlimited = replace(APIS["openai_chat"], ask=lambda _, body: (96, body["stream"]))
    found = _diagnosed(
        speaks(unlimited, lambda *parts: [(0.7, b"".join(b"".join(part) for part in parts))]),
        tmp_path / "t.jsonl",
        False,
    )
    faking = next(one for one in found.causes if one.id == "fake_streaming")
    waits = next(one for one in faking.evidence if "first token waits" in one.text)
    assert waits.verdict == "for"


def test_live_is_said_with_its_reserve_where_all_answers_were_of_one_length(tmp_path: Path) -> None:
    found = _diagnosed(speaks(APIS["openai_chat"], faked(0.1, 0.01, 0.002)), tmp_path / "t.jsonl", quick=True)
    assert found.verdict.level == "healthy"
    assert "The stream is live at url, as far as answers of one length tell" in found.verdict.text
    live_one = _diagnosed(speaks(APIS["openai_chat"], live(0.1, 0.006)), tmp_path / "u.jsonl", quick=True)
    assert live_one.verdict.text.startswith("The stream is live at url. ")


def _cli(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "llmdoctor", "probe", *words]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=120)


def test_an_answer_in_another_dialect_than_its_path_is_read_and_told(tmp_path: Path) -> None:
    before, words, after = APIS["openai_chat"].events(96)
    with Server(says(CHUNKED, *(chunk(one) for one in [*before, *words, *after]), LAST, gap_s=0.005)) as server:
        done = _cli(f"http://127.0.0.1:{server.port}/api/chat", "--quick", "--json", "r.json", cwd=tmp_path)
    assert "was asked as ollama_chat and answers as openai_chat" in " ".join(done.stdout.split())
    found = json.loads((tmp_path / "r.json").read_text())
    assert [one["outcome"] for one in found["arrivals"]] == ["completed"]
    assert [one["id"] for one in found["symptoms"] if one["state"] == "present"] == []


def test_a_protocol_of_ones_own_is_described_on_the_command_line(tmp_path: Path) -> None:
    events = [b'event: word\ndata: {"d": {"t": "word "}}\n\n'] * 60 + [b"event: end\ndata: {}\n\n"]
    (tmp_path / "ask.json").write_text('{"q": "{prompt}", "n": "{max_tokens}"}')
    with Server(says(CHUNKED, *(chunk(one) for one in events), LAST, gap_s=0.005)) as server:
        words = ["--custom", "text=$.d.t", "--custom", "terminal=end", "--body", "ask.json", "--json", "r.json"]
        done = _cli(f"http://127.0.0.1:{server.port}/ask", "--quick", *words, cwd=tmp_path)
        sent = [json.loads(one.partition(b"\r\n\r\n")[2]) for one in server.requests if one.startswith(b"POST")]
    assert done.returncode == 0, done.stderr
    assert [one["n"] for one in sent] == [SHORT_TOKENS, 96, 96, 96]
    assert all("numbers from one" in one["q"] for one in sent)
    found = json.loads((tmp_path / "r.json").read_text())
    assert [(one["outcome"], one["chunks"]) for one in found["arrivals"]] == [("completed", 60)]


def test_a_framing_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="framing 'xml'"):
        Custom(FRAMING="xml")  # type: ignore[arg-type]  # as a user may write it
