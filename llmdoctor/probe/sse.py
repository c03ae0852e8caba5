"""Bytes of an answer -> events, as the WHATWG standard for event streams says. No clock, no I/O.

A reader has `feed(data)` and `end()`, and the events it returns do not depend on where the bytes were cut. An event
knows the offset just behind the byte that completed it: for a line that ends in CR LF this is the CR, since a reader
must not wait for a byte that may come much later.

Source: https://html.spec.whatwg.org/multipage/server-sent-events.html (parsing and interpreting an event stream).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

MAX_BYTES = 4 * 1024 * 1024
"""Bytes of one line, and of the data of one event, that are kept. What is longer is cut, with a fault that says so."""

BOM = b"\xef\xbb\xbf"
_LINE_END = re.compile(rb"\r\n|\r|\n")
_BLANK_LINES = re.compile(rb"\n+")


@dataclass(frozen=True)
class Event:
    """One event of a stream. `kind`: an event; a comment; or stray = text that is no field of the standard, which
    clients ignore. `lines` counts its data lines: without any, no client is told. `whole` is false where the body
    ended before the event did: the standard drops it then."""

    kind: Literal["event", "comment", "stray"]
    data: str
    start: int
    end: int
    name: str = ""
    id: str | None = None
    retry: int | None = None
    lines: int = 1
    whole: bool = True
    faults: tuple[str, ...] = ()

    @property
    def bytes(self) -> int:
        """Size in the decoded body, from its first byte to the one that completed it."""
        return self.end - self.start


class Line(NamedTuple):
    """One line without its end; `end` is the offset just behind the first byte of the line end."""

    data: bytes
    start: int
    end: int
    cut: bool = False

    def text(self) -> tuple[str, tuple[str, ...]]:
        """The line as text and the faults met on the way. Bytes that are no UTF-8 become U+FFFD."""
        try:
            return self.data.decode("utf-8"), ("line_too_long",) * self.cut
        except UnicodeDecodeError:
            return self.data.decode("utf-8", "replace"), ("line_too_long" if self.cut else "invalid_utf8",)


@dataclass
class Lines:
    """Splits bytes at LF, CR and CR LF. `ends` collects the kinds of line end seen."""

    limit: int = MAX_BYTES
    ends: set[bytes] = field(default_factory=set)
    at: int = 0
    _line: bytearray = field(default_factory=bytearray)
    _start: int = 0
    _cut: bool = False
    _after_cr: bool = False

    def feed(self, data: bytes) -> Iterator[Line]:
        """The lines that these bytes complete."""
        position = 0
        if self._after_cr and data:
            position = int(data[:1] == b"\n")
            self.ends.add(b"\r\n" if position else b"\r")
            self._after_cr = False
        while match := _LINE_END.search(data, position):
            self._keep(data, position, match.start())
            if match[0] == b"\r" and match.end() == len(data):
                self._after_cr = True
            else:
                self.ends.add(match[0])
            line = self._done(self.at + match.start() + 1)
            yield line
            position = match.end()
            if not line.data and match[0] == b"\n" and (run := _BLANK_LINES.match(data, position)):
                # A second blank line means nothing, and there may be a gigabyte of them.
                position = run.end()
        self._keep(data, position, len(data))
        self.at += len(data)

    def end(self) -> Line | None:
        """The last line where the body ended without a line end, None where nothing is left. A CR as the last byte
        is not counted among the ends: its LF may have been cut off."""
        return self._done(self.at) if self._line or self._cut else None

    def _keep(self, data: bytes, start: int, stop: int) -> None:
        if start == stop:
            return
        if not self._line:
            self._start = self.at + start
        room = self.limit - len(self._line)
        self._cut = self._cut or stop - start > room
        self._line += data[start : min(stop, start + room)]

    def _done(self, end: int) -> Line:
        line = Line(bytes(self._line), self._start if self._line else end - 1, end, self._cut)
        self._line.clear()
        self._cut = False
        return line


@dataclass
class _Open:
    """The event that is being read."""

    start: int
    data: list[str] = field(default_factory=list)
    size: int = 0
    name: str = ""
    id: str | None = None
    retry: int | None = None
    faults: list[str] = field(default_factory=list)


class Reader:
    """An event stream. `spaceless` and `bom` tell how it was written; `line_ends` which line ends it has."""

    def __init__(self, limit: int = MAX_BYTES) -> None:
        self._lines = Lines(limit)
        self._open: _Open | None = None
        self._first = True
        self.spaceless = False
        self.bom = False

    @property
    def line_ends(self) -> frozenset[bytes]:
        """The kinds of line end seen so far: of CR LF, CR, LF."""
        return frozenset(self._lines.ends)

    def feed(self, data: bytes) -> list[Event]:
        """The events that these bytes complete, in order."""
        return [event for line in self._lines.feed(data) for event in self._line(line)]

    def end(self) -> list[Event]:
        """What was begun and not completed when the body ended, each with `whole` false."""
        line = self._lines.end()
        events = list(self._line(line, whole=False)) if line else []
        if self._open:
            events.append(self._dispatch(self._lines.at, whole=False))
        return events

    def _line(self, line: Line, whole: bool = True) -> Iterator[Event]:
        if self._first and line.data.startswith(BOM):
            self.bom = True
            line = Line(line.data[len(BOM) :], line.start + len(BOM), line.end, line.cut)
        self._first = False
        if not line.data:
            if self._open and whole:
                yield self._dispatch(line.end)
            return
        text, faults = line.text()
        name, colon, value = text.partition(":")
        if colon and not value.startswith(" ") and value and name in ("data", "event", "id", "retry"):
            self.spaceless = True
        value = value.removeprefix(" ")
        if colon and not name:
            yield Event("comment", value, line.start, line.end, lines=0, whole=whole, faults=faults)
        elif name in ("data", "event", "id", "retry"):
            self._field(name, value, line, faults)
        else:
            yield Event("stray", text, line.start, line.end, lines=0, whole=whole, faults=faults)

    def _field(self, name: str, value: str, line: Line, faults: tuple[str, ...]) -> None:
        self._open = event = self._open or _Open(line.start)
        event.faults += faults
        if name == "data":
            if event.size + len(value) <= self._lines.limit or not event.data:
                event.data.append(value)
                event.size += len(value)
            elif "line_too_long" not in event.faults:
                event.faults.append("line_too_long")
        elif name == "event":
            event.name = value
        elif name == "id" and "\0" not in value:
            event.id = value
        elif name == "retry" and value.isascii() and value.isdigit() and len(value) <= 12:
            event.retry = int(value)

    def _dispatch(self, end: int, whole: bool = True) -> Event:
        event = self._open or _Open(end)
        self._open = None
        return Event(
            "event",
            "\n".join(event.data),
            event.start,
            end,
            event.name,
            event.id,
            event.retry,
            len(event.data),
            whole,
            tuple(event.faults),
        )
