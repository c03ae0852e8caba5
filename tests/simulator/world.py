"""The description of one simulated world: plain frozen values, no behaviour beyond look-ups.

Seconds unless a name ends in ``_ms``. Everything random about a world is decided by ``seed`` (streams are named, so a
faulty world and its healthy twin draw the same arrivals, lengths and network noise).
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from tests.simulator.door import FOREVER, Gateway
from tests.simulator.traffic import Load, Mix


def stream(seed: int, name: str) -> random.Random:
    """An independent random stream: changing how one part draws must not move the others."""
    return random.Random(f"llmdoctor/{seed}/{name}")


def kind_of(world: World, *kinds: str) -> str:
    """The kind of a fault: kinds take turns over the seeds, so that a handful of seeds sees all of them."""
    offset = sum(world.name.encode())
    return kinds[(world.seed + offset) % len(kinds)]


@dataclass(frozen=True)
class Setup:
    """One GPU set-up: the step-time model of knowledge/diagnosis.md 3.2 (figures and their sources in setups.py)."""

    name: str
    base_ms: float
    seq_ms: float
    ctx_ms: float
    prefill_ms: float
    pair_ms: float
    kv_tokens: int
    budget: int
    cold_s: float


@dataclass(frozen=True)
class Instance:
    """One replica: what it runs, where, since when which version, and how many sequences it takes at once."""

    name: str
    model: str
    region: str
    setup: Setup
    slots: int
    versions: tuple[tuple[float, str], ...]
    kv_tokens: int

    def version(self, at: float) -> str:
        return [name for since, name in self.versions if since <= at][-1]


@dataclass(frozen=True)
class Region:
    """Round trip between the callers of a region and its service; jitter is the sigma of a lognormal."""

    name: str
    rtt_ms: float
    jitter: float = 0.12


@dataclass(frozen=True)
class Damage:
    """What goes wrong with the requests whose ``dimension`` equals ``value`` while ``start <= t < stop``.

    dimension ``all`` matches everything. ``slow`` multiplies step times (dimensions of an instance only), ``wait_ms``
    is the median of a lognormal wait before the engine, met by ``wait_share`` of the requests; ``wait_as`` says where
    it is seen: as overhead of the door, in the queue, as a stage (retrieval, tool) or nowhere (hidden).
    """

    dimension: str
    value: str
    start: float = 0.0
    stop: float = FOREVER
    slow: float = 1.0
    wait_ms: float = 0.0
    wait_share: float = 1.0
    wait_as: str = "door"
    fail_share: float = 0.0
    fail_midway: float = 0.0
    statuses: tuple[int, ...] = (503,)
    fail_ms: float = 20.0
    rtt_ms: float = 0.0
    loss_share: float = 0.0
    kills: bool = False


@dataclass(frozen=True)
class RetryLayer:
    """One layer of retries. ``jitter`` is the share by which a wait is shortened at random (SDKs: 0 to 25 %)."""

    retries: int = 2
    base_s: float = 0.5
    factor: float = 2.0
    cap_s: float = 8.0
    jitter: float = 0.25
    obeys_retry_after: bool = True
    retries_timeouts: bool = True
    retries_broken: bool = False
    retries_wrong: bool = False  # also what the caller itself did wrong (400, 401 ...)


@dataclass(frozen=True)
class Client:
    """A calling program: its timeouts and its retry layers, innermost first."""

    name: str
    weight: float
    total_s: float = 600.0
    first_s: float | None = None
    layers: tuple[RetryLayer, ...] = (RetryLayer(),)
    max_tokens: int | None = 1024
    pool: int | None = None  # connections; who finds none waits, and its clock runs
    options: str = "ctx8k"
    again: int = 0  # how often an answer without a finish reason is asked for again
    usage_until: float = FOREVER  # until then streams ask for usage


@dataclass(frozen=True)
class World:
    """Everything about one case. ``name`` is the scenario, ``onset`` a share of the expected log (0 = all along)."""

    name: str
    seed: int
    rows: int
    load: Load
    mix: Mix
    fleet: tuple[Instance, ...]
    regions: tuple[Region, ...]
    clients: tuple[Client, ...]
    gateway: Gateway
    damages: tuple[Damage, ...] = ()
    onset: float = 0.0
    notes: tuple[tuple[str, str], ...] = field(default=())

    @property
    def span(self) -> float:
        """The expected length of the log in seconds, at the base rate."""
        return self.rows / self.load.rate
