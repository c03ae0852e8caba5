"""Files -> canonical tables: the straight line of one read.

find (paths -> files) > detect (what each is, and which format page fits) > load (one query for all files of a format)
> finish (doubled rows, attempt numbers, filters) > ledger (lines = rows + rejected + blank + foreign, for each file).
What a saved store among the files knows is not read again (known), its rows are taken over after load (saved).
"""

import errno
import functools
import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO

from llmdoctor.errors import InputError, StoreError, UsageError
from llmdoctor.ingest import copies, filters, finish, known, ledger, ours, saved, tails
from llmdoctor.ingest.detect import Detection, detect
from llmdoctor.ingest.fields import Alias
from llmdoctor.ingest.find import find
from llmdoctor.ingest.formats import Format, format_named, load_formats
from llmdoctor.ingest.hidden import hide
from llmdoctor.ingest.job import Job
from llmdoctor.ingest.load import load
from llmdoctor.ingest.locate import find_lines
from llmdoctor.ingest.mapping import mapped, parse_maps
from llmdoctor.ingest.marks import Reading
from llmdoctor.ingest.meter import Meter
from llmdoctor.ingest.prometheus import is_metrics, load_metrics
from llmdoctor.ingest.query import literal
from llmdoctor.store import Store


@dataclass(frozen=True)
class ReadOptions:
    """How to read. `timezone` is for instants without a zone; `since`, `until` (instants, or times before the end of
    the log) and `where` (a condition over the columns of `attempts`) leave rows out; `maps` say where a column stands
    (PATH[:UNIT]); `formats_dirs` hold further format pages; `save` is the file that keeps what was read."""

    format: str | None = None
    timezone: str = "UTC"
    since: str | None = None
    until: str | None = None
    where: str | None = None
    maps: Mapping[str, str] = field(default_factory=dict)
    formats_dirs: tuple[Path, ...] = ()
    save: Path | None = None


@dataclass
class _Read:
    """What is known of a read after it: for `locate` and `resolved`."""

    jobs: list[Job]
    reading: Reading
    bounds: dict[str, str] = field(default_factory=dict)


_READS: "weakref.WeakKeyDictionary[Store, _Read]" = weakref.WeakKeyDictionary()


def read(
    store: Store,
    paths: Sequence[str],
    options: ReadOptions | None = None,
    stdin: BinaryIO | None = None,
    meter: Meter | None = None,
) -> tuple[str, ...]:
    """Fills the tables of a created, unsealed store from files, folders, globs and `-`. Returns one sentence for each
    thing a reader must know. InputError where a path does not exist or nothing at all can be used, UsageError where
    an option is wrong. `meter` tells another thread how far it is."""
    options, meter = options or ReadOptions(), meter or Meter()
    maps = parse_maps(options.maps, store.columns("attempts"))
    formats = tuple(mapped(page, maps) for page in load_formats(options.formats_dirs))
    forced = format_named(formats, options.format) if options.format else None
    folder = _scratch(store)
    found = find(paths, folder, stdin)
    sources, stores, passed = ours.apart(found.sources)
    ours.spare(options.save, sources, stores)
    reading = Reading(formats, forced, options.timezone)
    _set_timezone(store, options.timezone)
    try:
        unusable, shelf = saved.opened(store, stores)
        notes = dict.fromkeys((*shelf.notes, *found.notes, *passed))
        jobs, replaced = known.to_read(
            store, sorted([*sources, *unusable], key=lambda one: one.input_id), shelf.known, reading, folder
        )
        _READS[store] = _Read(jobs, reading)
        more = _fill(store, folder, options, shelf, list(notes), meter)
        return (*_doubts(jobs, maps), *notes, *replaced, *more)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT):
            raise
        raise InputError(
            f"{tempfile.gettempdir()}: no room for working copies ({error.strerror}): set TMPDIR to a larger disk"
        ) from error
    finally:
        meter.leave()
        store.script("set TimeZone = 'UTC'")


def _doubts(jobs: Sequence[Job], maps: Mapping[str, Alias]) -> list[str]:
    """What a reader must know before anything else: units that were guessed or cannot be, mappings that found nothing.
    One sentence for all files that share it, warnings first."""
    said: dict[str, list[str]] = {}
    for job in jobs:
        for note in job.notes:
            if note.startswith(("WARNING", "units guessed")):
                said.setdefault(note, []).append(job.source.shown)
    told = [f"{_files(files)}: {note}" for note, files in sorted(said.items(), key=lambda one: one[0][:1] != "W")]
    keys = frozenset().union(*(job.detection.keys for job in jobs if job.rows))
    lost = [alias.shown for alias in maps.values() if keys and alias.root not in keys]
    return [f"--map: no record that was looked at has {path}." for path in lost] + told


def _files(names: Sequence[str]) -> str:
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{names[0]}{more}"


def _scratch(store: Store) -> Path:
    """A folder that lives as long as the store. Who cleans up is settled before it is made: Ctrl-C may come between."""
    folder = Path(tempfile.gettempdir()) / f"llmdoctor-{token_hex(8)}"
    clean = functools.partial(shutil.rmtree, folder, ignore_errors=True)
    store.at_close(clean)
    weakref.finalize(store, clean)
    folder.mkdir(mode=0o700)
    return folder


def _fill(
    store: Store, folder: Path, options: ReadOptions, shelf: saved.Shelf, notes: Sequence[str], meter: Meter
) -> list[str]:
    jobs, reading = _READS[store].jobs, _READS[store].reading
    whole = not (options.since or options.until or options.where)
    _load_all(store, [job for job in jobs if not job.kept], folder, whole and not shelf.known, meter)
    if shelf.known:
        meter.now("taking over what was saved")
        if whole:
            finish.narrow(store, saved.columns(store, shelf))
        saved.take_over(store, jobs)
    if shelf.known or options.save:
        hide(store)
    saved.closed(store, shelf)
    meter.now("putting the rows in order")
    for job in jobs:
        tails.recall(job)
    said = _finish(store, jobs, options.save is not None)
    since = filters.bound(store, "--since", options.since) if options.since else None
    until = filters.bound(store, "--until", options.until) if options.until else None
    if options.where:
        filters.require_condition(store, options.where)
    _READS[store].bounds = {name: one.text for name, one in (("since", since), ("until", until)) if one}
    if options.save:
        meter.now(f"saving {options.save}")
        saved.write(store, jobs, options.save, reading.digest, notes)
        meter.wrote(str(options.save))
    return said + finish.stray(store) + filters.select(store, since, until, options.where)


def _finish(store: Store, jobs: Sequence[Job], keep: bool) -> list[str]:
    if keep:
        finish.keep_all(store)
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
    return notes


def resolved(store: Store) -> Mapping[str, str]:
    """What --since and --until named, as `read` understood it: {"since": "1h (2026-01-05T11:00:00Z)"}."""
    return _READS[store].bounds if store in _READS else {}


def locate(store: Store, attempt_ids: Sequence[int]) -> dict[int, int]:
    """attempt_id -> 1-based line in its file, for those that are found; {} for a store that was not filled by `read`
    in this process. Works on a sealed store: the files are read by Python."""
    if store not in _READS or not attempt_ids:
        return {}
    done = _READS[store]
    return find_lines(store, done.jobs, attempt_ids, done.reading)


def _set_timezone(store: Store, zone: str) -> None:
    try:
        store.script(f"set TimeZone = {literal(zone)}")
    except StoreError as error:
        raise UsageError(f"--tz: no time zone is called {zone!r}; write it as Europe/Berlin") from error


def _load_all(store: Store, jobs: Sequence[Job], folder: Path, slim: bool, meter: Meter) -> None:
    """Groups the files by the page that reads them, the biggest group first (its table need not be copied). `slim`:
    rows will not be asked for columns that a lone group does not have."""
    groups: dict[Format, list[Job]] = {}
    meter.begin(sum(job.size for job in jobs if job.format))
    for job in jobs:
        if is_metrics(job.format):
            meter.group(store, job.size)
            load_metrics(store, job, folder)
        elif job.format is not None:
            groups.setdefault(job.format, []).append(job)
    for group in sorted(groups.values(), key=lambda group: -sum(job.size for job in group)):
        meter.group(store, sum(job.size for job in group))
        load(store, group, folder, slim and len(groups) == 1)


def _require_rows(jobs: Sequence[Job]) -> None:
    if not any(job.rows for job in jobs):
        kinds = "; ".join(dict.fromkeys(f"{job.source.shown}: {job.reason}" for job in jobs[:3])) or "no files"
        more = f" and {len(jobs) - 3} more" if len(jobs) > 3 else ""
        raise InputError(
            f"no LLM call was found in {len(jobs)} file{'s' * (len(jobs) != 1)} ({kinds}{more}); "
            "see 'llmdoctor formats list', or map the fields with --format or a format page of your own"
        )


__all__ = ["Detection", "Meter", "ReadOptions", "detect", "locate", "read", "resolved"]
