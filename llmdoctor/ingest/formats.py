"""Format pages: one Markdown file that says how the records of one product become rows.

A page is `# Title`, a toml block (`vantage`, `shape`, `needs` or `any_of`, `url`, `product`, what recipe.py knows, and
for home-made logs `nested`), for text `## Lines` (name -> regular expression whose groups are the keys), `## Fields`
(name -> JSON path and unit, or a list of such in order of preference), `## Rows` (one SELECT over `fields` into the
columns of `attempts`; a further block ` ```sql chunks key ` gives rows of another table, and is run where a record has
that key), `## Cannot show` and `## Examples`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from llmdoctor.errors import UsageError
from llmdoctor.ingest.fields import Alias, below, fields_of, split_path
from llmdoctor.ingest.recipe import KIND, Join, Recipe
from llmdoctor.pages import Block, Page, parse_toml, read_page

SECTIONS = ("Lines", "Fields", "Spellings", "Rows", "Cannot show", "Examples")
SETTINGS = {"vantage", "shape", "needs", "any_of", "url", "product", "nested", "nulls", "may_be_text"}
SETTINGS |= {"generic", "repair", "secondary", "each", "parallel", "listed", "inside", "join"}
SHAPES = ("json", "text", "prometheus")
TABLES = ("chunks", "stages", "task_events", "engine_samples", "facts")
"""The tables besides `attempts` that a page may fill."""


@dataclass(frozen=True)
class Example:
    """Lines of a log and the rows that they must give."""

    line: int
    log: str
    rows: str


@dataclass(frozen=True)
class Further:
    """A query for the rows of another table: run where a record that was looked at has one of `keys`, or there are
    none."""

    table: str
    keys: tuple[str, ...]
    sql: str


@dataclass(frozen=True, eq=False)
class Format:
    """One format page; a page is equal only to itself."""

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
    secondary: bool
    fields: Mapping[str, tuple[Alias, ...]]
    rows: str
    further: tuple[Further, ...]
    recipe: Recipe
    spellings: Mapping[str, tuple[str, ...]]
    cannot_show: str
    examples: tuple[Example, ...]
    told: tuple[str, ...] = ()
    """Fields mapped by the user that make a record a call."""

    @property
    def native(self) -> bool:
        """True where the fields are the columns themselves and other tables may be mixed in."""
        return re.fullmatch(r"select\s+\*\s+from\s+fields", self.rows.strip().lower()) is not None


def load_formats(dirs: Sequence[Path] = ()) -> tuple[Format, ...]:
    """The pages that come with llmdoctor, then those of `dirs` (one of the same name replaces it), by name.
    PageError where a page breaks the contract, UsageError where a folder does not exist or has none."""
    found: dict[str, Format] = {}
    own = resources.files("llmdoctor").joinpath("formats")
    with resources.as_file(own) as folder:
        for path in sorted(folder.glob("*.md")):
            found[path.stem] = parse_format(read_page(path, f"formats/{path.name}"))
    for extra in dirs:
        if not extra.is_dir():
            raise UsageError(f"{extra}: no such folder of format pages")
        pages = sorted(extra.glob("*.md"))
        if not pages:
            raise UsageError(f"{extra}: no format pages in it: they are its files NAME.md")
        for path in pages:
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
    needed = ("Examples",) if shape == "prometheus" else ("Fields", "Rows", "Examples")
    for title in needed:
        if title not in titles:
            raise page.wrong(page.head.line, f"heading '## {title}' is missing")
    prose = page.section("Cannot show")
    fields = fields_of(page)
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
        secondary=bool(settings.get("secondary")),
        fields=fields,
        rows=_rows(page),
        further=_further(page),
        recipe=_recipe(page, fields),
        spellings=_spellings(page, fields),
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
    if settings.get("shape") == "text":
        return settings
    if not settings.get("needs") and not settings.get("any_of"):
        raise page.wrong(line, "'needs' or 'any_of' must say by which keys the format is recognised")
    return settings


def _rows(page: Page) -> str:
    section = page.section("Rows")
    if section is None:
        return ""
    block = next((block for block in section.blocks if block.info == "sql"), None)
    if block is None:
        raise page.wrong(section.line, "'## Rows' has no sql block")
    return _select(page, block)


def _select(page: Page, block: Block) -> str:
    if not re.match(r"select\b", block.text.lstrip(), re.IGNORECASE):
        raise page.wrong(block.line, "'## Rows' is one query that begins with 'select'")
    return block.text.strip().rstrip(";")


def _further(page: Page) -> tuple[Further, ...]:
    section = page.section("Rows")
    found = []
    for block in section.blocks if section else ():
        language, *words = block.info.split()
        if language != "sql" or not words:
            continue
        if words[0] not in TABLES:
            raise page.wrong(block.line, f"no table is called {words[0]!r}; a page may fill {', '.join(TABLES)}")
        found.append(Further(words[0], tuple(words[1:]), _select(page, block)))
    return tuple(found)


def _recipe(page: Page, fields: Mapping[str, tuple[Alias, ...]]) -> Recipe:
    settings = page.settings
    every = [alias for aliases in fields.values() for alias in aliases]
    roots = [alias.root for alias in every if alias.unit == "yearless"]
    paths = [
        step for name in ("each", "listed", "inside") for path in settings.get(name, ()) for step in path.split("|")
    ]
    named = {step for path in paths for step in path.split(".")}
    named |= {step for alias in every for step in (alias.root, *re.findall(r'"([^"]+)"', alias.below))}
    return Recipe(
        patterns=_patterns(page),
        each=tuple(settings.get("each", ())),
        parallel=tuple(settings.get("parallel", ())),
        listed=tuple(settings.get("listed", ())),
        inside=tuple(settings.get("inside", ())),
        yearless=tuple(dict.fromkeys(roots)),
        join=_join(page),
        named=frozenset(named) if settings.get("each") or settings.get("parallel") else frozenset(),
    )


def _spellings(page: Page, fields: Mapping[str, tuple[Alias, ...]]) -> dict[str, tuple[str, ...]]:
    section = page.section("Spellings")
    block = section.block("toml") if section else None
    if section is None or block is None:
        return {}
    given = parse_toml(page.path, block)
    if unknown := given.keys() - fields.keys():
        raise page.wrong(block.line, f"no field is called {sorted(unknown)[0]!r}")
    return {name: tuple(stems) for name, stems in given.items()}


def _patterns(page: Page) -> tuple[tuple[str, re.Pattern[str]], ...]:
    section = page.section("Lines")
    block = section.block("toml") if section else None
    if block is None:
        if page.settings.get("shape") == "text":
            raise page.wrong(page.head.line, "a page of shape text needs '## Lines' with a toml block")
        return ()
    found = []
    for name, text in parse_toml(page.path, block).items():
        try:
            found.append((name, re.compile(text, re.VERBOSE)))
        except (re.error, TypeError) as error:
            raise page.wrong(block.line, f"line {name}: no regular expression ({error})") from error
    return tuple(found)


def _join(page: Page) -> Join | None:
    given = page.settings.get("join")
    if given is None:
        return None
    lists = {key: frozenset(given.get(key, ())) for key in ("begins", "ends", "follows", "complete")}
    if unknown := set(given) - {"by", "kind", *lists}:
        raise page.wrong(page.head.line, f"join: unknown key {sorted(unknown)[0]!r}")
    return Join(by=tuple(given.get("by", ())), kind=given.get("kind", KIND), **lists)


def _nested(page: Page, paths: Sequence[str]) -> tuple[tuple[str, str], ...]:
    line = block.line if (block := page.head.block("toml")) else page.head.line
    steps = [split_path(path) for path in paths]
    if not all(steps):
        raise page.wrong(line, "'nested' is a list of paths such as $.record.extra")
    return tuple((one[0], below(one[1:])) for one in steps)


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
