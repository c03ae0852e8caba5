"""What a diagnosis says of the course of time, as frozen values: steps of a latency, and findings told as one story."""

from collections.abc import Mapping
from dataclasses import dataclass

Figure = str | float | None


@dataclass(frozen=True)
class Change:
    """What was another thing after a moment than before it. Both sides by the name of a column (or of a figure made of
    several): `{"app_version": "1.4", "share": 0.98}`, `{"input_tokens": 300.0}`, `{"requests_a_minute": 12.0}`."""

    text: str
    before: Mapping[str, Figure]
    after: Mapping[str, Figure]


@dataclass(frozen=True)
class Shift:
    """A moment at which a latency rose for good, in milliseconds, and what changed there, the most telling first."""

    vantage: str
    at: str
    figure: str
    statistic: str
    before_ms: float
    after_ms: float
    changed: tuple[Change, ...]
    text: str


@dataclass(frozen=True)
class Step:
    """One thing that began in a story. `what` is the id of a symptom, or `arrivals`."""

    at: str
    until: str
    what: str
    text: str


@dataclass(frozen=True)
class Story:
    """Findings that overlap in time, with one start, in the order in which they began."""

    start: str
    end: str
    steps: tuple[Step, ...]
    text: str
