"""Bytes of an answer -> events where it is JSON and no event stream: a document a line, or the elements of an array.

The readers are used like `sse.Reader` and return the same events, wherever the bytes were cut. No clock, no I/O.
"""

import re
from typing import Literal

from llmdoctor.probe.sse import BOM, MAX_BYTES, Event, Line, Lines


class LineReader:
    """One JSON document a line (NDJSON): every line that is not blank is an event."""

    def __init__(self, limit: int = MAX_BYTES) -> None:
        self._lines = Lines(limit)

    def feed(self, data: bytes) -> list[Event]:
        """The lines that these bytes complete."""
        return [self._event(line) for line in self._lines.feed(data) if line.data.strip()]

    def end(self) -> list[Event]:
        """The last line where it had no line end: it may be whole, but nothing says so."""
        line = self._lines.end()
        return [self._event(line, whole=False)] if line and line.data.strip() else []

    def _event(self, line: Line, whole: bool = True) -> Event:
        if line.start == 0 and line.data.startswith(BOM):
            line = Line(line.data[len(BOM) :], len(BOM), line.end, line.cut)
        text, faults = line.text()
        return Event("event", text, line.start, line.end, whole=whole, faults=faults)


_OUTSIDE = re.compile(rb"[\"{}\[\]]")
_INSIDE = re.compile(rb"[\"\\]")
_GAP = re.compile(rb"[\s,]+")


class ElementReader:
    """A JSON array that grows while it is sent: every element is an event, complete at its closing bracket. Documents
    that follow each other without an array are read the same way. Other text between them is stray, a line each."""

    def __init__(self, limit: int = MAX_BYTES) -> None:
        self.limit = limit
        self._at = 0
        self._start = 0
        self._kept = bytearray()
        self._cut = False
        self._depth = 0
        self._quoted = False
        self._escaped = False
        self._begun = False
        self._array = False
        self._stray = False

    def feed(self, data: bytes) -> list[Event]:
        """The elements that these bytes complete."""
        events, position = [], 0
        while position < len(data):
            if self._depth:
                position, event = self._element(data, position)
            elif self._stray:
                position, event = self._junk(data, position)
            else:
                position, event = self._between(data, position)
            if event:
                events.append(event)
        self._at += len(data)
        return events

    def end(self) -> list[Event]:
        """The element that was begun and not completed; an empty event with a fault where only the array is open."""
        if self._depth or self._stray:
            kind: Literal["event", "stray"] = "stray" if self._stray else "event"
            return [self._event(kind, self._at, whole=False)]
        if self._array:
            return [Event("event", "", self._at, self._at, lines=0, whole=False, faults=("array_not_closed",))]
        return []

    def _between(self, data: bytes, position: int) -> tuple[int, Event | None]:
        gap = _GAP.match(data, position)
        if gap:
            return gap.end(), None
        mark = data[position : position + 1]
        if mark == b"[" and not self._begun:
            self._array = self._begun = True
        elif mark == b"]" and self._array:
            self._array = False
        else:
            self._begun = True
            self._start = self._at + position
            self._depth = int(mark in b"{[")
            self._stray = not self._depth
            if self._depth:
                self._keep(data, position, position + 1)
            else:
                return position, None
        return position + 1, None

    def _junk(self, data: bytes, position: int) -> tuple[int, Event | None]:
        stop = data.find(b"\n", position)
        self._keep(data, position, len(data) if stop < 0 else stop)
        if stop < 0:
            return len(data), None
        return stop + 1, self._event("stray", self._at + stop + 1)

    def _element(self, data: bytes, position: int) -> tuple[int, Event | None]:
        if self._escaped:
            self._escaped = False
            self._keep(data, position, position + 1)
            return position + 1, None
        match = (_INSIDE if self._quoted else _OUTSIDE).search(data, position)
        stop = match.end() if match else len(data)
        self._keep(data, position, stop)
        mark = match[0] if match else b""
        if mark == b'"':
            self._quoted = not self._quoted
        elif mark == b"\\":
            self._escaped = True
        elif mark:
            self._depth += 1 if mark in b"{[" else -1
            if not self._depth:
                return stop, self._event("event", self._at + stop)
        return stop, None

    def _keep(self, data: bytes, start: int, stop: int) -> None:
        room = self.limit - len(self._kept)
        self._cut = self._cut or stop - start > room
        self._kept += data[start : min(stop, start + room)]

    def _event(self, kind: Literal["event", "stray"], end: int, whole: bool = True) -> Event:
        text, faults = Line(bytes(self._kept), self._start, end, self._cut).text()
        self._kept.clear()
        self._cut = self._stray = False
        return Event(kind, text.rstrip(), self._start, end, lines=int(kind == "event"), whole=whole, faults=faults)
