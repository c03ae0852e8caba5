"""Numbers, instants and names as text, the same in every output.

A number and its unit are joined by a no-break space; `text.py` and `markdown.py` turn it into a plain one at the end.
"""

import math
import re
import unicodedata
from collections.abc import Callable
from datetime import UTC, datetime

NBSP = "\u00a0"
NONE = "not known"

# Control characters (ESC among them), lone surrogates, and marks that reorder or hide what a reader sees.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\u3164"
    "\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
MOST_MARKS = 4
"""No script stacks more combining marks on one letter; more of them cover the lines around and never wrap."""
_MARKS = frozenset(("Mn", "Me"))
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")


def clean(text: str) -> str:
    """The text without terminal sequences and invisible or reordering characters; newlines and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    return _UNSEEN.sub("\ufffd", _few_marks(_ANSI.sub("", text.replace("\r\n", "\n"))))


def _few_marks(text: str) -> str:
    marked = list(map(_MARKS.__contains__, map(unicodedata.category, text)))
    if sum(marked) <= MOST_MARKS:
        return text
    kept, marks = [], 0
    for letter, mark in zip(text, marked, strict=True):
        marks = marks + 1 if mark else 0
        if marks <= MOST_MARKS:
            kept.append(letter)
    return "".join(kept)


def line(text: str) -> str:
    """`clean` on one line: runs of white space become one blank; no-break spaces stay."""
    return re.sub("[ \t\n]+", " ", clean(text)).strip(" ")


def cut(text: str, length: int) -> str:
    """At most `length` characters, the last an ellipsis where something was cut."""
    return text if len(text) <= length else text[: max(length - 1, 0)] + "…"


def count(number: int | None) -> str:
    """1234 -> "1,234"."""
    return NONE if number is None else f"{number:,}"


def number(value: float | None) -> str:
    """Three significant digits, no exponent below a million million."""
    if value is None or not math.isfinite(value):
        return NONE
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}" if abs(value) < 1e12 else f"{value:.3g}"
    return f"{value:.3g}" if abs(value) >= 0.001 else f"{value:.1g}"


def share(value: float | None) -> str:
    """0.173 -> "17.3 %". What is not quite all never reads as 100 %, what is not nothing never as 0 %: "<0.01 %"."""
    if value is None or not math.isfinite(value):
        return NONE
    percent = value * 100
    if 99 <= percent < 100:
        percent = min(percent, 99.9)
    elif percent > 1000:
        return f"{percent:,.0f}{NBSP}%"
    if 0 < abs(percent) < 0.01:
        return f"<0.01{NBSP}%" if percent > 0 else f"-0.01{NBSP}%"
    return f"{percent:.3g}{NBSP}%"


def duration(ms: float | None) -> str:
    """12345.6 (ms) -> "12.3 s"; from two minutes on in two units ("3 min 12 s")."""
    if ms is None or not math.isfinite(ms):
        return NONE
    if ms < 0:
        return "-" + duration(-ms)
    if ms < 999.5:
        return f"{number(ms)}{NBSP}ms"
    if ms < 119_950:
        return f"{ms / 1000:.3g}{NBSP}s"
    for size, small, name, minor in ((86_400, 3_600, "d", "h"), (3_600, 60, "h", "min"), (60, 1, "min", "s")):
        pieces = round(ms / 1000 / small)
        if pieces * small >= size:
            whole, rest = divmod(pieces, size // small)
            return f"{whole:,}{NBSP}{name}" + (f"{NBSP}{rest}{NBSP}{minor}" if rest else "")
    return NONE


def size(count_of_bytes: float | None) -> str:
    """Bytes in decimal units: 1_234_567 -> "1.23 MB"."""
    if count_of_bytes is None:
        return NONE
    scaled = float(count_of_bytes)
    for unit in ("bytes", "kB", "MB", "GB"):
        if abs(scaled) < 999.5:
            return f"{scaled:.3g}{NBSP}{unit}"
        scaled /= 1000
    return f"{scaled:.3g}{NBSP}TB"


def times(value: float | None) -> str:
    """A ratio: "3.1x"."""
    return NONE if value is None else f"{number(value)}x"


_KNOWN: dict[str, Callable[[float], str]] = {
    "ms": duration,
    "s": lambda value: duration(value * 1000),
    "share": share,
    "bytes": size,
    "ratio": times,
    "x": times,
    "times": times,
}


def measure(value: float | None, unit: str) -> str:
    """A value in the unit that a symptom page names."""
    if value is None:
        return NONE
    if unit in _KNOWN:
        return _KNOWN[unit](value)
    return number(value) if unit in {"", "count", "number"} else f"{number(value)}{NBSP}{line(unit)}"


def limit(value: float | None, unit: str) -> str:
    """`measure` beside an observed value: a unit in words is not said again."""
    return measure(value, unit if unit in _KNOWN else "")


def moment(instant: str | None) -> datetime | None:
    """An ISO 8601 instant as a datetime in UTC; None where it is none."""
    try:
        found = datetime.fromisoformat(instant or "")
    except ValueError:
        return None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def instant(text: str | None) -> str:
    """ "2026-08-01T14:03:12.345Z" -> "2026-08-01 14:03:12"; what is no instant stays as it is."""
    found = moment(text)
    return (line(text) if text else NONE) if found is None else f"{found:%Y-%m-%d %H:%M:%S}"


def span(first: str | None, last: str | None) -> str:
    """From first to last, the day said once: "2026-08-01 14:03:12 to 14:11:00 UTC"; "" where neither is known."""
    start, end = moment(first), moment(last)
    if start is None or end is None:
        return " to ".join(f"{instant(text)} UTC" for text in (first, last) if text)
    if start.replace(microsecond=0) == end.replace(microsecond=0):
        return f"{start:%Y-%m-%d %H:%M:%S} UTC"
    day = "%H:%M:%S" if start.date() == end.date() else "%Y-%m-%d %H:%M:%S"
    return f"{start:%Y-%m-%d %H:%M:%S} to {end:{day}} UTC"


def clock(first: str | None, last: str | None) -> str:
    """`span` without the day where both are on one: "14:03:12 to 14:11:00"."""
    start, end = moment(first), moment(last)
    if start is None or end is None or start.date() != end.date():
        return span(first, last).removesuffix(" UTC")
    same = start.replace(microsecond=0) == end.replace(microsecond=0)
    return f"{start:%H:%M:%S}" if same else f"{start:%H:%M:%S} to {end:%H:%M:%S}"


def plural(number_of: int, noun: str) -> str:
    """1 -> "1 file", 2 -> "2 files"."""
    return f"{number_of:,} {noun}" + ("" if number_of == 1 else "s")


def listed(names: tuple[str, ...] | list[str], at_most: int) -> str:
    """ "a, b, c and 4 more"."""
    shown = ", ".join(names[:at_most])
    return shown if len(names) <= at_most else f"{shown} and {len(names) - at_most:,} more"
