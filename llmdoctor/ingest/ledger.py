"""The ledger of a read: one row per file whose counts add up, and examples of the lines that were not read."""

from collections import Counter
from collections.abc import Sequence

from llmdoctor.ingest import secrets
from llmdoctor.ingest.job import Job
from llmdoctor.ingest.rejects import MOST, Reject, find_rejects
from llmdoctor.stats.starts import longest_gaps
from llmdoctor.store import Store

_NO_TEXT = ("empty", "binary", "parquet", "sqlite")

_INPUTS = (
    "input_id",
    "path",
    "format",
    "vantage",
    "reason",
    "bytes",
    "lines",
    "rows",
    "rejected",
    "blank",
    "foreign_lines",
    "doubled",
    "out_of_order",
    "longest_gap_ms",
    "grew",
    "note",
)


def write(store: Store, jobs: Sequence[Job]) -> None:
    """Fills `inputs`, `bad_fields` and `rejects`."""
    silent = longest_gaps(store)
    seen = dict(
        store.run("select input_id, string_agg(distinct vantage, ', ' order by vantage) from attempts group by 1")
    )
    rows = []
    for job in jobs:
        source = job.source
        vantage = seen.get(source.input_id) or (job.format.vantage if job.format and job.rows else None)
        note = "; ".join(_notes(job)) or None
        rows.append(
            (
                source.input_id,
                source.shown,
                job.format_id,
                vantage,
                job.reason,
                source.size,
                job.lines,
                job.rows,
                job.rejected,
                job.blank,
                job.foreign,
                job.doubled,
                None,
                silent.get(source.input_id),
                job.grew,
                note,
            )
        )
    store.insert("inputs", _INPUTS, rows)
    secrets.write(store, _looked(jobs))
    store.insert(
        "bad_fields",
        ("input_id", "field", "bad_values"),
        [(job.source.input_id, name, count) for job in jobs for name, count in sorted(job.bad.items())],
    )
    store.insert(
        "rejects",
        ("input_id", "line", "reason", "fatal", "snippet"),
        [
            (job.source.input_id, reject.line, reject.reason, reject.fatal, reject.snippet)
            for job in jobs
            for reject in _rejects(store, job)
        ],
    )


def _looked(jobs: Sequence[Job]) -> dict[int, secrets.Looked]:
    """The secrets of each file; a file that a store knows and that has grown is looked at from its beginning."""
    texts = {job.source.input_id: job.detection.content.unpacked() for job in jobs if job.content.shape not in _NO_TEXT}
    found = secrets.look_at(texts)
    for job in jobs:
        job.looked = job.before.looked if job.kept and job.before else found.get(job.source.input_id)
    return {job.source.input_id: job.looked for job in jobs if job.looked}


def _rejects(store: Store, job: Job) -> list[Reject]:
    """Examples of the lines that were not read whole, those that a store knows of first."""
    found = [] if job.kept else find_rejects(store, job)
    if job.before is None:
        return found
    seen: Counter[str] = Counter()
    kept = []
    for reject in sorted([*(Reject(*one) for one in job.before.rejects), *found], key=lambda one: one.line):
        seen[reject.reason] += 1
        if seen[reject.reason] <= MOST:
            kept.append(reject)
    return sorted(kept, key=lambda one: (one.line, one.reason))


def _notes(job: Job) -> list[str]:
    notes = list(job.notes)
    if job.grew:
        notes.append("grew while it was read")
    if job.repaired:
        notes.append(f"{job.repaired:,} lines were invalid JSON (unquoted variables) and were repaired")
    if job.rows and job.format and job.format.cannot_show:
        notes.append(job.format.cannot_show)
    return notes


def settle(job: Job) -> None:
    """Makes the counts of a file final."""
    if job.kept:
        job.settle()
        return
    if job.source.problem or job.content.shape in ("empty", "binary"):
        return
    if job.format is not None and not job.rows:
        _nothing_found(job)
    job.settle()


def _nothing_found(job: Job) -> None:
    """A file without any LLM call is foreign, all its lines, and no fault."""
    kind = "JSON records" if job.format and job.format.generic else job.reason
    job.reason = f"{kind}, but no LLM call among them"
    job.format = None
    job.early, job.rejected, job.repaired, job.chatter, job.extra = [], 0, 0, 0, 0
    job.bad.clear()
