"""What a format page asks for before its fields can be looked up: lines matched, arrays opened, lines put together.

A recipe is data (the settings of a page); `applied` runs it over the records of a file, one after the other.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

KIND, NUMBER, PARENT, THEN, BEFORE, OPEN, FROM = "_kind", "_n", "_up", "_then", "_before", "_open", "_from"
"""Keys that a record gets besides its own: the name of the pattern that matched, its number in the file, the object in
whose array it stood, the last of several lines that were joined and the one before, `true` where its last line never
came, and the path of the array that it stood in."""

_MANY_OPEN = 100_000
_COLOUR = re.compile(r"\x1b\[[\d;]*m")


@dataclass(frozen=True)
class Join:
    """Several lines, one request. Lines of the same values under the keys `by` belong together; a line whose `kind` is
    one of `begins` begins a new request, one of `ends` closes it, and so does the last of `complete` when all of these
    have come, in any order. One of `follows` that has none of the keys `by` belongs to the line before it."""

    by: tuple[str, ...]
    kind: str = KIND
    begins: frozenset[str] = frozenset()
    ends: frozenset[str] = frozenset()
    follows: frozenset[str] = frozenset()
    complete: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Recipe:
    """`patterns`: name -> expression whose groups are the keys, for text. `each`: paths of arrays, outermost first,
    whose elements are the records; `a.x|a.y` opens both. `parallel`: arrays of equal length, of which each place is one
    record. `listed`: keys that hold lists of {key, value}. `inside`: keys whose texts hold JSON. `yearless`: keys that
    hold times without a year. `named`: all keys that the page names, on any level; where an array is opened, the rest
    is left out, since each element would carry what stood around it. Empty: everything is kept."""

    patterns: tuple[tuple[str, re.Pattern[str]], ...] = ()
    each: tuple[str, ...] = ()
    parallel: tuple[str, ...] = ()
    listed: tuple[str, ...] = ()
    inside: tuple[str, ...] = ()
    yearless: tuple[str, ...] = ()
    join: Join | None = None
    named: frozenset[str] = frozenset()

    @property
    def opens(self) -> bool:
        """True where one object of the file gives any number of records."""
        return bool(self.each or self.parallel)

    @property
    def idle(self) -> bool:
        """True where records can be used as they stand."""
        return self == AS_IT_IS

    def matched(self, line: str) -> dict[str, Any] | None:
        """The named groups of the first pattern that fits a line of text without its colours, None where none does."""
        if "\x1b" in line:
            line = _COLOUR.sub("", line)
        for name, pattern in self.patterns:
            if match := pattern.match(line):
                return {KIND: name, **{key: value for key, value in match.groupdict().items() if value is not None}}
        return None


AS_IT_IS = Recipe()
"""Nothing to be done."""


@dataclass
class Found:
    """An object on its way: its values, the line on which it begins, and how many further lines went into it."""

    line: int
    values: dict[str, Any]
    extra: int = 0


def applied(
    found: Iterator[Found],
    recipe: Recipe,
    newest: float,
    unwrap: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
) -> Iterator[Found]:
    """The records that a recipe makes of the objects of a file. `newest` (epoch seconds): no time is later, which tells
    the year of a time that names none. `unwrap` takes the elements of opened arrays out of their envelopes."""
    if recipe.opens:
        found = _opened(found, recipe)
    if unwrap:
        found = (replace(one, values=unwrap(one.values)) for one in found)
    found = (_mended(one, recipe, newest) for one in found)
    if recipe.join:
        found = _joined(found, recipe.join)
    for number, one in enumerate(found, 1):
        one.values[NUMBER] = number
        yield one


def _mended(one: Found, recipe: Recipe, newest: float) -> Found:
    for key in recipe.inside:
        text = one.values.get(key)
        if isinstance(text, str) and text.lstrip()[:1] in ("{", "["):
            try:
                one.values[key] = json.loads(text)
            except (ValueError, RecursionError):
                continue
    for key in recipe.listed:
        _unlist(one.values, key.split("."))
    for key in recipe.yearless:
        if isinstance(text := one.values.get(key), str):
            one.values[key] = with_year(text, newest)
    return one


def _unlist(values: dict[str, Any], path: Sequence[str]) -> None:
    """`[{"key": k, "value": {"stringValue": v}}, ...]`, as OTLP writes maps, becomes {k: v}."""
    inner = values.get(path[0])
    if len(path) > 1:
        for one in inner if isinstance(inner, list) else [inner]:
            if isinstance(one, dict):
                _unlist(one, path[1:])
    elif isinstance(inner, list):
        pairs = [one for one in inner if isinstance(one, dict) and isinstance(one.get("key"), str)]
        if pairs or not inner:
            values[path[0]] = {one["key"]: _any_value(one.get("value")) for one in pairs}


def _any_value(value: Any) -> Any:
    """The value inside OTLP's AnyValue."""
    if not isinstance(value, Mapping) or len(value) != 1:
        return value
    kind, inner = next(iter(value.items()))
    if kind == "arrayValue" and isinstance(inner, Mapping):
        return [_any_value(one) for one in inner.get("values", ())]
    if kind == "kvlistValue" and isinstance(inner, Mapping):
        pairs = [one for one in inner.get("values", ()) if isinstance(one, Mapping)]
        return {str(one.get("key")): _any_value(one.get("value")) for one in pairs}
    return inner if kind.endswith("Value") else value


def with_year(text: str, newest: float) -> str:
    """`11-25 09:12:03` or `Nov 25 09:12:03` with the latest year that lies not a day after `newest`."""
    latest = datetime.fromtimestamp(newest, UTC).replace(tzinfo=None) + timedelta(days=1)
    for year in (latest.year, latest.year - 1):
        for layout in ("%Y %m-%d %H:%M:%S.%f", "%Y %m-%d %H:%M:%S", "%Y %b %d %H:%M:%S.%f", "%Y %b %d %H:%M:%S"):
            try:
                at = datetime.strptime(f"{year} {' '.join(text.split())}", layout)
            except ValueError:
                continue
            if at <= latest:
                return at.isoformat(sep=" ")
    return text


def _opened(found: Iterator[Found], recipe: Recipe) -> Iterator[Found]:
    for one in found:
        for values in _elements(one.values, recipe.each, recipe.named):
            for record in _places(values, recipe) if recipe.parallel else [values]:
                yield Found(one.line, record)


def _elements(values: dict[str, Any], each: Sequence[str], named: frozenset[str]) -> Iterator[dict[str, Any]]:
    """The elements of nested arrays; each keeps what stood around its array under `_up`. An object that has no such
    array is a record itself: spans may come one by one, and what is no record at all has to be counted."""
    if not each:
        yield values
        return
    paths = each[0].split("|")
    arrays = [(path, array) for path in paths if isinstance(array := _inside(values, path.split(".")), list)]
    opened = {path.split(".")[0] for path, _ in arrays}
    around = {key: value for key, value in values.items() if key not in opened and _kept(key, named)}
    if not arrays and PARENT not in values:
        yield around
    for path, array in arrays:
        for element in array:
            if isinstance(element, dict):
                own = {key: value for key, value in element.items() if len(each) > 1 or _kept(key, named)}
                yield from _elements({**own, FROM: path, PARENT: around}, each[1:], named)


def _inside(values: Any, steps: Sequence[str]) -> Any:
    for step in steps:
        values = values.get(step) if isinstance(values, dict) else None
    return values


def _kept(key: str, named: frozenset[str]) -> bool:
    return not named or key in named or key == PARENT


def _places(values: dict[str, Any], recipe: Recipe) -> Iterator[dict[str, Any]]:
    """Record i holds place i of every array; what is no such array goes under `_up`."""
    arrays = {key: values[key] for key in recipe.parallel if isinstance(values.get(key), list)}
    around = {
        key: value
        for key, value in values.items()
        if key not in arrays and not isinstance(value, list) and _kept(key, recipe.named)
    }
    if not arrays:
        yield around
    for place in range(max((len(array) for array in arrays.values()), default=0)):
        yield {**{key: array[place] for key, array in arrays.items() if place < len(array)}, PARENT: around}


def _joined(found: Iterator[Found], join: Join) -> Iterator[Found]:
    """Requests whose lines are complete, as soon as they are; at the end those whose last line never came."""
    waiting: dict[tuple[Any, ...], Found] = {}
    missing: dict[tuple[Any, ...], set[str]] = {}
    latest: tuple[Any, ...] | None = None
    for one in found:
        kind = str(one.values.get(join.kind))
        key: tuple[Any, ...] | None = tuple(one.values.get(name) for name in join.by)
        if all(value is None for value in key or ()):
            if kind in join.follows:
                key = latest if latest in waiting else None
            elif join.by:
                key = None
        if key is None:
            yield one
            continue
        if key in waiting and kind in join.begins:
            yield _unfinished(waiting.pop(key))
            missing.pop(key, None)
        if key in waiting:
            _merge(waiting[key], one)
        else:
            waiting[key] = one
        latest = key
        if join.complete:
            missing.setdefault(key, set(join.complete)).discard(kind)
        if kind in join.ends or (join.complete and not missing[key]):
            missing.pop(key, None)
            yield waiting.pop(key)
        elif len(waiting) > _MANY_OPEN:
            oldest = next(iter(waiting))
            missing.pop(oldest, None)
            yield _unfinished(waiting.pop(oldest))
    yield from map(_unfinished, waiting.values())


def _merge(into: Found, one: Found) -> None:
    """What the first lines say stays; the last line is kept whole as well."""
    into.values |= {key: value for key, value in one.values.items() if key not in into.values}
    if THEN in into.values:
        into.values[BEFORE] = into.values[THEN]
    into.values[THEN] = {key: value for key, value in one.values.items() if key != THEN}
    into.extra += one.extra + 1


def _unfinished(one: Found) -> Found:
    return replace(one, values={**one.values, OPEN: True})
