"""Which of the given files a saved store knows already, whatever they are called now, and what is left to read of them.

A file that is the same gives its rows from the store. One that grew is read from the end of its last whole line, where
its format allows that; else, like whatever else changed, it is read whole and the store's rows of it are forgotten.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from llmdoctor.errors import UsageError
from llmdoctor.ingest import tails
from llmdoctor.ingest.detect import Detection, detect
from llmdoctor.ingest.find import Source, in_order
from llmdoctor.ingest.formats import Format
from llmdoctor.ingest.job import Job, Known
from llmdoctor.ingest.marks import HEAD, Reading, begins_as, digest_of, page_digest
from llmdoctor.ingest.records import Content
from llmdoctor.ingest.unpack import head, packing_of
from llmdoctor.store import Store


@dataclass(frozen=True)
class Place:
    """A file of the ledger to be: given, known, or both."""

    source: Source
    given: bool
    known: Known | None


def to_read(
    store: Store, sources: Sequence[Source], stored: Sequence[Known], reading: Reading, folder: Path
) -> tuple[list[Job], list[str]]:
    """What is to be done about each file, and a sentence for each that took the place of one that a store knows."""
    if not stored:
        return [fresh(source, reading) for source in sources], []
    found, notes = places(sources, stored)
    return [_job(store, place, reading, folder) for place in found], notes


def fresh(source: Source, reading: Reading) -> Job:
    """The job of a file that is read whole."""
    if source.problem:
        return Job.unreadable(source)
    return Job.of(source, detect(source.path, reading.formats, reading.forced))


def _job(store: Store, place: Place, reading: Reading, folder: Path) -> Job:
    """The job of a file that a store may know: kept, gone on with, or read whole."""
    if not place.given:
        _require_page(place, reading)
        return _kept(place, reading.formats)
    if place.known is None:
        return fresh(place.source, reading)
    if _same(place) and place.known.reading == reading.digest:
        return _kept(place, reading.formats)
    detection = detect(place.source.path, reading.formats, reading.forced)
    return tails.went_on(store, place.source, place.known, detection, reading, folder) or Job.of(
        place.source, detection
    )


def places(sources: Sequence[Source], known: Sequence[Known]) -> tuple[list[Place], list[str]]:
    """The given files and those that only stores know, in the order in which all of them would have been read at once,
    numbered from 1; and a sentence for each file that took the place of another."""
    paired = pair(sources, known)
    used = {(one.shelf, one.number) for one in paired.values()}
    alone = [one for one in known if (one.shelf, one.number) not in used]
    names = {one.path for one in alone}
    notes = [
        f"{source.shown} was replaced or truncated since it was saved: what was read of it then still counts, and it "
        "was read as a new file."
        for source in sources
        if source.input_id not in paired and source.problem is None and source.shown in names and source.shown != "-"
    ]
    found = [Place(_source_of(one), False, one) for one in alone]
    found += [Place(source, True, paired.get(source.input_id)) for source in sources]
    rank = {name: place for place, name in enumerate(in_order({place.source.shown for place in found}))}
    found.sort(key=lambda one: (rank[one.source.shown], one.given))
    numbered = [replace(one, source=replace(one.source, input_id=number)) for number, one in enumerate(found, 1)]
    return numbered, notes


def _source_of(known: Known) -> Source:
    return Source(known.number, known.path, Path(known.path), known.mark.size if known.mark else 0, known.mtime_ns)


def pair(sources: Sequence[Source], known: Sequence[Known]) -> dict[int, Known]:
    """input_id of a given file -> what a store knows of it: by name and bytes, then by bytes alone, at last a file that
    was compressed since. Each is used once."""
    found: dict[int, Known] = {}
    by_path = {one.path: one for one in known if one.mark}
    for source in sources:
        one = by_path.get(source.shown)
        if one and one.mark and source.problem is None and begins_as(source.path, source.size, one.mark):
            found[source.input_id] = one
    used = {(one.shelf, one.number) for one in found.values()}
    free = [one for one in known if one.mark and one.mark.size and (one.shelf, one.number) not in used]
    if not free:
        return found
    for packed in (False, True):
        for source in sources:
            if source.problem is None and source.input_id not in found:
                match = _free_match(source, free, packed)
                if match:
                    found[source.input_id] = match
                    free.remove(match)
    return found


def _free_match(source: Source, free: Sequence[Known], packed: bool) -> Known | None:
    packing = packing_of(source.path)
    if packed and packing == "plain":
        return None
    if packed:
        first = head(source.path, packing, HEAD)
    else:
        with source.path.open("rb") as file:
            first = file.read(HEAD)
    digests: dict[int, str] = {}
    best: Known | None = None
    for one in free:
        assert one.mark is not None
        length = min(HEAD, one.mark.size)
        same = length <= len(first) and digests.setdefault(length, digest_of(first[:length])) == one.mark.head
        whole = packed or (same and begins_as(source.path, source.size, one.mark))
        if same and whole and (best is None or best.mark is None or one.mark.size > best.mark.size):
            best = one
    return best


def _require_page(place: Place, reading: Reading) -> None:
    """UsageError where a file that only a store knows was read by a page that is not here."""
    wanted = place.known.format if place.known else None
    if wanted and all(page.id != wanted for page in reading.formats):
        raise UsageError(
            f"{place.source.shown}: was read with a format page {wanted!r} that is not here: name its folder with "
            "--formats"
        )


def _kept(place: Place, formats: Sequence[Format]) -> Job:
    """The job of a file of which nothing is read: the store has it all."""
    assert place.known is not None
    content = Content(place.source.path, "plain", "empty")
    page = next((page for page in formats if page.id == place.known.format), None)
    job = Job(place.source, Detection(content, (), place.known.reason), page, content, place.source.path, "plain")
    job.kept, job.before = True, place.known
    return job


def _same(place: Place) -> bool:
    """Whether a given file is, byte for byte as far as can be told, what the store has read."""
    mark = place.known.mark if place.known else None
    return mark is not None and mark.size == place.source.size and begins_as(place.source.path, mark.size, mark)


def look_again(job: Job, reading: Reading) -> Detection | None:
    """How to read the lines of a file that the store knows, None where it is not there any more as it was."""
    known = job.before
    path = job.source.path
    if known is None or known.mark is None or not path.is_file() or path.stat().st_size != known.mark.size:
        return None
    if not begins_as(path, known.mark.size, known.mark):
        return None
    found = detect(path, reading.formats, reading.forced)
    return found if found.format and page_digest(found) == known.page else None
