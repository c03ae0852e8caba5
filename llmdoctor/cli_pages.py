"""The commands `rules` and `formats`: look at the pages, check them, begin a new one."""
# ruff: noqa: PLC0415  `llmdoctor --help` must not wait for DuckDB or polars: they are imported where they are used.

import difflib
import shlex
import shutil
import sys
from collections.abc import Iterable, Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import click

from llmdoctor.errors import InputError, UsageError
from llmdoctor.report import columns, figures, files

if TYPE_CHECKING:
    from llmdoctor.pages import Page
    from llmdoctor.rulebook import Rulebook


@click.group()
def rules() -> None:
    """The knowledge: one page per symptom and per cause."""


_DIRS = click.option("--rules", "folders", multiple=True, metavar="DIR", help="Further rules.")


def _load(folders: Sequence[str]) -> "Rulebook":
    from llmdoctor.rulebook import load

    return load([Path(folder) for folder in folders])


def _pages(book: "Rulebook") -> list[tuple[str, "Page"]]:
    """Every id with its page."""
    return [(rule.id, rule.page) for rule in book.symptoms] + [(rule.id, rule.page) for rule in book.causes]


@rules.command("list")
@_DIRS
def rules_list(folders: tuple[str, ...]) -> None:
    """Print every rule: id, kind, title."""
    book = _load(folders)
    rows = [(rule.id, "symptom", rule.title) for rule in book.symptoms]
    rows += [(rule.id, "cause", rule.title) for rule in book.causes]
    _table([("id", "kind", "title"), *rows])


@rules.command("show")
@click.argument("rule_id", metavar="ID")
@_DIRS
def rules_show(rule_id: str, folders: tuple[str, ...]) -> None:
    """Print the page of one rule."""
    from llmdoctor.rulebook import shipped_rules

    book = _load(folders)
    book.check_id(rule_id)
    page = next(page for name, page in _pages(book) if name == rule_id)
    places = [Path(folder) for folder in reversed(folders)] + [shipped_rules()]
    found = (place / kind / f"{page.id}.md" for place in places for kind in ("symptoms", "causes"))
    _page(next(path for path in found if path.is_file()))


@rules.command("test")
@click.argument("ids", nargs=-1, metavar="[ID]...")
@_DIRS
def rules_test(ids: tuple[str, ...], folders: tuple[str, ...]) -> int:
    """Run the examples of all rules, or of some."""
    from llmdoctor.diagnose.examples import test_rules

    book = _load(folders)
    for rule_id in ids:
        book.check_id(rule_id)
    return _results(test_rules(book, ids))


@rules.command("lint")
@_DIRS
def rules_lint(folders: tuple[str, ...]) -> int:
    """Look for faults in pages: headings, names, SQL, fields."""
    from llmdoctor.lint import lint

    book = _load(folders)
    faults = lint(book)
    pages = len({page.path for _, page in _pages(book)})
    for fault in faults:
        _print(fault)
    _print(f"{pages} pages, {len(faults) or 'no'} fault{'s' * (len(faults) != 1)}")
    return 1 if faults else 0


@rules.command("new")
@click.argument("rule_id", metavar="ID")
@click.option("--kind", type=click.Choice(["symptom", "cause"]), default="cause", show_default=True)
@click.option("--rules", "folder", metavar="DIR", default="rules", show_default=True, help="Where to write it.")
def rules_new(rule_id: str, kind: str, folder: str) -> None:
    """Write a page that works, to be changed into your own."""
    from llmdoctor.skeleton import skeleton

    path = Path(folder) / f"{kind}s" / f"{rule_id}.md"
    text = skeleton(rule_id, kind)
    if path.exists():
        raise UsageError(f"{path}: is there already: choose another id, or edit it")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{path.parent}: cannot be made ({error.strerror}): choose another --rules DIR") from error
    files.write(str(path), text)
    _print(f"{path}\nEdit it, then: llmdoctor rules test {rule_id} --rules {shlex.quote(folder)}")


@click.group()
def formats() -> None:
    """The log formats that can be read: one page each."""


@formats.command("list")
def formats_list() -> None:
    """Print every format: name, where such logs are written, title."""
    from llmdoctor.ingest.formats import load_formats

    rows = [(one.id, one.vantage or "any", one.title) for one in load_formats()]
    _table([("format", "vantage", "title"), *rows])


@formats.command("show")
@click.argument("name")
def formats_show(name: str) -> None:
    """Print the page of one format."""
    from llmdoctor.ingest.formats import load_formats

    names = [one.id for one in load_formats()]
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}?" if near else "see 'llmdoctor formats list'"
        raise UsageError(f"no format is called {name!r}: {hint}")
    with resources.as_file(resources.files("llmdoctor") / "formats" / f"{name}.md") as path:
        _page(path)


@formats.command("detect")
@click.argument("paths", nargs=-1, required=True, metavar="FILE...")
def formats_detect(paths: tuple[str, ...]) -> None:
    """Say which format each file has, and why."""
    from llmdoctor.ingest.detect import detect
    from llmdoctor.ingest.formats import load_formats

    pages = load_formats()
    for name in paths:
        if not Path(name).is_file():
            raise InputError(f"{name}: no such file: name one that can be read")
        found = detect(Path(name), pages)
        _print(f"{name}: {found.format.id if found.format else 'unknown'} ({found.reason})")
        for other in found.candidates[1:4]:
            _print(f"  or {other.format.id}: {other.reason}")


@formats.command("test")
@click.argument("names", nargs=-1, metavar="[NAME]...")
def formats_test(names: tuple[str, ...]) -> int:
    """Run the examples of all format pages, or of some."""
    from llmdoctor.ingest.examples import test_format
    from llmdoctor.ingest.formats import format_named, load_formats

    pages = load_formats()
    chosen = [format_named(pages, name) for name in names] or pages
    results = ((page.id, not (faults := test_format(page)), "; ".join(faults)) for page in chosen)
    return _results(results)


def _print(text: str) -> None:
    files.say(figures.clean(text) + "\n", sys.stdout)


def _page(path: Path) -> None:
    try:
        _print(path.read_text(encoding="utf-8").rstrip())
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from error


def _table(rows: Sequence[Sequence[str]]) -> None:
    """Aligned columns; cut to the width of a terminal, whole in a pipe."""
    wide = shutil.get_terminal_size().columns if sys.stdout.isatty() else 10_000
    for row in columns.table([[figures.line(cell) for cell in row] for row in rows], "<<<", wide, ((2, 10),)):
        _print(row)


def _results(results: Iterable[tuple[str, bool, str]]) -> int:
    """Prints what failed and how many held; 1 where any failed."""
    held = failed = 0
    for name, ok, text in results:
        held, failed = held + ok, failed + (not ok)
        if not ok:
            _print(f"FAILED {name}: {text}")
    _print(f"{held} held, {failed} failed")
    return 1 if failed else 0
