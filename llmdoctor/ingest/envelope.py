"""Lines as a collector wrote them -> the lines that the program wrote: Docker, Kubernetes, journald, Loki and others.

A file stands in at most three envelopes, one inside the other. What is in the envelope may be JSON or text; the time
that the collector noted goes along with it, since many programs write none themselves.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from llmdoctor.ingest.objects import parsed

DEEPEST = 3
"""Envelopes inside each other."""

STAMP = "_logged_at"
"""Key under which a record carries the time of its envelope."""


@dataclass(frozen=True)
class Line:
    """`number` is 1-based, where the line begins in the file; `at` the time of the envelope; `extra` how many further
    physical lines it was cut into."""

    number: int
    text: bytes
    at: str | None = None
    extra: int = 0


@dataclass(frozen=True)
class _Inner:
    text: bytes
    at: str | None
    stream: str = ""
    partial: bool = False
    unended: bool = False


_RFC3339 = rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)"
_CRI = re.compile(rb"(" + _RFC3339 + rb") (stdout|stderr) ([FP])(?: (.*))?$", re.S)
_PREFIXES: tuple[tuple[str, re.Pattern[bytes]], ...] = (
    (
        "syslog",
        re.compile(rb"<\d{1,3}>1 (?P<at>\S+) \S+ \S+ \S+ \S+ (?:-|(?:\[(?:[^\]\\]|\\.)*\])+) ?(?P<text>.*)$", re.S),
    ),
    (
        "journald",
        re.compile(
            rb"(?:<\d{1,3}>)?(?P<at>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d) \S+ [^\s\[:]+(?:\[\d+\])?: (?P<text>.*)$",
            re.S,
        ),
    ),
    ("kubectl", re.compile(rb"\[pod/[^\]\s]+\] (?P<text>.*)$", re.S)),
    ("compose", re.compile(rb"(?:\x1b\[[\d;]*m)*[\w.-]+[-_]\d+ +\| ?(?:\x1b\[0?m)?(?P<text>.*)$", re.S)),
    ("time", re.compile(rb"(?P<at>" + _RFC3339 + rb")[ \t]+(?P<text>.*)$", re.S)),
)
_CARRIERS = ("log", "message", "msg", "line", "MESSAGE", "textPayload")
_LEADING_TIME = re.compile(r"\W?(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?)")


def leading_time(text: str) -> str | None:
    """The time with which a line begins, a bracket before it left out; None where it begins with none."""
    told = _LEADING_TIME.match(text)
    return told.group(1) if told else None


def kinds(lines: Sequence[bytes]) -> tuple[str, ...]:
    """The envelopes of a file, outermost first, judged by some of its lines; () where there is none."""
    found: list[str] = []
    inside = list(lines[:200])
    if not any(_possible(line) for line in inside[:20]):
        return ()
    while len(found) < DEEPEST:
        counts = Counter(kind for line in inside for kind in _possible(line) if _peel(kind, line) is not None)
        kind, count = max(counts.items(), key=lambda one: one[1], default=("", 0))
        if not count or count * (4 if kind == "json" else 2) < len(inside):
            break
        found.append(kind)
        inside = [inner.text if (inner := _peel(kind, line)) else line for line in inside]
    return tuple(found)


_TEXT_KINDS = ("cri", *dict(_PREFIXES), "prefix")
_CARRIED = re.compile(b'"(?:' + "|".join((*_CARRIERS, "_source", "jsonPayload")).encode() + b')"')


def _possible(line: bytes) -> tuple[str, ...]:
    """The envelopes that a line may stand in, by a cheap look."""
    if line.startswith(b"{") or line.lstrip().startswith(b"{"):
        return ("json",) if _CARRIED.search(line) else ()
    return _TEXT_KINDS


def peeled(lines: Iterable[tuple[int, bytes]], wanted: Sequence[str]) -> Iterator[Line]:
    """The lines inside. What the collector cut in pieces is put together; a line without envelope stays as it is."""
    found: Iterator[Line] = (Line(number, text) for number, text in lines)
    for kind in wanted:
        found = _joined(found, kind)
    return found


def with_stamp(text: bytes, at: str | None) -> bytes:
    """The JSON object `text` with the time of its envelope under the key `_logged_at`."""
    body = text.rstrip()
    if at is None or not body.endswith(b"}"):
        return text
    comma = b"" if body[:-1].rstrip() == b"{" else b","
    return body[:-1] + comma + b'"' + STAMP.encode() + b'":' + json.dumps(at).encode() + b"}"


def stamped(values: dict[str, Any], at: str | None) -> dict[str, Any]:
    """The same for an object that was read already."""
    return {**values, STAMP: at} if at else values


def _joined(lines: Iterator[Line], kind: str) -> Iterator[Line]:
    """Pieces wait, for each output stream, until the last one has come."""
    waiting: dict[str, list[tuple[Line, _Inner]]] = {}
    for line in lines:
        inner = _peel(kind, line.text)
        if inner is None:
            yield line
        elif inner.partial or (inner.unended and inner.stream in waiting):
            waiting.setdefault(inner.stream, []).append((line, inner))
        else:
            yield _whole([*waiting.pop(inner.stream, []), (line, inner)])
    for pieces in waiting.values():
        yield _whole(pieces)


def _whole(pieces: Sequence[tuple[Line, _Inner]]) -> Line:
    first, inner = pieces[0]
    text = b"".join(piece.text for _, piece in pieces)
    extra = sum(line.extra for line, _ in pieces) + len(pieces) - 1
    return Line(first.number, text, inner.at or first.at, extra)


def _peel(kind: str, line: bytes) -> _Inner | None:
    """What is inside the envelope of that kind, None where the line has none."""
    if kind == "cri":
        match = _CRI.match(line)
        if match is None:
            return None
        at, stream, tag, text = match.groups()
        return _Inner(text or b"", at.decode(), stream.decode(), tag == b"P")
    if kind == "json":
        return _of_object(line)
    if kind == "prefix":
        return _before_json(line)
    match = dict(_PREFIXES)[kind].match(line.rstrip(b"\r"))
    if match is None:
        return None
    at = match.groupdict().get("at")
    return _Inner(match["text"], at.decode() if at else None)


def _before_json(line: bytes) -> _Inner | None:
    """`2026-01-05 10:00:00 INFO chat {"model": ...}`: whatever stands before the object."""
    start = line.find(b'{"')
    while start > 0:
        if parsed(line[start:].rstrip()) is not None:
            return _Inner(line[start:].rstrip(), leading_time(line[:start].decode("utf-8", "replace")))
        start = line.find(b'{"', start + 1)
    return None


def _of_object(line: bytes) -> _Inner | None:
    if not line.lstrip().startswith(b"{"):
        return None
    record = parsed(line)
    return None if record is None else of_record(record)


def of_record(record: Mapping[str, Any]) -> _Inner | None:
    """The same for an object that was read already."""
    at = _time_of(record)
    if isinstance(record.get("log"), str) and "stream" in record and ("time" in record or "attrs" in record):
        return _of_docker(record["log"], at, str(record["stream"]))
    source = record.get("_source")
    if isinstance(source, Mapping):
        at = at or _time_of(source)
        nested = next((v for k in ("json", "message") if isinstance(v := source.get(k), Mapping)), None)
        text = source.get("message")
        if nested is None and isinstance(text, str):
            return _Inner(_bytes(text), at)
        return _Inner(_bytes(json.dumps(nested or source, ensure_ascii=False)), at)
    if isinstance(record.get("jsonPayload"), Mapping):
        return _Inner(_bytes(json.dumps(record["jsonPayload"], ensure_ascii=False)), at)
    text = _carried(record)
    return _Inner(_bytes(text), at) if text is not None else None


def _of_docker(text: str, at: str | None, stream: str) -> _Inner:
    """Docker cuts lines at 16 KiB, and only the last piece ends with a line feed. Other writers of this layout leave
    the line feed out everywhere, so a short piece counts as cut only where an object visibly goes on."""
    unended = not text.endswith("\n")
    cut = len(text) >= 8192 or (text.startswith("{") and parsed(_bytes(text)) is None)
    return _Inner(_bytes(text.rstrip("\r\n")), at, stream, unended and cut, unended)


def _carried(record: Mapping[str, Any]) -> str | None:
    """The text that a record carries: always where the other keys are those of a collector, else only an object."""
    collector = (
        ("MESSAGE" in record and "__REALTIME_TIMESTAMP" in record)
        or ("labels" in record and "line" in record)
        or ("log" in record and ("kubernetes" in record or "date" in record))
        or ("textPayload" in record and ("insertId" in record or "logName" in record or "resource" in record))
        or ("message" in record and ("ingestionTime" in record or "logStreamName" in record or "eventId" in record))
        or (record.keys() == {"timestamp", "message"} and isinstance(record["timestamp"], int))
    )
    for key in _CARRIERS:
        text = record.get(key)
        if (
            key == "MESSAGE"
            and isinstance(text, list)
            and all(isinstance(byte, int) and 0 <= byte < 256 for byte in text)
        ):
            text = bytes(text).decode("utf-8", "replace")
        if not isinstance(text, str):
            continue
        inner = text.strip()
        if collector and "\n" not in inner:
            return inner
        if inner.startswith("{") and "\n" not in inner and parsed(_bytes(inner)) is not None:
            return inner
    return None


def _time_of(record: Mapping[str, Any]) -> str | None:
    """The collector's own time, as ISO 8601 where it is a number."""
    for key in ("time", "timestamp", "@timestamp", "date", "ts"):
        value = record.get(key)
        if isinstance(value, str) and value:
            return value
        if isinstance(value, int | float) and not isinstance(value, bool):
            return _iso(float(value) / (1000 if value > 1e11 else 1))
    micros = record.get("__REALTIME_TIMESTAMP")
    return _iso(int(micros) / 1e6) if isinstance(micros, str) and micros.isdigit() else None


def _iso(seconds: float) -> str | None:
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        return None


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")
