"""What the charts of a report are drawn from, as frozen values: counts and percentiles, never single requests.

Durations are counted in cells of equal ratio: cell k holds those from 10 ** (k / n) ms on, up to where cell k + 1
begins, with n = FINE cells a decade in a `Distribution` and COARSE in a `Heat`. Columns of time join whole bins of the
report's timeline, so that all time charts share its axis.
"""

from dataclasses import dataclass

FINE = 20
COARSE = 8


@dataclass(frozen=True)
class Wall:
    """A duration on which attempts end: `what` is "limit" (which callers had set) or the outcome that piles up."""

    at_ms: float
    attempts: int
    what: str


@dataclass(frozen=True)
class Distribution:
    """How one latency of one population spreads (that of the metric of the same vantage, model, stream and name).

    `ended` and `cut` (timeouts and cancellations: "at least") count per cell from cell `first` on."""

    vantage: str
    model: str | None
    stream: bool | None
    name: str
    first: int
    ended: tuple[int, ...]
    cut: tuple[int, ...]
    walls: tuple[Wall, ...]


@dataclass(frozen=True)
class Step:
    """The attempts with `low` to `high` tokens, or others running; the median of those that began while little (calm)
    or much (busy) ran, where five did."""

    low: int
    high: int
    n: int
    p50_ms: float
    p90_ms: float
    max_ms: float
    calm_p50_ms: float | None
    busy_p50_ms: float | None


@dataclass(frozen=True)
class Relation:
    """How a latency (`name`) goes with `by`: input_tokens, output_tokens or others (attempts running at the start).
    `every`: only each so-maniest attempt was looked at."""

    vantage: str
    name: str
    by: str
    every: int
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Heat:
    """Attempts by time and latency: one column for each `join` bins of the timeline, counts from cell `first` on."""

    name: str
    join: int
    first: int
    columns: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Instance:
    """One replica over time: for each column the attempts, their median and highest latency; None without any."""

    instance: str
    n: int
    failures: int
    p50_ms: float | None
    columns: tuple[tuple[int, float | None, float | None], ...]


@dataclass(frozen=True)
class Instances:
    """The replicas with most attempts, by name, at the outermost vantage that knows several; `left_out` are the
    others."""

    vantage: str
    name: str
    join: int
    instances: tuple[Instance, ...]
    left_out: int


@dataclass(frozen=True)
class Pictures:
    """Everything drawn beside the timeline and the example requests. `shown_with` is the symptom (id, vantage) under
    which the latency charts belong, None where no finding is about latency."""

    shown_with: tuple[str, str] | None = None
    distributions: tuple[Distribution, ...] = ()
    relations: tuple[Relation, ...] = ()
    heat: Heat | None = None
    instances: Instances | None = None
