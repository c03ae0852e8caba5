"""Keys of a home-made log -> fields, by how they are spelled: `latencyMs`, `time_to_first_token_s`, `首字延迟(ms)`.

A page names stems for its fields (`## Spellings`). A key is cut into words; units at its end are taken off; what is
left is compared with the stems, with the key above it in front where it needs one (`tokens.in`). Whether the values can
be what the field wants decides as well. Units that the key does not name are guesses, and are shown as such.
"""

import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from llmdoctor.ingest.fields import INNER, Alias, below
from llmdoctor.ingest.formats import Format

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[\u4e00-\u9fff]+")
_UNITS = {"ms": "ms", "millis": "ms", "millisecond": "ms", "milliseconds": "ms", "msec": "ms", "毫秒": "ms"}
_UNITS |= {"s": "s", "sec": "s", "secs": "s", "second": "s", "seconds": "s", "秒": "s"}
_UNITS |= {"us": "us", "micros": "us", "microseconds": "us", "ns": "ns", "nanos": "ns", "nanoseconds": "ns"}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:h|ms|m|s|us|µs|μs|ns))+")
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
_INSTANT = re.compile(r"\d{4}[-/]\d\d[-/]\d\d[T ]?\d\d:\d\d.*|\d\d/[A-Z][a-z]{2}/\d{4}.*")

Place = tuple[str, ...]


def learned(page: Format, records: Sequence[Mapping[str, Any]]) -> Format:
    """The page with the places that these records show by their spelling, for the fields that its own places leave
    empty. The page itself where there are none."""
    leaves = _leaves(records[:60])
    claimed = {place for place in leaves if any(_is_at(page, alias, place) for alias in _aliases(page))}
    additions: dict[str, Alias] = {}
    for field, stems in page.spellings.items():
        known = [place for place in leaves if any(_is_at(page, alias, place) for alias in page.fields.get(field, ()))]
        if any(_fitting(_kind(page, field), "", leaves[place]) for place in known):
            if (alias := _as_duration(page, field, known, leaves)) is not None:
                additions[field] = alias
            continue
        found = _found(page, field, stems, [place for place in leaves if place not in claimed], leaves)
        if found is not None:
            additions[field] = found
            claimed.add((found.root, *_steps(found.below)))
    return with_places(page, tuple(additions.items()))


@functools.lru_cache(maxsize=1000)
def with_places(page: Format, additions: tuple[tuple[str, Alias], ...]) -> Format:
    """The page with further places, each before those that its field has. Of two keys that differ only in case DuckDB
    can read one: the added one stays. A generic page is then also recognised by the added keys."""
    if not additions:
        return page
    spelled = {alias.root.lower(): alias.root for _, alias in additions}
    fields = {
        name: tuple(alias for alias in aliases if spelled.get(alias.root.lower(), alias.root) == alias.root)
        for name, aliases in page.fields.items()
    }
    for name, alias in additions:
        others = (one for one in fields.get(name, ()) if (one.root, one.below) != (alias.root, alias.below))
        fields[name] = (alias, *others)
    signs = tuple((alias.root,) for name, alias in additions if name.endswith(("_ms", "_tokens")))
    kept = {name: aliases or page.fields[name] for name, aliases in fields.items()}
    nested = tuple((spelled.get(root.lower(), root), below) for root, below in page.nested)
    return replace(page, fields=kept, nested=nested, any_of=page.any_of + signs if page.generic else page.any_of)


def _aliases(page: Format) -> Iterator[Alias]:
    for aliases in page.fields.values():
        yield from aliases


def _leaves(records: Iterable[Mapping[str, Any]]) -> dict[Place, list[Any]]:
    """Path of each key that holds single values -> these values."""
    found: dict[Place, list[Any]] = {}

    def walk(before: Place, record: Mapping[str, Any]) -> None:
        for key, value in record.items():
            if isinstance(value, Mapping):
                if len(before) < 3:
                    walk((*before, key), value)
            elif not isinstance(value, list) and value is not None and value != "" and '"' not in key:
                found.setdefault((*before, key), []).append(value)

    for record in records:
        walk((), {key: value for key, value in record.items() if not key.startswith("_")})
    return found


def _is_at(page: Format, alias: Alias, place: Place) -> bool:
    steps = _steps(alias.below)
    if alias.root == INNER:
        return any(place == (root, *_steps(path), *steps) for root, path in page.nested)
    return place == (alias.root, *steps)


def _steps(path: str) -> Place:
    return tuple(re.findall(r'\."([^"]+)"', path))


def _kind(page: Format, field: str) -> str:
    """What a field wants: ms, time, int, text or bool, as its own places say."""
    units = {alias.unit for alias in page.fields.get(field, ())}
    if units & {"ms", "s", "us", "ns", "duration"}:
        return "ms"
    return next(iter(units & {"time", "int", "bool"}), "text")


def _found(
    page: Format, field: str, stems: Sequence[str], free: Sequence[Place], leaves: Mapping[Place, list[Any]]
) -> Alias | None:
    kind = _kind(page, field)
    for stem in stems:
        for place in free:
            for depth in (1, 2):
                words, unit = _words(place, depth)
                if words == stem and _fitting(kind, unit, leaves[place]):
                    return _alias(kind, unit, place, leaves[place])
    return None


def _words(place: Place, depth: int) -> tuple[str, str]:
    """The last keys of a path as one word in small letters, and the unit at its end."""
    if len(place) < depth:
        return "", ""
    words = [word.lower() for key in place[-depth:] for word in _WORD.findall(key)]
    unit = _UNITS.get(words[-1], "") if len(words) > 1 else ""
    return "".join(words[:-1] if unit else words), unit


def _fitting(kind: str, unit: str, values: Sequence[Any]) -> bool:
    """Whether most values can be what the field wants."""
    if kind == "text" or (unit and kind != "ms"):
        return not unit
    test = {"ms": _is_span, "time": _is_instant, "int": _is_count, "bool": _is_bool}[kind]
    return sum(test(value) for value in values) * 2 > len(values)


def _is_span(value: Any) -> bool:
    if isinstance(value, str):
        return _NUMBER.fullmatch(value) is not None or _DURATION.fullmatch(value) is not None
    return isinstance(value, int | float) and not isinstance(value, bool) and value < 1e8


def _is_instant(value: Any) -> bool:
    if isinstance(value, str):
        return _INSTANT.fullmatch(value) is not None or (_NUMBER.fullmatch(value) is not None and float(value) > 1e8)
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 1e8


def _is_count(value: Any) -> bool:
    if isinstance(value, str):
        return value.isdigit()
    return isinstance(value, int) and not isinstance(value, bool)


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool) or value in (0, 1, "true", "false", "True", "False")


def _alias(kind: str, unit: str, place: Place, values: Sequence[Any]) -> Alias:
    guess = False
    if kind == "ms" and any(isinstance(value, str) and not _NUMBER.fullmatch(value) for value in values):
        unit = "duration"
    elif kind == "ms" and not unit:
        unit, guess = "s", True
    return Alias(place[0], below(place[1:]), unit if kind == "ms" else kind, guess, False)


def _as_duration(page: Format, field: str, known: Sequence[Place], leaves: Mapping[Place, list[Any]]) -> Alias | None:
    """A place that the page reads as a number, but which holds texts such as `1.2s`."""
    for place in known:
        if _kind(page, field) == "ms" and any(isinstance(v, str) and _DURATION.fullmatch(v) for v in leaves[place]):
            return Alias(place[0], below(place[1:]), "duration", False, False)
    return None
