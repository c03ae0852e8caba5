"""Settings of an analysis: `llmdoctor.toml`, overruled by the command line.

    profile = "interactive"
    rules   = ["ops/rules"]                         # relative to this file
    ignore  = { log_gaps = "rotation at midnight" } # or a list of ids
    map     = { ttft_ms = "timing.first:s" }        # where a home-made log keeps a field

    [set]
    "high_ttft.limit_ms" = 800

The keys are the long options of `llmdoctor analyze` without their dashes.
"""

import difflib
import math
import tomllib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from llmdoctor.errors import UsageError

FILE_NAME = "llmdoctor.toml"
LEVELS = ("low", "medium", "high", "critical")


@dataclass(frozen=True)
class Settings:
    """What an analysis was asked for. `reasons` says why a rule is ignored, `source` is the file that was read."""

    format: str | None = None
    tz: str = "UTC"
    since: str | None = None
    until: str | None = None
    where: str | None = None
    profile: str = "chat"
    set: Mapping[str, float] = field(default_factory=dict)
    ignore: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    formats: tuple[str, ...] = ()
    map: Mapping[str, str] = field(default_factory=dict)
    memory: str | None = None
    hash_ids: bool = False
    fail_on: str | None = None
    output: str | None = None
    json: str | None = None
    md: str | None = None
    jira: str | None = None
    save: str | None = None
    baseline: str | None = None
    quiet: bool = False
    verbose: bool = False
    reasons: Mapping[str, str] = field(default_factory=dict)
    source: str | None = None

    def shown(self) -> dict[str, str]:
        """What differs from the defaults and bears on what is concluded, as text for the report."""
        plain = Settings()
        names = ("format", "tz", "since", "until", "where", "profile", "memory", "baseline")
        found = {name: str(getattr(self, name)) for name in names if getattr(self, name) != getattr(plain, name)}
        found |= {name: ", ".join(getattr(self, name)) for name in ("only", "rules", "formats") if getattr(self, name)}
        found |= {f"map {name}": place for name, place in self.map.items()}
        found |= {f"set {name}": f"{value:g}" for name, value in self.set.items()}
        found |= {f"ignore {rule}": self.reasons.get(rule, "no reason given") for rule in self.ignore}
        return ({"settings": self.source} if self.source else {}) | found


def find(start: Path) -> Path | None:
    """The nearest llmdoctor.toml from this folder upwards."""
    return next((path for folder in (start, *start.parents) if (path := folder / FILE_NAME).is_file()), None)


def load(start: Path) -> Settings:
    """The settings of the nearest file, the defaults without one. UsageError names the file and the key at fault."""
    path = find(start)
    if path is None:
        return Settings()
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path}: cannot be read as TOML: {error}") from error
    values: dict[str, Any] = {"source": FILE_NAME}
    for key, value in table.items():
        name = key.replace("-", "_")
        if name not in _KINDS:
            near = difflib.get_close_matches(name, _KINDS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(sorted(_KINDS))}"
            raise UsageError(f"{path}: no setting is called {key!r}: {hint}")
        try:
            values |= _KINDS[name](name, value, path.parent)
        except (TypeError, ValueError) as error:
            raise UsageError(f"{path}: {key}: {error}") from error
    return Settings(**values)


def merged(saved: Settings, given: Mapping[str, Any], typed: Collection[str]) -> Settings:
    """The saved settings with what was typed on the command line. Lists and single limits are added, not replaced."""
    values = {name: given[name] for name in typed if name in given}
    for name in ("ignore", "rules", "formats"):
        if name in values:
            values[name] = tuple(dict.fromkeys((*getattr(saved, name), *values[name])))
    if "set" in values:
        values["set"] = {**saved.set, **limits(values["set"])}
    if "map" in values:
        values["map"] = {**saved.map, **places(values["map"])}
    return replace(saved, **values)


def places(pairs: Collection[str]) -> dict[str, str]:
    """["ttft_ms=timing.first:s"] as a mapping. UsageError where one is not FIELD=PATH."""
    found = {}
    for pair in pairs:
        name, equals, place = pair.partition("=")
        if not equals or not name.strip() or not place.strip():
            raise UsageError(f"--map {pair}: write it as FIELD=PATH or FIELD=PATH:UNIT, as in ttft_ms=timing.first:s")
        found[name.strip()] = place.strip()
    return found


def limits(pairs: Collection[str]) -> dict[str, float]:
    """["high_ttft.limit_ms=800"] as a mapping. UsageError where one is not RULE.LIMIT=NUMBER."""
    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or "." not in name:
            raise UsageError(f"--set {pair}: write it as RULE.LIMIT=NUMBER, as in high_ttft.limit_ms=800")
        try:
            number = float(value)
        except ValueError as error:
            raise UsageError(f"--set {pair}: {value!r} is no number") from error
        if not math.isfinite(number):
            raise UsageError(f"--set {pair}: {value!r} is no limit; leave the rule out with --ignore")
        found[name.strip()] = number
    return found


def _text(name: str, value: Any, _folder: Path) -> dict[str, Any]:
    if not isinstance(value, str):
        raise TypeError("must be a text in quotes")
    return {name: value}


def _switch(name: str, value: Any, _folder: Path) -> dict[str, Any]:
    if not isinstance(value, bool):
        raise TypeError("must be true or false")
    return {name: value}


def _level(name: str, value: Any, _folder: Path) -> dict[str, Any]:
    if value not in LEVELS:
        raise ValueError(f"must be one of {', '.join(LEVELS)}")
    return {name: value}


def _names(name: str, value: Any, _folder: Path) -> dict[str, Any]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise TypeError("must be a list of texts")
    return {name: tuple(value)}


def _folders(name: str, value: Any, folder: Path) -> dict[str, Any]:
    given = _names(name, [value] if isinstance(value, str) else value, folder)[name]
    return {name: tuple(str(folder / item) for item in given)}


def _path(name: str, value: Any, folder: Path) -> dict[str, Any]:
    text = _text(name, value, folder)[name]
    return {name: text if text == "-" else str(folder / text)}


def _ignored(name: str, value: Any, folder: Path) -> dict[str, Any]:
    if not isinstance(value, dict):
        return _names(name, value, folder)
    if not all(isinstance(reason, str) for reason in value.values()):
        raise TypeError("must be a list of ids, or a table of id = reason")
    return {name: tuple(value), "reasons": value}


def _limits(name: str, value: Any, _folder: Path) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError('must be a table of "rule.limit" = number')
    flat: dict[str, Any] = {}
    for key, inner in value.items():
        flat |= (
            {f"{key}.{limit}": number for limit, number in inner.items()} if isinstance(inner, dict) else {key: inner}
        )
    for key, number in flat.items():
        if isinstance(number, bool) or not isinstance(number, (int, float)) or not math.isfinite(number):
            raise TypeError(f"{key} must be a finite number")
    return {name: {key: float(number) for key, number in flat.items()}}


def _places(name: str, value: Any, _folder: Path) -> dict[str, Any]:
    if not isinstance(value, dict) or not all(isinstance(place, str) for place in value.values()):
        raise TypeError('must be a table of field = "path" or "path:unit"')
    return {name: value}


_KINDS: Mapping[str, Callable[[str, Any, Path], dict[str, Any]]] = {
    **dict.fromkeys(("format", "tz", "since", "until", "where", "profile", "memory"), _text),
    **dict.fromkeys(("hash_ids", "quiet", "verbose"), _switch),
    **dict.fromkeys(("output", "json", "md", "jira", "save", "baseline"), _path),
    "set": _limits,
    "ignore": _ignored,
    "only": _names,
    "rules": _folders,
    "formats": _folders,
    "map": _places,
    "fail_on": _level,
}
