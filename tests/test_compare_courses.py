"""Faults that come in spells, compared spell by spell."""

import random

from llmdoctor.compare.courses import longer, moved
from llmdoctor.diagnose.sample import COURSE, Course, Curve, Known, Sample
from llmdoctor.diagnose.sample import SHARES as PARTS

ROWS = 25


def failing(seed: int, spells: range, share: float, blocks: int = 40) -> Course:
    """Failures in some of the blocks, hardly any elsewhere."""
    rng = random.Random(f"{seed}/{spells}/{share}")
    parts = [sum(rng.random() < (share if at in spells else 0.002) for _ in range(ROWS)) for at in range(blocks)]
    return Course("error_share", (ROWS,) * blocks, tuple(parts))


def total(course: Course) -> float:
    return sum(course.parts) / sum(course.wholes)


def chance(before: Course, after: Course) -> float:
    found = moved(before, after, total(after) - total(before))
    return found.p_value if found else 1.0


def test_half_as_many_failures_within_one_long_spell_are_no_chance() -> None:
    for seed in range(5):
        before, after = failing(seed, range(20, 36), 0.6), failing(seed, range(8, 23), 0.3)
        assert chance(before, after) < 0.01


def test_a_spell_as_bad_as_the_other_one_is_no_change() -> None:
    chances = [chance(failing(at, range(20, 36), 0.5), failing(at + 50, range(8, 24), 0.5)) for at in range(40)]
    assert sum(one < 0.05 for one in chances) <= 4


def test_a_short_outage_proves_nothing_and_trouble_of_half_of_the_time_does() -> None:
    calm = failing(9, range(0), 0.0)
    assert chance(failing(1, range(20, 25), 0.6), calm) == 1.0
    assert chance(failing(1, range(20, 40), 0.6), calm) < 0.01


def test_many_short_spells_prove_what_one_does_not() -> None:
    one, many = failing(2, range(10, 15), 0.5), failing(2, range(0, 40, 5), 0.5)
    calm = failing(3, range(0), 0.0)
    assert chance(one, calm) == 1.0
    assert chance(many, calm) < 0.01


def test_more_spells_that_are_less_bad_tell_neither() -> None:
    assert moved(failing(1, range(10), 0.9), failing(1, range(30), 0.45), 0.11) is None


def test_a_few_blocks_tell_nothing() -> None:
    assert moved(failing(1, range(4), 0.9, 8), failing(1, range(4), 0.2, 8), -0.3) is None


def waiting(seed: int, held: float) -> Sample:
    """First tokens of which a share is held back for seconds, for a third of the time."""
    rng = random.Random(seed)
    rows = [
        sorted(
            rng.lognormvariate(8, 0.4) if 12 <= at < 26 and rng.random() < held else rng.lognormvariate(5.8, 0.2)
            for _ in range(ROWS)
        )
        for at in range(40)
    ]
    grids = tuple(tuple(own[min(ROWS - 1, int(share * ROWS))] for share in COURSE) for own in rows)
    every = sorted(value for own in rows for value in own)
    curve = Curve(
        "ttft_ms",
        len(every),
        tuple(every[min(len(every) - 1, int(share * len(every)))] for share in PARTS),
        (Known("p95", 1.0, 0.0),),
    )
    course = Course("ttft_ms", (ROWS,) * 40, grids=grids)
    return Sample(
        "client", len(every), 40, 1.0, (), 0, (), 0, (), 0, (), (), (), curves=(curve,), courses=(course,)
    )  # fmt: skip


def test_fewer_that_are_held_back_show_though_those_wait_as_long() -> None:
    before, half = waiting(1, 0.9), waiting(2, 0.4)
    found = longer(before, half, "ttft_ms", 0.22)
    assert found
    assert found.value < 0
    assert found.p_value < 0.01
    same = longer(before, waiting(3, 0.9), "ttft_ms", 0.3)
    assert same is None or same.p_value > 0.05
