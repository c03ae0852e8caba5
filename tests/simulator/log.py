"""From attempts to the lines of llmdoctor's native log (JSONL, keys = columns of ``attempts`` and ``chunks``).

Profiles: ``full`` (one record holds what the caller and the service know), ``client`` (only what a caller knows),
``two_sided`` (client.jsonl and server.jsonl, joined by request_id, on two clocks). What is not known is left out,
never 0.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

from tests.simulator.attempts import Attempt
from tests.simulator.cases import Case
from tests.simulator.delivery import event_sizes
from tests.simulator.indicators import measured
from tests.simulator.sampling import Sample
from tests.simulator.serverside import server_rows, server_side, stage_rows
from tests.simulator.tasks import History, history
from tests.simulator.world import World, stream

Value = str | int | float | bool | None
Row = dict[str, Value]
PROFILES = ("full", "client", "two_sided")
WHERE = ("instance", "app_version", "region", "tenant")
CLIENT_KEYS = (
    "vantage", "request_id", "task_id", "attempt", "prompt_hash", "caller", "tenant", "region", "model", "app_version",
    "instance", "stream", "max_tokens", "input_tokens", "output_tokens", "started_at", "ttft_ms", "total_ms", "chunks",
    "max_gap_ms", "outcome", "timeout_phase", "http_status", "error_type", "finish_reason", "retry_after_ms",
    "template_id", "schema_hash", "options_hash", "batch_id", "idempotency_key",
)  # fmt: skip
GAUGED = frozenset({"kv_preemption", "compute_bound"})  # faults that only gauges can tell from others
CHUNKED_STREAMS = 40  # streams whose pieces are written one by one, where a case has them at all


@dataclass(frozen=True)
class Style:
    """Habits of a logger, drawn from the seed: they carry no information about the fault."""

    began: datetime
    digits: int
    by_end: bool
    micros: bool
    counts_prompt: bool  # the caller counts the tokens of a prompt itself, so it knows them when a call failed
    known: frozenset[str]  # where-columns that the caller learns from response headers
    vantage: str  # of the server's log
    skew_s: float
    chunks: bool
    names: frozenset[str]  # which of template, schema, options and key the caller writes down
    gauges: bool  # the engines are scraped, and the scrapes are at hand
    stages: bool  # stages are rows of their own as well

    def instant(self, at: float) -> str:
        moment = self.began + timedelta(seconds=at)
        return moment.isoformat(timespec="microseconds" if self.micros else "milliseconds").replace("+00:00", "Z")

    def ms(self, seconds: float | None) -> float | None:
        return None if seconds is None else round(seconds * 1000, self.digits)


def style(world: World) -> Style:
    """The habits of a case. The logs of a bad slice name every slice, else nothing could be found."""
    rng = stream(world.seed, f"style/{world.name}")
    began = datetime(2026, rng.randint(1, 9), rng.randint(1, 28), rng.randint(0, 23), rng.randint(0, 59), tzinfo=UTC)
    known = frozenset(one for one in WHERE if rng.random() < 0.5 or world.name.startswith("bad_"))
    late = world.gateway.delivery.mode.startswith("fake")
    return Style(
        began=began + timedelta(seconds=rng.uniform(0, 60)), digits=rng.choice((1, 3)), by_end=rng.random() < 0.5,
        micros=rng.random() < 0.5, counts_prompt=rng.random() < 0.5, known=known,
        vantage="gateway" if rng.random() < 0.6 or late else "engine", skew_s=rng.gauss(0, 0.003),
        chunks=rng.random() < (0.15 if world.gateway.delivery.mode == "direct" else 0.5),
        names=_names(world, rng), gauges=rng.random() < 0.5 or world.name in GAUGED, stages=rng.random() < 0.5,
    )  # fmt: skip


def _names(world: World, rng: random.Random) -> frozenset[str]:
    """A habit, but what a fault is about is always written down: else nothing could be found."""
    mix, door = world.mix, world.gateway
    about = {"template_id": bool(mix.helpers or mix.batches), "schema_hash": door.compile_s > 0,
             "options_hash": len({one.options for one in world.clients}) > 1,
             "idempotency_key": bool(mix.tasks and mix.tasks.fault == "conflict")}  # fmt: skip
    return frozenset(name for name, needed in about.items() if rng.random() < 0.4 or needed) | {"batch_id"}


def logs(case: Case, profile: str) -> dict[str, list[Row]]:
    """The rows of every file of a profile, in the order in which they were written."""
    habits = style(case.world)
    told = history(case.world, case.attempts)
    kept = [one for one in case.attempts if one.request_id not in told.lost]
    ordered = sorted(kept, key=lambda one: (one.ended or one.sent) if habits.by_end else one.sent)
    more = _more(case, habits, told, profile)
    if profile == "full":
        rows = _with_chunks(case, habits, ordered, [_full(case.world, habits, one) for one in ordered])
        return {"attempts.jsonl": rows, **more}
    rows = [_client(case.world, habits, one) for one in ordered]
    client = _with_chunks(case, habits, ordered, rows)
    if profile == "client":
        return {"client.jsonl": client, **more}
    served = [row for one in ordered for row in server_rows(case.world, habits, one)]
    return {"client.jsonl": client, "server.jsonl": served, **more}


def _more(case: Case, habits: Style, told: History, profile: str) -> dict[str, list[Row]]:
    """Files of other tables: states of tasks (who has tasks knows them), gauges of the engines, stages."""
    found: dict[str, list[Row]] = {}
    if told.events:
        found["tasks.jsonl"] = [
            {"table": "task_events", "task_id": one.task, "at": habits.instant(one.at), "state": one.state,
             "worker": one.worker, "result_id": one.result, "heartbeat": one.heartbeat or None}
            for one in told.events
        ]  # fmt: skip
    if profile == "client":
        return found
    if habits.gauges:
        found["engine.jsonl"] = [_gauge(habits, one) for one in case.samples]
    if habits.stages and case.world.mix.stages:
        found["stages.jsonl"] = [row for one in case.attempts for row in stage_rows(habits, one)]
    return found


def _gauge(habits: Style, one: Sample) -> Row:
    return {"table": "engine_samples", "at": habits.instant(one.at), "instance": one.instance, "model": one.model,
            "name": one.name, "value": one.value}  # fmt: skip


def write(case: Case, profile: str, folder: Path) -> list[Path]:
    """Writes the files of a profile into ``folder``. Returns their paths."""
    return save_rows(logs(case, profile), folder)


def save_rows(files: Mapping[str, list[Row]], folder: Path) -> list[Path]:
    """JSON lines into a folder; null columns are left out. Returns the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, rows in files.items():
        known = ({key: value for key, value in row.items() if value is not None} for row in rows)
        path = folder / name
        path.write_text("".join(json.dumps(row) + "\n" for row in known), encoding="utf-8")
        paths.append(path)
    return paths


def _full(world: World, habits: Style, one: Attempt) -> Row:
    row = _seen(habits, one)
    row.update(_connection(habits, one))
    row.update(server_side(world, habits, one))
    if not measured(one):
        row.update({"input_tokens": None, "output_tokens": None, "cached_tokens": None})
    row["timeout_ms"] = one.client.total_s * 1000
    row["prefix_hash"] = f"pfx-{abs(hash_of(one.ask.prefix)):08x}"
    row["error_origin"] = one.origin
    row["limit_remaining"] = one.limit_remaining
    return row


def hash_of(text: str) -> int:
    """A small stable hash (FNV-1a, 32 bits): Python's own differs from run to run."""
    value = 2166136261
    for byte in text.encode():
        value = (value ^ byte) * 16777619 % 2**32
    return value


def _client(world: World, habits: Style, one: Attempt) -> Row:
    row = _seen(habits, one)
    answered = one.status is not None and one.replica is not None
    for column in WHERE:
        from_header = column in {"instance", "app_version"}
        if column not in habits.known or (from_header and not (answered or world.name.startswith("bad_"))):
            row[column] = None
    if one.outcome != "completed":
        row["output_tokens"] = None
        row["input_tokens"] = one.ask.prompt if habits.counts_prompt else None
    return {key: value for key, value in row.items() if key in CLIENT_KEYS}


def _seen(habits: Style, one: Attempt) -> Row:
    """What the caller itself measured and read."""
    ask, times = one.ask, one.received.times
    done = one.outcome == "completed"
    return {
        "vantage": "client", "request_id": one.request_id, "task_id": ask.task, "attempt": one.number,
        "prompt_hash": ask.prompt_hash, "model": ask.model, "caller": one.client.name, "tenant": ask.tenant,
        "region": ask.region, "instance": one.replica.instance.name if one.replica else None,
        "app_version": one.version, "stream": ask.stream, "max_tokens": ask.max_tokens,
        "input_tokens": ask.prompt if (done and measured(one)) or habits.counts_prompt else None,
        "output_tokens": ask.answer if done and measured(one) else None,
        "started_at": habits.instant(one.sent),
        "ttft_ms": habits.ms(times[0] - one.sent) if times else None,
        "total_ms": habits.ms(one.ended - one.sent) if one.ended is not None else None,
        "chunks": len(times) if times else None,
        "max_gap_ms": habits.ms(max(b - a for a, b in pairwise(times))) if len(times) > 1 else None,
        "outcome": one.outcome, "timeout_phase": one.phase, "http_status": one.status, "error_type": one.error,
        "finish_reason": ask.finish if done and one.told_finish else None,
        "retry_after_ms": one.retry_after_ms, "batch_id": ask.batch,
        **{name: value for name, value in _asked(one).items() if name in habits.names},
    }  # fmt: skip


def _asked(one: Attempt) -> Row:
    return {"template_id": one.ask.template, "schema_hash": one.ask.schema, "options_hash": one.ask.options,
            "idempotency_key": one.ask.key}  # fmt: skip


def _connection(habits: Style, one: Attempt) -> Row:
    """A reused connection has no connect time: it is left out, not 0."""
    fresh = one.connect_ms is not None
    parts = {"dns_ms": one.dns_ms, "connect_ms": one.connect_ms, "tls_ms": one.tls_ms, "conn_idle_ms": one.conn_idle_ms}
    row: Row = {name: None if value is None else round(value, habits.digits) for name, value in parts.items()}
    row["conn_id"], row["conn_reused"] = one.conn_id, not fresh
    if one.ask.stream and one.received.times:
        row["terminal_seen"] = one.outcome == "completed" and one.told_finish
    return row


def _with_chunks(case: Case, habits: Style, ordered: list[Attempt], rows: list[Row]) -> list[Row]:
    """Adds the pieces of some streams, each after its attempt's row."""
    streams = [place for place, one in enumerate(ordered) if len(one.received.times) >= 8]
    chosen = set(streams[:: max(1, len(streams) // CHUNKED_STREAMS)]) if habits.chunks else set()
    rng, found = stream(case.world.seed, "chunks"), list[Row]()
    for place, (one, row) in enumerate(zip(ordered, rows, strict=True)):
        found.append(row)
        if place in chosen:
            sizes = one.received.sizes or event_sizes(
                len(one.received.times), case.world.gateway.delivery.event_bytes, rng
            )
            found.extend(_chunks(habits, one, sizes))
    return found


def _chunks(habits: Style, one: Attempt, sizes: list[int]) -> list[Row]:
    times, reads = one.received.times, one.received.reads or list(range(1, len(sizes) + 1))
    name: Row = {"table": "chunks", "request_id": one.request_id, "attempt": one.number}
    first: Row = {"seq": 1, "read_no": reads[0], "at_ms": habits.ms(times[0] - one.sent), "kind": "role", "bytes": 210}
    rows = [name | first]
    for seq, (at, read, size) in enumerate(zip(times, reads, sizes, strict=True), 2):
        rows.append(
            name | {"seq": seq, "read_no": read, "at_ms": habits.ms(at - one.sent), "kind": "text", "bytes": size}
        )
    if one.outcome == "completed" and one.told_finish and one.ended is not None:
        end: Row = {"seq": len(rows) + 1, "read_no": reads[-1], "at_ms": habits.ms(one.ended - one.sent)}
        rows.append(name | end | {"kind": "terminal", "bytes": 14})
    return rows
