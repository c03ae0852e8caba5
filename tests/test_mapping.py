"""--map: where a home-made log keeps a field."""

import json
import sqlite3
from pathlib import Path

import pytest

from llmdoctor.errors import InputError, UsageError
from llmdoctor.ingest import ReadOptions, read
from llmdoctor.store import Store


def rows(path: Path, columns: str, maps: dict[str, str]) -> list[tuple[object, ...]]:
    """What is in `attempts` after one file was read with a mapping."""
    with Store() as store:
        store.create()
        read(store, [str(path)], ReadOptions(maps=maps))
        return store.run(f"select {columns} from attempts order by attempt_id")


def test_a_csv_of_unknown_columns_is_read_by_a_mapping_alone(tmp_path: Path) -> None:
    log = tmp_path / "a.csv"
    log.write_text("zeit;erst;alles;aus\n2026-01-05T10:00:00Z;0.8;5.0;50\n2026-01-05T10:00:01Z;0.9;4.5;60\n")
    with pytest.raises(InputError, match="no LLM call was found"):
        rows(log, "*", {})
    maps = {"started_at": "zeit", "ttft_ms": "erst:s", "total_ms": "alles:s", "output_tokens": "aus"}
    assert rows(log, "ttft_ms, total_ms, output_tokens, time_basis, outcome", maps) == [
        (800.0, 5000.0, 50, "start", "completed"),
        (900.0, 4500.0, 60, "start", "completed"),
    ]


def test_a_mapping_goes_before_what_the_page_would_take(tmp_path: Path) -> None:
    log = tmp_path / "a.jsonl"
    log.write_text('{"ts": "2026-01-05T10:00:00Z", "model": "m", "latency_ms": 1, "real": 2.5, "status": "ok"}\n')
    assert rows(log, "total_ms", {}) == [(1.0,)]
    assert rows(log, "total_ms", {"total_ms": "real:s"}) == [(2500.0,)]


def test_a_path_may_lead_into_objects_lists_and_texts_that_hold_json(tmp_path: Path) -> None:
    log = tmp_path / "a.jsonl"
    record = {"took": 5, "deep": {"list": [{"first": 0.25}]}, "meta": json.dumps({"node": "n1"}), "a.b": "v2"}
    log.write_text(json.dumps(record) + "\n")
    maps = {"total_ms": "took:s", "ttft_ms": "deep.list[0].first:s", "instance": "meta.node", "app_version": '$."a.b"'}
    assert rows(log, "total_ms, ttft_ms, instance, app_version", maps) == [(5000.0, 250.0, "n1", "v2")]


def test_a_value_that_does_not_fit_its_unit_costs_the_field_and_not_the_row(tmp_path: Path) -> None:
    log = tmp_path / "a.jsonl"
    log.write_text('{"took": "5", "q": "x"}\n{"took": 6, "q": 1}\n')
    with Store() as store:
        store.create()
        read(store, [str(log)], ReadOptions(maps={"total_ms": "took:s", "queue_ms": "q:s"}))
        assert store.run("select queue_ms from attempts order by total_ms") == [(None,), (1000.0,)]
        assert store.run("select line, reason from rejects") == [(1, "field queue_ms is not a number")]


def test_a_record_whose_only_sign_of_a_call_does_not_fit_is_still_a_call(tmp_path: Path) -> None:
    log = tmp_path / "a.jsonl"
    log.write_text('{"lat": "fast", "model": "m"}\n{"lat": 6, "model": "m"}\n')
    with Store() as store:
        store.create()
        read(store, [str(log)], ReadOptions(maps={"total_ms": "lat"}))
        assert store.run("select rows, foreign_lines from inputs") == [(2, 0)]
        assert store.run("select line, reason from rejects") == [(1, "field total_ms is not a number")]


def test_queue_prefill_and_decode_make_up_a_call_where_nothing_else_is_known(tmp_path: Path) -> None:
    log = tmp_path / "a.jsonl"
    log.write_text('{"w": 1.0, "p": 0.5, "d": 2.5}\n')
    maps = {"queue_ms": "w:s", "prefill_ms": "p:s", "decode_ms": "d:s"}
    assert rows(log, "total_ms, ttft_ms", maps) == [(4000.0, 1500.0)]


def test_a_table_of_a_sqlite_file_is_read_like_a_log(tmp_path: Path) -> None:
    log = tmp_path / "calls.db"
    with sqlite3.connect(log) as base:
        base.execute("create table users (name text)")
        base.execute("create table calls (ts text, latency_ms real, model text, status text)")
        base.executemany("insert into calls values (?, ?, 'm', 'ok')", [("2026-01-05T10:00:00Z", 1200.5), (None, 3)])
    base.close()
    assert rows(log, "total_ms, model", {}) == [(1200.5, "m"), (3.0, "m")]


def test_a_parquet_file_is_read_like_a_log(tmp_path: Path) -> None:
    log = tmp_path / "calls.parquet"
    with Store() as store:
        store.script(
            "copy (select timestamptz '2026-01-05 10:00:00Z' + to_seconds(i) as ts, 'm' as model, "
            f"100 + i as latency_ms, {{'prompt_tokens': 7}} as usage from range(3) r(i)) to '{log}' (format parquet)"
        )
    assert rows(log, "total_ms, input_tokens", {}) == [(100.0, 7), (101.0, 7), (102.0, 7)]


@pytest.mark.parametrize(
    ("maps", "says"),
    [
        ({"ttft": "a"}, "did you mean ttft_ms"),
        ({"zzz": "a"}, "formats show llmdoctor"),
        ({"total_ms": "a:sec"}, "no unit is called 'sec'"),
        ({"total_ms": "a..b"}, "is no path"),
        ({"line": "a"}, "no field is called 'line'"),
    ],
)
def test_a_wrong_mapping_is_one_sentence(tmp_path: Path, maps: dict[str, str], says: str) -> None:
    log = tmp_path / "a.jsonl"
    log.write_text('{"a": 1}\n')
    with pytest.raises(UsageError, match=says):
        rows(log, "*", maps)
