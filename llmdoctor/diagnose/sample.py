"""What the attempts of one vantage look like, small enough to be kept in a report and compared with another's.

Everything that `compare` knows of requests stands here, so that two reports, two stores and two logs compare alike.
"""

from dataclasses import dataclass

# The shares at which a kind's durations are kept: its smallest, eight between, its largest.
GRID = (0.0, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 1.0)

# Where the distribution of all durations is known; an interval ends between two of them.
SHARES = (
    *(0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.84, 0.87),
    *(0.9, 0.915, 0.93, 0.94, 0.95, 0.96, 0.97, 0.975, 0.98, 0.985, 0.99, 0.9925, 0.995, 0.9975, 0.999, 1.0),
)
# The same of one block of time.
COURSE = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 1.0)
QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


@dataclass(frozen=True)
class Figure:
    """One number of the whole vantage with its 95 % interval over blocks of time; an end that is open is None.

    `ttft_ms.p50` and the like in milliseconds, `error_share`, `timeout_share` of one, `retries_per_task` a mean,
    `cost_per_task` in US dollars. `n` are the attempts behind it."""

    name: str
    value: float | None
    low: float | None
    high: float | None
    n: int


@dataclass(frozen=True)
class Known:
    """What the share of attempts at or below a quantile is worth: `clustered` of them tell as little as one, and its
    95 % interval reaches `reach` standard errors further than one of a known variance."""

    word: str
    clustered: float
    reach: float


@dataclass(frozen=True)
class Curve:
    """A duration (ms) of `n` attempts at the shares of SHARES, None where callers did not wait for so long, and what
    its quantiles are worth."""

    name: str
    n: int
    values: tuple[float | None, ...]
    known: tuple[Known, ...]


@dataclass(frozen=True)
class Course:
    """How one quantity went over the blocks of time: of a share `wholes` attempts and `parts` of them in each block, of
    a duration so many attempts and their values (ms) at the shares of COURSE (those that were cut off: for so long)."""

    name: str
    wholes: tuple[int, ...]
    parts: tuple[int, ...] = ()
    grids: tuple[tuple[float, ...], ...] = ()


@dataclass(frozen=True)
class Kind:
    """Completed requests that should take alike: one model, streamed or not, near-equal lengths. `grid` are their
    durations (ms) at the shares of GRID. A band is the binary logarithm of 1 + tokens, rounded down; that of the
    prompt covers two of them where it is not alone. `tokens` is the median of what the duration follows: of the answer
    for the total, of the prompt for the first token; None for the time per token. `cost` is the mean in US dollars."""

    model: str | None
    stream: bool | None
    input_band: int | None
    output_band: int | None
    n: int
    tokens: float | None
    grid: tuple[float, ...]
    cost: float | None = None


@dataclass(frozen=True)
class Endings:
    """How the attempts at one model ended: of `n` so many timed out, so many failed."""

    model: str
    n: int
    timeouts: int
    bad: int


@dataclass(frozen=True)
class Trait:
    """Something that may differ between two logs beside the times: a number, or how many attempts have which value
    ("model=x", the most frequent first)."""

    name: str
    value: float | None = None
    values: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Sample:
    """The attempts of one vantage: figures, kinds by total time, by first token and by time per token, how each model's
    attempts ended, and what else may differ. `clustered` says how many slow attempts tell as little as one, for they
    come in episodes (a variance ratio, 1 where they are independent). `totals`, `firsts` and `paces` count the attempts
    that the kinds were made of, those beyond the longest list too; `curves` hold those that failed as well, `courses`
    how durations and endings went over time."""

    vantage: str
    n: int
    blocks: int
    clustered: float
    figures: tuple[Figure, ...]
    totals: int
    total_kinds: tuple[Kind, ...]
    firsts: int
    first_kinds: tuple[Kind, ...]
    paces: int
    pace_kinds: tuple[Kind, ...]
    endings: tuple[Endings, ...]
    traits: tuple[Trait, ...]
    curves: tuple[Curve, ...] = ()
    courses: tuple[Course, ...] = ()
