"""Faults that a hostile reader found in the reading of logs: each is a sentence."""

import gzip
import json
import os
import random
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from llmdoctor.ingest import ReadOptions, job, read
from llmdoctor.store import Row, Store


def call(number: int, **more: object) -> dict[str, object]:
    at = f"2026-01-05T10:{number // 60 % 60:02d}:{number % 60:02d}Z"
    record = {"request_id": f"r{number}", "vantage": "gateway", "started_at": at, "total_ms": 1000.5}
    return {**record, "outcome": "completed", **more}


def lines(count: int, start: int = 0, **more: object) -> bytes:
    return b"".join(json.dumps(call(start + i, **more)).encode() + b"\n" for i in range(count))


def app(number: int) -> str:
    return json.dumps({"msg": "call", "model": "m", "latency_ms": 1500 + number, "status": 200})


def inputs(path: Path, **options: object) -> list[Row]:
    """The ledger of a read, without the good file that is put beside what is read."""
    good = path.parent / "good"
    good.mkdir(exist_ok=True)
    (good / "good.jsonl").write_bytes(lines(3, 900))
    with Store() as store:
        store.create()
        read(store, [str(path), str(good)], ReadOptions(**options))  # type: ignore[arg-type]
        rows = store.rows("select * from inputs order by input_id")
    for row in rows:
        assert row["lines"] == row["rows"] + row["rejected"] + row["blank"] + row["foreign_lines"]
    assert [row["rows"] for row in rows if row["path"].endswith("good.jsonl")] == [3]
    return [row for row in rows if not row["path"].endswith("good.jsonl")]


def ledger(path: Path) -> tuple[int, int, int, int]:
    row = inputs(path)[0]
    return row["rows"], row["rejected"], row["blank"], row["foreign_lines"]


def file(folder: Path, data: bytes | str, name: str = "app.log") -> Path:
    (folder / "logs").mkdir(exist_ok=True)
    path = folder / "logs" / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def test_a_number_beyond_its_column_costs_neither_the_line_nor_the_run(tmp_path: Path) -> None:
    odd = lines(1, http_status=99_999_999_999) + lines(1, 1, attempt=10**12) + lines(1, 2, input_tokens=10**30)
    assert ledger(file(tmp_path, lines(3, 10) + odd)) == (6, 0, 0, 0)


def test_an_archive_damaged_in_its_middle_gives_what_stands_before_the_damage(tmp_path: Path) -> None:
    random.seed(3)
    plain = b"".join(lines(1, i, caller=f"{random.getrandbits(256):064x}") for i in range(300))
    packed = bytearray(gzip.compress(plain))
    packed[len(packed) // 2 :] = b"\xff" * (len(packed) - len(packed) // 2)
    rows, rejected, _, _ = ledger(file(tmp_path, bytes(packed), "app.jsonl.gz"))
    assert 100 < rows < 200
    assert rejected <= 1


def test_a_bad_element_of_an_array_does_not_end_the_file(tmp_path: Path) -> None:
    records = [json.dumps(call(i, usage={"a": {"b": 1}})) for i in range(20)]
    text = "[" + ",\n".join([*records[:10], '{"a": oops}', *records[10:]]) + "]"
    assert ledger(file(tmp_path, text, "export.json")) == (20, 1, 0, 0)


def test_a_bad_object_between_indented_ones_does_not_end_the_file(tmp_path: Path) -> None:
    records = [json.dumps(call(i, usage={"a": {"b": 1}}), indent=2) for i in range(20)]
    text = "\n".join([*records[:10], '{\n  "a": oops,\n  "b": {\n    "c": 1\n  }\n}', *records[10:]])
    assert ledger(file(tmp_path, text, "export.json")) == (20, 1, 0, 0)


def csv(count: int) -> list[str]:
    head = list(call(0))
    return [",".join(head), *(",".join(str(call(i)[key]) for key in head) for i in range(count))]


def test_a_stray_quote_costs_its_own_line_only(tmp_path: Path) -> None:
    rows = csv(20)
    rows[5] = rows[5].replace("gateway", '"gateway')
    assert ledger(file(tmp_path, "\n".join(rows) + "\n", "app.csv")) == (19, 1, 0, 0)


def test_a_header_that_comes_again_is_no_call(tmp_path: Path) -> None:
    assert ledger(file(tmp_path, "\n".join(csv(5) + csv(5)) + "\n", "app.csv")) == (10, 1, 0, 0)


def test_a_table_of_carriage_returns_is_read(tmp_path: Path) -> None:
    assert ledger(file(tmp_path, "\r".join(csv(5)) + "\r", "app.csv")) == (5, 0, 0, 0)


def test_a_time_before_a_tab_is_a_cell_and_no_envelope(tmp_path: Path) -> None:
    rows = [f"2026-01-05T10:00:{i:02d}Z\tr{i}\t1000\tcompleted" for i in range(9)]
    table = "started_at\trequest_id\ttotal_ms\toutcome\n" + "\n".join(rows) + "\n"
    assert ledger(file(tmp_path, table, "app.tsv")) == (9, 0, 0, 0)


def test_a_truncated_archive_of_a_table_says_so(tmp_path: Path) -> None:
    packed = gzip.compress(("\n".join(csv(50)) + "\n").encode())[:-30]
    row = inputs(file(tmp_path, packed, "app.csv.gz"))[0]
    assert row["rows"] > 10
    assert "the end is missing" in row["note"]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b" \n\n\t\n", "blank lines only"),
        (bytes(5000), "zero bytes only"),
        (gzip.compress(b"", mtime=0), "empty file, packed with gzip"),
        (gzip.compress(lines(9), mtime=0)[:20], "the end is missing"),
    ],
    ids=["blank lines", "zeros", "empty gzip", "cut gzip"],
)
def test_what_holds_nothing_is_named_for_what_it_is(data: bytes, words: str, tmp_path: Path) -> None:
    assert words in inputs(file(tmp_path, data))[0]["reason"]


def test_half_a_surrogate_pair_is_named(tmp_path: Path) -> None:
    path = file(tmp_path, lines(5) + lines(1, 5).replace(b"gateway", b"\\ud83d"))
    with Store() as store:
        store.create()
        read(store, [str(path)])
        assert store.run("select line, reason from rejects") == [(6, "half a surrogate pair")]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-16"])
def test_utf_16_is_read_with_and_without_its_mark(encoding: str, tmp_path: Path) -> None:
    assert ledger(file(tmp_path, lines(5).decode().encode(encoding))) == (5, 0, 0, 0)


def test_a_log_cut_under_its_writer_begins_with_zeros_and_is_read(tmp_path: Path) -> None:
    path = file(tmp_path, b"")
    with path.open("r+b") as log:
        log.truncate(40 << 20)
        log.seek(40 << 20)
        log.write(lines(10))
    assert ledger(path) == (9, 1, 0, 0)


@pytest.mark.parametrize("name", [b"it's.log", b"a*b.log", b"[x].log", b"{a,b}.log", b"\xff\xfe.log", b"new\nline.log"])
def test_no_name_of_a_file_is_too_odd(name: bytes, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a1b.log").write_bytes(lines(2))
    (tmp_path / "logs" / os.fsdecode(name)).write_bytes(lines(5, 10))
    assert sorted(row["rows"] for row in inputs(tmp_path / "logs")) == [2, 5]


def test_a_link_to_a_folder_is_not_followed_and_that_is_said(tmp_path: Path) -> None:
    file(tmp_path, lines(2))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "logs" / "link").symlink_to(tmp_path / "elsewhere")
    with Store() as store:
        store.create()
        notes = read(store, [str(tmp_path / "logs")])
    assert any("1 link to a folder was not followed" in note for note in notes)


def test_lines_that_come_after_the_read_do_not_pass_for_blank_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = file(tmp_path, lines(50))
    settle = job.Job.settle

    def late(self: job.Job) -> None:
        if self.source.path == path:
            path.write_bytes(lines(90))
        settle(self)

    monkeypatch.setattr(job.Job, "settle", late)
    row = inputs(path)[0]
    assert (row["rows"], row["blank"], row["grew"]) == (50, 0, True)


def test_a_file_that_vanishes_is_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = file(tmp_path, lines(50))
    settle = job.Job.settle

    def gone(self: job.Job) -> None:
        if self.source.path == path:
            path.unlink()
        settle(self)

    monkeypatch.setattr(job.Job, "settle", gone)
    row = inputs(path)[0]
    assert row["rows"] == 50
    assert "vanished" in row["note"]


def test_rows_that_wait_in_the_log_beside_a_database_are_read(tmp_path: Path) -> None:
    path = file(tmp_path, b"", "app.db")
    base = sqlite3.connect(path)
    base.execute("pragma journal_mode = wal")
    base.execute(f"create table calls ({', '.join(call(0))})")
    base.executemany("insert into calls values (?, ?, ?, ?, ?)", [tuple(call(i).values()) for i in range(20)])
    base.commit()
    try:
        assert ledger(path) == (20, 0, 0, 0)
    finally:
        base.close()


EXPORTS = {
    "cloudwatch": {"events": [{"timestamp": 1767607200000 + i, "message": app(i), "eventId": "e"} for i in range(9)]},
    "elastic": {
        "hits": {"hits": [{"_source": {"@timestamp": "2026-01-05T10:00:00Z", "message": app(i)}} for i in range(9)]}
    },
}


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("name", EXPORTS)
def test_envelopes_inside_an_array_are_opened_and_their_time_is_used(
    name: str, indent: int | None, tmp_path: Path
) -> None:
    path = file(tmp_path, json.dumps(EXPORTS[name], indent=indent), "export.json")
    with Store() as store:
        store.create()
        read(store, [str(path)])
        assert store.run("select count(*), count(ended_at) from attempts") == [(9, 9)]


@pytest.mark.parametrize("mark", ["", "<134>"])
def test_a_time_without_a_year_around_a_line_gets_one(mark: str, tmp_path: Path) -> None:
    path = file(tmp_path, "".join(f"{mark}Jan 05 10:00:{i:02d} host app[7]: {app(i)}\n" for i in range(9)))
    os.utime(path, (1767700000, 1767700000))
    with Store() as store:
        store.create()
        read(store, [str(path)])
        assert store.run("select cast(min(ended_at) as varchar) from attempts") == [("2026-01-05 10:00:00+00",)]


def test_a_few_records_among_much_talk_are_found(tmp_path: Path) -> None:
    talk = "".join(f"2026-01-05 10:00:00 INFO chat - step {i}\n" for i in range(9))
    text = "".join(f"{talk}2026-01-05 10:00:{i:02d},123 INFO chat - {app(i)}\n" for i in range(9))
    assert ledger(file(tmp_path, text)) == (9, 0, 0, 81)


def test_keys_that_differ_in_case_from_those_of_a_page_do_not_end_the_run(tmp_path: Path) -> None:
    record = {"Metrics": {"durationMs": 5207}, "Model": "m", "StatusCode": 200, "Timestamp": "2026-01-05T10:00:00Z"}
    assert ledger(file(tmp_path, f"{json.dumps(record)}\n" * 3)) == (3, 0, 0, 0)


def test_a_unit_that_was_told_is_not_called_a_guess(tmp_path: Path) -> None:
    records = [{"timestamp": f"2026-01-05T10:00:{i:02d}Z", "latency": 1500, "model": "m"} for i in range(9)]
    path = file(tmp_path, "".join(f"{json.dumps(record)}\n" for record in records))
    assert "guessed" in inputs(path)[0]["note"]
    assert "guessed" not in inputs(path, maps={"total_ms": "latency:ms"})[0]["note"]


def drafted(folder: Path, text: str) -> str:
    """The page that `formats new` writes; its examples hold and it reads the log."""
    path = file(folder, text)
    run = [sys.executable, "-m", "llmdoctor"]
    for words in (["formats", "new", "mine", "--from", str(path)], ["formats", "test", "mine", "--formats", "formats"]):
        done = subprocess.run([*run, *words], cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    row = inputs(path, formats_dirs=(folder / "formats",))[0]
    assert (row["format"], row["rows"]) == ("mine", 20)
    assert not row["note"] or "total_ms" not in row["note"]
    return (folder / "formats" / "mine.md").read_text()


def test_a_draft_keeps_what_people_wrote_and_what_opens_doors_out(tmp_path: Path) -> None:
    wrote = "prompt='PLANTED hello' answer=\"PLANTED\" key=sk-proj-abcdefghijklmnop1234567890"
    page = drafted(tmp_path, "".join(f"2026-01-05 10:00:{i:02d} INFO call took 1.{i}s {wrote}\n" for i in range(20)))
    assert "PLANTED" not in page
    assert "sk-proj" not in page


def test_a_draft_finds_nested_keys_and_marks_a_guessed_unit(tmp_path: Path) -> None:
    records = [{"ts": f"2026-01-05T10:00:{i:02d}Z", "llm": {"timing": {"total": 9.5 - i}}} for i in range(9)]
    records += [{"ts": f"2026-01-05T10:01:{i:02d}Z", "llm": {"timing": {"total": 1.5}}} for i in range(11)]
    page = drafted(tmp_path, "".join(f"{json.dumps(record)}\n" for record in records))
    assert '"$.llm.timing.total", unit = "s", guess = true' in page


def test_a_draft_takes_a_duration_with_its_unit(tmp_path: Path) -> None:
    page = drafted(
        tmp_path, "".join(f"2026-01-05T10:00:{i:02d}Z id=r{i} model=m latency=1.{i}s status=200\n" for i in range(20))
    )
    assert 'unit = "duration"' in page
