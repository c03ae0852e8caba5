"""What a file is recognised by, whatever its name, and how it was read: digests that a saved store keeps."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from llmdoctor import __version__
from llmdoctor.ingest.detect import Detection
from llmdoctor.ingest.formats import Format
from llmdoctor.ingest.job import Mark
from llmdoctor.ingest.recipe import NUMBER
from llmdoctor.ingest.records import Content
from llmdoctor.ingest.unpack import BLOCK

HEAD = 4096
"""Bytes at the start and at the end of a file that tell it from all others."""


@dataclass(frozen=True)
class Reading:
    """How files are read in this run; `digest` says whether a store was read in the same way."""

    formats: tuple[Format, ...]
    forced: Format | None
    timezone: str

    @property
    def digest(self) -> str:
        """Of the program, the options and all pages."""
        pages = [_plain(page) for page in self.formats]
        return _digest([__version__, self.timezone, self.forced.id if self.forced else None, pages])


# SQL of a page that asks what stands in other records of the file.
_LOOKS_AROUND = re.compile(
    r"(?i)\b(?:over|join|group|distinct|limit|exists|union)\b|\bfields\b.*\bfrom\s+fields\b", re.S
)


def mark(path: Path, size: int) -> Mark:
    """What the first `size` bytes of a file are recognised by. OSError where it cannot be read."""
    with path.open("rb") as file:
        first = file.read(min(HEAD, size))
        file.seek(max(0, size - HEAD))
        return Mark(size, digest_of(first), digest_of(file.read(min(HEAD, size))))


def begins_as(path: Path, size: int, wanted: Mark) -> bool:
    """Whether a file of that size begins with the bytes that were marked."""
    try:
        return size >= wanted.size and mark(path, wanted.size) == wanted
    except OSError:
        return False


def end_of_lines(path: Path, size: int) -> int:
    """Offset behind the last line feed among the first `size` bytes, 0 without one."""
    with path.open("rb") as file:
        end = size
        while end > 0:
            start = max(0, end - BLOCK)
            file.seek(start)
            at = file.read(end - start).rfind(b"\n")
            if at >= 0:
                return start + at + 1
            end = start
    return 0


def can_go_on(fmt: Format | None, content: Content) -> bool:
    """Whether the lines of a file mean the same when those above them are not read with them."""
    recipe = content.recipe
    plain = content.packing == "plain" and content.encoding == "utf-8" and not content.envelopes
    alone = content.shape in ("lines", "pairs", "text") and not (recipe.join or recipe.opens or recipe.yearless)
    if fmt is None or not (plain and alone):
        return False
    numbered = any(alias.root == NUMBER for aliases in fmt.fields.values() for alias in aliases)
    return not numbered and not any(_LOOKS_AROUND.search(sql) for sql in (fmt.rows, *(one.sql for one in fmt.further)))


def page_digest(detection: Detection) -> str:
    """Of the page that fits a file, what it may have learned from it, and how the file is laid out."""
    content = replace(detection.content, path=Path())
    more = [sorted(detection.keys & set(one.keys)) for one in detection.format.further] if detection.format else []
    return _digest([_plain(detection.format), _plain(content), more])


def digest_of(data: bytes) -> str:
    """A short digest."""
    return hashlib.sha256(data).hexdigest()[:32]


def _digest(value: Any) -> str:
    return digest_of(json.dumps(value, sort_keys=True).encode())


def _plain(value: Any) -> Any:
    """A value as JSON that is the same in every process: sets sorted, expressions as their text."""
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: _plain(getattr(value, one.name)) for one in fields(value) if one.name not in _NO_MEANING}
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(map(str, value))
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value.pattern if hasattr(value, "pattern") else value if value is None else str(value)


_NO_MEANING = ("path", "title", "url", "product", "examples", "cannot_show", "above")
