"""Format pages: one Markdown file that says how the records of one product become rows.

A page is `# Title`, a toml block (`vantage`, `shape`, `needs` or `any_of`, `url`, `product`, and for home-made logs
`nested`), `## Fields` (name -> JSON path and unit, or a list of such in order of preference), `## Rows` (one SELECT
over `fields` into the columns of `attempts`), `## Cannot show` and `## Examples`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from llmdoctor.errors import UsageError
from llmdoctor.pages import Page, Section, parse_toml, read_page

SECTIONS = ("Fields", "Rows", "Cannot show", "Examples")
SETTINGS = {"vantage", "shape", "needs", "any_of", "url", "product", "nested", "nulls", "may_be_text"}
SETTINGS |= {"generic", "repair"}
SHAPES = ("json", "csv", "prometheus")
UNITS = frozenset({"text", "int", "number", "bool", "ms", "s", "us", "ns", "iso", "time"})
UNITS |= {"epoch_s", "epoch_ms", "epoch_us", "epoch_ns"}

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
        below = self.below[1:].replace('"', "")
        return below.lstrip(".") if self.root == INNER else self.root + below


@dataclass(frozen=True)
class Example:
    """Lines of a log and the rows that they must give."""

    line: int
    log: str
    rows: str


@dataclass(frozen=True)
class Format:
    """One format page."""

    id: str
    path: str
    title: str
    vantage: str | None
    shape: str
    needs: tuple[str, ...]
    any_of: tuple[tuple[str, ...], ...]
    url: str | None
    product: str | None
    nulls: tuple[str, ...]
    may_be_text: frozenset[str]
    nested: tuple[tuple[str, str], ...]
    generic: bool
    repair: bool
    fields: Mapping[str, tuple[Alias, ...]]
    rows: str
    cannot_show: str
    examples: tuple[Example, ...]

    @property
    def native(self) -> bool:
        """True where the fields are the columns themselves and other tables may be mixed in."""
        return re.fullmatch(r"select\s+\*\s+from\s+fields", self.rows.strip().lower()) is not None


def load_formats(dirs: Sequence[Path] = ()) -> tuple[Format, ...]:
    """The pages that come with llmdoctor, then those of `dirs` (one of the same name replaces it), by name.
    PageError where a page breaks the contract, UsageError where a folder does not exist."""
    found: dict[str, Format] = {}
    own = resources.files("llmdoctor").joinpath("formats")
    with resources.as_file(own) as folder:
        for path in sorted(folder.glob("*.md")):
            found[path.stem] = parse_format(read_page(path, f"formats/{path.name}"))
    for extra in dirs:
        if not extra.is_dir():
            raise UsageError(f"{extra}: no such folder of format pages")
        for path in sorted(extra.glob("*.md")):
            found[path.stem] = parse_format(read_page(path))
    return tuple(found[name] for name in sorted(found))


def format_named(formats: Sequence[Format], name: str) -> Format:
    """The format of that name; UsageError that lists the names where there is none."""
    for fmt in formats:
        if fmt.id == name:
            return fmt
    raise UsageError(f"no format is called {name!r}; there are {', '.join(fmt.id for fmt in formats)}")


def parse_format(page: Page) -> Format:
    """A page checked and turned into a Format; PageError names file, line and key."""
    settings = _settings(page)
    titles = [section.title for section in page.sections]
    for section in page.sections:
        if section.title not in SECTIONS or section.parts:
            raise page.wrong(
                section.line, f"unknown heading {section.title!r}; a format page has {', '.join(SECTIONS)}"
            )
    if titles != [title for title in SECTIONS if title in titles]:
        raise page.wrong(page.sections[0].line, f"headings must stand in this order: {', '.join(SECTIONS)}")
    shape = str(settings.get("shape", "json"))
    needed = SECTIONS[3:] if shape == "prometheus" else ("Fields", "Rows", "Examples")
    for title in needed:
        if title not in titles:
            raise page.wrong(page.head.line, f"heading '## {title}' is missing")
    prose = page.section("Cannot show")
    any_of = tuple((one,) if isinstance(one, str) else tuple(one) for one in settings.get("any_of", ()))
    return Format(
        id=page.id,
        path=page.path,
        title=page.title,
        vantage=settings.get("vantage"),
        shape=shape,
        needs=tuple(settings.get("needs", ())),
        any_of=any_of,
        url=settings.get("url"),
        product=settings.get("product"),
        nulls=tuple(settings.get("nulls", ("",))),
        may_be_text=frozenset(settings.get("may_be_text", ())),
        nested=_nested(page, settings.get("nested", ())),
        generic=bool(settings.get("generic")),
        repair=bool(settings.get("repair")),
        fields=_fields(page, bool(settings.get("nested"))),
        rows=_rows(page),
        cannot_show=" ".join(prose.prose.split()) if prose else "",
        examples=_examples(page),
    )


def _settings(page: Page) -> dict[str, Any]:
    settings = page.settings
    line = block.line if (block := page.head.block("toml")) else page.head.line
    for key in settings:
        if key not in SETTINGS:
            raise page.wrong(line, f"unknown key {key!r}; known are {', '.join(sorted(SETTINGS))}")
    if settings.get("shape", "json") not in SHAPES:
        raise page.wrong(line, f"shape is one of {', '.join(SHAPES)}")
    if not settings.get("needs") and not settings.get("any_of"):
        raise page.wrong(line, "'needs' or 'any_of' must say by which keys the format is recognised")
    return settings


def _rows(page: Page) -> str:
    section = page.section("Rows")
    block = section.block("sql") if section else None
    if section is None:
        return ""
    if block is None:
        raise page.wrong(section.line, "'## Rows' has no sql block")
    if not re.match(r"select\b", block.text.lstrip(), re.IGNORECASE):
        raise page.wrong(block.line, "'## Rows' is one query that begins with 'select'")
    return block.text.strip().rstrip(";")


def _fields(page: Page, nested: bool) -> dict[str, tuple[Alias, ...]]:
    section = page.section("Fields")
    block = section.block("toml") if section else None
    if section is None:
        return {}
    if block is None:
        raise page.wrong(section.line, "'## Fields' has no toml block")
    given = parse_toml(page.path, block)
    if page.settings.get("shape") == "prometheus":
        return {name: _metric_names(page, section, name, value) for name, value in given.items()}
    fields = {name: tuple(_aliases(page, section, name, value, nested)) for name, value in given.items()}
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


def _aliases(page: Page, section: Section, name: str, value: object, nested: bool) -> list[Alias]:
    line = _line_of(section, name)
    found: list[Alias] = []
    for one in value if isinstance(value, list) else [value]:
        place = {"path": one} if isinstance(one, str) else one
        if not isinstance(place, dict) or not isinstance(place.get("path"), str):
            raise page.wrong(line, f'field {name}: expected "$.path" or {{ path = "$.path", unit = "ms" }}')
        if unknown := set(place) - {"path", "unit", "guess", "keep"}:
            raise page.wrong(line, f"field {name}: unknown key {sorted(unknown)[0]!r}")
        unit = place.get("unit", "text")
        if unit not in UNITS:
            raise page.wrong(line, f"field {name}: unit {unit!r} is none of {', '.join(sorted(UNITS))}")
        steps = split_path(place["path"])
        if not steps:
            raise page.wrong(line, f"field {name}: {place['path']!r} is no path such as $.usage.prompt_tokens")
        how = (unit, bool(place.get("guess")), bool(place.get("keep")))
        found.append(Alias(steps[0], _below(steps[1:]), *how))
        if nested:
            found.append(Alias(INNER, _below(steps), *how))
    return found


def _nested(page: Page, paths: Sequence[str]) -> tuple[tuple[str, str], ...]:
    line = block.line if (block := page.head.block("toml")) else page.head.line
    steps = [split_path(path) for path in paths]
    if not all(steps):
        raise page.wrong(line, "'nested' is a list of paths such as $.record.extra")
    return tuple((one[0], _below(one[1:])) for one in steps)


def split_path(path: str) -> tuple[str, ...]:
    """Keys and indexes of a path, () where it is none. `$."a.b".c[0]` -> ("a.b", "c", "[0]")."""
    if not _PATH.fullmatch(path) or path.startswith("$["):
        return ()
    return tuple(key.strip('"') if key else f"[{index}]" for key, index in _STEP.findall(path))


def _below(steps: Sequence[str]) -> str:
    return "$" + "".join(step if re.fullmatch(r"\[\d+\]", step) else f'."{step}"' for step in steps)


def _line_of(section: Section, name: str) -> int:
    block = section.block("toml")
    if block is None:
        return section.line
    for offset, text in enumerate(block.text.splitlines()):
        if re.match(rf"{re.escape(name)}\s*=", text):
            return block.line + offset
    return block.line


def _examples(page: Page) -> tuple[Example, ...]:
    section = page.section("Examples")
    found: list[Example] = []
    log: tuple[int, str] | None = None
    for block in section.blocks if section else ():
        if block.language == "log" and log is None:
            log = (block.line, block.text)
        elif block.language == "jsonl" and log is not None:
            found.append(Example(log[0], log[1], block.text))
            log = None
        else:
            raise page.wrong(block.line, "examples are pairs: a block of 'log', then a block of 'jsonl'")
    if log is not None:
        raise page.wrong(log[0], "this example has no 'jsonl' block with the rows it must give")
    return tuple(found)
