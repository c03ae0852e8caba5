"""One file on its way through a read: what it is, which bytes DuckDB reads, and the count of its lines."""

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from llmdoctor.ingest.detect import Detection
from llmdoctor.ingest.find import Source
from llmdoctor.ingest.formats import Format
from llmdoctor.ingest.records import Content, Record
from llmdoctor.ingest.secrets import Looked
from llmdoctor.ingest.unpack import count_lines, count_with_blanks


@dataclass(frozen=True)
class Mark:
    """What a file is recognised by, whatever its name: its size, and digests of its first and its last bytes."""

    size: int
    head: str
    tail: str


@dataclass(frozen=True)
class Known:
    """A file as a saved store holds it: where (`shelf`, `number`), what it was, its ledger, and what was found in it.

    `offset` is the end of its last whole line, -1 where a read cannot go on from there. `reading` and `page` are
    digests of how it was read. `without` is the attempt that its last line gave when it was still unfinished."""

    shelf: str
    number: int
    path: str
    mtime_ns: int
    mark: Mark | None
    offset: int
    reading: str
    page: str
    format: str | None
    reason: str
    lines: int
    rows: int
    rejected: int
    blank: int
    foreign: int
    repaired: int
    guessed: bool
    last_open: bool
    broken: str | None
    notes: tuple[str, ...]
    bad: Mapping[str, int]
    rejects: tuple[tuple[int, str, bool, str], ...]
    looked: Looked | None
    without: int | None = None


@dataclass(eq=False)
class Job:
    """A file and its ledger. `file` and `packing` are what DuckDB reads: the file itself, or the copy that Python made
    of it (`copied`, `pooled` with others). `early` are the records that this copy had to leave out, `extra` counts the
    lines that went into the record of another line. `before` is what a store knows of the file; `kept`: that is all,
    nothing of it is read."""

    source: Source
    detection: Detection
    format: Format | None
    content: Content
    file: Path
    packing: str
    copied: bool = False
    pooled: bool = False
    seen: int = 0
    early: list[Record] = field(default_factory=list)
    lines: int = 0
    rows: int = 0
    rejected: int = 0
    blank: int = 0
    foreign: int = 0
    doubled: int = 0
    others: int = 0
    repaired: int = 0
    chatter: int = 0
    extra: int = 0
    grew: bool = False
    guessed: bool = False
    reason: str = ""
    notes: list[str] = field(default_factory=list)
    bad: Counter[str] = field(default_factory=Counter)
    last_open: bool = False
    broken: str | None = None
    before: Known | None = None
    kept: bool = False
    looked: Looked | None = None

    @classmethod
    def of(cls, source: Source, detection: Detection) -> "Job":
        """A file that was looked at."""
        content = detection.content
        job = cls(source, detection, detection.format, content, source.path, content.packing)
        job.reason = detection.reason
        return job

    @classmethod
    def unreadable(cls, source: Source) -> "Job":
        """A path that is no readable file: it stands in the ledger with its reason."""
        content = Content(source.path, "plain", "empty")
        return cls(
            source,
            Detection(content, (), source.problem or ""),
            None,
            content,
            source.path,
            "plain",
            reason=source.problem or "",
        )

    @property
    def size(self) -> int:
        """Bytes to be read."""
        return self.source.size - (self.before.offset if self.before else 0)

    @property
    def needs_copy(self) -> bool:
        """True where DuckDB cannot read the file as it is."""
        return not self.content.plain_json

    @property
    def format_id(self) -> str | None:
        """The page whose rows the file gave, None where it gave none."""
        return self.format.id if self.format and (self.rows or self.rejected) else None

    def recall(self) -> None:
        """Adds what a store knows of the file to what was read now."""
        before = self.before
        if before is None:
            return
        self.rows += before.rows
        self.rejected += before.rejected
        self.foreign += before.foreign
        self.repaired += before.repaired
        self.guessed |= before.guessed
        self.bad.update(before.bad)
        if self.kept:
            self.lines, self.blank, self.last_open = before.lines, before.blank, before.last_open
            self.reason, self.notes, self.broken = before.reason, list(before.notes), before.broken

    def give_up(self, reason: str) -> None:
        """Nothing of it can be used: its lines are foreign, and the others go on."""
        self.format, self.reason = None, reason
        self.early, self.rows, self.rejected, self.chatter, self.extra = [], 0, 0, 0, 0

    def settle(self) -> None:
        """Counts physical lines and blank ones against the records that were read (`seen` by DuckDB, `early` by the
        copy). AssertionError where lines = rows + rejected + blank + foreign does not hold."""
        if self.kept:
            if self.broken:
                self.notes.append(self.broken)
            return
        unpacked = self.content.unpacked()
        self.rejected += len(self.early)
        self.foreign += self.chatter + self.extra
        records = self.seen + len(self.early) + self.chatter + self.extra
        if self.format is None:
            self.lines, self.blank = count_with_blanks(unpacked)
            self.foreign = self.lines - self.blank
        elif self.content.counts_records:
            self.lines = records
            if self.content.packing != "plain":
                count_lines(unpacked)  # tells whether the archive is whole
        else:
            self.lines, closed = count_lines(unpacked)
            self.last_open = not closed
            self.blank = self.lines - records
        if self.before:
            self.lines += self.before.lines
            self.blank += self.before.blank
        if unpacked.broken:
            self.broken = unpacked.broken
            self.notes.append(unpacked.broken)
        if self._changed() and self.format is not None and not self.content.counts_records:
            # Lines that came or went after DuckDB had read the file must not pass for blank ones.
            self.blank = count_with_blanks(self.content.unpacked())[1] + (self.before.blank if self.before else 0)
            self.lines = self.rows + self.rejected + self.blank + self.foreign
        total = self.rows + self.rejected + self.blank + self.foreign
        assert self.lines == total, f"{self.source.shown}: {self.lines} lines, {total} accounted for"
        assert self.blank >= 0, f"{self.source.shown}: {records} records in {self.lines} lines"

    def _changed(self) -> bool:
        """Whether the file is another one than when it was found, and what became of it."""
        try:
            status = os.stat(self.source.path)
        except OSError:
            self.notes.append("vanished while it was read")
            return True
        self.grew = status.st_size > self.source.size
        if status.st_size < self.source.size:
            self.notes.append("was cut while it was read: what had not been read by then is lost")
        return (status.st_size, status.st_mtime_ns) != (self.source.size, self.source.mtime_ns)

    def copy_to(self, folder: Path) -> None:
        """Writes the records that can be read as newline-delimited JSON into `folder`, and reads that from now on."""
        self.file, self.packing, self.copied = folder / f"{self.source.input_id}.jsonl", "plain", True
        self.early, self.repaired, self.chatter, self.extra = [], 0, 0, 0
        with self.file.open("wb") as out:
            for record in self.content.records():
                self.repaired += record.repaired
                self.extra += record.extra
                if record.chatter:
                    self.chatter += 1
                elif record.reason is None:
                    out.write(record.text + b"\n")
                else:
                    self.early.append(record)
