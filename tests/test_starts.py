"""Attempts in the order of their starts: ranks with ties, and the longest silence of each file."""

from collections.abc import Iterator

import pytest

from llmdoctor.stats.starts import longest_gaps, write_ranks
from llmdoctor.store import Store

STARTS = """
insert into attempts by name
select input_id, cast(started_at as timestamptz) as started_at
from   (values (1, '2026-01-05 10:00:03Z'), (1, null), (2, '2026-01-05 10:00:00Z'), (1, '2026-01-05 10:00:03Z'),
               (1, '2026-01-05 10:00:01Z'), (2, '2026-01-05 10:00:09.5Z'), (3, '2026-01-05 10:00:20Z'), (1, null))
       as rows(input_id, started_at)
"""


@pytest.fixture
def store() -> Iterator[Store]:
    with Store() as store:
        store.create()
        yield store


def test_equal_starts_share_the_place_of_the_first_and_those_without_one_come_last(store: Store) -> None:
    store.script(STARTS)
    write_ranks(store)
    found = store.run(
        "select started_at is null, epoch(started_at) % 60, n, k from ranks join attempts a on a.rowid = r order by n"
    )
    assert [(second, n, k) for missing, second, n, k in found if not missing] == [
        (0, 1, 1), (1, 2, 2), (3, 3, 3), (3, 4, 3), (9.5, 5, 5), (20, 6, 6),
    ]  # fmt: skip
    assert [(n, k) for missing, _, n, k in found if missing] == [(7, 7), (8, 7)]


def test_no_attempt_has_no_rank_and_no_gap(store: Store) -> None:
    write_ranks(store)
    assert store.run("select count(*) from ranks") == [(0,)]
    assert longest_gaps(store) == {}


def test_where_no_start_is_known_all_share_the_first_place(store: Store) -> None:
    store.script("insert into attempts by name select 1 as input_id from range(3)")
    write_ranks(store)
    assert store.run("select n, k from ranks order by n") == [(1, 1), (2, 1), (3, 1)]


def test_the_longest_gap_is_that_between_neighbours_of_one_file(store: Store) -> None:
    store.script(STARTS)
    assert longest_gaps(store) == {1: 2000.0, 2: 9500.0}
