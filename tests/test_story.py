"""Findings that overlap in time are one story with one start, told in the order in which they began."""

import json
import random
from typing import Any

from llmdoctor import rulebook
from llmdoctor.diagnose import Diagnosis, diagnose
from llmdoctor.diagnose.values import to_json
from llmdoctor.report import text
from tests.filled import filled

BOOK = rulebook.load()


def incident() -> list[dict[str, Any]]:
    """Quiet for ten minutes; then three times as much arrives, first tokens come late, and calls time out and fail."""
    draw = random.Random(3)
    rows: list[dict[str, Any]] = []
    clock = 0.0
    while clock < 1800:
        busy = 600 <= clock < 1200
        clock += draw.expovariate(1.5 if busy else 0.5)
        wait = max(0.0, min(clock - 600, 1200 - clock)) * 40 if busy else 0.0
        ttft_ms = 300 * draw.lognormvariate(0, 0.2) + wait
        row = {"at_s": clock, "stream": True, "model": "m", "input_tokens": 300, "output_tokens": 80}
        if ttft_ms > 9000:
            row |= {"outcome": "timeout", "timeout_phase": "first_token", "total_ms": 9000.0}
        else:
            row |= {"ttft_ms": ttft_ms, "total_ms": ttft_ms + 2000 * draw.lognormvariate(0, 0.2)}
        rows.append(row)
    return rows


def judged(rows: list[dict[str, Any]]) -> Diagnosis:
    with filled(rows) as store:
        return diagnose(store, BOOK)


def test_one_incident_has_one_start_and_its_steps_in_order() -> None:
    story = judged(incident()).story
    assert story is not None
    began = {step.what: step.at for step in story.steps}
    assert "2026-01-05T00:09" <= story.start <= "2026-01-05T00:12"
    assert "2026-01-05T00:18" <= story.end <= "2026-01-05T00:23"
    assert began["arrivals"] <= began["high_ttft"] <= began["client_timeouts"]
    assert [step.at for step in story.steps] == sorted(step.at for step in story.steps)


def test_arrivals_that_rose_are_told_with_their_rates() -> None:
    story = judged(incident()).story
    assert story is not None
    first = story.steps[0]
    assert first.what == "arrivals"
    assert "first tries a minute rise from" in first.text


def test_the_story_is_in_the_json_and_on_the_screen() -> None:
    found = judged(incident())
    assert json.loads(to_json(found))["story"]["text"] == (found.story.text if found.story else "")
    assert "Course: One incident from 00:" in text.render(found)


def test_a_log_without_findings_has_no_story() -> None:
    draw = random.Random(1)
    rows = [
        {"at_s": 2 * place, "ttft_ms": 300.0, "total_ms": 2000 * draw.lognormvariate(0, 0.1), "stream": True}
        for place in range(300)
    ]
    found = judged(rows)
    assert found.present == ()
    assert found.story is None


def test_a_lone_finding_is_no_story() -> None:
    draw = random.Random(1)
    rows = [
        {"at_s": 2 * place, "total_ms": 2000 * draw.lognormvariate(0, 0.1)}
        | ({"outcome": "failed", "error_type": "invalid_request", "http_status": 400} if place % 9 == 0 else {})
        for place in range(300)
    ]
    found = judged(rows)
    assert {one.id for one in found.present} == {"errors"}
    assert found.story is None
