"""Many small files -> one: DuckDB takes milliseconds to begin a file, which is more than reading a small one takes.

Each record gets the number of its file under `_input`. What is no JSON object stays outside, so that every line of the
pool is known to be one.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from llmdoctor.ingest.job import Job
from llmdoctor.ingest.objects import parsed

SMALL = 256 << 10
"""Bytes of the largest file that is pooled."""

FEW = 8
"""So many small files are worth a pool."""


def divided(jobs: Sequence[Job]) -> tuple[list[Job], list[Job]]:
    """The jobs to pool, and the others."""
    small = [job for job in jobs if job.source.size <= SMALL]
    if len(small) < FEW:
        return [], list(jobs)
    return small, [job for job in jobs if job.source.size > SMALL]


def fill(jobs: Sequence[Job], folder: Path) -> None:
    """Copies the records of all jobs into one file, which they read from now on."""
    file = folder / f"pool{jobs[0].source.input_id}.jsonl"
    with file.open("wb") as out:
        for job in jobs:
            job.file, job.packing, job.pooled = file, "plain", True
            _add(job, out.write)


def _add(job: Job, write: Callable[[bytes], object]) -> None:
    job.early, job.repaired, job.chatter, job.extra = [], 0, 0, 0
    head = b'{"_input":%d' % job.source.input_id
    known = job.detection.whole and not job.detection.faulty and job.content.plain_json
    for record in job.content.records():
        job.repaired += record.repaired
        job.extra += record.extra
        if record.chatter:
            job.chatter += 1
            continue
        if record.reason or not (known or parsed(record.text) is not None):
            job.early.append(record)
        else:
            body = record.text.strip()[1:].lstrip()
            write(head + (b"," if body != b"}" else b"") + body + b"\n")


def empty(jobs: Sequence[Job]) -> None:
    """Undoes `fill`: each file is read by itself."""
    for job in jobs:
        job.file, job.packing, job.pooled = job.content.path, job.content.packing, False
        job.early, job.repaired, job.chatter, job.extra = [], 0, 0, 0
