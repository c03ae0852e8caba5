"""A store takes the place of the logs that it was read from: every table is as after one read of everything."""

import gzip
import json
import os
import random
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from llmdoctor.diagnose import diagnose
from llmdoctor.diagnose.values import to_json
from llmdoctor.errors import InputError, UsageError
from llmdoctor.ingest import ReadOptions, locate, read
from llmdoctor.ingest.formats import load_formats
from llmdoctor.report.privacy import hidden
from llmdoctor.rulebook import load
from llmdoctor.store import Store
from tests.planted import SECRETS

TABLES = ("inputs", "attempts", "chunks", "stages", "facts", "task_events", "engine_samples", "rejects", "bad_fields")
SAMPLES = Path(__file__).parents[1] / "sample_logs"
PAGES = {page.id: page for page in load_formats()}
BOOK = load()

Tables = dict[str, list[tuple[Any, ...]]]


def tables(paths: Sequence[str], save: str | None = None, **options: Any) -> tuple[Tables, tuple[str, ...]]:
    """Every table after a read, rows in an order of their own, and the notes."""
    with Store() as store:
        store.create()
        notes = read(store, paths, ReadOptions(save=Path(save) if save else None, **options))
        found = {name: store.run(f"select * from {name} order by all") for name in (*TABLES, "secrets")}
    return found, notes


def conclusions(paths: Sequence[str], save: str | None = None) -> str:
    """The whole diagnosis as JSON, as it is shown. A store keeps what looks like a secret as a hash beside its kind."""
    with Store() as store:
        store.create()
        read(store, paths, ReadOptions(save=Path(save) if save else None))
        return re.sub(r"\[hex\] h-[0-9a-f]+", "[hex]", to_json(hidden(diagnose(store, BOOK))))


def record(number: int, **more: Any) -> str:
    started = f"2026-01-05T{number // 3600:02d}:{number // 60 % 60:02d}:{number % 60:02d}.5Z"
    values = {"request_id": f"r{number}", "started_at": started, "total_ms": 100.5 + number, "outcome": "completed"}
    return json.dumps(values | more) + "\n"


def native(start: int, end: int) -> str:
    return "".join(record(n, vantage="client", model=f"m{n % 3}", output_tokens=n % 90) for n in range(start, end))


def nginx_json(start: int, end: int) -> str:
    lines = []
    for n in range(start, end):
        at = f"2026-01-05T00:{n // 60 % 60:02d}:{n % 60:02d}+00:00"
        lines.append(
            f'{{"time_iso8601":"{at}","request_id":"{n:032x}","request_method":"POST","request_uri":"/v1/chat/completions",'
            f'"status":"{500 if n % 9 == 0 else 200}","request_time":"{1 + n % 7}.250",'
            f'"upstream_response_time":"{n % 7}.5",'
            f'"upstream_header_time":{"-" if n % 9 == 0 else "0.3"},"bytes_sent":"{n}"}}\n'
        )
    return "".join(lines)


def json_app(start: int, end: int) -> str:
    return "".join(
        json.dumps(
            {
                "timestamp": f"2026-01-05T00:{n // 60 % 60:02d}:{n % 60:02d}Z",
                "requestId": f"q{n}",
                "model": "m",
                "latencyMs": 200 + n % 50 if n % 40 else "slow",
                "status": 200,
                "usage": {"prompt_tokens": n, "completion_tokens": n % 33},
            }
        )
        + "\n"
        for n in range(start, end)
    )


def combined(start: int, end: int) -> str:
    return "".join(
        f"10.0.0.{n % 5} - - [05/Jan/2026:00:{n // 60 % 60:02d}:{n % 60:02d} +0000] "
        f'"POST /v1/chat/completions HTTP/1.1" {502 if n % 9 == 0 else 200} {100 + n} "-" "python/3"\n'
        + ("something else entirely\n" if n % 50 == 0 else "")
        for n in range(start, end)
    )


WRITERS = {"llmdoctor": native, "nginx_json": nginx_json, "json_app": json_app, "nginx_combined": combined}


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", WRITERS)
def test_a_store_and_a_further_file_are_worth_one_read_of_both(name: str) -> None:
    Path("b.log").write_text(WRITERS[name](0, 400))
    tables(["b.log"], save="s.duckdb")
    Path("a.log").write_text(WRITERS[name](350, 600))  # sorts before the first, and repeats some of it
    whole, notes = tables(["a.log", "b.log"])
    assert tables(["s.duckdb", "a.log"]) == (whole, notes)
    assert {row[2] for row in whole["inputs"]} == {name}
    at_once = conclusions(["a.log", "b.log"])
    assert conclusions(["s.duckdb", "a.log"], save="s.duckdb") == at_once
    assert conclusions(["s.duckdb"]) == at_once


@pytest.mark.parametrize("cut", [0, 1, 30, -1])
@pytest.mark.parametrize("name", WRITERS)
def test_a_file_that_grew_is_worth_one_read_of_it(name: str, cut: int) -> None:
    first, more = WRITERS[name](0, 300), WRITERS[name](300, 500)
    log = Path("a.log")
    log.write_text(first + more[:cut])
    tables(["a.log"], save="s.duckdb")
    log.write_text(first + more)
    assert tables(["s.duckdb", "a.log"], save="s.duckdb") == tables(["a.log"])
    assert tables(["s.duckdb", "a.log"]) == tables(["a.log"])


@pytest.mark.parametrize("name", WRITERS)
def test_of_a_file_that_grew_only_the_new_lines_are_read(name: str) -> None:
    log = Path("a.log")
    log.write_text(WRITERS[name](0, 300) + WRITERS[name](300, 301)[:-1])
    _, notes = tables(["a.log"], save="s.duckdb")
    # What stands above the last known line cannot have been read if a change there is not seen.
    text = log.read_text()
    middle = len(text) // 2
    assert middle > 4096
    assert len(text) - middle > 4096
    log.write_text(text[:middle] + "#" + text[middle + 1 :] + "\n" + WRITERS[name](301, 320))
    found, _ = tables(["s.duckdb", "a.log"])
    log.write_text(text + "\n" + WRITERS[name](301, 320))
    whole, _ = tables(["a.log"])
    assert found["attempts"] == whole["attempts"]
    assert [row[6:11] for row in found["inputs"]] == [row[6:11] for row in whole["inputs"]]
    assert notes == ()


def examples() -> list[tuple[str, str]]:
    return [(page.id, example.log) for page in PAGES.values() for example in page.examples[:1]]


@pytest.mark.parametrize(("name", "text"), examples(), ids=[name for name, _ in examples()])
def test_every_format_may_grow_at_any_place(name: str, text: str) -> None:
    data = text.encode() if text.endswith("\n") else (text + "\n").encode()
    log = Path("a.log")
    places = [*random.Random(name).sample(range(1, len(data)), 1), data.find(b"\n", len(data) // 3) + 1]
    log.write_bytes(data)
    os.utime(log, (1_790_000_000, 1_790_000_000))
    whole = tables(["a.log"], format=name)
    for place in places:
        log.write_bytes(data[:place])
        os.utime(log, (1_790_000_000, 1_790_000_000))
        Path("s.duckdb").unlink(missing_ok=True)
        try:
            tables(["a.log"], save="s.duckdb", format=name)
        except InputError:
            continue
        log.write_bytes(data)
        os.utime(log, (1_790_000_000, 1_790_000_000))
        assert tables(["s.duckdb", "a.log"], format=name) == whole, place


@pytest.mark.parametrize("incident", ["queueing", "cold_start"])
def test_the_sample_incidents_are_concluded_alike_from_a_store(incident: str) -> None:
    logs = sorted(path.name for path in (SAMPLES / incident).iterdir() if path.name != "expect.toml")
    for name in logs:
        shutil.copy(SAMPLES / incident / name, name)
    at_once = conclusions(logs)
    tables(logs[:1], save="s.duckdb")
    tables(["s.duckdb", *logs[1:]], save="s.duckdb")
    assert conclusions(["s.duckdb"]) == at_once


def test_chunks_find_attempts_that_come_in_a_later_file() -> None:
    pieces = [
        {"table": "chunks", "request_id": f"r{n}", "seq": k, "at_ms": 20.0 * k, "kind": "text"}
        for n in range(20)
        for k in range(1, 4)
    ]
    stages = [{"table": "stages", "request_id": f"r{n}", "name": "queue", "duration_ms": n} for n in range(20)]
    samples = [{"table": "engine_samples", "at": "2026-01-05T00:00:01Z", "name": "waiting", "value": 3}]
    events = [{"table": "task_events", "task_id": "t", "at": "2026-01-05T00:00:00Z", "state": "queued"}]
    rows = [*pieces, *stages, *samples, *events]
    Path("pieces.log").write_text("".join(json.dumps(one) + "\n" for one in rows) + record(0, stream=True))
    Path("calls.log").write_text("".join(record(n, stream=True) for n in range(1, 20)))
    tables(["pieces.log"], save="s.duckdb")
    whole, notes = tables(["calls.log", "pieces.log"])
    assert len(whole["chunks"]) == 60
    assert tables(["s.duckdb", "calls.log"], save="s.duckdb") == (whole, notes)
    assert tables(["s.duckdb"]) == (whole, notes)
    with Path("pieces.log").open("a") as out:
        out.write(json.dumps(pieces[0] | {"seq": 4, "at_ms": 5.0}) + "\n")
    assert tables(["s.duckdb", "pieces.log"]) == tables(["calls.log", "pieces.log"])


def test_a_rotated_log_is_known_by_its_bytes() -> None:
    Path("app.log").write_text(native(0, 300))
    tables(["."], save="s.duckdb")
    with Path("app.log").open("a") as out:
        out.write(native(300, 320))
    Path("app.log").rename("app.log.1")
    Path("app.log").write_text(native(320, 400))
    found, notes = tables(["."], save="s.duckdb")
    assert (found, notes) == tables(["./app.log", "./app.log.1"])
    Path("app.log.2.gz").write_bytes(gzip.compress(Path("app.log.1").read_bytes()))
    Path("app.log.1").unlink()
    Path("app.log").rename("app.log.1")
    assert [row[1] for row in tables(["."])[0]["inputs"]] == ["./app.log.1", "./app.log.2.gz"]
    assert len(tables(["."])[0]["attempts"]) == 400


@pytest.mark.parametrize("new", [native(900, 910), native(0, 40)], ids=["replaced", "truncated"])
def test_a_replaced_or_truncated_log_is_a_new_file_and_said_so(new: str) -> None:
    Path("a.log").write_text(native(0, 100))
    tables(["a.log"], save="s.duckdb")
    Path("a.log").write_text(new)
    found, notes = tables(["s.duckdb", "a.log"])
    assert any("replaced or truncated" in note for note in notes)
    assert [row[7] for row in found["inputs"]] == [100, new.count("\n")]
    assert len(found["attempts"]) == (110 if "r900" in new else 100)


def test_a_compressed_log_is_the_same_or_read_whole() -> None:
    Path("a.gz").write_bytes(gzip.compress(native(0, 100).encode()))
    tables(["a.gz"], save="s.duckdb")
    assert tables(["s.duckdb", "a.gz"]) == tables(["a.gz"])
    with Path("a.gz").open("ab") as out:
        out.write(gzip.compress(native(100, 150).encode()))
    assert tables(["s.duckdb", "a.gz"]) == tables(["a.gz"])
    assert len(tables(["a.gz"])[0]["attempts"]) == 150


def test_filters_are_of_one_analysis_and_not_of_the_store() -> None:
    Path("a.log").write_text(native(0, 100))
    found, _ = tables(["a.log"], save="s.duckdb", since="10s", where="model = 'm1'")
    assert 0 < len(found["attempts"]) < 10
    assert tables(["s.duckdb"]) == tables(["a.log"])
    assert tables(["s.duckdb"], since="10s", where="model = 'm1'") == tables(
        ["a.log"], since="10s", where="model = 'm1'"
    )


def test_other_options_read_a_given_file_anew() -> None:
    Path("a.log").write_text(json_app(0, 100).replace('"latencyMs"', '"took"'))
    tables(["a.log"], save="s.duckdb")
    maps = {"total_ms": "took:ms"}
    assert tables(["s.duckdb", "a.log"], maps=maps) == tables(["a.log"], maps=maps)


def test_lines_of_examples_are_found_while_the_log_is_as_it_was() -> None:
    Path("a.log").write_text(native(0, 50))
    tables(["a.log"], save="s.duckdb")
    with Path("a.log").open("a") as out:
        out.write(native(50, 60))
    for paths, lines in ((["s.duckdb", "a.log"], {7: 7, 55: 55}), (["s.duckdb"], {})):
        with Store() as store:
            store.create()
            read(store, paths)
            assert locate(store, [7, 55]) == lines
    tables(["s.duckdb", "a.log"], save="s.duckdb")
    with Store() as store:
        store.create()
        read(store, ["s.duckdb"])
        assert locate(store, [7, 55]) == {7: 7, 55: 55}


def test_a_store_whose_logs_are_gone_still_counts() -> None:
    Path("a.log").write_text(native(0, 50) + "broken\n")
    Path("notes.txt").write_text("nothing to see\n")
    before = tables(["a.log", "notes.txt"], save="s.duckdb")
    Path("a.log").unlink()
    Path("notes.txt").unlink()
    assert tables(["s.duckdb"]) == before


def test_two_stores_that_know_one_file_count_it_once() -> None:
    Path("a.log").write_text(native(0, 100))
    tables(["a.log"], save="one.duckdb")
    with Path("a.log").open("a") as out:
        out.write(native(100, 150))
    tables(["a.log"], save="two.duckdb")
    assert tables(["one.duckdb", "two.duckdb"]) == tables(["a.log"])


def test_the_file_holds_the_canonical_tables() -> None:
    Path("a.log").write_text(native(0, 50) + record(3, vantage="client", model="m0", output_tokens=3))
    before, _ = tables(["a.log"], save="s.duckdb")
    with Store(Path("s.duckdb")) as store, Store() as plain:
        plain.create()
        for name in (*TABLES, "secrets"):
            assert store.run(f"select * from {name} order by all") == before[name]
            assert store.columns(name) == plain.columns(name)


@pytest.mark.parametrize(
    "column", ["model", "route", "tenant", "request_id", "instance", "user_agent", "finish_reason"]
)
def test_a_store_holds_no_secret_and_no_sentence(column: str) -> None:
    texts = [
        *(text for text, _ in SECRETS.values()),
        "tell me please how one writes a poem about the marigolds of my aunt",
    ]
    lines = [record(n, **{column: text, "prompt": text}) for n, text in enumerate(texts)]
    lines += [json.dumps({"table": "stages", "request_id": "r1", "name": text}) + "\n" for text in texts]
    lines += [f'{{"broken": "{text}\n' for text in texts]
    Path("a.log").write_text("".join(lines))
    before = tables(["a.log"], save="s.duckdb")
    assert tables(["s.duckdb"]) == before
    with Store(Path("s.duckdb")) as store:
        kept = "\n".join(str(row) for (name,) in store.run("show tables") for row in store.run(f"select * from {name}"))
        distinct = store.run(f"select count(distinct {column}) from attempts")[0][0]
    assert [core for _, core in SECRETS.values() if core in kept] == []
    assert b"marigolds" not in Path("s.duckdb").read_bytes()
    assert distinct >= len(set(texts))
    assert tables(["s.duckdb", "a.log"]) == before


def test_what_is_no_store_is_said_in_one_line() -> None:
    Path("a.log").write_text(native(0, 50))
    with Store(Path("foreign.duckdb")) as store:
        store.script("create table t (x integer)")
    Path("broken.duckdb").write_bytes(Path("foreign.duckdb").read_bytes()[:3000])
    tables(["a.log"], save="old.duckdb")
    with Store(Path("old.duckdb")) as store:
        store.script("update about set layout = '0.old'")
    for name, words in (("foreign", "did not save"), ("broken", "cannot be opened"), ("old", "save them anew")):
        found, _ = tables(["a.log", f"{name}.duckdb"])
        assert [words in row[4] for row in found["inputs"]] == [False, True]
        with pytest.raises(InputError, match=words) as error:
            tables([f"{name}.duckdb"])
        assert "\n" not in str(error.value)


def test_saving_never_costs_a_log_or_another_store() -> None:
    Path("a.log").write_text(native(0, 50))
    Path("b.log").write_text(native(50, 60))
    tables(["a.log"], save="s.duckdb")
    before = Path("s.duckdb").read_bytes()
    for target, words in (("a.log", "one of the logs"), ("b.log", "no store"), ("s.duckdb", "name it as a PATH")):
        with pytest.raises(UsageError, match=words):
            tables(["a.log"], save=target)
    with pytest.raises(UsageError, match="--since"):
        tables(["a.log"], save="new.duckdb", since="soon")
    assert Path("s.duckdb").read_bytes() == before
    assert sorted(os.listdir()) == ["a.log", "b.log", "s.duckdb"]


@pytest.mark.parametrize(
    ("since", "rows"), [("10s", 10), ("-10s", 10), ("1m", 60), ("1m30s", 90), ("1h", 100), ("2d", 100), ("0s", 0)]
)
def test_a_time_before_the_end_of_the_log_is_counted_from_its_last_instant(since: str, rows: int) -> None:
    lines = [record(n, total_ms=0.0) for n in range(100)]
    lines.append(record(0, request_id="wrong clock", started_at="2036-01-05T00:00:00Z"))
    Path("a.log").write_text("".join(lines))
    found, notes = tables(["a.log"], since=since)
    assert len(found["attempts"]) == rows + 1 + (since not in ("1h", "2d"))
    assert f"--since {since} (2026-01-0" in notes[-1]
    rest, _ = tables(["a.log"], until=since) if rows < 100 else ({"attempts": []}, ())
    assert len(rest["attempts"]) + len(found["attempts"]) == (101 if rows < 100 else len(found["attempts"]))


@pytest.mark.parametrize("text", ["10", "1x", "h", "-", "1 h", "1.5h", "1m2h", "last 1h", "99999999999d"])
def test_a_wrong_time_is_one_line_with_an_example(text: str) -> None:
    Path("a.log").write_text(native(0, 5))
    with pytest.raises(UsageError, match="2h30m") as error:
        tables(["a.log"], since=text)
    assert "\n" not in str(error.value)
