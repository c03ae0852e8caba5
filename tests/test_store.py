"""The store runs what it is given, says in one line what DuckDB refused, and once sealed reaches nothing outside."""

import inspect
from datetime import UTC, datetime
from pathlib import Path

import pytest

from llmdoctor.errors import StoreError
from llmdoctor.store import Store, bind_limits, first_line, package_sql


def test_the_canonical_tables_are_made_with_a_comment_for_every_column_of_doubt() -> None:
    with Store() as store:
        store.create()
        columns = store.columns("attempts")
    assert columns["attempt_id"] == "BIGINT"
    assert columns["started_at"] == "TIMESTAMP WITH TIME ZONE"
    assert all(kind == "DOUBLE" for name, kind in columns.items() if name.endswith("_ms"))
    assert all(kind == "TIMESTAMP WITH TIME ZONE" for name, kind in columns.items() if name.endswith("_at"))
    assert "-- One row per attempt" in package_sql("schema.sql")


def test_rows_go_in_and_come_out_as_python_values() -> None:
    with Store() as store:
        store.create()
        at = datetime(2026, 1, 5, 12, tzinfo=UTC)
        store.insert(
            "attempts", ["attempt_id", "started_at", "stream", "ttft_ms"], [(1, at, True, 12.5), (2, at, None, None)]
        )
        rows = store.rows("select attempt_id, started_at, stream, ttft_ms from attempts order by attempt_id")
    assert rows[0] == {"attempt_id": 1, "started_at": at, "stream": True, "ttft_ms": 12.5}
    assert rows[1]["ttft_ms"] is None


def test_inserting_nothing_is_no_error() -> None:
    with Store() as store:
        store.create()
        store.insert("attempts", ["attempt_id"], [])
        assert store.run("select count(*) from attempts") == [(0,)]


def test_instants_are_shown_in_utc() -> None:
    with Store() as store:
        assert store.run("select cast(timestamptz '2026-01-05 12:00:00+02' as varchar)") == [
            ("2026-01-05 10:00:00+00",)
        ]


def test_limits_are_bound_and_only_those_that_occur() -> None:
    with Store() as store:
        assert store.ask("select :share * 2 as twice, ':least' as text", {"share": 0.5, "least": 3}) == [
            {"twice": 1.0, "text": ":least"}
        ]


def test_a_limit_that_is_not_there_is_named() -> None:
    with Store() as store, pytest.raises(StoreError, match="no limit or parameter is called least"):
        store.ask("select :least", {"share": 0.5})


@pytest.mark.parametrize(
    ("sql", "bound", "used"),
    [
        ("select :a + :b", "select $a + $b", {"a", "b"}),
        ("select x::int, :a", "select x::int, $a", {"a"}),
        ("select ':a', 'it''s :b', :c", "select ':a', 'it''s :b', $c", {"c"}),
        ('select ":a", :c', 'select ":a", $c', {"c"}),
        ("select 1 -- :a\n, :b", "select 1 -- :a\n, $b", {"b"}),
        ("select /* :a\n :b */ :c", "select /* :a\n :b */ $c", {"c"}),
    ],
)
def test_names_in_strings_comments_and_casts_are_no_limits(sql: str, bound: str, used: set[str]) -> None:
    assert bind_limits(sql) == (bound, used)


@pytest.mark.parametrize("method", ["run", "rows", "script"])
def test_what_duckdb_refuses_is_one_line(method: str) -> None:
    with Store() as store, pytest.raises(StoreError) as caught:
        getattr(store, method)("select nothing from nowhere")
    assert "nowhere" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_row_that_does_not_fit_names_the_table() -> None:
    with Store() as store:
        store.create()
        with pytest.raises(StoreError, match="attempts: "):
            store.insert("attempts", ["attempt_id"], [("many",)])


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    path = tmp_path / "garbage.duckdb"
    path.write_text("{}\n" * 2000, encoding="utf-8")
    with pytest.raises(StoreError, match=r"garbage\.duckdb"):
        Store(path)


def test_a_file_keeps_what_was_put_into_it(tmp_path: Path) -> None:
    with Store(tmp_path / "kept.duckdb") as store:
        store.create()
        store.insert("attempts", ["attempt_id"], [(7,)])
    with Store(tmp_path / "kept.duckdb", memory="200MB", threads=1) as store:
        assert store.run("select attempt_id from attempts") == [(7,)]


@pytest.mark.parametrize(
    "sql",
    [
        "select * from read_csv('{path}')",
        "copy (select 1) to '{path}.out'",
        "attach '{path}.db'",
        "set enable_external_access = true",
        "set threads = 1",
        "install httpfs",
    ],
)
def test_a_sealed_store_reaches_no_file_and_no_setting(sql: str, tmp_path: Path) -> None:
    path = tmp_path / "secret.csv"
    path.write_text("a\n1\n", encoding="utf-8")
    with Store() as store:
        store.seal()
        with pytest.raises(StoreError):
            store.run(sql.format(path=path))
        assert store.run("select 1") == [(1,)]


def test_what_does_not_fit_into_memory_waits_outside_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sql = "select max(n) from (select row_number() over (order by hash(range), range) as n from range(3_000_000))"
    with Store(memory="64MB") as store:
        store.seal()
        assert store.run(sql) == [(3_000_000,)]
    assert not list(tmp_path.iterdir())


def test_an_error_without_text_still_has_a_line() -> None:
    assert first_line(ValueError("")) == "unknown error"
    assert first_line(ValueError("one  \ntwo")) == "one"


def test_every_public_method_says_what_it_does() -> None:
    public = [member for name, member in inspect.getmembers(Store, inspect.isfunction) if not name.startswith("_")]
    assert [member.__name__ for member in public if not member.__doc__] == []
