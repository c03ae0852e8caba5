"""Of a log of more than half a million attempts, the part on which causes are weighed.

Limits are judged on every row. What speaks for and against a cause is a matter of shares, and of what ran beside what:
some hundred thousand attempts tell that as well as ten million. The part is whole minutes, so that rates and neighbours
stay what they are.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from llmdoctor.diagnose.front import Fronts
from llmdoctor.store import Store, package_sql, padded

MOST = 500_000
"""Attempts up to which a log is weighed whole."""

ENOUGH = 400_000
"""Attempts of the part at most, but for some minutes; half of them are spread evenly."""

# What stands for a row of the log in queries; views first, `expected` is a table.
SHOWN = ("attempts", "attempts_expected", "expected")
TABLES = ("pairs", "tried", "staged")


@contextmanager
def part_of(store: Store, fronts: Fronts) -> Iterator[str | None]:
    """While it lasts, queries read the part instead of the whole. Gives the sentence that says so; None, and nothing is
    changed, for a log that is weighed whole."""
    rows = store.run("select count(*) from attempts")[0][0]
    chosen = store.ask(package_sql("diagnose/part.sql"), {"enough": ENOUGH}) if rows > MOST else []
    if not chosen:
        yield None
        return
    kept = _keep(store, [(run["from_id"], run["to_id"]) for run in chosen])
    _swap(store)
    fronts.forget()
    try:
        yield (
            f"Causes were weighed on {kept:,} of {rows:,} attempts: {sum(run['minutes'] for run in chosen):,} whole"
            " minutes, most of them spread evenly, others where most were slow or failed. Limits were judged on all."
        )
    finally:
        _swap_back(store)
        fronts.forget()


def _keep(store: Store, ranges: list[tuple[int, int]]) -> int:
    """The table `part_rows`: the columns that some record has, and those of `expected`. One range at a time, so that
    only of these rows all columns are read."""
    own = store.columns("attempt_rows")
    added = [name for name in store.columns("expected") if name not in own]
    columns = ", ".join([*(f"a.{name}" for name in own), *(f"e.{name}" for name in added)])
    parts = " union all ".join(
        f"select {columns} from attempt_rows a join expected e on e.attempt_id = a.attempt_id"
        f" where a.attempt_id between {first} and {last}"
        for first, last in ranges
    )
    store.script(f"create or replace temp table part_rows as {parts}")
    return int(store.run("select count(*) from part_rows")[0][0])


def _swap(store: Store) -> None:
    given = store.columns("part_rows")
    for name in SHOWN:
        columns = padded(store.columns(name), given)
        store.script(f"alter {_kind(name)} {name} rename to whole_{name}")
        store.script(f"create view {name} as select {columns} from part_rows")
    for name in TABLES:
        store.script(f"alter table {name} rename to whole_{name}")
        store.script(f"create table {name} as select t.* from whole_{name} t semi join part_rows using (attempt_id)")


def _swap_back(store: Store) -> None:
    for name in SHOWN:
        store.script(f"drop view {name}; alter {_kind(name)} whole_{name} rename to {name}")
    for name in TABLES:
        store.script(f"drop table {name}; alter table whole_{name} rename to {name}")
    store.script("drop table part_rows")


def _kind(name: str) -> str:
    return "table" if name == "expected" else "view"
