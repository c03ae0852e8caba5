"""What is remembered of one attempt, from both ends."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.simulator.arrivals import Ask
from tests.simulator.delivery import NOTHING, Received
from tests.simulator.engine import Replica
from tests.simulator.jobs import Job
from tests.simulator.world import Client


@dataclass(eq=False)
class Attempt:
    """Filled while the simulation runs. Instants in seconds of the simulation; ``None`` is not known (yet)."""

    ask: Ask
    client: Client
    number: int
    request_id: str
    sent: float
    rtt_s: float
    conn_id: str
    dns_ms: float | None = None
    connect_ms: float | None = None
    tls_ms: float | None = None
    conn_idle_ms: float | None = None
    reached: float | None = None  # the gateway has the request
    overhead_s: float = 0.0  # spent in the gateway and the API server before the engine's queue
    pool_s: float = 0.0  # waited for a free connection at the caller
    stages: dict[str, float] = field(default_factory=dict)  # seconds before the model was asked
    hidden_s: float = 0.0  # lost between door and queue, seen by nobody
    saving_s: float = 0.0  # from the end of generation until the result was there
    upstream_tries: int = 1
    jobs: list[Job] = field(default_factory=list)  # all that ran for it, the last one is ``job``
    cut_at: float | None = None  # a timer of the gateway ended it
    told_finish: bool = True
    frozen: tuple[tuple[float, float], ...] = ()  # when its process stood still
    replica: Replica | None = None
    version: str | None = None
    job: Job | None = None
    breaks: bool = False  # the answer will break off midway
    ended: float | None = None
    outcome: str | None = None
    phase: str | None = None
    status: int | None = None
    error: str | None = None
    origin: str | None = None
    retry_after_ms: float | None = None
    limit_remaining: int | None = None
    refused_at: float | None = None  # the service answered with an error at this instant
    refused_as: int | None = None
    received: Received = NOTHING

    @property
    def setup_s(self) -> float:
        """Name look-up, connection and TLS before the request could be sent."""
        return sum(part or 0.0 for part in (self.dns_ms, self.connect_ms, self.tls_ms)) / 1000

    def thaw(self, at: float) -> float:
        """When something that was due at ``at`` really left the process."""
        return next((stop for start, stop in self.frozen if start <= at < stop), at)

    @property
    def open(self) -> bool:
        return self.outcome is None

    @property
    def first_at(self) -> float | None:
        """When the client had the first content, if it streamed and had any before it stopped listening."""
        return self.received.times[0] if self.received.times else None
