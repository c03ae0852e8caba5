"""Logs without a common id: what is guessed by time decides nothing, and the report shows the line that gives an id."""

import json
import random
import tomllib
from pathlib import Path
from typing import Any

import pytest

from llmdoctor import rulebook
from llmdoctor.diagnose import Diagnosis, diagnose
from llmdoctor.diagnose.shared_ids import PREFIX
from llmdoctor.ingest import read
from llmdoctor.store import Store
from tests.filled import filled

SAMPLES = Path(__file__).parents[1] / "sample_logs"
PRODUCTS = ("nginx", "envoy", "haproxy", "traefik", "caddy", "litellm", "vllm", "llamacpp")
VANTAGES = ("client", "gateway", "proxy", "cloud", "engine")


def without_ids(folder: str, into: Path) -> list[Path]:
    """The client's and nginx's log of an incident with nothing left that both of them name."""
    client = []
    for line in (SAMPLES / folder / "client.jsonl").read_text().splitlines():
        row = json.loads(line)
        client.append(row if "table" in row else {key: row[key] for key in row if key != "response_id"})
    nginx = [json.loads(line) for line in (SAMPLES / folder / "nginx.log").read_text().splitlines()]
    for row in nginx:
        del row["request_id"]
    paths = [into / "client.jsonl", into / "nginx.log"]
    for path, rows in zip(paths, (client, nginx), strict=True):
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return paths


def diagnosis(*paths: Path) -> Diagnosis:
    with Store() as store:
        store.create()
        read(store, [str(path) for path in paths])
        return diagnose(store, rulebook.load())


def test_two_logs_without_a_common_id_show_the_line_of_each_product_that_was_read(tmp_path: Path) -> None:
    first = diagnosis(*without_ids("fake_streaming", tmp_path)).unknown[0]
    assert first.field == "request_id on both sides (client, proxy)"
    assert {"proxy_buffering", "timeout_success_mismatch"} <= set(first.unlocks)
    assert "20 of 32 were brought together by time alone" in first.how
    for words in ('extra_headers={"X-Request-Id"', "response._request_id", '"request_id":"$http_x_request_id"'):
        assert words in first.how
    assert "%REQ(X-REQUEST-ID)%" not in first.how


def test_logs_that_share_an_id_need_no_such_line() -> None:
    assert not any("both sides" in one.field for one in diagnosis(SAMPLES / "fake_streaming").unknown)


@pytest.mark.parametrize("name", [*PRODUCTS, *VANTAGES])
def test_every_product_and_vantage_has_its_line(name: str) -> None:
    with (rulebook.shipped_rules() / "fields.toml").open("rb") as file:
        assert len(tomllib.load(file)[PREFIX + name]) > 20


def sides(count: int, *, ids: bool) -> list[dict[str, Any]]:
    """Streams that come at once at the caller although the engine had its first token early, 3 s apart."""
    draw, rows = random.Random(2), []
    for n in range(count):
        key = {"request_id": f"r{n}"} if ids else {}
        at, took = 3 * n + draw.random(), 1500 + 20 * n
        call: dict[str, Any] = {"model": "m", "stream": True, "input_tokens": 90 + n, "output_tokens": 120}
        rows.append({"at_s": at, "total_ms": took, "ttft_ms": took - 2, "vantage": "client", **call, **key})
        inner = {"vantage": "engine", "total_ms": took - 60, "ttft_ms": 80, **call, **key}
        rows.append({"at_s": at + 0.02, **inner})
    return rows


@pytest.mark.parametrize("ids", [True, False])
def test_what_the_other_side_says_decides_only_where_an_id_joins_the_two(ids: bool) -> None:
    with filled(sides(40, ids=ids)) as store:
        found = diagnose(store, rulebook.load())
        joined = store.run("select joined_by, count(*), count(server_ttft_ms) from calls group by all")
    assert joined == [("id" if ids else "time", 40, 40)]
    best = {cause.id: cause for cause in found.causes}["proxy_buffering"]
    told = [piece.verdict for piece in best.evidence if "first token" in piece.text and "server" in piece.text.lower()]
    assert ("for" in told) == ids


def test_the_callers_own_record_of_the_other_side_counts_as_sure() -> None:
    row = {"at_s": 0, "total_ms": 900, "ttft_ms": 800, "server_ttft_ms": 100.0, "stream": True}
    with filled([row]) as store:
        diagnose(store, rulebook.load())
        assert store.run("select joined_by, server_ttft_ms from calls") == [("id", 100.0)]
