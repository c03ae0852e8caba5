"""What is asked of a service and how often: plain frozen values, seconds unless a name ends in _ms."""

from __future__ import annotations

from dataclasses import dataclass

from tests.simulator.door import FOREVER


@dataclass(frozen=True)
class Lengths:
    """Prompt and answer lengths: inverse distribution functions as (share, tokens) points, drawn independently."""

    name: str
    prompt: tuple[tuple[float, float], ...]
    answer: tuple[tuple[float, float], ...]
    prefix: tuple[int, int] = (150, 400)


@dataclass(frozen=True)
class Load:
    """Arrivals: gamma renewal with mean rate ``rate`` and ``cv``, times the multiplier of the phase of the log.

    phases: (share of the expected log at which it begins, multiplier). sessions: (requests in a session, idle
    seconds after it) medians of lognormals: traffic with silences.
    """

    rate: float
    cv: float = 1.15
    phases: tuple[tuple[float, float], ...] = ((0.0, 1.0),)
    sessions: tuple[float, float] | None = None


@dataclass(frozen=True)
class Helpers:
    """Calls that a user interface adds to each chat: a title, tags, follow-up questions."""

    count: tuple[int, int]
    answer: tuple[int, int]
    share: float = 1.0
    start: float = 0.0


@dataclass(frozen=True)
class Batch:
    """A job of one caller: ``workers`` at a time, until ``stop`` or through ``items`` asked ``runs`` times each."""

    name: str
    client: int
    start: float
    stop: float
    workers: int
    prompt: tuple[int, int]
    answer: tuple[int, int]
    items: int = 0
    runs: int = 1
    fail_share: float = 0.0  # of the first run; the job then runs whole again
    new_tasks: bool = False


@dataclass(frozen=True)
class Tasks:
    """Jobs behind a queue whose states are logged. fault: none | lost | duplicate | premature | conflict."""

    workers: int
    fault: str = "none"
    start: float = 0.0
    share: float = 0.0  # of tasks, or (lost) workers that die
    lease_s: float = FOREVER  # after this long a task is handed out again


@dataclass(frozen=True)
class Mix:
    """Who asks what. tenants and models carry weights; ``samples`` > 1 asks the same prompt that many times at once."""

    lengths: Lengths
    tenants: tuple[tuple[str, float], ...]
    models: tuple[tuple[str, float], ...]
    stream_share: float = 1.0
    samples: int = 1
    sample_share: float = 0.0
    same_task: bool = False
    long_prompt_share: float = 0.0
    long_prompt: tuple[int, int] = (0, 0)
    long_from: float = 0.0
    runaway_share: float = 0.0
    runaway_cap: int = 8192
    poison_share: float = 0.0
    cancel_share: float = 0.004
    wrong: tuple[str, str, float, int] | None = None  # (dimension, value, share, status): the caller's own mistakes
    wrong_from: float = 0.0
    long_answer_share: float = 0.0
    long_answer: tuple[int, int] = (0, 0)
    schema_share: float = 0.0
    schemas: int = 0
    stages: tuple[tuple[str, float], ...] = ()  # (retrieval | tool, median ms) before every call
    helpers: Helpers | None = None
    batches: tuple[Batch, ...] = ()
    tasks: Tasks | None = None
