"""What a score is worth: read from the tables, by field profile, and never where nothing was measured."""

from pathlib import Path

import pytest

from llmdoctor import rulebook
from llmdoctor.diagnose.confidence import between, probability, profile_of, rounded
from llmdoctor.diagnose.values import Symptom
from tests.filled import filled

KNOTS = [[0.3, 0.1], [0.5, 0.5], [0.5, 0.6], [0.9, 0.8]]
TABLES = {"full": {"pooled": KNOTS, "causes": {"queueing": [[0.3, 0.9]]}}}


def finding(vantage: str) -> Symptom:
    return Symptom("high_ttft", "", "high", "present", vantage, "all", 3.0, 2.0, "s", 1, 1, None, None, None)


@pytest.mark.parametrize(
    ("score", "expected"), [(0.1, 0.1), (0.3, 0.1), (0.4, 0.3), (0.5, 0.5), (0.7, 0.7), (0.9, 0.8), (1.0, 0.8)]
)
def test_a_table_is_read_linearly_and_flat_outside(score: float, expected: float) -> None:
    assert between(KNOTS, score) == pytest.approx(expected)


def test_a_page_has_its_own_table_or_reads_the_pooled_one() -> None:
    assert probability(TABLES, "full", "queueing", finding("client"), 0.4) == 0.9
    assert probability(TABLES, "full", "my_own_page", finding("client"), 0.4) == pytest.approx(0.3)


def test_nothing_is_claimed_of_a_probe_or_without_a_table() -> None:
    assert probability(TABLES, "full", "queueing", finding("probe"), 0.4) is None
    assert probability(TABLES, "client", "queueing", finding("client"), 0.4) is None


def test_one_inner_field_or_a_second_vantage_makes_a_full_log() -> None:
    alone = {"at_s": 0, "vantage": "client", "total_ms": 1000.0}
    for rows, expected in (
        ([alone], "client"),
        ([{**alone, "queue_ms": 3.0}], "full"),
        ([alone, {"at_s": 0, "vantage": "engine", "total_ms": 900.0}], "full"),
    ):
        with filled(rows) as store:
            assert profile_of(store) == expected


def test_no_confidence_becomes_certainty_by_rounding() -> None:
    assert [rounded(value) for value in (0.123456, 0.996, 0.99999, 1.0)] == [0.123, 0.99, 0.99, 1.0]


def test_a_page_that_replaces_a_shipped_one_does_not_inherit_its_table(tmp_path: Path) -> None:
    tables = tmp_path / "calibration.toml"
    tables.write_text("[full]\npooled = [[0.3, 0.1]]\n[full.causes]\nqueueing = [[0.3, 0.9]]\nnetwork = [[0.3, 0.8]]\n")
    assert rulebook.read_calibration(tables, {"queueing"}) == {
        "full": {"pooled": [[0.3, 0.1]], "causes": {"network": [[0.3, 0.8]]}}
    }


def test_where_nothing_was_measured_there_is_no_table(tmp_path: Path) -> None:
    assert rulebook.read_calibration(tmp_path / "calibration.toml", ()) == {}
