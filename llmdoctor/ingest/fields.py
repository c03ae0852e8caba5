"""Where a field stands in a record: `$.usage.prompt_tokens`, in milliseconds. The `## Fields` of a format page."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from llmdoctor.pages import Page, Section, parse_toml

UNITS = frozenset({"text", "int", "number", "bool", "ms", "s", "us", "ns", "duration", "iso", "time", "yearless"})
UNITS |= {"epoch_s", "epoch_ms", "epoch_us", "epoch_ns", "ticks"}

_PATH = re.compile(r"\$((?:\.(?:\"[^\"]+\"|[^.\[\]\"]+)|\[\d+\])+)")
_STEP = re.compile(r"\.(\"[^\"]+\"|[^.\[\]\"]+)|\[(\d+)\]")

INNER = "(inner)"
"""Stands for the key of the object in which a home-made log keeps what belongs to the call (`nested`)."""


@dataclass(frozen=True)
class Alias:
    """One place where a field may stand: key of the record, path below it (DuckDB's syntax, "$" for the key itself),
    unit, whether that unit is a guess which the report has to show, and whether an empty text is kept as such."""

    root: str
    below: str
    unit: str
    guess: bool
    keep: bool

    @property
    def shown(self) -> str:
        """The path as a reader would write it."""
        rest = self.below[1:].replace('"', "")
        return rest.lstrip(".") if self.root == INNER else self.root + rest


def fields_of(page: Page) -> dict[str, tuple[Alias, ...]]:
    """Name -> the places where it may stand, in order of preference. PageError names file, line and field."""
    section = page.section("Fields")
    block = section.block("toml") if section else None
    if section is None:
        return {}
    if block is None:
        raise page.wrong(section.line, "'## Fields' has no toml block")
    given = parse_toml(page.path, block)
    if page.settings.get("shape") == "prometheus":
        return {name: _metric_names(page, section, name, value) for name, value in given.items()}
    fields = {name: tuple(_aliases(page, section, name, value)) for name, value in given.items()}
    spellings: dict[str, str] = {}
    for name, aliases in fields.items():
        for alias in aliases:
            if spellings.setdefault(alias.root.lower(), alias.root) != alias.root:
                problem = f"field {name}: key {alias.root} differs from {spellings[alias.root.lower()]} only in case"
                raise page.wrong(_line_of(section, name), problem)
    return fields


def _metric_names(page: Page, section: Section, name: str, value: object) -> tuple[Alias, ...]:
    names = value if isinstance(value, list) else [value]
    texts = [one for one in names if isinstance(one, str)]
    if len(texts) < len(names):
        raise page.wrong(_line_of(section, name), f"field {name}: expected names of metrics")
    return tuple(Alias(one, "$", "number", False, False) for one in texts)


def _aliases(page: Page, section: Section, name: str, value: object) -> list[Alias]:
    found: list[Alias] = []
    nested = bool(page.settings.get("nested"))
    for one in value if isinstance(value, list) else [value]:
        place = {"path": one} if isinstance(one, str) else one
        if not isinstance(place, dict) or not isinstance(place.get("path"), str):
            raise page.wrong(
                _line_of(section, name), f'field {name}: expected "$.path" or {{ path = "$.path", unit = "ms" }}'
            )
        if unknown := set(place) - {"path", "unit", "guess", "keep"}:
            raise page.wrong(_line_of(section, name), f"field {name}: unknown key {sorted(unknown)[0]!r}")
        unit = place.get("unit", "text")
        if unit not in UNITS:
            raise page.wrong(
                _line_of(section, name), f"field {name}: unit {unit!r} is none of {', '.join(sorted(UNITS))}"
            )
        steps = split_path(place["path"])
        if not steps:
            raise page.wrong(
                _line_of(section, name), f"field {name}: {place['path']!r} is no path such as $.usage.prompt_tokens"
            )
        how = (unit, bool(place.get("guess")), bool(place.get("keep")))
        found.append(Alias(steps[0], below(steps[1:]), *how))
        if nested:
            found.append(Alias(INNER, below(steps), *how))
    return found


def split_path(path: str) -> tuple[str, ...]:
    """Keys and indexes of a path, () where it is none. `$."a.b".c[0]` -> ("a.b", "c", "[0]")."""
    if not _PATH.fullmatch(path) or path.startswith("$["):
        return ()
    return tuple(key.strip('"') if key else f"[{index}]" for key, index in _STEP.findall(path))


def below(steps: Sequence[str]) -> str:
    """Steps of a path as DuckDB writes it."""
    return "$" + "".join(step if re.fullmatch(r"\[\d+\]", step) else f'."{step}"' for step in steps)


def _line_of(section: Section, name: str) -> int:
    block = section.block("toml")
    if block is None:
        return section.line
    for offset, text in enumerate(block.text.splitlines()):
        if re.match(rf"{re.escape(name)}\s*=", text):
            return block.line + offset
    return block.line
