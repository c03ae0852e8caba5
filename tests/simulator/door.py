"""The door of a service and everything on the way that can be set wrong: plain values, seconds unless named _ms."""

from __future__ import annotations

from dataclasses import dataclass

FOREVER = float("inf")


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
class Race:
    """A server closes connections idle for ``idle_s``; who sends in the ``width_s`` after it meets a reset or a 502."""

    idle_s: float
    width_s: float
    status: int | None = None
    start: float = 0.0


@dataclass(frozen=True)
class Freeze:
    """A process that stands still again and again: every ``every_s`` for about ``lasts_s``. instance "" = all."""

    instance: str
    every_s: float
    lasts_s: float
    start: float = 0.0


@dataclass(frozen=True)
class Cut:
    """A timer of the gateway: ``limit_s`` since the start, or (idle) since the last byte. Streams are not idle."""

    limit_s: float
    idle: bool
    start: float = 0.0


@dataclass(frozen=True)
class Upstream:
    """A gateway that tries again behind its caller's back: ``tries`` in all, after an error or after ``per_try_s``."""

    tries: int
    per_try_s: float | None = None
    start: float = 0.0


@dataclass(frozen=True)
class Hasty:
    """Answers that end without a finish reason and end mark from ``start`` on; strict callers call them incomplete."""

    share: float
    strict: bool
    start: float = 0.0


@dataclass(frozen=True)
class Gateway:
    """The door of the service. worker_ms: its own work per request, one after another, from ``slow_from`` on."""

    overhead_ms: float = 4.0
    routing: str = "least_busy"
    aborts: bool = True
    limit: RateLimit | None = None
    error_share: float = 0.0008
    cold: ColdStart | None = None
    delivery: Delivery = Delivery()
    worker_ms: float = 0.0
    slow_from: float = 0.0
    shed_over: int | None = None  # requests in a pool above which the door answers 503
    race: Race | None = None
    freeze: Freeze | None = None
    cut: Cut | None = None
    upstream: Upstream | None = None
    hasty: Hasty | None = None
    context: int | None = None  # longest prompt that is taken
    compile_s: float = 0.0  # what a schema costs an instance that has not seen it
    compile_as: str = "queue"
    save_s: float = 0.0  # from the end of generation until the result is there (median)
    save_from: float = 0.0
    cache_until: float = FOREVER  # prefixes are found in the cache until then
    reload_s: float = 0.0  # what it costs an engine to change its options
