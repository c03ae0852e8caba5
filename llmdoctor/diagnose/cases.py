"""A normal, a slow and a failed request of one kind, side by side, with where their time went."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from llmdoctor.diagnose.front import Fronts
from llmdoctor.diagnose.values import Case, CaseGroup, Example, Part, Symptom, instant, six
from llmdoctor.store import Row, Store

MAX_GROUPS = 3

ENOUGH = 100_000
"""Candidates of one kind among which a normal and a slow request are looked for: of more, one in k."""

FAILED = "outcome in ('failed', 'timeout', 'incomplete', 'empty', 'rate_limited')"
# Candidates of one kind: how far each is from what its tokens take, and whether it failed.
CANDIDATES = f"""
select attempt_id, outcome, quiet, greatest(total_ms / nullif(expected_total_ms, 0),
                                            coalesce(ttft_ms / nullif(typical_ttft_ms, 0), 0)) as ratio
from   front_expected
where  total_ms is not null and model is not distinct from :model and stream is not distinct from :stream
and    (attempt_id % :every = 0 or {FAILED})
"""
# Asked of each table by itself, or all columns of all rows would be read.
CHOSEN = """
select f.*, case when c.joined_by <> 'time' then c.server_ttft_ms end as inner_ttft_ms,
       c.server_total_ms as inner_total_ms, p.path, f.total_ms / nullif(e.expected_total_ms, 0) as total_ratio
from   (select * from front where attempt_id in ({ids})) f
left   join (select * from expected where attempt_id in ({ids})) e on e.attempt_id = f.attempt_id
left   join (select * from calls where attempt_id in ({ids})) c on c.attempt_id = f.attempt_id
left   join inputs p on p.input_id = f.input_id
"""
PICKS = {
    "normal": "outcome = 'completed' order by coalesce(quiet, false) desc, abs(ln(greatest(ratio, 0.001))), attempt_id",
    "slow": "outcome = 'completed' and ratio >= 1.5"
    " order by abs(ratio - (select percentile_disc(0.95) within group (order by ratio) from kind"
    " where outcome = 'completed' and ratio >= 1.5)), attempt_id",
    "failed": f"{FAILED} order by"
    " case outcome when 'timeout' then 0 when 'failed' then 1 when 'incomplete' then 2 else 3 end, attempt_id",
}


@dataclass(frozen=True)
class Picked:
    """The requests of one kind that are shown: normal, slow, failed -> a row of CHOSEN."""

    vantage: str
    title: str
    rows: Mapping[str, Row]

    @property
    def attempts(self) -> list[int]:
        """Their numbers."""
        return [int(row["attempt_id"]) for row in self.rows.values()]


def pick_cases(store: Store, fronts: Fronts, findings: Sequence[Symptom]) -> list[Picked]:
    """One group per kind (model, streamed or not) of the findings' vantages, those with most attempts first. None of
    a probe: its requests differ by place and by what was asked, and stand event by event in a picture of their own."""
    groups: list[tuple[str, str, dict[str, Row]]] = []
    for vantage in dict.fromkeys(one.vantage for one in findings if one.vantage and one.vantage != "probe"):
        fronts.use(vantage)
        kinds = store.rows(
            "select model, stream, count(*) as n from front where total_ms is not null"
            " group by all order by n desc, model, stream limit ?",
            [MAX_GROUPS],
        )
        groups += [(vantage, _title(kind), _pick(store, kind)) for kind in kinds]
    return [Picked(*group) for group in groups[:MAX_GROUPS]]


def side_by_side(picked: Sequence[Picked], lines: Mapping[int, int]) -> tuple[CaseGroup, ...]:
    """The picked requests as a report shows them, with the lines (by attempt_id) on which they stand."""
    return tuple(
        CaseGroup(one.vantage, one.title, tuple(_case(kind, row, lines) for kind, row in one.rows.items()))
        for one in picked
        if one.rows
    )


def _title(kind: Row) -> str:
    streamed = {True: ", streamed", False: ", not streamed", None: ""}[kind["stream"]]
    return f"{kind['model'] or 'model not named'}{streamed}"


def _pick(store: Store, kind: Row) -> dict[str, Row]:
    store.keep("kind", CANDIDATES, {**kind, "every": max(1, kind["n"] // ENOUGH)})
    picked = {name: store.run(f"select attempt_id from kind where {pick} limit 1") for name, pick in PICKS.items()}
    ids = {name: rows[0][0] for name, rows in picked.items() if rows}
    found = store.rows(CHOSEN.format(ids=", ".join(map(str, ids.values())))) if ids else []
    by_id = {row["attempt_id"]: row for row in found}
    return {name: by_id[number] for name, number in ids.items()}


def _case(kind: str, row: Row, lines: Mapping[int, int]) -> Case:
    parts = tuple(_parts(row))
    return Case(
        kind="normal" if kind == "normal" else "slow" if kind == "slow" else "failed",
        example=Example(row["request_id"], row["path"] or "", lines.get(int(row["attempt_id"]))),
        vantage=row["vantage"],
        started_at=instant(row["started_at"]) or "",
        outcome=row["outcome"] or "unknown",
        model=row["model"],
        stream=row["stream"],
        input_tokens=row["input_tokens"],
        output_tokens=row["output_tokens"],
        attempt=row["attempt"],
        ttft_ms=six(row["ttft_ms"]),
        total_ms=six(row["total_ms"]),
        parts=parts,
        remark=_remark(row),
    )


def _remark(row: Row) -> str | None:
    if row["outcome"] == "timeout":
        phases = {"first_token": "before the first token", "idle": "in mid-stream", "connect": "while connecting"}
        phase = phases.get(row["timeout_phase"] or "", "here")
        return f"The caller gave up {phase}: it would have taken at least this long."
    if row["total_ratio"] and row["total_ratio"] >= 1.5:
        return f"{row['total_ratio']:.1f} times what its tokens take in the quiet part of this log."
    return None


def _parts(row: Row) -> Iterator[Part]:
    """The stretches of one request in order, never overlapping. A stretch that no field tells apart (queue, prefill,
    network: whatever has no part of its own) is one part with `exact` false."""
    total = float(row["total_ms"])
    first = min(float(row["ttft_ms"]), total) if row["ttft_ms"] is not None else None
    decode = float(row["decode_ms"]) if first is None and row["decode_ms"] else 0.0
    end_of_wait = total - decode if first is None else first
    clock = 0.0
    for name, column in BEFORE_FIRST_TOKEN:
        if row[column] and clock + row[column] <= end_of_wait * 1.001:
            yield _part(name, clock, row[column])
            clock += float(row[column])
    inner = row["inner_ttft_ms"]
    if first is not None and inner is not None and row["prefill_ms"] is None and clock < inner < first:
        yield _part("server to first token", clock, inner - clock)
        yield _part("server to here", inner, first - inner)
    elif end_of_wait > clock:
        name = "until the answer" if first is None and not decode else "until first token"
        yield _part(name, clock, end_of_wait - clock, exact=False)
    if total > end_of_wait:
        yield _part("streaming the answer" if first is not None else "generating", end_of_wait, total - end_of_wait)


def _part(name: str, start: float, duration: float, exact: bool = True) -> Part:
    return Part(name, six(start) or 0.0, six(duration) or 0.0, exact)


BEFORE_FIRST_TOKEN = (
    ("DNS", "dns_ms"),
    ("connect", "connect_ms"),
    ("TLS", "tls_ms"),
    ("prepare", "prepare_ms"),
    ("queue", "queue_ms"),
    ("prefill", "prefill_ms"),
)
