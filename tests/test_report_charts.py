"""The drawings: each says in words what it shows, keeps its extremes, and has its numbers beside it."""

import dataclasses
import re

import pytest
from markupsafe import Markup

from llmdoctor.diagnose.pictures import Distribution, Wall
from llmdoctor.diagnose.values import Arrival
from llmdoctor.report import axes, html, relation, replicas, spread, timeline, view, waterfall
from tests.report_samples import ordinary, pictures

FOUND = ordinary()
DRAWN = pictures()


def _charts() -> dict[str, Markup]:
    assert DRAWN.instances is not None
    return {
        "timeline": timeline.timeline_chart(FOUND.timeline, view.findings(FOUND), DRAWN.heat),
        "spread": spread.chart(DRAWN.distributions, FOUND.metrics),
        "relation": relation.chart(DRAWN.relations[0]),
        "replicas": replicas.chart(DRAWN.instances, FOUND.timeline),
    }


@pytest.mark.parametrize("name", _charts())
def test_has_a_title_a_description_and_paint_without_styles(name: str) -> None:
    chart = _charts()[name]
    assert re.search(r"<title id=[^>]*>[^<]{10,}</title><desc id=[^>]*>[^<]{40,}</desc>", chart)
    assert 'role="img"' in chart
    shapes = re.findall(r"<(?:path|line|rect)\b[^>]*>", chart)
    unpainted = [shape for shape in shapes if " fill=" not in shape and ' height="1"' not in shape]
    assert shapes
    assert unpainted == []


@pytest.mark.parametrize("name", _charts())
def test_draws_no_coordinate_that_is_no_number(name: str) -> None:
    assert not re.search(r"nan|inf|None", re.sub(r"<(title|desc|text).*?</\1>", "", _charts()[name]))


def test_the_timeline_says_when_it_was_worst() -> None:
    told = timeline.reading(FOUND.timeline)
    assert "in flight at once (at 13:40:00)" in told
    assert "The median TTFT lies between" in told
    assert f"{sum(one.failures for one in FOUND.timeline.bins):,} failed" in told


def test_joining_bins_keeps_the_highest() -> None:
    many = tuple(FOUND.timeline.bins[number % 60] for number in range(400))
    peak = dataclasses.replace(many[123], p99_ttft_ms=99_000.0)
    whole = dataclasses.replace(FOUND.timeline, bins=(*many[:123], peak, *many[124:]))
    joined = timeline.squeezed(whole)
    assert len(joined.bins) <= timeline.MAX_BINS
    assert max(one.p99_ttft_ms or 0 for one in joined.bins) == 99_000.0
    assert sum(one.requests for one in joined.bins) == sum(one.requests for one in whole.bins)


def test_a_single_attempt_has_a_shade_of_its_own_in_the_heat_map() -> None:
    chart = timeline.timeline_chart(FOUND.timeline, (), DRAWN.heat)
    lightest = re.search(r'class="heat1"[^>]* d="([^"]*)"', chart)
    assert lightest
    assert DRAWN.heat is not None
    assert lightest[1].count("z") >= sum(column.count(1) for column in DRAWN.heat.columns)


def test_the_spread_is_told_with_its_percentiles_and_where_attempts_end() -> None:
    told = spread.reading(DRAWN.distributions, FOUND.metrics)
    assert "Half have their first token within 510\u00a0ms, one in a hundred takes 24.3\u00a0s or more" in told
    assert "212 timed out at 30\u00a0s" in told
    chart = spread.chart(DRAWN.distributions, FOUND.metrics)
    assert "P95 9.12\u00a0s" in chart
    assert chart.count('class="wall"') == 2


def test_a_limit_far_beyond_all_attempts_does_not_press_them_together() -> None:
    whole = dataclasses.replace(DRAWN.distributions[1], walls=(Wall(6e7, 10, "limit"),))
    assert 'class="wall"' not in spread.chart((whole,), FOUND.metrics)
    assert "10 attempts had a limit of 16" in spread.reading((whole,), FOUND.metrics)


def test_the_table_of_the_spread_adds_up() -> None:
    for one in DRAWN.distributions:
        rows = spread.table(one)
        assert sum(row[2] for row in rows) == sum(one.ended)
        assert sum(row[3] for row in rows) == sum(one.cut)


def test_load_at_equal_length_is_a_sentence() -> None:
    told = relation.reading(DRAWN.relations[0])
    assert told.startswith(
        "With 32 to 63 input tokens the median TTFT is 500\u00a0ms, with 4,096 to 8,191 it is 1.2\u00a0s"
    )
    assert "At equal length it is" in told
    assert "At equal length" not in relation.reading(DRAWN.relations[1])


def test_the_slow_replica_is_named() -> None:
    assert DRAWN.instances is not None
    told = replicas.reading(DRAWN.instances)
    assert "400\u00a0ms at 10.0.0.1:8000 and 2.8\u00a0s at 10.0.0.7:8000, 7x as long" in told


def test_phases_of_a_probe_follow_each_other_and_end_with_the_answer() -> None:
    times = {"dns_ms": 2.0, "connect_ms": 5.0, "tls_ms": 10.0, "header_ms": 40.0, "first_byte_ms": 41.0}
    one = Arrival("public", "completed", 200, {**times, "ttft_ms": 900.0, "total_ms": 1000.0}, 9, (), {})
    parts = waterfall.stretches(one)
    names = ["DNS", "connect", "TLS", "headers", "first byte", "first token", "rest"]
    assert [part.name for part in parts] == names
    assert [part.start_ms + part.duration_ms for part in parts][2:] == [17.0, 40.0, 41.0, 900.0, 1000.0]
    assert "first token 859" in waterfall.phases([one])
    assert waterfall.phases([dataclasses.replace(one, phases={})]) == ""


def test_a_scale_has_round_ticks_within_its_ends() -> None:
    for low, high in ((3.0, 8.0), (0.2, 90_000.0), (950.0, 1050.0), (1.0, 1.0)):
        scale = axes.log_scale([low, high])
        ticks = scale.ticks()
        assert 2 <= len(ticks) <= 12
        assert all(0 <= scale.share(tick) <= 1 for tick in ticks)
        assert 0 < scale.share(low) <= scale.share(high) < 1


def test_the_charts_of_latency_stand_in_the_finding_that_they_explain() -> None:
    page = html.render(FOUND)
    first, second = page.index('id="finding-1"'), page.index('id="finding-2"')
    assert first < page.index("How long do they take?") < second
    without = dataclasses.replace(FOUND, symptoms=(), causes=())
    assert '<h2 id="pictures">' in html.render(without)
    assert '<h2 id="pictures">' in page  # for the replicas, which no finding is about


def test_an_empty_distribution_draws_nothing() -> None:
    assert spread.chart((), FOUND.metrics) == ""
    one = Distribution("client", None, None, "ttft_ms", 10, (3,), (), ())
    assert "TTFT: 3 attempts" in spread.chart((one,), ())
