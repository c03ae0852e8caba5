"""One file on its way through a read: what it is, which bytes DuckDB reads, and the count of its lines."""

import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from llmdoctor.ingest.detect import Detection
from llmdoctor.ingest.find import Source
from llmdoctor.ingest.formats import Format
from llmdoctor.ingest.records import Content, Record
from llmdoctor.ingest.unpack import count_lines, count_with_blanks


@dataclass
class Before:
    """What a saved store knows of a file: its ledger, and the examples and secrets found in it. `format` is the name of
    its page, `lines` are those above the offset from which on the file is to be read."""

    lines: int = 0
    rows: int = 0
    rejected: int = 0
    blank: int = 0
    foreign: int = 0
    repaired: int = 0
    guessed: bool = False
    last_open: bool = False
    broken: str | None = None
    reason: str = ""
    notes: tuple[str, ...] = ()
    bad: Counter[str] = field(default_factory=Counter)
    rejects: tuple[tuple[int, str, bool, str], ...] = ()
    secrets: tuple[tuple[str, int, int], ...] = ()


@dataclass(eq=False)
class Job:
    """A file and its ledger. `file` and `packing` are what DuckDB reads: the file itself, or the copy that Python made
    of it (`copied`, `pooled` with others). `early` are the records that this copy had to leave out, `extra` counts the
    lines that went into the record of another line. `before` is what a store knows of the file; `kept`: that is all, nothing of it is read."""

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
    before: Before | None = None
    kept: bool = False

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
        status = os.stat(self.source.path)
        self.grew = (status.st_size, status.st_mtime_ns) != (self.source.size, self.source.mtime_ns)
        if self.grew and self.blank < 0:
            self.lines, self.blank = records, 0
        total = self.rows + self.rejected + self.blank + self.foreign
        assert self.lines == total, f"{self.source.shown}: {self.lines} lines, {total} accounted for"
        assert self.blank >= 0, f"{self.source.shown}: {records} records in {self.lines} lines"

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
