"""What the bytes of a file are, before any page is asked: packed how, in which encoding, text or not."""

import re
from collections.abc import Sequence
from pathlib import Path

from llmdoctor.ingest.objects import parsed
from llmdoctor.ingest.records import Shape
from llmdoctor.ingest.unpack import Packing, head, packing_of

SAMPLE = 1 << 20
"""Bytes looked at from the start of the content; a plain file is also looked at in its middle and at its end."""

FEW = 2000
"""Lines looked at."""

_BINARY = (b"\x7fELF", b"\x89PNG", b"PK\x03\x04", b"\xff\xd8\xff", b"%PDF")
_HIGH = re.compile(rb"[\x80-\xff]+")
_METRIC = re.compile(rb"(#|[a-zA-Z_:][\w:]*(\{.*\})?\s+[-+.\deEinfNa]+(\s+-?[\d.]+)?\s*$)")


def look(path: Path) -> tuple[Packing, str, bytes]:
    """Packing, encoding and the first bytes of the content, the latter in UTF-8."""
    packing = packing_of(path)
    sample = head(path, packing, SAMPLE)
    encoding = encoding_of(sample)
    return packing, encoding, sample if encoding == "utf-8" else head(path, packing, SAMPLE, encoding)


def encoding_of(sample: bytes) -> str:
    """UTF-16 by its mark, or by the zeros beside Latin letters; GB 18030 where most lines with other letters are no
    UTF-8 and such letters stand in pairs of high bytes, as Chinese does and Latin letters do not; else UTF-8."""
    if sample.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    start = sample[:4096]
    for first, encoding in ((1, "utf-16-le"), (0, "utf-16-be")):
        # A hole that a truncated file has is zeros throughout.
        if len(start) > 8 and not any(start[first::2]) and b"\0" not in start[1 - first :: 2]:
            return encoding
    if sample.isascii():
        return "utf-8"
    lines = [line for line in sample.split(b"\n")[:-1] or [sample] if not line.isascii()]
    runs = [len(run) for line in lines for run in _HIGH.findall(line)]
    if sum(not _is_utf8(line) for line in lines) * 2 <= len(lines) or not runs:
        return "utf-8"
    even = sum(length % 2 == 0 for length in runs)
    chinese = even >= 0.95 * len(runs) and sum(runs) >= 3 * len(runs)
    return "gb18030" if chinese and b"\0" not in sample else "utf-8"


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def sample_lines(path: Path, packing: Packing, encoding: str, sample: bytes) -> list[bytes]:
    """Some lines of the file that are not blank, at most `FEW`."""
    lines = sample.split(b"\n")
    if len(sample) == SAMPLE:
        lines.pop()
    size = path.stat().st_size
    if packing == "plain" and encoding == "utf-8" and size > 4 * SAMPLE:
        with path.open("rb") as file:
            for offset in (size // 2, size - SAMPLE // 4):
                file.seek(offset)
                lines = lines[:FEW] + file.read(SAMPLE // 4).split(b"\n")[1:-1][: FEW // 4]
        lines = lines[: FEW // 2] + lines[FEW:]
    return [line for line in lines if line.strip()][:FEW]


def is_binary(sample: bytes) -> bool:
    """True for what is no text."""
    if sample.startswith(_BINARY):
        return True
    text = sample[: 1 << 16].replace(b"\0", b"")
    control = len(text) - len(text.translate(None, bytes(range(1, 9)) + bytes(range(14, 27)) + bytes(range(28, 32))))
    holes = len(sample[: 1 << 16]) - len(text)
    return control > len(text) // 30 or (holes > 0 and b"\n" not in sample) or not text


def is_table(lines: Sequence[bytes]) -> bool:
    """True for cells between tabs under a header: a time in the first cell is no envelope."""
    tabs = lines[0].count(b"\t") if lines else 0
    some = lines[:50]
    return tabs > 1 and len(some) > 1 and sum(line.count(b"\t") == tabs for line in some) > 0.8 * len(some)


def is_metrics(lines: Sequence[bytes]) -> bool:
    """True for a scrape of /metrics."""
    first = lines[:1]
    if not first or not _METRIC.match(first[0]):
        return False
    return sum(_METRIC.match(line) is not None for line in lines) > 0.9 * len(lines)


def json_shape(sample: bytes, lines: Sequence[bytes]) -> Shape | None:
    """`lines` or `values` for JSON, None for anything else. A record on each line wins over a layout of its own."""
    start = sample.removeprefix(b"\xef\xbb\xbf").lstrip()
    if re.match(rb"\[\s*(\{|\]|$)", start) or (not lines and re.match(rb'\{\s*"', start)):
        # Without a whole line the first one is longer than the sample: an export in one object.
        return "values"
    if any(parsed(line) is not None for line in lines[:200]):
        return "lines"
    if re.match(rb'\{\s*(\}|"|$)', start):
        whole = re.match(rb"\{[ \t\r]*\n", start) is not None or re.match(rb'\{.*,[ \t\r]*\n\s+"', start) is not None
        glued = re.search(rb'\}\s*\{\s*"', start.split(b"\n", 1)[0]) is not None and len(lines) == 1
        return "values" if whole or glued else "lines"
    return None
