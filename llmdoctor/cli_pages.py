"""The commands `rules`: look at the pages, check them, begin a new one."""
# ruff: noqa: PLC0415  `llmdoctor --help` must not wait for DuckDB or polars: they are imported where they are used.

import shlex
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import click

from llmdoctor.cli_output import put, put_new, put_page, put_results, put_table
from llmdoctor.errors import UsageError

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
    put_table([("id", "kind", "title"), *rows])


@rules.command("show")
@click.argument("rule_id", metavar="ID")
@_DIRS
def rules_show(rule_id: str, folders: tuple[str, ...]) -> None:
    """Print the page of one rule."""
    book = _load(folders)
    book.check_id(rule_id)
    put_page(_file(next(page for name, page in _pages(book) if name == rule_id), folders))


def _file(page: "Page", folders: Sequence[str]) -> Path:
    """Where the text of a page stands."""
    from llmdoctor.rulebook import shipped_rules

    places = [Path(folder) for folder in reversed(folders)] + [shipped_rules()]
    found = (place / kind / f"{page.id}.md" for place in places for kind in ("symptoms", "causes"))
    return next(path for path in found if path.is_file())


@rules.command("docs")
@click.option("-o", "--output", metavar="DIR", required=True, help="Where to write it.")
@_DIRS
def rules_docs(output: str, folders: tuple[str, ...]) -> None:
    """Write all pages of rules and formats as a site of HTML files; begin with index.html."""
    from llmdoctor.pages import read_page
    from llmdoctor.report.docs import site

    book = _load(folders)
    sources = {page.id: _file(page, folders) for _, page in _pages(book)}
    shipped = Path(str(resources.files("llmdoctor"))) / "formats"
    formats = {path.stem: (read_page(path).title, path) for path in sorted(shipped.glob("*.md"))}
    made = site(book, sources, formats)
    for name, text in made.items():
        put_new(Path(output) / name, text, "--output")
    put(f"{Path(output) / 'index.html'}: {len(made)} files")


@rules.command("test")
@click.argument("ids", nargs=-1, metavar="[ID]...")
@_DIRS
def rules_test(ids: tuple[str, ...], folders: tuple[str, ...]) -> int:
    """Run the examples of all rules, or of some."""
    from llmdoctor.diagnose.examples import test_rules

    book = _load(folders)
    for rule_id in ids:
        book.check_id(rule_id)
    return put_results(test_rules(book, ids))


@rules.command("lint")
@_DIRS
def rules_lint(folders: tuple[str, ...]) -> int:
    """Look for faults in pages: headings, names, SQL, fields."""
    from llmdoctor.lint import lint

    book = _load(folders)
    faults = lint(book)
    pages = len({page.path for _, page in _pages(book)})
    for fault in faults:
        put(fault)
    put(f"{pages} pages, {len(faults) or 'no'} fault{'s' * (len(faults) != 1)}")
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
    put_new(path, text, "--rules")
    put(f"{path}\nEdit it, then: llmdoctor rules test {rule_id} --rules {shlex.quote(folder)}")
