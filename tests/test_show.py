"""`llmdoctor show`: both sides of one request on one axis, from real incidents and from tiny logs written here."""

import gzip
import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from llmdoctor import cli
from llmdoctor.diagnose.request import Request, look_up
from llmdoctor.ingest import read
from llmdoctor.report import columns
from llmdoctor.report import request as screen
from llmdoctor.store import Store
from tests.filled import filled

SAMPLES = Path(__file__).parents[1] / "sample_logs"
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
START = datetime(2026, 1, 5, 9, tzinfo=UTC)

Show = Callable[..., tuple[int, str, str]]
Write = Callable[..., Path]


@pytest.fixture
def show(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Show:
    """Runs the command in a folder without settings; returns exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str | Path) -> tuple[int, str, str]:
        code = cli.run(["show", *map(str, words)])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a native log of rows; `at_s` is the start in seconds, and the vantage is the file's name."""

    def log(vantage: str, *rows: Mapping[str, Any]) -> Path:
        path = tmp_path / f"{vantage}.jsonl"
        lines = []
        for row in rows:
            values = {"vantage": vantage, **row}
            if "at_s" in values:
                values["started_at"] = (START + timedelta(seconds=values.pop("at_s"))).isoformat()
            lines.append(json.dumps(values))
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path

    return log


def found(asked: str, *paths: Path, hash_ids: bool = False) -> Request:
    with Store() as store:
        store.create()
        read(store, [str(path) for path in paths])
        return look_up(store, asked, hash_ids)


def kinds(request: Request) -> list[tuple[str, int, int]]:
    return [(one.kind, one.outer, one.inner) for one in request.disagreements]


# --- real incidents


def test_a_task_that_timed_out_three_times_while_the_gateway_went_on(show: Show) -> None:
    code, text, complaints = show("9847c4c6bf", SAMPLES / "client_timeout_short")
    assert (code, complaints) == (0, "")
    assert "Request 9847c4c6bf (task_id)\n6 attempts at client, gateway" in text
    assert "client (no. 1) says timeout, gateway (no. 2) says completed, 605 ms" in text
    assert "starts 423 ms after the end of the try before (no. 1)" in text
    assert text.count("serves no. ") == 3


def test_every_attempt_names_the_line_that_it_stands_in() -> None:
    folder = SAMPLES / "client_timeout_short"
    request = found("9847c4c6bf", folder)
    assert len(request.tries) == 6
    for one in request.tries:
        path = Path(one.file)
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        assert one.line
        assert one.request_id
        assert one.request_id.encode() in raw.splitlines()[one.line - 1]


def test_any_id_of_an_attempt_and_any_vantage_lead_to_the_same_request() -> None:
    folder = SAMPLES / "client_timeout_short"
    by_task = found("9847c4c6bf", folder)
    for asked in ("cbefe646c45f", "05b6c45427e2", "9847c4c6"):
        assert [(one.file, one.line) for one in found(asked, folder).tries] == [
            (one.file, one.line) for one in by_task.tries
        ]


def test_a_proxy_in_front_of_the_gateway_is_not_taken_for_one_behind_it() -> None:
    request = found("a9fcac7d32df", SAMPLES / "cold_start")
    client, proxy, gateway = request.tries
    assert [one.vantage for one in request.tries] == ["client", "proxy", "gateway"]
    assert [join.outer for join in proxy.joins] == [client.number]
    assert [join.outer for join in gateway.joins] == [proxy.number, client.number]
    assert request.disagreements == ()


def test_an_answers_id_that_a_server_used_again_after_each_start_is_ambiguous(show: Show) -> None:
    code, text, complaint = show("chatcmpl-1", SAMPLES / "cold_start")
    assert (code, text) == (2, "")
    assert "'chatcmpl-1' names 5 requests (31db8110584e, " in complaint


SAMPLED = [(path.name, line) for path in sorted(SAMPLES.iterdir()) for line in (0, 23)]


@pytest.mark.parametrize(("folder", "line"), SAMPLED)
def test_real_requests_fit_80_columns_in_both_alphabets(folder: str, line: int) -> None:
    row = json.loads((SAMPLES / folder / "client.jsonl").read_text().splitlines()[line])
    request = found(row["request_id"], SAMPLES / folder)
    for encoding in ("utf-8", "ascii"):
        text = screen.render(request, encoding=encoding)
        assert max(columns.width(one) for one in text.splitlines()) <= 80
        assert text.isascii() or encoding == "utf-8"
    coloured = screen.render(request, colour=True)
    assert ESCAPE.sub("", coloured) == screen.render(request)
    assert "\x1b" not in screen.render(request)
    vantages = {one.vantage for one in request.tries}
    assert len(vantages) > 1
    assert not [one for one in request.disagreements if one.kind == "clock"]


# --- what is asked for


def test_a_near_miss_names_the_nearest_ids_and_where_it_looked(show: Show, write: Write) -> None:
    path = write("client", {"request_id": "order-1001", "trace_id": "ab", "at_s": 0, "total_ms": 5})
    code, text, complaint = show("order-1002", path)
    assert (code, text, complaint.count("\n")) == (3, "", 1)
    assert "near it are order-1001" in complaint
    assert "request_id, trace_id of 2 ids were searched" in complaint
    assert "in no record: incoming_id, response_id, task_id" in complaint


def test_a_log_without_ids_says_so(show: Show, write: Write) -> None:
    code, _, complaint = show("x", write("client", {"at_s": 0, "total_ms": 5}))
    assert code == 3
    assert "no attempt carries an id" in complaint


def test_a_beginning_of_many_ids_lists_five_of_them(show: Show, write: Write) -> None:
    rows = [{"request_id": f"order-{n}", "at_s": n, "total_ms": 5} for n in range(8)]
    code, text, complaint = show("ord", write("client", *rows))
    assert (code, text, complaint.count("\n")) == (2, "", 1)
    assert "'ord' begins 8 ids (order-0, order-1, order-2, order-3, order-4 and 3 more)" in complaint


def test_the_whole_id_counts_before_those_that_it_begins(write: Write) -> None:
    path = write("client", *({"request_id": one, "at_s": 0, "total_ms": 5} for one in ("a-1", "a-10", "a-11")))
    assert [one.request_id for one in found("a-1", path).tries] == ["a-1"]


def test_ids_of_the_tries_of_one_task_are_one_request(write: Write) -> None:
    rows = [{"request_id": f"job7.{n}", "task_id": "job7", "attempt": n, "at_s": n, "total_ms": 5} for n in (1, 2, 3)]
    request = found("job7.", write("client", *rows))
    assert [one.attempt for one in request.tries] == [1, 2, 3]
    assert [one.wait_ms for one in request.tries] == [None, 995.0, 995.0]


def test_an_empty_id_is_a_wrong_use(show: Show, write: Write) -> None:
    code, _, complaint = show("", write("client", {"request_id": "a", "at_s": 0, "total_ms": 5}))
    assert code == 2
    assert "REQUEST_ID is empty" in complaint


def test_a_constant_in_place_of_an_id_is_no_request(show: Show, write: Write) -> None:
    rows = [{"request_id": f"r{n}", "trace_id": "none", "at_s": n, "total_ms": 5} for n in range(500)]
    path = write("client", *rows)
    assert len(found("r7", path).tries) == 1
    code, _, complaint = show("none", path)
    assert code == 2
    assert "'none' names 500 requests" in complaint


# --- what does not fit together


def attempt(request_id: str, at_s: float, total_ms: float, **more: Any) -> dict[str, Any]:
    return {"request_id": request_id, "at_s": at_s, "total_ms": total_ms, "outcome": "completed", **more}


def test_a_client_that_gave_up_before_the_gateway_was_done(show: Show, write: Write) -> None:
    client = write("client", attempt("r", 0, 30_000, outcome="timeout", timeout_phase="total"))
    gateway = write("gateway", attempt("g", 0.1, 42_000, incoming_id="r"))
    code, text, _ = show("r", client, gateway)
    assert code == 0
    assert "outcome: client (no. 1) says timeout, gateway (no. 2) says completed, 12.1 s" in " ".join(text.split())
    assert "client: timeout" in text


def test_an_inner_attempt_that_starts_before_its_outer_one_tells_of_the_clocks(show: Show, write: Write) -> None:
    client, gateway = write("client", attempt("r", 0, 1000)), write("gateway", attempt("g", -3, 900, incoming_id="r"))
    assert kinds(found("r", client, gateway)) == [("clock", 2, 1)]
    _, text, _ = show("r", client, gateway)
    told = " ".join(text.split())
    assert "gateway (no. 1) starts 3 s before the attempt that it serves, client (no. 2): their clocks differ" in told


def test_times_that_differ_by_the_resolution_of_a_log_are_no_contradiction(write: Write) -> None:
    client = write("client", attempt("r", 0, 1000))
    proxy = write("proxy", attempt("p", -0.6, 1001, incoming_id="r", time_resolution_ms=1000))
    assert kinds(found("r", client, proxy)) == []


def test_figures_of_the_two_sides_are_compared(write: Write) -> None:
    client = write("client", attempt("r", 0, 1000, stream=True, ttft_ms=200, output_tokens=40, http_status=200))
    inner = attempt("g", 0.01, 1500, incoming_id="r", stream=True, ttft_ms=700, output_tokens=44, http_status=206)
    found_kinds = [kind for kind, *_ in kinds(found("r", client, write("gateway", inner)))]
    assert found_kinds == ["status", "first token", "duration", "output tokens"]


def test_a_gateway_that_tried_again_itself_contradicts_nobody(show: Show, write: Write) -> None:
    client = write("client", attempt("r", 0, 5000, trace_id="t"))
    gateway = write(
        "gateway",
        attempt("g1", 0.1, 900, trace_id="t", outcome="failed", http_status=500),
        attempt("g2", 1.5, 3000, trace_id="t"),
    )
    request = found("r", client, gateway)
    assert kinds(request) == []
    assert [len(one.joins) for one in request.tries] == [0, 1, 0]
    _, text, _ = show("r", client, gateway)
    assert "is joined to no attempt of another vantage; it belongs here by its trace_id" in text
    assert "starts 500 ms after the end of the try before (no. 2)" in text


def test_a_server_that_noticed_that_its_caller_left_contradicts_nobody(write: Write) -> None:
    client = write("client", attempt("r", 0, 1000, outcome="timeout"))
    gateway = write("gateway", attempt("g", 0.1, 1000, incoming_id="r", outcome="cancelled"))
    assert kinds(found("r", client, gateway)) == []


def test_one_record_that_holds_both_sides_can_contradict_itself(show: Show, write: Write) -> None:
    row = attempt("r", 0, 1000, outcome="timeout", server_outcome="completed", server_total_ms=2500)
    _, text, _ = show("r", write("client", row))
    assert "client (no. 1) says timeout, the server behind it says completed, 1.5 s later" in " ".join(text.split())


def test_a_partner_by_time_alone_is_called_a_guess(show: Show, write: Write) -> None:
    client, engine = write("client", attempt("r", 0, 1000)), write("engine", attempt("e", 0.1, 800))
    _, text, _ = show("r", client, engine)
    assert "serves no. 1 (client), by time alone: a guess" in text


# --- the axis and the rest


def test_phases_are_drawn_one_after_the_other_on_the_axis(show: Show, write: Write) -> None:
    row = attempt("r", 0, 10_000, stream=True, queue_ms=4000, prefill_ms=2000, ttft_ms=7000, header_ms=50)
    request = found("r", write("engine", row))
    assert [(one.name, one.start_ms, one.duration_ms) for one in request.tries[0].phases] == [
        ("queue", 0, 4000),
        ("prefill", 4000, 2000),
        ("wait", 6000, 1000),
        ("answer", 7000, 3000),
    ]
    bar = next(line for line in screen.render(request, encoding="ascii").splitlines() if " 1 engine" in line)
    drawn = bar.split()[2]
    assert re.fullmatch("q+p+[.]+#+", drawn)
    shares = [drawn.count(one) / len(drawn) for one in "qp.#"]
    assert shares == pytest.approx([0.4, 0.2, 0.1, 0.3], abs=0.03)
    assert "queue 4 s, prefill 2 s" in " ".join(show("r", "engine.jsonl")[1].split())


def test_bars_begin_where_the_attempts_began(write: Write) -> None:
    rows = [attempt(f"r{n}", 5 * n, 5000, task_id="t", outcome="failed") for n in range(4)]
    text = screen.render(found("t", write("client", *rows)), encoding="ascii")
    bars = [line[13:-9] for line in text.splitlines() if re.match(r"  \d client", line)]
    lefts = [len(bar) - len(bar.lstrip()) for bar in bars]
    assert [round(left / lefts[1]) for left in lefts] == [0, 1, 2, 3]
    assert all(bar.rstrip().endswith("x") for bar in bars)


def test_attempts_without_a_start_are_told_in_words() -> None:
    rows = [{"request_id": "r", "at_s": 0, "outcome": "failed", "error_type": "auth"}]
    with filled(rows) as store:
        store.script("update attempts set started_at = null")
        text = screen.render(look_up(store, "r"))
    assert "client: failed, error auth" in text
    assert "start not known" in text


def test_stages_events_and_pieces_are_shown_where_they_are(show: Show, write: Write) -> None:
    at = START.isoformat()
    rows: Sequence[Mapping[str, Any]] = [
        attempt("r", 0, 2000, task_id="t", stream=True),
        {"table": "stages", "request_id": "r", "name": "retrieval", "started_at": at, "duration_ms": 250},
        {"table": "task_events", "request_id": "r", "task_id": "t", "at": at, "state": "queued", "worker": "w1"},
        *(
            {"table": "chunks", "request_id": "r", "seq": n, "at_ms": 500 + 100 * n, "kind": "text", "bytes": 9}
            for n in range(4)
        ),
    ]
    path = write("client", *rows)
    request = found("t", path)
    assert [(one.name, one.start_ms, one.duration_ms) for one in request.stages] == [("retrieval", 0, 250)]
    assert [(one.at_ms, one.state) for one in request.events] == [(0, "queued")]
    text = show("t", path)[1]
    assert "4 timed pieces, 4 with content, from 500 ms to 800 ms, longest gap 100 ms" in " ".join(text.split())
    assert "250 ms retrieval, of no. 1, starts at 0" in text
    assert "0 queued (w1)" in text


def test_of_hundreds_of_attempts_those_around_the_one_asked_for_are_told(show: Show, write: Write) -> None:
    rows = [attempt(f"r{n}", n, 5, trace_id="t") for n in range(150)]
    text = show("r120", write("client", *rows))[1]
    assert "\n121. client" in text
    assert "and 110 more attempts of it" in text


# --- outputs


def test_json_holds_the_same_request(show: Show, write: Write, tmp_path: Path) -> None:
    paths = write("client", attempt("r", 0, 1000)), write("gateway", attempt("g", 0.1, 800, incoming_id="r"))
    code, text, _ = show("r", *paths, "--json", "r.json")
    saved = json.loads((tmp_path / "r.json").read_text())
    assert code == 0
    assert saved["schema"] == "llmdoctor.request/1"
    assert [(one["vantage"], one["line"], one["start_ms"]) for one in saved["tries"]] == [
        ("client", 1, 0.0),
        ("gateway", 1, 100.0),
    ]
    assert saved["tries"][1]["joins"] == [{"outer": 1, "joined_by": "id"}]
    code, out, err = show("r", *paths, "--json", "-")
    assert json.loads(out) == saved
    assert err == text


def test_a_log_is_never_replaced(show: Show, write: Write) -> None:
    path = write("client", attempt("r", 0, 1000))
    before = path.read_bytes()
    code, _, complaint = show("r", path, "--json", path)
    assert code == 2
    assert "one of the logs" in complaint
    assert path.read_bytes() == before


def test_nothing_private_is_printed(show: Show, write: Write) -> None:
    key = "sk-proj-abcdefghijklmnop1234"
    row = attempt("r-1", 0, 1000, model=key, instance=f"https://user:{key}@host/", task_id=key, messages="PROMPT WORDS")
    path = write("client", row, {"table": "stages", "request_id": "r-1", "name": key, "duration_ms": 3})
    for words in (("r-1",), (key,), (key[:-2],)):
        code, text, complaint = show(*words, path, "--json", "x.json")
        assert (code, complaint) == (0, "")
        assert key not in text + Path("x.json").read_text()
        assert "PROMPT" not in text
    assert key not in show(key + "9", path)[2]


def test_hashed_ids_are_nowhere_in_the_clear(show: Show, write: Write) -> None:
    row = attempt("order-1001", 0, 1000, task_id="customer-7", instance="host-3")
    path = write("client", row, attempt("order-1002", 9, 1000))
    code, text, _ = show("order-1001", path, "--hash-ids", "--json", "x.json")
    told = text + Path("x.json").read_text()
    assert code == 0
    assert not [one for one in ("order-1001", "customer-7", "host-3") if one in told]
    assert "order-1001" not in show("order-1003", path, "--hash-ids")[2]


def test_terminal_sequences_of_a_log_do_not_reach_the_terminal(show: Show, write: Write) -> None:
    path = write("client", attempt("r", 0, 1000, model="a\x1b[2Jb", instance="c\u202ed"))
    _, text, _ = show("r", path, "--json", "x.json")
    assert "\x1b" not in text
    assert "\u202e" not in text + Path("x.json").read_text()


def test_a_missing_path_is_one_line(show: Show) -> None:
    code, text, complaint = show("r", "nothing.jsonl")
    assert (code, text, complaint.count("\n")) == (3, "", 1)
