"""Scrapes of /metrics, as text or as one JSON object a scrape -> `engine_samples`.

Text: the exposition format, one or many scrapes a file. A sample's own time (milliseconds) counts, else the last
comment that holds a time (`# time 2026-01-05T10:00:00Z`), else the time at which the file was last written, which the
note says. JSON: `{"ts": <epoch seconds or ISO 8601>, "vllm:num_requests_waiting{engine=\"0\"}": 3.0, ...}`, or what a
Prometheus server answers to a query: series `{"metric": {"__name__": ...}, "values": [[<epoch seconds>, "3"], ...]}`.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from llmdoctor.ingest.formats import Format
from llmdoctor.ingest.job import Job
from llmdoctor.ingest.objects import parsed
from llmdoctor.ingest.query import literal
from llmdoctor.ingest.records import Record
from llmdoctor.store import Store

_SAMPLE = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+(-?\d+(?:\.\d+)?))?\s*$")
_SERIES = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})?$")
_LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"')
_TIME = re.compile(r"#\s*(?:ts|time|timestamp|date|scraped?(?:[ _-]?at)?)\s*[:=]?\s*(\S+(?: \d\d:\d\d\S*)?)\s*$", re.I)
_STAMPS = ("ts", "time", "timestamp", "@timestamp", "t")
_INSTANCE = ("instance", "engine", "dp_rank")
# The ranks of one replica all export the same gauges: the first one speaks for them.
_RANKS = ("tp_rank", "pp_rank")


@dataclass(frozen=True)
class Sample:
    """One value of one series at one instant (epoch seconds)."""

    at: float
    name: str
    labels: Mapping[str, str]
    value: float


def load_metrics(store: Store, job: Job, folder: Path) -> None:
    """Reads one file into `engine_samples` and counts its lines."""
    fmt = job.format
    assert fmt is not None
    names = {alias.root: name for name, aliases in fmt.fields.items() for alias in aliases}
    written = folder / f"{job.source.input_id}.samples.jsonl"
    reader = _Reader(job, names)
    with written.open("w", encoding="utf-8") as out:
        for sample in reader.samples():
            row = {
                "at": datetime.fromtimestamp(sample.at, UTC).isoformat(),
                "instance": next((found for key in _INSTANCE if (found := sample.labels.get(key))), None),
                "model": sample.labels.get("model_name") or sample.labels.get("model"),
                "name": sample.name,
                "value": sample.value,
            }
            out.write(json.dumps(row) + "\n")
    columns = "{'at': 'TIMESTAMPTZ', instance: 'VARCHAR', model: 'VARCHAR', name: 'VARCHAR', value: 'DOUBLE'}"
    store.script(
        'insert into engine_samples (input_id, "at", instance, model, name, value) '
        f'select {job.source.input_id}, "at", instance, model, name, value from read_json({literal(str(written))}, '
        f"format = 'newline_delimited', columns = {columns})"
    )
    if reader.undated:
        when = datetime.fromtimestamp(job.source.mtime_ns / 1e9, UTC).isoformat(timespec="seconds")
        job.notes.append(f"{reader.undated:,} values have no time of their own; the file's own time ({when}) was taken")


class _Reader:
    """The lines of one file, one by one."""

    def __init__(self, job: Job, names: Mapping[str, str]) -> None:
        self.job, self.names = job, names
        self.at: float | None = None
        self.undated = 0

    def samples(self) -> Iterator[Sample]:
        """The wanted values; the job's counts are kept on the way."""
        for record in self.job.content.records():
            self.job.seen += 1
            found = list(self._of_line(record))
            self.job.rows += bool(found)
            yield from found

    def _of_line(self, record: Record) -> Iterator[Sample]:
        if record.text.startswith(b"{"):
            yield from self._of_object(record)
            return
        text = record.text.decode("utf-8", "replace").strip()
        if text.startswith("#"):
            self.job.foreign += 1
            if (told := _TIME.match(text)) and (at := instant(told.group(1))) is not None:
                self.at = at
            return
        match = _SAMPLE.match(text)
        value = _number(match.group(3)) if match else None
        if match is None or (value is None and match.group(3) not in ("NaN", "+Inf", "-Inf", "Inf")):
            self.job.rejected += 1
            return
        name = self.names.get(match.group(1))
        labels = dict(_LABEL.findall(match.group(2) or ""))
        if name is None or value is None or _another_rank(labels):
            self.job.foreign += 1
            return
        at = float(match.group(4)) / 1000 if match.group(4) else self.at
        if at is None:
            self.undated += 1
            at = self.job.source.mtime_ns / 1e9
        yield Sample(at, name, labels, value)

    def _of_object(self, record: Record) -> Iterator[Sample]:
        values = parsed(record.text)
        if values is None:
            self.job.rejected += 1
            return
        if isinstance(values.get("metric"), dict):
            yield from self._of_series(values["metric"], values.get("values") or [values.get("value")])
            return
        at = next((found for key in _STAMPS if (found := instant(values.get(key))) is not None), None)
        wanted = 0
        for series, value in values.items():
            match = _SERIES.match(series)
            name = self.names.get(match.group(1)) if match else None
            number = _number(value)
            labels = dict(_LABEL.findall(match.group(2) or "")) if match else {}
            if name is None or number is None or _another_rank(labels):
                continue
            wanted += 1
            self.undated += at is None
            stamp = self.job.source.mtime_ns / 1e9 if at is None else at
            yield Sample(stamp, name, labels, number)
        self.job.foreign += wanted == 0

    def _of_series(self, metric: Mapping[str, Any], points: Any) -> Iterator[Sample]:
        """One series of the answer of a Prometheus server: `points` are pairs of a time and a text."""
        labels = {str(key): str(value) for key, value in metric.items()}
        name = self.names.get(labels.get("__name__", ""))
        pairs = [one for one in points if isinstance(one, list) and len(one) == 2] if isinstance(points, list) else []
        found = [(at, n) for one in pairs if (at := instant(one[0])) is not None and (n := _number(one[1])) is not None]
        if name is None or not found or _another_rank(labels):
            self.job.foreign += 1
            return
        yield from (Sample(at, name, labels, number) for at, number in found)


def _another_rank(labels: Mapping[str, str]) -> bool:
    return any(labels.get(key, "0") != "0" for key in _RANKS)


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def instant(value: Any) -> float | None:
    """Epoch seconds of an epoch number (seconds or milliseconds) or an ISO 8601 text (UTC where it has no zone)."""
    number = _number(value)
    if number is not None:
        number = number / 1000 if number > 1e11 else number
        return number if 1e8 < number < 1e11 else None
    try:
        found = datetime.fromisoformat(str(value))
    except ValueError:
        return None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def is_metrics(fmt: Format | None) -> bool:
    """True where a page is about scrapes and not about calls."""
    return fmt is not None and fmt.shape == "prometheus"
