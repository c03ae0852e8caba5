"""Which format page fits a file, and why: a look at some of its records, told in words."""

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from llmdoctor.ingest.formats import Format, load_formats
from llmdoctor.ingest.records import Content, Shape, parsed, repaired, unwrapped
from llmdoctor.ingest.unpack import Packing, head, packing_of

SAMPLE = 1 << 20
"""Bytes looked at from the start of the content; a plain file is also looked at in its middle and at its end."""

_FEW = 2000
_METRIC = re.compile(rb"(#|[a-zA-Z_:][\w:]*(\{.*\})?\s+[-+.\deEinfNa]+(\s+-?[\d.]+)?\s*$)")
_BINARY = (
    b"\x7fELF",
    b"\x89PNG",
    b"PAR1",
    b"SQLite format",
    b"PK\x03\x04",
    b"\xff\xd8\xff",
    b"%PDF",
    b"\x04\x22\x4d\x18",
)


@dataclass(frozen=True)
class Candidate:
    """A page that fits some records: how many of those looked at, and by which keys."""

    format: Format
    hits: int
    looked_at: int
    keys: tuple[str, ...]

    @property
    def reason(self) -> str:
        """In words."""
        return f"{self.hits} of {self.looked_at} records looked at have {', '.join(self.keys)}"


@dataclass(frozen=True)
class Detection:
    """What a file is. `candidates` best first; without one, `reason` says what the file is instead. `faulty`: some of
    the lines looked at are no JSON. `keys`: those of the records looked at."""

    content: Content
    candidates: tuple[Candidate, ...]
    reason: str
    faulty: bool = False
    keys: frozenset[str] = frozenset()

    @property
    def format(self) -> Format | None:
        """The page to read it with."""
        return self.candidates[0].format if self.candidates else None


def detect(path: Path, formats: Sequence[Format] | None = None, forced: Format | None = None) -> Detection:
    """Looks at a file. With `forced` the page is given and only the layout is looked at."""
    pages = load_formats() if formats is None else formats
    packing = packing_of(path)
    sample = head(path, packing, SAMPLE)
    if not sample:
        return _nothing(path, packing, "empty", "empty file" if path.stat().st_size == 0 else "nothing can be unpacked")
    if _is_binary(sample):
        return _nothing(path, packing, "binary", "binary file, not a log")
    lines = [line for line in _lines(path, packing, sample) if line.strip()][:_FEW]
    if _share(lines, lambda line: _METRIC.match(line) is not None) > 0.9:
        return _metrics(path, packing, lines, pages, forced)
    shape = _shape(sample, lines)
    if shape == "text":
        return _text(path, packing, lines, pages, forced)
    return _json(Content(path, packing, shape), lines, pages, forced)


def _nothing(path: Path, packing: Packing, shape: Shape, reason: str) -> Detection:
    return Detection(Content(path, packing, shape), (), reason)


def _lines(path: Path, packing: Packing, sample: bytes) -> list[bytes]:
    lines = sample.split(b"\n")
    if len(sample) == SAMPLE:
        lines.pop()
    size = path.stat().st_size
    if packing == "plain" and size > 4 * SAMPLE:
        with path.open("rb") as file:
            for offset in (size // 2, size - SAMPLE // 4):
                file.seek(offset)
                lines = lines[:_FEW] + file.read(SAMPLE // 4).split(b"\n")[1:-1][: _FEW // 4]
        return lines[: _FEW // 2] + lines[_FEW:]
    return lines


def _is_binary(sample: bytes) -> bool:
    if sample.startswith(_BINARY):
        return True
    text = sample[: 1 << 16].replace(b"\0", b"")
    control = len(text) - len(text.translate(None, bytes(range(1, 9)) + bytes(range(14, 27)) + bytes(range(28, 32))))
    holes = len(sample[: 1 << 16]) - len(text)
    return control > len(text) // 10 or (holes > 0 and b"\n" not in sample) or not text


def _share(lines: Sequence[bytes], test: Any) -> float:
    return sum(bool(test(line)) for line in lines) / len(lines) if lines else 0.0


def _shape(sample: bytes, lines: Sequence[bytes]) -> Shape:
    start = sample.removeprefix(b"\xef\xbb\xbf").lstrip()
    if re.match(rb"\[\s*(\{|\]|$)", start):
        return "values"
    if any(parsed(line) is not None for line in lines[:200]):
        return "lines"
    if re.match(rb'\{\s*(\}|"|$)', start):
        whole = re.match(rb"\{[ \t\r]*\n", start) is not None or re.match(rb'\{.*,[ \t\r]*\n\s+"', start) is not None
        return "values" if whole else "lines"
    return "text"


def _metrics(
    path: Path, packing: Packing, lines: Sequence[bytes], pages: Sequence[Format], forced: Format | None
) -> Detection:
    content = Content(path, packing, "prometheus")
    for page in pages if forced is None else [forced]:
        if page.shape == "prometheus":
            wanted = tuple(key[:-1].encode() for group in page.any_of for key in group if key.endswith("*"))
            hits = sum(line.startswith(wanted) for line in lines)
            if hits:
                names = tuple(key for group in page.any_of for key in group)
                return Detection(content, (Candidate(page, hits, len(lines), names),), f"metrics of {page.title}")
    return Detection(Content(path, packing, "text"), (), "metrics, but none of an LLM server")


def _text(
    path: Path, packing: Packing, lines: Sequence[bytes], pages: Sequence[Format], forced: Format | None
) -> Detection:
    """Text that is no JSON as it stands: CSV, JSON behind a prefix, JSON that nginx made invalid, or something else."""
    for trial in (
        Content(path, packing, "lines", repair=True),
        Content(path, packing, "lines", unwrap=True),
    ):
        change = repaired if trial.repair else unwrapped
        if _share(lines[:200], lambda line, change=change: parsed(change(line)) is not None) >= 0.3:
            found = _json(trial, [change(line) for line in lines], pages, forced)
            if found.candidates:
                return found
    delimiter = max(",;\t|", key=lines[0].decode("utf-8", "replace").count) if lines else ","
    header = next(csv.reader([lines[0].decode("utf-8-sig", "replace")], delimiter=delimiter), []) if lines else []
    if len(header) > 1:
        record = dict.fromkeys((name.strip() for name in header), "")
        fitting = [one for one in _ranked([record], pages, forced) if one.hits]
        if fitting:
            content = Content(path, packing, "csv", delimiter)
            return Detection(content, tuple(fitting), f"CSV whose header has {', '.join(fitting[0].keys)}")
    return _nothing(path, packing, "text", "text without JSON records; no format page fits")


def _json(content: Content, lines: Sequence[bytes], pages: Sequence[Format], forced: Format | None) -> Detection:
    records: list[Mapping[str, Any]] = []
    faulty = mended = inside = 0
    if content.shape == "values":
        for number, record in enumerate(content.records()):
            if number >= 200 or record.reason:
                break
            records.append(parsed(record.text) or {})
    for line in lines if content.shape == "lines" else ():
        value = parsed(line)
        if value is None:
            value = parsed(repaired(line))
            mended += value is not None
            faulty += 1
        elif any(isinstance(value.get(key), str) and value[key].lstrip()[:1] == "{" for key in ("log", "message")):
            inner = parsed(unwrapped(line))
            inside += inner is not None and inner != value
            value = inner or value
        if value is not None:
            records.append(value)
    if mended or inside:
        content = replace(content, repair=bool(mended), unwrap=bool(inside))
    found = tuple(_ranked(records, pages, forced))
    if not found:
        return Detection(content, (), "JSON, but no format page fits its keys", bool(faulty))
    if content.repair and not found[0].format.repair:
        content = replace(content, repair=False)
    return Detection(content, found, found[0].reason, bool(faulty), frozenset().union(*records))


def _ranked(records: Sequence[Mapping[str, Any]], pages: Sequence[Format], forced: Format | None) -> list[Candidate]:
    """Pages by how many records they fit; among those that fit about as many, the one that asks for more keys. Generic
    pages come last: the first of them is also tried where nothing fits."""
    found: list[Candidate] = []
    for page in pages if forced is None else [forced]:
        matches = [keys for record in records if (keys := _matching(record, page)) is not None]
        if matches or (page.generic and records) or forced:
            keys = max(matches, key=len, default=()) or ("no key of a known format",)
            found.append(Candidate(page, len(matches), len(records), keys))
    best = max((one.hits for one in found if not one.format.generic), default=0)
    found = [one for one in found if one.format.generic or one.hits * 2 >= best]
    return sorted(found, key=lambda one: (one.format.generic, -len(one.keys), -one.hits, one.format.id))


def _matching(record: Mapping[str, Any], page: Format) -> tuple[str, ...] | None:
    """The keys by which a record is recognised, None where it is not."""
    if not all(_has(record, key) for key in page.needs):
        return None
    if not page.any_of:
        return page.needs
    groups = [group for group in page.any_of if all(_has(record, key) for key in group)]
    return page.needs + max(groups, key=len) if groups else None


def _has(record: Mapping[str, Any], key: str) -> bool:
    if key in record:
        return True
    if key.endswith("*"):
        return any(name.startswith(key[:-1]) for name in record)
    first, dot, rest = key.partition(".")
    inner = record.get(first)
    return bool(dot) and isinstance(inner, Mapping) and _has(inner, rest)
