"""One file as numbered records, read by Python: for what DuckDB cannot read itself, for line numbers and for `locate`.

unpack (bytes) > envelope (what collectors put around a line) > layout (objects) > recipe (lines joined, arrays opened).
Clean newline-delimited JSON, the common case, never comes here.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from llmdoctor.ingest import envelope, layouts
from llmdoctor.ingest.envelope import STAMP, stamped
from llmdoctor.ingest.layouts import LONGEST, Item
from llmdoctor.ingest.objects import parsed
from llmdoctor.ingest.recipe import AS_IT_IS, Found, Recipe, applied, with_year
from llmdoctor.ingest.unpack import Packing, Unpacked

Shape = Literal["lines", "values", "csv", "pairs", "text", "parquet", "sqlite", "prometheus", "binary", "empty"]

_UNQUOTED = re.compile(rb'("(?:[^"\\]|\\.)*"\s*:\s*)("(?:[^"\\]|\\.)*"|[^"{}\[\]]*?)(?=\s*,\s*"|\s*})')

# DuckDB takes some signs in a name for a glob, and a name that is no UTF-8 for a fault.
_NAME = re.compile(r"[^*?\[\]{}\\\ud800-\udfff]*", re.S)


@dataclass(frozen=True)
class Record:
    """`line` is 1-based (the line on which the record begins). `text` is one line of JSON, `reason` says why there is
    none. `repaired`: it had to be mended. `chatter`: readable, but nothing that the format knows. `extra`: further
    lines of the file that went into it."""

    line: int
    text: bytes
    reason: str | None = None
    repaired: bool = False
    chatter: bool = False
    extra: int = 0


@dataclass(frozen=True)
class Content:
    """How to read one file as records. `table` is that of a SQLite file; `above` are the lines of a log above the part
    of it that stands in the file; `wrapped`: the envelopes are around the elements of the arrays that are opened."""

    path: Path
    packing: Packing
    shape: Shape
    delimiter: str = ","
    repair: bool = False
    encoding: str = "utf-8"
    envelopes: tuple[str, ...] = ()
    recipe: Recipe = AS_IT_IS
    table: str = ""
    above: int = 0
    wrapped: bool = False

    @property
    def counts_records(self) -> bool:
        """True where the ledger counts records, not physical lines: one object may take many lines, or give many
        records."""
        return self.shape in ("values", "csv", "parquet", "sqlite") or self.recipe.opens

    @property
    def plain_json(self) -> bool:
        """True where DuckDB can read the file as it is."""
        simple = self.shape == "lines" and self.packing in ("plain", "gzip", "zstd") and self.encoding == "utf-8"
        named = _NAME.fullmatch(str(self.path)) is not None
        return simple and named and not self.repair and not self.envelopes and self.recipe.idle

    def unpacked(self) -> Unpacked:
        """The bytes of the file."""
        return Unpacked(self.path, self.packing, self.encoding)

    def records(self) -> Iterator[Record]:
        """All records in order, blank lines left out; ends early where the compression is broken."""
        if self.recipe.idle and self.shape in ("lines", "prometheus"):
            yield from self._lines_as_they_are()
            return
        aside: list[Record] = []
        newest = _newest(self.path)
        unwrap = self._unwrapped if self.wrapped else None
        for one in applied(self._objects(aside), self.recipe, newest, unwrap):
            yield from aside
            aside.clear()
            text = json.dumps(one.values, ensure_ascii=False).encode("utf-8", "replace")
            long = len(text) > LONGEST
            yield Record(
                one.line, b"" if long else text, "record longer than 16 MiB" if long else None, extra=one.extra
            )
        yield from aside

    def first(self, most: int) -> list[dict[str, Any]]:
        """The first objects as the layout gives them, however large, up to one that cannot be read."""
        aside: list[Record] = []
        found: list[dict[str, Any]] = []
        for one in self._objects(aside):
            if aside or len(found) == most:
                break
            found.append(one.values)
        return found

    def _objects(self, aside: list[Record]) -> Iterator[Found]:
        """Objects as the layout gives them; what is none is put `aside`."""
        if self.shape in ("lines", "text", "pairs"):
            yield from self._objects_of_lines(aside)
            return
        for line, values, text, reason in self._items():
            if values is None:
                aside.append(Record(line, text, reason))
                continue
            yield Found(line, values if self.wrapped else self._unwrapped(values))

    def _items(self) -> Iterator[Item]:
        if self.shape == "values":
            return layouts.json_values(self.unpacked())
        if self.shape == "csv":
            return layouts.csv_rows(self.unpacked(), self.delimiter)
        if self.shape == "parquet":
            return layouts.parquet_rows(self.path)
        if self.shape == "sqlite":
            return layouts.sqlite_rows(self.path, self.table)
        return iter(())

    def _unwrapped(self, values: dict[str, Any]) -> dict[str, Any]:
        """The object inside an object of a collector's export."""
        for _ in self.envelopes:
            inner = envelope.of_record(values)
            found = parsed(inner.text) if inner else None
            if inner is None or found is None:
                break
            values = stamped(found, inner.at)
        return values

    def _objects_of_lines(self, aside: list[Record]) -> Iterator[Found]:
        for line in self._lines():
            values = self._values_of(line)
            if values is not None:
                yield Found(line.number, values, line.extra)
            elif self.shape == "lines" and line.text.lstrip().startswith(b"{"):
                aside.append(Record(line.number, line.text, extra=line.extra))
            else:
                _set_aside(aside, line)

    def _values_of(self, line: envelope.Line) -> dict[str, Any] | None:
        if len(line.text) > LONGEST:
            return None
        if self.shape == "pairs":
            return layouts.pairs(line) or None
        values = parsed(line.text) if self.shape == "lines" else self.recipe.matched(_text(line.text))
        if values is not None and line.at:
            values.setdefault(STAMP, line.at)
        return values

    def _lines(self) -> Iterator[envelope.Line]:
        around = () if self.wrapped else self.envelopes
        lines = envelope.peeled(layouts.numbered(self.unpacked().lines(), self.above), around)
        return dated(lines, self.path) if around else lines

    def _lines_as_they_are(self) -> Iterator[Record]:
        for line in self._lines():
            text = line.text
            if len(text) > LONGEST:
                yield Record(line.number, b"", "line longer than 16 MiB", extra=line.extra)
            elif self.envelopes and not text.lstrip().startswith(b"{"):
                yield Record(line.number, b"", "text, not a record", chatter=True, extra=line.extra)
            elif self.repair and parsed(text) is None and parsed(fixed := repaired(text)) is not None:
                yield Record(line.number, fixed, repaired=True, extra=line.extra)
            else:
                yield Record(line.number, envelope.with_stamp(text, line.at), extra=line.extra)


def dated(lines: Iterable[envelope.Line], path: Path) -> Iterator[envelope.Line]:
    """Lines whose envelope has a time without a year, as journald and syslog write it, with the year of the file."""
    newest = _newest(path)
    for line in lines:
        yield line if line.at is None or line.at[0].isdigit() else replace(line, at=with_year(line.at, newest))


def _newest(path: Path) -> float:
    """When the file was written to last; it may be gone by now."""
    return path.stat().st_mtime if path.exists() else 0.0


def _set_aside(aside: list[Record], line: envelope.Line) -> None:
    """Lines of text between the records: one entry for a run of them, since there may be millions."""
    run = aside.pop() if aside and aside[-1].chatter else None
    first, extra = (run.line, run.extra + 1) if run else (line.number, 0)
    aside.append(Record(first, b"", "text, not a record", chatter=True, extra=extra + line.extra))


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
    if not isinstance(value, dict):
        return "JSON, but not an object"
    return "half a surrogate pair" if half_a_pair(line) else "not JSON"


def half_a_pair(line: bytes) -> bool:
    """Whether a record holds half of a surrogate pair, as JavaScript writes a text that was cut: the one thing which
    `parsed` takes and DuckDB does not."""
    if b"\\ud" not in line and b"\\uD" not in line:
        return False
    try:
        json.dumps(json.loads(line), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    except (ValueError, RecursionError):
        return False
    return False


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


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace").rstrip("\r")
