"""The diagnosis finds at least as much of a small part of the simulated corpus as is on record."""

from tests.simulator.floor import shortfalls, tasks
from tests.simulator.results import run_all


def test_no_less_is_found_than_is_on_record() -> None:
    results = [one for _, found in run_all(tasks(), jobs=2) for one in found]
    assert len(results) > 150
    assert shortfalls(results) == []
