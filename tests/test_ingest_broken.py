"""Some forty kinds of broken and odd files: every line is accounted for, against counts made by hand."""

import bz2
import gzip
import json
import lzma
from dataclasses import dataclass
from pathlib import Path

import pytest
import zstandard

from llmdoctor.errors import InputError
from llmdoctor.ingest import ReadOptions, read
from llmdoctor.ingest.load import load
from llmdoctor.store import Row, Store


def call(number: int, **more: object) -> dict[str, object]:
    started = f"2026-01-05T00:{number // 60:02d}:{number % 60:02d}Z"
    record = {"request_id": f"r{number}", "vantage": "client", "started_at": started, "total_ms": 100.5}
    return record | {"outcome": "completed"} | more


def line(number: int, **more: object) -> bytes:
    return json.dumps(call(number, **more)).encode() + b"\n"


GOOD = b"".join(line(number) for number in range(5))


@dataclass(frozen=True)
class Truth:
    """What must be counted; `reasons` are those of lines and fields, with their numbers."""

    rows: int
    rejected: int = 0
    blank: int = 0
    foreign: int = 0
    bad: int = 0
    reasons: tuple[tuple[int, str], ...] = ()
    note: str | None = None


def not_json(at: int) -> tuple[int, str]:
    return (at, "not JSON")


CASES: dict[str, tuple[bytes, Truth]] = {
    "clean": (GOOD, Truth(5)),
    "no final line feed": (GOOD.rstrip(b"\n"), Truth(5)),
    "crlf": (GOOD.replace(b"\n", b"\r\n"), Truth(5)),
    "byte order mark": (b"\xef\xbb\xbf" + GOOD, Truth(5)),
    "byte order mark inside": (GOOD + b"\xef\xbb\xbf" + line(6), Truth(5, 1, reasons=(not_json(6),))),
    "blank lines": (b"\n" + GOOD + b"\n  \n\t\r\n" + line(6), Truth(6, blank=4)),
    "blank lines at the end": (GOOD + b"\n\n\n", Truth(5, blank=3)),
    "cut last line": (GOOD + line(6)[:40], Truth(5, 1, reasons=((6, "incomplete last line"),))),
    "garbage line": (GOOD + b"#### rotated ####\n" + line(6), Truth(6, 1, reasons=(not_json(6),))),
    "half a line": (GOOD + line(6)[30:] + line(7), Truth(6, 1, reasons=(not_json(6),))),
    "two objects on a line": (GOOD + line(6).rstrip() + line(7), Truth(5, 1, reasons=(not_json(6),))),
    "NUL bytes": (GOOD + b"\0" * 500 + b"\n" + line(6), Truth(6, 1, reasons=((6, "NUL bytes"),))),
    "hole at the start": (b"\0" * 5000 + GOOD, Truth(4, 1, reasons=((1, "NUL bytes"),))),
    "invalid UTF-8": (GOOD + line(6).replace(b"r6", b"r\xe96"), Truth(5, 1, reasons=((6, "not UTF-8"),))),
    "raw control character": (GOOD + line(6).replace(b"r6", b"r\x016"), Truth(5, 1, reasons=(not_json(6),))),
    "scalar lines": (
        GOOD + b'42\n"text"\n',
        Truth(5, 2, reasons=((6, "JSON, but not an object"), (7, "JSON, but not an object"))),
    ),
    "array line": (GOOD + b"[1, 2]\n", Truth(5, 1, reasons=((6, "JSON, but not an object"),))),
    "null line": (GOOD + b"null\n", Truth(5, 1, reasons=((6, "JSON, but not an object"),))),
    "objects of another kind": (GOOD + b'{"message": "started"}\n{}\n', Truth(5, foreign=2)),
    "mixed chatter and garbage": (GOOD + b'{"message": 1}\n{broken\n', Truth(5, 1, foreign=1, reasons=(not_json(7),))),
    "wrong type": (GOOD + line(6, total_ms="fast"), Truth(6, bad=1, reasons=((6, "field total_ms is not a number"),))),
    "wrong time": (
        GOOD + line(6, started_at="soon"),
        Truth(6, bad=1, reasons=((6, "field started_at is not a time"),)),
    ),
    "wrong bool": (
        GOOD + line(6, stream="perhaps"),
        Truth(6, bad=1, reasons=((6, "field stream is not true or false"),)),
    ),
    "wrong integer": (
        GOOD + line(6, input_tokens="many"),
        Truth(6, bad=1, reasons=((6, "field input_tokens is not a number"),)),
    ),
    "object for a number": (
        GOOD + line(6, total_ms={"ms": 5}),
        Truth(6, bad=1, reasons=((6, "field total_ms is not a number"),)),
    ),
    "two wrong fields": (
        GOOD + line(6, total_ms="x", ttft_ms="y"),
        Truth(6, bad=2, reasons=((6, "field total_ms is not a number"), (6, "field ttft_ms is not a number"))),
    ),
    "NaN": (
        GOOD + line(6, total_ms=float("nan")),
        Truth(6, bad=1, reasons=((6, "field total_ms is negative or no number"),)),
    ),
    "infinity": (
        GOOD + line(6, ttft_ms=float("inf")),
        Truth(6, bad=1, reasons=((6, "field ttft_ms is negative or no number"),)),
    ),
    "negative duration": (
        GOOD + line(6, total_ms=-4),
        Truth(6, bad=1, reasons=((6, "field total_ms is negative or no number"),)),
    ),
    "numbers as texts": (GOOD + line(6, total_ms="12.5", input_tokens="7"), Truth(6)),
    "empty texts": (GOOD + line(6, total_ms="", model=""), Truth(6)),
    "nulls": (GOOD + line(6, total_ms=None, model=None), Truth(6)),
    "unknown keys": (GOOD + line(6, favourite_colour="blue"), Truth(6)),
    "duplicate keys": (
        GOOD + b'{"request_id": "a", "request_id": "b", "started_at": "2026-01-05T00:10:00Z"}\n',
        Truth(6),
    ),
    "deep nesting": (
        GOOD + b'{"started_at": "2026-01-05T00:10:00Z", "x": ' + b"[" * 900 + b"]" * 900 + b"}\n",
        Truth(6),
    ),
    "big integer": (
        GOOD + line(6, input_tokens=10**30),
        Truth(6, bad=1, reasons=((6, "field input_tokens is not a number"),)),
    ),
    "line of 40 MB": (
        GOOD + line(6, model="m" * (40 << 20)) + line(7),
        Truth(6, 1, reasons=((6, "line longer than 16 MiB"),)),
    ),
    "array file": (json.dumps([call(n) for n in range(4)]).encode(), Truth(4)),
    "pretty array": (json.dumps([call(n) for n in range(4)], indent=2).encode(), Truth(4)),
    "pretty objects": (b"\n".join(json.dumps(call(n), indent=2).encode() for n in range(4)), Truth(4)),
    "cut array": (
        json.dumps([call(n) for n in range(4)]).encode()[:-30],
        Truth(3, 1, reasons=((1, "incomplete last record"),)),
    ),
    "array with a scalar": (
        json.dumps([call(0), 7, call(1)]).encode(),
        Truth(2, 1, reasons=((1, "JSON, but not an object"),)),
    ),
    "csv": (
        b"request_id,started_at,total_ms,outcome\na,2026-01-05T00:00:00Z,5,completed\nb,2026-01-05T00:00:01Z,,failed\n",
        Truth(2),
    ),
    "csv with quoted line feeds": (
        b'request_id,started_at,total_ms,model\na,2026-01-05T00:00:00Z,5,"x\ny"\nb,2026-01-05T00:00:01Z,6,z\n',
        Truth(2),
    ),
    "csv with a short row": (
        b"request_id,started_at,total_ms\na,2026-01-05T00:00:00Z,5\nb,2026\n",
        Truth(1, 1, reasons=((3, "2 cells where the header has 3"),)),
    ),
    "csv with semicolons": (b"request_id;started_at;total_ms\na;2026-01-05T00:00:00Z;5\n", Truth(1)),
    "csv with a wrong value": (
        b"request_id,started_at,total_ms\na,2026-01-05T00:00:00Z,abc\n",
        Truth(1, bad=1, reasons=((2, "field total_ms is not a number"),)),
    ),
    "docker envelope": (
        b"".join(
            json.dumps({"log": line(n).decode(), "stream": "stdout", "time": "2026-01-05T00:00:00Z"}).encode() + b"\n"
            for n in range(3)
        )
        + b'{"log": "GET /healthz\\n", "stream": "stdout", "time": "2026-01-05T00:00:00Z"}\n',
        Truth(3, foreign=1),
    ),
    "kubernetes envelope": (
        b"".join(b"2026-11-25T09:12:09.020118204Z stdout F " + line(n) for n in range(3))
        + b"2026-11-25T09:12:10Z stdout F hello\n",
        Truth(3, foreign=1),
    ),
    "gzip by content": (gzip.compress(GOOD), Truth(5)),
    "gzip of two members": (gzip.compress(GOOD) + gzip.compress(line(6)), Truth(6)),
    "zstd": (zstandard.compress(GOOD), Truth(5)),
    "zstd of two frames": (zstandard.compress(GOOD) + zstandard.compress(line(6)), Truth(6)),
    "bzip2": (bz2.compress(GOOD), Truth(5)),
    "xz": (lzma.compress(GOOD), Truth(5)),
}


def read_bytes(folder: Path, data: bytes, name: str = "app.log") -> Store:
    store = Store()
    store.create()
    (folder / name).write_bytes(data)
    read(store, [str(folder / name)])
    return store


def the_input(store: Store) -> Row:
    (row,) = store.rows("select * from inputs")
    return row


@pytest.mark.parametrize("name", CASES)
def test_every_line_is_accounted_for(name: str, tmp_path: Path) -> None:
    data, truth = CASES[name]
    with read_bytes(tmp_path, data) as store:
        row = the_input(store)
        counts = (row["rows"], row["rejected"], row["blank"], row["foreign_lines"])
        assert counts == (truth.rows, truth.rejected, truth.blank, truth.foreign)
        assert row["lines"] == sum(counts)
        assert store.run("select count(*), count(distinct attempt_id) from attempts") == [(truth.rows, truth.rows)]
        assert store.run("select coalesce(sum(bad_values), 0)::int from bad_fields") == [(truth.bad,)]
        found = store.run("select line, reason from rejects order by line, reason")
        assert found == [tuple(reason) for reason in truth.reasons]


def truncations() -> list[tuple[str, bytes]]:
    many = b"".join(line(n, prompt_hash=f"{n * 7919 % 1000003:x}") for n in range(3000))
    return [
        ("gzip", gzip.compress(many)[:-2000]),
        ("zstd", zstandard.compress(many)[:-2000]),
        ("bz2", bz2.compress(many, 1)[:-2000]),
    ]


@pytest.mark.parametrize(("packing", "data"), truncations())
def test_of_truncated_compression_what_came_before_is_read_and_the_note_says_so(
    packing: str, data: bytes, tmp_path: Path
) -> None:
    with read_bytes(tmp_path, data, f"cut-{packing}") as store:
        row = the_input(store)
        assert 0 < row["rows"] < 3000
        assert row["lines"] == row["rows"] + row["rejected"] + row["blank"] + row["foreign_lines"]
        assert "end early or are damaged" in row["note"]


def test_one_broken_file_does_not_harm_the_others(tmp_path: Path) -> None:
    for number in range(9):
        lines = b"".join(line(number * 10 + k) for k in range(10))
        (tmp_path / f"{number}.log.gz").write_bytes(gzip.compress(lines))
    whole = gzip.compress(b"".join(line(n, prompt_hash=f"{n * 7919:x}") for n in range(100, 2100)))
    (tmp_path / "4.log.gz").write_bytes(whole[: len(whole) // 2])
    with Store() as store:
        store.create()
        read(store, [str(tmp_path)])
        rows = dict(store.run("select path, rows from inputs"))
        assert [rows[str(tmp_path / f"{n}.log.gz")] for n in range(9) if n != 4] == [10] * 8
        assert rows[str(tmp_path / "4.log.gz")] > 0


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "empty file"),
        (b"\x7fELF\x02\x01\x01" + bytes(range(256)) * 20, "binary"),
        (b"hello\nworld\n", "text without JSON records"),
        (b'{"message": "started"}\n' * 3, "no LLM call"),
        (b"\0" * 4096, "binary"),
    ],
)
def test_nothing_usable_is_one_sentence_that_says_what_was_found(data: bytes, words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as error, read_bytes(tmp_path, data):
        pass
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_a_late_key_and_a_late_change_of_type_are_seen(tmp_path: Path) -> None:
    lines = [line(n % 3000, request_id=str(n)) for n in range(25_000)]
    lines[24_000] = line(7, request_id="late", queue_ms=12.5)
    lines[24_001] = line(8, request_id="typed", queue_ms="a while")
    with read_bytes(tmp_path, b"".join(lines)) as store:
        assert store.run("select queue_ms from attempts where request_id = 'late'") == [(12.5,)]
        assert store.run("select field, bad_values from bad_fields") == [("queue_ms", 1)]
        assert store.run("select line, reason from rejects") == [(24_002, "field queue_ms is not a number")]


def test_a_foreign_file_beside_a_good_one_is_listed_and_no_error(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(GOOD)
    (tmp_path / "readme.txt").write_bytes(b"hello\n\nworld\n")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    (tmp_path / "zero").write_bytes(b"")
    with Store() as store:
        store.create()
        read(store, [str(tmp_path)])
        found = {
            Path(str(p)).name: tuple(rest)
            for p, *rest in store.run("select path, lines, rows, blank, foreign_lines from inputs")
        }
    assert found == {
        "a.jsonl": (5, 5, 0, 0),
        "readme.txt": (3, 0, 1, 2),
        "picture.png": (0, 0, 0, 0),
        "zero": (0, 0, 0, 0),
    }


def test_twenty_examples_of_a_reason_are_kept_and_all_are_counted(tmp_path: Path) -> None:
    with read_bytes(tmp_path, GOOD + b"{oops\n" * 50 + line(9, total_ms="x") * 1) as store:
        assert the_input(store)["rejected"] == 50
        assert store.run("select reason, count(*) from rejects group by all order by 1") == [
            ("field total_ms is not a number", 1),
            ("not JSON", 20),
        ]


def test_snippets_show_neither_prompts_nor_secrets(tmp_path: Path) -> None:
    secret = line(
        6, total_ms="x", messages=[{"role": "user", "content": "my diagnosis"}], api_key="sk-abcdefghijklmnop"
    )
    broken = b'{"prompt": "tell nobody", "authorization": "Bearer abcdefghijklmnop", \n'
    with read_bytes(tmp_path, GOOD + secret + broken) as store:
        shown = " ".join(str(row[0]) for row in store.run("select snippet from rejects"))
    assert "diagnosis" not in shown
    assert "nobody" not in shown
    assert "abcdefgh" not in shown


def test_a_growing_file_is_said_to_have_grown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "a.jsonl"
    log.write_bytes(GOOD)

    def load_then_grow(*args: object) -> None:
        load(*args)  # type: ignore[arg-type]  # whatever it was called with
        with log.open("ab") as file:
            file.write(line(9))

    monkeypatch.setattr("llmdoctor.ingest.load", load_then_grow)
    with Store() as store:
        store.create()
        read(store, [str(log)], ReadOptions())
        row = the_input(store)
    assert row["grew"]
    assert row["rows"] == 5
