"""A log that grew since it was saved: what is new of it, read as the rest of the file that the store knows."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

from llmdoctor.ingest import finish
from llmdoctor.ingest.detect import Detection
from llmdoctor.ingest.find import Source
from llmdoctor.ingest.hidden import hide
from llmdoctor.ingest.job import Job, Known
from llmdoctor.ingest.load import load
from llmdoctor.ingest.marks import Reading, can_go_on, page_digest
from llmdoctor.ingest.query import literal, plan, quoted
from llmdoctor.ingest.unpack import BLOCK
from llmdoctor.store import Store

_GUESSED = "units guessed: "


def went_on(
    store: Store, source: Source, before: Known, detection: Detection, reading: Reading, folder: Path
) -> Job | None:
    """The job of the new lines of a file that grew; None where it has to be read whole."""
    if before.mark is None or before.offset < 0 or not before.rows or source.problem:
        return None
    if not can_go_on(detection.format, detection.content) or page_digest(detection) != before.page:
        return None
    if reading.digest != before.reading or source.size <= before.mark.size:
        return None
    if before.offset < before.mark.size:
        line = _unfinished(store, source, before, detection, reading, folder)
        if line is None or not line.rows:
            return None
        before = line
    return _tail(source, detection, before, folder)


def _unfinished(
    store: Store, log_source: Source, before: Known, detection: Detection, reading: Reading, folder: Path
) -> Known | None:
    """What is known of a file without its last line, which had no end when it was saved: that line is read once more as
    it was, to see what it counted for. None where that cannot be undone."""
    assert before.mark is not None
    inner = folder / f"{log_source.input_id}.unfinished"
    inner.mkdir()
    file = inner / "line"
    with log_source.path.open("rb") as log:
        log.seek(before.offset)
        file.write_bytes(log.read(before.mark.size - before.offset))
    source = replace(log_source, path=file, size=file.stat().st_size, mtime_ns=file.stat().st_mtime_ns)
    job = Job.of(source, replace(detection, content=replace(detection.content, path=file), whole=False))
    assert job.format is not None
    job.before = before  # the file has rows: what else its lines give is wanted as well
    with Store() as alone:
        alone.create()
        alone.script(f"set TimeZone = {literal(reading.timezone)}")
        load(alone, [job], inner)
        finish.clean(alone, [job])
        hide(alone)
        rows = alone.rows("select * from attempts")
        more = alone.columns("other_rows") and alone.run("select count(*) from other_rows")[0][0]
    job.before = None
    job.settle()
    if more or len(rows) > 1:
        return None
    without = _attempt_like(store, before, rows[0]) if rows else None
    if rows and without is None:
        return None
    return _less(before, job, without)


def _attempt_like(store: Store, known: Known, row: Mapping[str, Any]) -> int | None:
    """The attempt of a file in a store that equals `row`, its number and that of its file aside."""
    names = [one for one in row if one not in ("attempt_id", "input_id", "line")]
    same = " and ".join(f"{quoted(one)} is not distinct from ?" for one in names)
    found = store.run(
        f"select min(attempt_id) from {known.shelf}.attempts where input_id = ? and {same}",
        [known.number, *(row[one] for one in names)],
    )
    number: int | None = found[0][0]
    return number


def _tail(source: Source, detection: Detection, known: Known, folder: Path) -> Job:
    """The job of a file that grew: what stands behind its last known whole line, copied into `folder`."""
    file = folder / f"{source.input_id}.tail"
    with source.path.open("rb") as log, file.open("wb") as out:
        for block in _between(log, known.offset, source.size):
            out.write(block)
    content = replace(detection.content, path=file, above=known.lines)
    job = Job(source, replace(detection, whole=False), detection.format, content, file, "plain")
    job.reason, job.before = detection.reason, known
    return job


def _between(file: BinaryIO, start: int, end: int) -> Iterator[bytes]:
    file.seek(start)
    while start < end and (block := file.read(min(BLOCK, end - start))):
        start += len(block)
        yield block


def _less(known: Known, job: Job, without: int | None) -> Known:
    """What is known of a file without its last line, which was unfinished; `job` is the read of that line alone, and
    `without` the attempt that it gave."""
    return replace(
        known,
        lines=known.lines - job.lines,
        rows=known.rows - job.rows,
        rejected=known.rejected - job.rejected,
        blank=known.blank - job.blank,
        foreign=known.foreign - job.foreign,
        repaired=known.repaired - job.repaired,
        bad=Counter(known.bad) - job.bad,
        rejects=tuple(one for one in known.rejects if one[0] != known.lines),
        without=without,
    )


def recall(job: Job) -> None:
    """Adds what a store knows of a file to what was read of it now."""
    told = [list(job.notes), list(job.before.notes) if job.before and not job.kept else []]
    job.recall()
    guesses = {one for notes in told for note in notes if note.startswith(_GUESSED) for one in _listed(note)}
    if told[1] and job.format:
        every = [f"{alias.shown} in {alias.unit}" for alias in plan(job.format).guesses]
        note = _GUESSED + ", ".join(one for one in every if one in guesses)
        others = [one for one in (*told[1], *told[0]) if not one.startswith(_GUESSED)]
        job.notes = list(dict.fromkeys([*([note] if guesses else []), *others]))


def _listed(note: str) -> list[str]:
    return note.removeprefix(_GUESSED).split(", ")
