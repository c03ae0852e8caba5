"""attempt_id -> line in its file, for the few examples that a report shows: the files are read once more.

The lines that carry the attempt's id go through the same SQL as at load; the one whose row equals the stored one is it.
"""

from collections.abc import Iterable, Iterator, Sequence

from llmdoctor.ingest import query
from llmdoctor.ingest.formats import Format
from llmdoctor.ingest.job import Job
from llmdoctor.ingest.known import look_again
from llmdoctor.ingest.load import given_columns
from llmdoctor.ingest.marks import Reading
from llmdoctor.ingest.objects import parsed
from llmdoctor.ingest.records import Content, Record
from llmdoctor.ingest.rejects import on_lines
from llmdoctor.stats.lines import lines_with
from llmdoctor.store import Store

_IDS = ("request_id", "response_id", "incoming_id", "trace_id", "task_id")
_SAME = (
    "vantage",
    "request_id",
    "attempt",
    "task_id",
    "started_at",
    "total_ms",
    "http_status",
    "model",
    "route",
    "instance",
    "input_tokens",
    "output_tokens",
    "stream",
    "outcome",
)
_BATCH = 2000
_MOST = 50_000
"""Lines that are held at once; an id that more of them have is no request's."""


def find_lines(store: Store, jobs: Sequence[Job], attempt_ids: Sequence[int], reading: Reading) -> dict[int, int]:
    """1-based lines of those attempts that are found. A sealed store stays in UTC: where the files were read with
    another zone, instants cannot be compared. A file of which nothing was read is looked at if it is still there as a
    store knows it."""
    same = [name for name in _SAME if name != "started_at" or reading.timezone == "UTC"]
    numbers = ", ".join(str(int(number)) for number in attempt_ids) or "null"
    rows = store.run(f"select input_id, attempt_id, {', '.join(_IDS)} from attempts where attempt_id in ({numbers})")
    lines: dict[int, int] = {}
    for job in jobs:
        wanted = {row[1]: row[2:7] for row in rows if row[0] == job.source.input_id}
        found = (look_again(job, reading) if job.kept else job.detection) if wanted else None
        fmt = job.format if found and not job.kept else found.format if found else None
        if found and fmt:
            lines |= _in_file(store, fmt, found.content, wanted, same)
    return lines


def _in_file(
    store: Store, fmt: Format, content: Content, wanted: dict[int, tuple[str | None, ...]], names: Sequence[str]
) -> dict[int, int]:
    how = query.plan(fmt, [*store.columns("attempts"), "table"] if fmt.native else None)
    # What a record says of its outcome may be anything; in a prepared store it is an enum.
    attempts = store.columns("attempts") | {"outcome": "VARCHAR"}
    rows = query.rows_sql(how, query.from_lines(how), given_columns(store, how), attempts)
    same = " and ".join(f"c.{name} is not distinct from a.{name}" for name in names)
    numbers = ", ".join(str(number) for number in wanted)
    sql = (
        f", candidates as ({rows}) select c.input_id, min(a.attempt_id) from candidates as c join attempts as a "
        f"on a.attempt_id in ({numbers}) and {same} group by c.input_id, a.attempt_id order by c.input_id"
    )
    found: dict[int, int] = {}
    for batch in _batches(_holding(content, _needles(wanted))):
        for index, attempt_id in on_lines(store, sql, [record.text for record in batch]):
            found.setdefault(attempt_id, batch[index].line)
        if len(found) == len(wanted):
            break
    return found


def _needles(wanted: dict[int, tuple[str | None, ...]]) -> list[bytes] | None:
    """One id of each attempt, as it stands in the file; None where one has no plain id, so that every line counts."""
    needles = []
    for ids in wanted.values():
        plain = next(
            (one for one in ids if one and one.isascii() and one.replace("-", "").replace("_", "").isalnum()), None
        )
        if plain is None:
            return None
        needles.append(plain.encode())
    return needles


def _holding(content: Content, needles: list[bytes] | None) -> Iterable[Record]:
    """The records that hold one of the needles. Plain lines are looked through at once; where that finds nothing, or
    too much, each record is looked at."""
    if needles and content.plain_json:
        held = lines_with(content.path, [one.decode() for one in needles], _MOST + 1)
        if 0 < len(held) <= _MOST:
            return (Record(content.above + 1 + row, text.removeprefix("\ufeff").encode()) for row, text in held)
    return (one for one in content.records() if needles is None or any(needle in one.text for needle in needles))


def _batches(records: Iterable[Record]) -> Iterator[list[Record]]:
    batch: list[Record] = []
    for record in records:
        if record.reason or parsed(record.text) is None:
            continue
        batch.append(record)
        if len(batch) == _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch
