"""Where the lines are that were not read whole: the flagged files are read once more, by Python.

The counts are exact already; here come line numbers, reasons and redacted snippets, at most 20 of a file and reason.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from llmdoctor.errors import StoreError
from llmdoctor.ingest import query
from llmdoctor.ingest.formats import Format
from llmdoctor.ingest.job import Job
from llmdoctor.ingest.objects import parsed
from llmdoctor.ingest.records import Record, half_a_pair, why_not
from llmdoctor.redact import snippet
from llmdoctor.store import Store

MOST = 20
"""Examples of a file and reason."""

_BATCH = 2000
_PATIENCE = 100_000


@dataclass(frozen=True)
class Reject:
    """One line that gave no row (`fatal`) or a row without a field."""

    line: int
    reason: str
    fatal: bool
    snippet: str


def find_rejects(store: Store, job: Job) -> list[Reject]:
    """Examples for one file, by line."""
    if job.format is None or not (job.rejected or job.bad):
        return []
    kept: list[Reject] = []
    seen: Counter[str] = Counter()
    for reject in _all(store, job.format, job):
        seen[reject.reason] += 1
        if seen[reject.reason] <= MOST:
            kept.append(reject)
    return sorted(kept, key=lambda reject: (reject.line, reject.reason))


def _all(store: Store, fmt: Format, job: Job) -> Iterator[Reject]:
    """Every such line until all are found, or until many lines have brought nothing new."""
    unread, bad = job.rejected, sum(job.bad.values())
    reasons: Counter[str] = Counter()
    since_new = 0
    for batch in _batches(job):
        good = []
        for record in batch:
            if record.chatter:
                continue
            if unread > 0 and (record.reason or parsed(record.text) is None or half_a_pair(record.text)):
                unread -= 1
                last = job.last_open and record.line == job.lines
                yield Reject(record.line, record.reason or why_not(record.text, last), True, snippet(record.text))
            elif record.reason is None:
                good.append(record)
        if bad > 0:
            for reject in _bad_fields(store, fmt, job, good):
                bad -= 1
                if reasons[reject.reason] < MOST:
                    since_new = 0
                reasons[reject.reason] += 1
                yield reject
        since_new += len(batch)
        if (unread <= 0 and bad <= 0) or since_new > _PATIENCE:
            return


def _batches(job: Job) -> Iterator[list[Record]]:
    batch: list[Record] = []
    for record in job.content.records():
        batch.append(record)
        if len(batch) == _BATCH:
            yield batch
            batch = []
    yield batch


def _bad_fields(store: Store, fmt: Format, job: Job, records: Sequence[Record]) -> Iterator[Reject]:
    """Wrong values, judged by the same SQL: first only the fields in question, then the suspicious lines whole."""
    names = [
        name for name, aliases in fmt.fields.items() if name in job.bad or {a.root for a in aliases} & set(job.bad)
    ]
    if not names:
        return
    how = query.plan(fmt, names)
    doubles = [name for name in names if any(a.unit in ("ms", "s", "us", "ns", "number") for a in fmt.fields[name])]
    tests = ["_bad0 + _bad1 > 0", *(f"not ({query.quoted(n)} >= 0 and {query.quoted(n)} < 1e13)" for n in doubles)]
    found = on_lines(
        store,
        f"select _input, _bad0, _bad1, {', '.join(_impossible(name) for name in doubles) or 'null'} from "
        f"({query.fields_sql(how, query.from_lines(how))}) where {' or '.join(tests)} order by _input",
        [record.text for record in records],
    )
    for index, bad0, bad1, *impossible in found:
        record = records[index]
        wrong = [(name, _words(fmt, name)) for name in query.bad_names(how, bad0, bad1)]
        wrong += [(name, "is negative or no number") for name, true in zip(doubles, impossible, strict=False) if true]
        for name, words in wrong:
            if name in job.bad:
                yield Reject(record.line, f"field {name} {words}", False, snippet(record.text))


def _impossible(name: str) -> str:
    return f"not ({query.quoted(name)} >= 0 and {query.quoted(name)} < 1e13)"


def on_lines(store: Store, sql: str, lines: Sequence[bytes]) -> list[tuple[Any, ...]]:
    """Runs a query over `lines(line, _input)`; [] where one of the lines is beyond it. `_input` counts from 0."""
    texts = [line.decode("utf-8", "replace") for line in lines]
    try:
        return store.run(
            f"with lines as (select unnest(?) as line, unnest(range({len(texts)})) as _input) {sql}", [texts]
        )
    except StoreError:
        return []


def _words(fmt: Format, name: str) -> str:
    aliases = fmt.fields.get(name)
    if aliases is None:
        return "is not an object"
    unit = aliases[0].unit
    if unit == "bool":
        return "is not true or false"
    if unit in ("iso", "time") or unit.startswith("epoch"):
        return "is not a time"
    return "is not a number"
