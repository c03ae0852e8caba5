"""One file as numbered records, read by Python: for what DuckDB cannot read itself, for line numbers and for `locate`.

The clean path never comes here. A record is one line of newline-delimited JSON, one element of a JSON array, one
object of pretty-printed JSON, or one row of a CSV file.
"""

import csv
import io
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from llmdoctor.ingest.unpack import Packing, Unpacked

Shape = Literal["lines", "values", "csv", "prometheus", "text", "binary", "empty"]

LONGEST = 16 << 20
"""Bytes of the longest line that is read; DuckDB gives up the whole query at about twice that."""

_UNQUOTED = re.compile(rb'("(?:[^"\\]|\\.)*"\s*:\s*)("(?:[^"\\]|\\.)*"|[^"{}\[\]]*?)(?=\s*,\s*"|\s*})')


@dataclass(frozen=True)
class Record:
    """`line` is 1-based (the line on which the record begins). `text` is one line of JSON, `reason` says why there is
    none. `repaired`: it had to be mended. `chatter`: a line of text in a log whose records stand in envelopes."""

    line: int
    text: bytes
    reason: str | None = None
    repaired: bool = False
    chatter: bool = False


@dataclass(frozen=True)
class Content:
    """How to read one file as records."""

    path: Path
    packing: Packing
    shape: Shape
    delimiter: str = ","
    repair: bool = False
    unwrap: bool = False

    def records(self) -> Iterator[Record]:
        """All records in order, blank lines left out; ends early where the compression is broken."""
        if self.shape == "values":
            yield from _values(Unpacked(self.path, self.packing))
        elif self.shape == "csv":
            yield from _csv_rows(Unpacked(self.path, self.packing), self.delimiter)
        else:
            for number, line in enumerate(Unpacked(self.path, self.packing).lines(), 1):
                if line.strip():
                    yield self._line(number, line)

    def _line(self, number: int, line: bytes) -> Record:
        if len(line) > LONGEST:
            return Record(number, b"", "line longer than 16 MiB")
        text = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
        if self.unwrap:
            text = unwrapped(text)
            if not text.lstrip().startswith(b"{"):
                return Record(number, b"", "text, not a record", chatter=True)
        if self.repair and parsed(text) is None:
            fixed = repaired(text)
            if parsed(fixed) is not None:
                return Record(number, fixed, repaired=True)
        return Record(number, text)


def parsed(line: bytes) -> dict[str, Any] | None:
    """The line as an object, None where it is none. As strict as DuckDB, but for lone surrogates."""
    try:
        value = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def why_not(line: bytes, last: bool) -> str:
    """In words, why a line is no record. `last`: it is the last one and has no line feed."""
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError:
        return "not UTF-8"
    if "\0" in text:
        return "NUL bytes"
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return "incomplete last line" if last else "not JSON"
    return "not JSON" if isinstance(value, dict) else "JSON, but not an object"


def repaired(line: bytes) -> bytes:
    """Quotes the bare values that nginx writes for unset variables: `"uht":-, 0.001` and `"uht":}`. Flat objects."""

    def quote(match: re.Match[bytes]) -> bytes:
        value = match.group(2)
        try:
            json.loads(value)
        except ValueError:
            return match.group(1) + json.dumps(value.decode("utf-8", "replace").strip()).encode()
        return match.group(0)

    return _UNQUOTED.sub(quote, line)


_CARRIERS = ("log", "message", "msg", "line", "MESSAGE", "textPayload")


def unwrapped(line: bytes) -> bytes:
    """The JSON object inside an envelope: after a prefix (`2026-.. stdout F {...}`, `web-1  | {...}`), or as the text
    of a key such as `log` (Docker, fluent-bit, CloudWatch). The line itself where there is no envelope."""
    record = parsed(line)
    if record is None:
        start = line.find(b'{"')
        while start > 0:
            if parsed(line[start:].rstrip()) is not None:
                return unwrapped(line[start:].rstrip())
            start = line.find(b'{"', start + 1)
        return line
    for key in _CARRIERS:
        inner = record.get(key)
        if isinstance(inner, str) and inner.lstrip().startswith("{"):
            text = inner.strip().encode("utf-8", "replace")
            if parsed(text) is not None and b"\n" not in text:
                return text
    return line


def _values(file: Unpacked) -> Iterator[Record]:
    """Objects of a JSON text of any layout: `[{...}, {...}]`, `{...}{...}` or pretty-printed. What cannot be read ends
    the file: one record that says so."""
    decoder = json.JSONDecoder()
    text, line, done = "", 1, False
    blocks = _decoded(file)
    while True:
        stripped = text.lstrip(" \t\r\n,[]\ufeff")
        line += text.count("\n", 0, len(text) - len(stripped))
        text = stripped
        try:
            value, end = decoder.raw_decode(text) if text else (None, 0)
        except (ValueError, RecursionError):
            end = 0
        if end and (done or end < len(text)):
            whole = text[:end].replace("\n", " ").replace("\r", " ").encode("utf-8", "replace")
            yield Record(line, whole, None if isinstance(value, dict) else "JSON, but not an object")
            line += text.count("\n", 0, end)
            text = text[end:]
            continue
        if done:
            break
        # Objects larger than a block: read at least as much again, so that the work stays linear.
        more = next(blocks, None)
        wanted = len(text)
        parts = [text]
        while more is not None and wanted >= 0:
            parts.append(more)
            wanted -= len(more)
            more = next(blocks, None) if wanted > 0 else None
        done = len(parts) == 1
        text = "".join(parts)
        if len(text) > 4 * LONGEST:
            break
    if text:
        yield Record(line, text[:200].encode("utf-8", "replace"), "not JSON from here on" if not done else _rest(text))


def _rest(text: str) -> str:
    return "incomplete last record" if text.startswith("{") else "not JSON from here on"


def _decoded(file: Unpacked) -> Iterator[str]:
    import codecs  # noqa: PLC0415

    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for block in file.blocks():
        yield decoder.decode(block)
    yield decoder.decode(b"", True)


def _csv_rows(file: Unpacked, delimiter: str) -> Iterator[Record]:
    """Rows under the header, each as a JSON object of texts; cells that hold JSON objects as such."""
    stream = io.TextIOWrapper(io.BufferedReader(_Raw(file)), encoding="utf-8-sig", errors="replace", newline="")
    reader = csv.reader(stream, delimiter=delimiter)
    csv.field_size_limit(LONGEST)
    header: list[str] = []
    while True:
        first = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            yield Record(first, b"", f"not CSV ({error})")
            continue
        if cells is None:
            return
        if not any(cell.strip() for cell in cells):
            continue
        if not header:
            header = [cell.strip() for cell in cells]
        elif len(cells) != len(header):
            shown = delimiter.join(cells).encode()
            yield Record(first, shown, f"{len(cells)} cells where the header has {len(header)}")
        else:
            pairs = {name: _cell(cell) for name, cell in zip(header, cells, strict=True) if cell != ""}
            yield Record(first, json.dumps(pairs, ensure_ascii=False).encode("utf-8", "replace"))


def _cell(text: str) -> Any:
    if text.startswith("{"):
        try:
            return json.loads(text)
        except ValueError:
            return text
    return text


class _Raw(io.RawIOBase):
    """Blocks as a file object."""

    def __init__(self, file: Unpacked) -> None:
        self._blocks = file.blocks()
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._rest:
            self._rest = next(self._blocks, b"")
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size
