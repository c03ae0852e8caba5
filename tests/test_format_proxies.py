"""The logs of proxies: what the examples of their pages cannot show (whole files, rotations, envelopes, chains)."""

import gzip
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from llmdoctor.ingest import ReadOptions, read
from llmdoctor.ingest.detect import detect
from llmdoctor.store import Row, Store

START = datetime(2026, 11, 25, 9, 0, 0, tzinfo=UTC)
CHAT = "/v1/chat/completions"


def ended(number: int) -> datetime:
    return START + timedelta(seconds=3 * number, milliseconds=137 * number % 1000)


def took(number: int) -> float:
    return 0.5 + (number * 7919 % 4000) / 1000


def clf(at: datetime) -> str:
    return at.strftime("%d/%b/%Y:%H:%M:%S +0000")


def kv(number: int, path: str = CHAT) -> str:
    prefix = f'10.0.0.7 - - [{clf(ended(number))}] "POST {path} HTTP/1.1" 200 1648 "-" "OpenAI/Python 1.109.1"'
    return f'{prefix} rt={took(number):.3f} uct="0.000" uht="0.004" urt="{took(number):.3f}"'


def combined(number: int) -> str:
    return kv(number).split(" rt=")[0]


def as_json(number: int) -> str:
    took_text = f"{took(number):.3f}"
    return json.dumps(
        {
            "msec": f"{ended(number).timestamp():.3f}",
            "request_id": f"n-{number}",
            "uri": CHAT,
            "status": 200,
            "request_time": took_text,
            "completion": "OK",
            "upstream_addr": "10.0.7.11:8000",
            "upstream_status": "200",
            "upstream_response_time": took_text,
        }
    )


def haproxy(number: int) -> str:
    at = ended(number).strftime("%d/%b/%Y:%H:%M:%S.%f")[:-3]
    total = int(1000 * took(number))
    return f'10.0.0.7:54042 [{at}] fe be/s1 0/20/1/6/{total} 200 162 - - ---- 24/24/23/1/0 0/0 "POST {CHAT} HTTP/1.1"'


def envoy(number: int) -> str:
    at = ended(number).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    total = int(1000 * took(number))
    rest = f'"10.4.1.7" "OpenAI/Python 1.109.1" "e-{number}" "api" "10.0.7.11:8000"'
    return f'[{at}] "POST {CHAT} HTTP/1.1" 200 - 8011 18211 {total} 13 {rest}'


def traefik(number: int) -> str:
    total = int(1000 * took(number))
    return f'{combined(number)} {number} "llm@docker" "http://10.0.7.11:8000" {total}ms'


def apache(number: int) -> str:
    return f"{combined(number)} {int(1e6 * took(number))}"


def error(number: int, what: str = "upstream prematurely closed connection while reading upstream") -> str:
    at = ended(number).strftime("%Y/%m/%d %H:%M:%S")
    return (
        f'{at} [error] 86#86: *{number} {what}, client: 10.0.0.7, upstream: "http://10.0.7.11:8000{CHAT}", host: "api"'
    )


TEXTS = {
    "nginx_kv": kv,
    "nginx_combined": combined,
    "haproxy": haproxy,
    "envoy_text": envoy,
    "traefik_text": traefik,
    "apache": apache,
}


def write(path: Path, lines: list[str]) -> str:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


def filled(*paths: str, **options: object) -> tuple[Store, tuple[str, ...]]:
    store = Store()
    store.create()
    return store, read(store, paths, ReadOptions(**options))  # type: ignore[arg-type]


def inputs(store: Store) -> list[Row]:
    return store.rows("select * from inputs order by input_id")


@pytest.mark.parametrize("name", TEXTS)
def test_every_line_of_a_text_log_is_accounted_for(name: str, tmp_path: Path) -> None:
    line = TEXTS[name]
    health = line(3).replace(CHAT, "/healthz")
    lines = [*map(line, range(20)), "", health, "some message of the server", "another one", *map(line, range(20, 25))]
    store, _ = filled(write(tmp_path / "access.log", lines))
    with store:
        (row,) = inputs(store)
        assert row["format"] == name
        assert (row["lines"], row["rows"], row["blank"], row["foreign_lines"], row["rejected"]) == (29, 25, 1, 3, 0)
        assert store.run("select count(*), count(distinct started_at), min(vantage) from attempts") == [
            (25, 25, "proxy")
        ]


@pytest.mark.parametrize("name", TEXTS)
def test_starts_and_ends_are_told_apart(name: str, tmp_path: Path) -> None:
    store, _ = filled(write(tmp_path / "access.log", [TEXTS[name](number) for number in range(12)]))
    with store:
        basis = "end" if name.startswith("nginx") else "start"
        column = "ended_at" if basis == "end" else "started_at"
        assert store.run("select distinct time_basis from attempts") == [(basis,)]
        (at,) = store.run(f"select min(date_trunc('second', {column})) from attempts")[0]
        assert at == START


def test_a_rotated_log_is_one_log(tmp_path: Path) -> None:
    write(tmp_path / "access.log", [kv(number) for number in range(20, 30)])
    write(tmp_path / "access.log.1", [kv(number) for number in range(10, 20)])
    (tmp_path / "access.log.2.gz").write_bytes(gzip.compress("".join(kv(n) + "\n" for n in range(10)).encode()))
    store, _ = filled(str(tmp_path))
    with store:
        assert [row["rows"] for row in inputs(store)] == [10, 10, 10]
        assert store.run("select count(*), count(total_ms) from attempts") == [(30, 30)]


def test_a_log_cut_by_rotation_loses_only_its_last_line(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    path.write_text("".join(haproxy(number) + "\n" for number in range(5)) + haproxy(5)[:70])
    store, _ = filled(str(path))
    with store:
        (row,) = inputs(store)
        assert (row["lines"], row["rows"], row["foreign_lines"]) == (6, 5, 1)


@pytest.mark.parametrize("name", ["nginx_kv", "haproxy", "envoy_text"])
def test_the_envelope_of_a_collector_is_taken_off(name: str, tmp_path: Path) -> None:
    lines = [TEXTS[name](number) for number in range(6)]
    at = "2026-11-25T09:30:00.000000001Z"
    wrapped = {
        "docker": [json.dumps({"log": line + "\n", "stream": "stdout", "time": at}) for line in lines],
        "cri": [f"{at} stdout F {line}" for line in lines],
        "compose": [f"proxy-1  | {line}" for line in lines],
        "syslog": [f"<134>1 {at} lb1 proxy 12 - - {line}" for line in lines],
    }
    for kind, texts in wrapped.items():
        store, _ = filled(write(tmp_path / f"{kind}.log", texts))
        with store:
            (row,) = inputs(store)
            assert (kind, row["format"], row["rows"]) == (kind, name, 6)
            assert store.run("select min(started_at) < timestamptz '2026-11-25 09:00:01Z' from attempts") == [(True,)]


@pytest.mark.parametrize(("name", "shifted"), [("haproxy", True), ("nginx_kv", False)])
def test_only_times_without_a_zone_follow_the_option(name: str, shifted: bool, tmp_path: Path) -> None:
    path = write(tmp_path / "access.log", [TEXTS[name](number) for number in range(4)])
    starts = []
    for zone in ("UTC", "Asia/Shanghai"):
        store, _ = filled(path, timezone=zone)
        with store:
            starts.append(store.run("select min(started_at) from attempts")[0][0])
    assert starts[0] - starts[1] == timedelta(hours=8 if shifted else 0)


def test_pairs_behind_a_prefix_are_not_read_as_pairs_alone(tmp_path: Path) -> None:
    # The pairs alone have all that a JSON log of nginx needs, but neither time, status nor path.
    long = [
        combined(n) + f' request_time={took(n):.3f} upstream_response_time="{took(n):.3f}" upstream_status="200"'
        for n in range(5)
    ]
    path = write(tmp_path / "access.log", long)
    found = detect(Path(path)).format
    assert found is not None
    assert found.id == "nginx_kv"
    store, _ = filled(path)
    with store:
        assert store.run("select count(*) from attempts where route = ? and http_status = 200", [CHAT]) == [(5,)]


def test_unquoted_lists_of_tries_are_read_whole(tmp_path: Path) -> None:
    line = f"msec=1795597929.870 uri={CHAT} status=200 rt=3.911 uct=-, 0.001 uht=-, 0.017 urt=0.002, 3.908 us=502, 200"
    store, _ = filled(write(tmp_path / "access.log", [line]))
    with store:
        assert store.run("select upstream_attempts, connect_ms, header_ms, upstream_total_ms from attempts") == [
            (2, 1.0, 17.0, 3910.0)
        ]


@pytest.mark.parametrize(("name", "rich"), [("nginx_kv", as_json), ("nginx_combined", as_json), ("nginx_combined", kv)])
def test_two_access_logs_of_one_proxy_count_once(name: str, rich: object, tmp_path: Path) -> None:
    first = write(tmp_path / "a.log", [TEXTS[name](number) for number in range(40)])
    second = write(tmp_path / "b.log", [rich(number) for number in range(5, 40)])  # type: ignore[operator]
    store, notes = filled(first, second)
    with store:
        # What the richer log does not reach back to stays.
        assert store.run("select count(*), count(distinct ended_at) from attempts") == [(40, 40)]
        assert [row["doubled"] for row in inputs(store)] == [35, 0]
        assert [row["lines"] for row in inputs(store)] == [40, 35]
    assert len(notes) == 1
    assert "35 calls stand in a log of" in notes[0]


def test_the_second_log_of_a_storm_of_equal_refusals_counts_once(tmp_path: Path) -> None:
    at = ended(0)
    poor = [f'10.0.0.7 - - [{clf(at)}] "POST {CHAT} HTTP/1.1" 429 169 "-" "x" rt=0.000 uct="-" uht="-" urt="-"'] * 30
    rich = [
        json.dumps({"msec": at.timestamp(), "request_id": f"n-{n}", "uri": CHAT, "status": 429, "request_time": 0.0})
        for n in range(30)
    ]
    store, _ = filled(write(tmp_path / "a.log", poor), write(tmp_path / "b.log", rich))
    with store:
        assert store.run("select count(*), count(request_id) from attempts") == [(30, 30)]


def test_logs_of_two_proxies_with_requests_of_their_own_both_count(tmp_path: Path) -> None:
    first = write(tmp_path / "a.log", [kv(number) for number in range(40)])
    second = write(tmp_path / "b.log", [as_json(number) for number in range(100, 140)])
    third = write(tmp_path / "c.log", [envoy(number) for number in range(40)])
    store, notes = filled(first, second, third)
    with store:
        assert store.run("select count(*) from attempts") == [(120,)]
    assert notes == ()


def test_an_error_log_is_named_and_gives_events_but_no_calls(tmp_path: Path) -> None:
    lines = [error(1), error(2, "connect() failed (111: Connection refused) while connecting to upstream")]
    lines += ["2026/11/25 09:00:09 [notice] 86#86: exiting", error(4, "limiting requests, excess: 2.480 by zone")]
    access = write(tmp_path / "access.log", [kv(number) for number in range(5)])
    store, _ = filled(access, write(tmp_path / "error.log", lines))
    with store:
        row = inputs(store)[1]
        assert (row["format"], row["lines"], row["rows"], row["foreign_lines"]) == ("nginx_error", 4, 3, 1)
        assert store.run("select count(*) from attempts") == [(5,)]
        assert store.run('select name, instance from engine_samples order by "at"') == [
            ("upstream_cut", "10.0.7.11:8000"),
            ("upstream_unreachable", "10.0.7.11:8000"),
            ("limited", "10.0.7.11:8000"),
        ]


def test_an_error_log_without_errors_says_what_it_is(tmp_path: Path) -> None:
    access = write(tmp_path / "access.log", [kv(number) for number in range(5)])
    quiet = write(tmp_path / "error.log", ["2026/11/25 09:00:09 [notice] 86#86: start worker processes"] * 3)
    store, _ = filled(access, quiet)
    with store:
        row = inputs(store)[1]
        assert (row["rows"], row["foreign_lines"], row["rejected"]) == (0, 3, 0)
        assert "no LLM call" in row["reason"]


def test_a_chain_is_joined_by_the_id_that_every_hop_logs(tmp_path: Path) -> None:
    client = [
        json.dumps(
            {"request_id": f"q-{n}", "started_at": ended(n).isoformat(), "total_ms": 900, "outcome": "completed"}
        )
        for n in range(8)
    ]
    hop = [
        json.dumps(
            {
                "start_time": ended(n).isoformat(),
                "duration": 880,
                "response_code": 200,
                "response_flags": "UC" if n == 3 else "-",
                "path": CHAT,
                "request_id": f"q-{n}",
                "upstream_host": "10.0.7.11:8000",
            }
        )
        for n in range(8)
    ]
    store, _ = filled(write(tmp_path / "client.jsonl", client), write(tmp_path / "envoy.jsonl", hop))
    with store:
        assert store.run(
            "select count(*), count(*) filter (where p.outcome = 'incomplete') from attempts c join attempts p "
            "using (request_id) where c.vantage = 'client' and p.vantage = 'proxy'"
        ) == [(8, 1)]


def test_caddy_tells_the_tries_of_the_sdk_apart(tmp_path: Path) -> None:
    def line(number: int, retry: int, status: int) -> str:
        headers = {"X-Request-Id": [f"q-{number}"], "X-Stainless-Retry-Count": [str(retry)]}
        request = {"method": "POST", "uri": CHAT, "headers": headers}
        at = ended(number).timestamp() + retry
        return json.dumps({"ts": at, "request": request, "duration": 0.2, "status": status, "resp_headers": {}})

    lines = [line(1, 0, 503), line(1, 1, 503), line(1, 2, 200), line(2, 0, 200)]
    store, _ = filled(write(tmp_path / "access.json", lines))
    with store:
        assert store.run("select request_id, attempt, http_status from attempts order by 1, 2") == [
            ("q-1", 1, 503),
            ("q-1", 2, 503),
            ("q-1", 3, 200),
            ("q-2", 1, 200),
        ]


def test_a_web_site_without_any_llm_call_gives_no_row(tmp_path: Path) -> None:
    site = [combined(number).replace(CHAT, f"/page/{number}") for number in range(30)]
    store, _ = filled(write(tmp_path / "site.log", site), write(tmp_path / "llm.log", [haproxy(1)]))
    with store:
        rows = {Path(row["path"]).name: row for row in inputs(store)}
        assert (rows["site.log"]["rows"], rows["site.log"]["foreign_lines"]) == (0, 30)
        assert "no LLM call" in rows["site.log"]["reason"]
