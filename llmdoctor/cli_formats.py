"""The commands `formats`: look at the format pages, try them on a file, draft a new one."""
# ruff: noqa: PLC0415  `llmdoctor --help` must not wait for DuckDB or polars: they are imported where they are used.

import difflib
import shlex
import textwrap
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import click

from llmdoctor.cli_output import put, put_new, put_page, put_results, put_table
from llmdoctor.errors import InputError, UsageError
from llmdoctor.redact import mask

if TYPE_CHECKING:
    from llmdoctor.ingest.detect import Detection


@click.group()
def formats() -> None:
    """The log formats that can be read: one page each."""


_DIRS = click.option("--formats", "folders", multiple=True, metavar="DIR", help="Further format pages.")


def _folders(names: Sequence[str]) -> tuple[Path, ...]:
    return tuple(Path(name) for name in names)


@formats.command("list")
@_DIRS
def formats_list(folders: tuple[str, ...]) -> None:
    """Print every format: name, where such logs are written, title."""
    from llmdoctor.ingest.formats import load_formats

    rows = [(one.id, one.vantage or "any", one.title) for one in load_formats(_folders(folders))]
    put_table([("format", "vantage", "title"), *rows])


@formats.command("show")
@click.argument("name")
@_DIRS
def formats_show(name: str, folders: tuple[str, ...]) -> None:
    """Print the page of one format."""
    from llmdoctor.ingest.formats import load_formats

    names = [one.id for one in load_formats(_folders(folders))]
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}?" if near else "see 'llmdoctor formats list'"
        raise UsageError(f"no format is called {name!r}: {hint}")
    own = next((path for folder in reversed(folders) if (path := Path(folder) / f"{name}.md").is_file()), None)
    if own is not None:
        put_page(own)
        return
    with resources.as_file(resources.files("llmdoctor") / "formats" / f"{name}.md") as path:
        put_page(path)


@formats.command("detect")
@click.argument("paths", nargs=-1, required=True, metavar="FILE...")
@_DIRS
def formats_detect(paths: tuple[str, ...], folders: tuple[str, ...]) -> None:
    """Say which format each file has and why, what it fills, and what is missing."""
    from llmdoctor.ingest.detect import detect
    from llmdoctor.ingest.formats import load_formats

    pages = load_formats(_folders(folders))
    for name in paths:
        if not Path(name).is_file():
            raise InputError(f"{name}: no such file: name one that can be read")
        found = detect(Path(name), pages)
        put(f"{mask(name)}: {found.format.id if found.format else 'unknown'} ({found.reason})")
        if found.format is not None and found.format.shape != "prometheus":
            _tell(found)
        for other in found.candidates[1:4]:
            put(f"  or {other.format.id}: {other.reason}")
        if found.format is None or (found.format.generic and not found.candidates[0].hits):
            put("  name the fields with --map FIELD=PATH[:UNIT], or draft a page with 'llmdoctor formats new'")


def _tell(found: "Detection") -> None:
    """How the file is read, which columns it fills, which units are guessed, what cannot be judged without a field."""
    from llmdoctor.ingest.preview import preview
    from llmdoctor.rulebook import load

    content = found.content
    made = preview(found)
    around = [f"{kind} envelope" for kind in content.envelopes] + [content.packing] * (content.packing != "plain")
    put(f"  read as  {', '.join([_LAYOUTS[content.shape], *around])}; {made.calls} of {made.records} are LLM calls")
    filled = [name if n == made.calls else f"{name} ({n} of {made.calls})" for name, n in made.columns.items()]
    _wrapped("fills", filled or ["nothing"])
    if made.guesses:
        _wrapped("guessed", made.guesses)
    missing: dict[str, list[str]] = {}
    for rule in load().symptoms:
        for need in rule.needs:
            names = set(need.split("|"))
            if names <= made.known and not names & made.columns.keys():
                missing.setdefault(" or ".join(need.split("|")), []).append(rule.id)
    _wrapped("missing", [f"{need} (for {', '.join(ids)})" for need, ids in sorted(missing.items())])


_LAYOUTS = {"lines": "one JSON object a line", "values": "JSON of any layout", "csv": "CSV", "pairs": "key=value"}
_LAYOUTS |= {"text": "lines of text", "parquet": "Parquet", "sqlite": "a SQLite table", "prometheus": "metrics"}


def _wrapped(title: str, items: Sequence[str]) -> None:
    text = textwrap.wrap(", ".join(items), 78, initial_indent="", subsequent_indent="", break_on_hyphens=False)
    for number, line in enumerate(text):
        put(f"  {title if number == 0 else '':<8} {line}")


@formats.command("new")
@click.argument("name")
@click.option("--from", "log", required=True, metavar="FILE", help="A log of that kind.")
@click.option("--formats", "folder", metavar="DIR", default="formats", show_default=True, help="Where to write it.")
def formats_new(name: str, log: str, folder: str) -> None:
    """Draft a page from a log of your own, its guesses marked."""
    from llmdoctor.ingest.detect import detect
    from llmdoctor.ingest.draft import draft
    from llmdoctor.ingest.formats import format_named, load_formats
    from llmdoctor.store import Store

    if not Path(log).is_file():
        raise InputError(f"{log}: no such file: name one that can be read")
    path = Path(folder) / f"{name}.md"
    if path.exists():
        raise UsageError(f"{path}: is there already: choose another name, or edit it")
    generic = format_named(load_formats(), "json_app")
    with Store() as store:
        store.create()
        columns = store.columns("attempts")
    text = draft(name, Path(log), detect(Path(log), [generic]), generic, columns)
    put_new(path, text, "--formats")
    put(f"{path}\nLook at its guesses, then: llmdoctor formats test {name} --formats {shlex.quote(folder)}")
    put(f"Use it: llmdoctor analyze {shlex.quote(log)} --formats {shlex.quote(folder)}")


@formats.command("test")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@_DIRS
def formats_test(names: tuple[str, ...], folders: tuple[str, ...]) -> int:
    """Run the examples of all format pages, or of some."""
    from llmdoctor.ingest.examples import test_format
    from llmdoctor.ingest.formats import format_named, load_formats

    pages = load_formats(_folders(folders))
    chosen = [format_named(pages, name) for name in names] or pages
    results = ((page.id, not (faults := test_format(page, _folders(folders))), "; ".join(faults)) for page in chosen)
    return put_results(results)
