"""The description of one simulated world: plain frozen values, no behaviour beyond look-ups.

Seconds unless a name ends in ``_ms``. Everything random about a world is decided by ``seed`` (streams are named, so a
faulty world and its healthy twin draw the same arrivals, lengths and network noise).
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

FOREVER = float("inf")


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
    is the median of a lognormal wait before the engine, met by ``wait_share`` of the requests.
    """

    dimension: str
    value: str
    start: float = 0.0
    stop: float = FOREVER
    slow: float = 1.0
    wait_ms: float = 0.0
    wait_share: float = 1.0
    wait_in_queue: bool = False
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


@dataclass(frozen=True)
class Client:
    """A calling program: its timeouts and its retry layers, innermost first."""

    name: str
    weight: float
    total_s: float = 600.0
    first_s: float | None = None
    layers: tuple[RetryLayer, ...] = (RetryLayer(),)
    max_tokens: int | None = 1024


@dataclass(frozen=True)
class RateLimit:
    """Requests per minute of one account: a token bucket (burst) or a window that starts anew every minute."""

    per_minute: float
    burst: int = 20
    fixed_window: bool = False
    start: float = 0.0


@dataclass(frozen=True)
class Delivery:
    """What lies between the engine's tokens and the client's reads.

    mode: direct | proxy_full | proxy_lumps (``lump_bytes``) | fake_burst | fake_paced (``pace_ms`` a piece).
    """

    mode: str = "direct"
    start: float = 0.0
    lump_bytes: int = 4096
    pace_ms: float = 10.0
    event_bytes: int = 250
    tokens_per_event: int = 1


@dataclass(frozen=True)
class ColdStart:
    """An engine is unloaded after ``idle_s`` without work and takes about ``load_s`` to come back.

    in_front: the request is held by an activator before the server (scale to zero), else by the engine itself.
    """

    idle_s: float
    load_s: float
    in_front: bool = False


@dataclass(frozen=True)
class Gateway:
    """The door of the service."""

    overhead_ms: float = 4.0
    routing: str = "least_busy"
    aborts: bool = True
    limit: RateLimit | None = None
    error_share: float = 0.0008
    cold: ColdStart | None = None
    delivery: Delivery = Delivery()


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
