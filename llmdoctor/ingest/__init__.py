"""Files -> canonical tables: the straight line of one read.

find (paths -> files) > detect (what each is, and which format page fits) > load (one query for all files of a format)
> finish (doubled rows, attempt numbers, filters) > ledger (lines = rows + rejected + blank + foreign, for each file).
"""

import tempfile
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from llmdoctor.errors import InputError, StoreError, UsageError
from llmdoctor.ingest import copies, finish, ledger
from llmdoctor.ingest.detect import Detection, detect
from llmdoctor.ingest.find import Source, find
from llmdoctor.ingest.formats import Format, format_named, load_formats
from llmdoctor.ingest.job import Job
from llmdoctor.ingest.load import load
from llmdoctor.ingest.locate import find_lines
from llmdoctor.ingest.mapping import mapped, parse_maps
from llmdoctor.ingest.prometheus import is_metrics, load_metrics
from llmdoctor.ingest.query import literal
from llmdoctor.store import Store


@dataclass(frozen=True)
class ReadOptions:
    """How to read. `timezone` is for instants without a zone; `since`, `until` (instants) and `where` (a condition over
    the columns of `attempts`) leave rows out; `maps` say where a column stands (PATH[:UNIT]); `formats_dirs` hold
    further format pages."""

    format: str | None = None
    timezone: str = "UTC"
    since: str | None = None
    until: str | None = None
    where: str | None = None
    maps: Mapping[str, str] = field(default_factory=dict)
    formats_dirs: tuple[Path, ...] = ()


_READS: "weakref.WeakKeyDictionary[Store, tuple[list[Job], str]]" = weakref.WeakKeyDictionary()


def read(
    store: Store, paths: Sequence[str], options: ReadOptions | None = None, stdin: BinaryIO | None = None
) -> tuple[str, ...]:
    """Fills the tables of a created, unsealed store from files, folders, globs and `-`. Returns one sentence for each
    thing a reader must know. InputError where a path does not exist or nothing at all can be used, UsageError where
    an option is wrong."""
    options = options or ReadOptions()
    maps = parse_maps(options.maps, store.columns("attempts"))
    formats = tuple(mapped(page, maps) for page in load_formats(options.formats_dirs))
    forced = format_named(formats, options.format) if options.format else None
    scratch = tempfile.TemporaryDirectory(prefix="llmdoctor-")
    folder = Path(scratch.name)
    weakref.finalize(store, scratch.cleanup)
    found = find(paths, folder, stdin)
    sources, passed = _without_reports(found.sources)
    jobs = [_job(source, formats, forced) for source in sources]
    _READS[store] = (jobs, options.timezone)
    _set_timezone(store, options.timezone)
    try:
        return (*found.notes, *passed, *_fill(store, jobs, folder, options))
    finally:
        store.script("set TimeZone = 'UTC'")


def _fill(store: Store, jobs: Sequence[Job], folder: Path, options: ReadOptions) -> list[str]:
    _load_all(store, jobs, folder, not (options.since or options.until or options.where))
    finish.clean(store, jobs)
    finish.doubt_units(store, jobs)
    notes = copies.drop_copies(store, jobs) + finish.drop_doubled(store, jobs)
    finish.number(store)
    notes += finish.attach(store)
    finish.widen(store)
    for job in jobs:
        ledger.settle(job)
    _require_rows(jobs)
    ledger.write(store, jobs)
    notes += finish.stray(store)
    return notes + finish.select(store, options.since, options.until, options.where)


def locate(store: Store, attempt_ids: Sequence[int]) -> dict[int, int]:
    """attempt_id -> 1-based line in its file, for those that are found; {} for a store that was not filled by `read`
    in this process. Works on a sealed store: the files are read by Python."""
    if store not in _READS or not attempt_ids:
        return {}
    jobs, zone = _READS[store]
    return find_lines(store, jobs, attempt_ids, zone)


def _without_reports(sources: Sequence[Source]) -> tuple[list[Source], list[str]]:
    """Leaves out what llmdoctor itself wrote into the folder before."""
    ours = [source for source in sources if source.problem is None and _is_report(source.path)]
    said = [f"{source.shown} is a report of llmdoctor and was not read." for source in ours]
    return [source for source in sources if source not in ours], said


def _is_report(path: Path) -> bool:
    with path.open("rb") as file:
        head = file.read(4096)
    return b'"llmdoctor.report/' in head or (head.lower().startswith(b"<!doctype html>") and b"llmdoctor" in head)


def _job(source: Source, formats: Sequence[Format], forced: Format | None) -> Job:
    if source.problem:
        return Job.unreadable(source)
    return Job.of(source, detect(source.path, formats, forced))


def _set_timezone(store: Store, zone: str) -> None:
    try:
        store.script(f"set TimeZone = {literal(zone)}")
    except StoreError as error:
        raise UsageError(f"--tz: no time zone is called {zone!r}; write it as Europe/Berlin") from error


def _load_all(store: Store, jobs: Sequence[Job], folder: Path, slim: bool) -> None:
    """Groups the files by the page that reads them, the biggest group first (its table need not be copied). `slim`:
    rows will not be asked for columns that a lone group does not have."""
    groups: dict[Format, list[Job]] = {}
    for job in jobs:
        if is_metrics(job.format):
            load_metrics(store, job, folder)
        elif job.format is not None:
            groups.setdefault(job.format, []).append(job)
    for group in sorted(groups.values(), key=lambda group: -sum(job.source.size for job in group)):
        load(store, group, folder, slim and len(groups) == 1)


def _require_rows(jobs: Sequence[Job]) -> None:
    if not any(job.rows for job in jobs):
        kinds = "; ".join(dict.fromkeys(f"{job.source.shown}: {job.reason}" for job in jobs[:3])) or "no files"
        more = f" and {len(jobs) - 3} more" if len(jobs) > 3 else ""
        raise InputError(
            f"no LLM call was found in {len(jobs)} file{'s' * (len(jobs) != 1)} ({kinds}{more}); "
            "see 'llmdoctor formats list', or map the fields with --format or a format page of your own"
        )


__all__ = ["Detection", "ReadOptions", "detect", "locate", "read"]
