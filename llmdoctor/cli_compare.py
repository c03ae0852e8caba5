"""The command `compare`: did the fix work, and what else changed?"""
# ruff: noqa: PLC0415  `llmdoctor --help` must not wait for DuckDB, polars or Jinja: they are imported where they are used.

import shlex
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from llmdoctor import settings
from llmdoctor.cli_output import put_out
from llmdoctor.errors import InputError, UsageError
from llmdoctor.report import embed, files

if TYPE_CHECKING:
    from llmdoctor.compare import Comparison, Side
    from llmdoctor.diagnose import Diagnosis

_READ = ("format", "tz", "where", "profile")


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="BEFORE AFTER")
@click.option("--window", multiple=True, metavar="A..B", help="Twice: two stretches of one PATH instead.")
@click.option("--format", metavar="NAME", help="Format of all files; else each is recognised.")
@click.option("--map", multiple=True, metavar="FIELD=PATH[:UNIT]", help="Where a home-made log keeps a field.")
@click.option("--formats", multiple=True, metavar="DIR", help="Further format pages.")
@click.option("--tz", metavar="ZONE", help="Time zone of instants that name none (default UTC).")
@click.option("--where", metavar="SQL", help="Only attempts for which this condition holds.")
@click.option("--profile", metavar="NAME", help="Absolute limits: chat (default), interactive, agent, batch.")
@click.option("--set", multiple=True, metavar="RULE.LIMIT=V", help="Change one limit.")
@click.option("--ignore", multiple=True, metavar="ID", help="Leave a rule out.")
@click.option("--only", multiple=True, metavar="ID", help="Judge this rule only.")
@click.option("--rules", multiple=True, metavar="DIR", help="Further rules; the same id replaces one of ours.")
@click.option("-o", "--output", metavar="FILE", help="Write the HTML report.")
@click.option("--json", metavar="FILE", help="Write the comparison as JSON.")
@click.option("--md", metavar="FILE", help="Write the text for a ticket (Markdown).")
@click.option("--memory", metavar="SIZE", help="Memory for the database, as in 2GB.")
@click.option("--hash-ids", is_flag=True, help="Replace ids, tenants, callers and hosts by hashes.")
@click.option("--fail-on-regression", is_flag=True, help="Exit with 1 where anything got worse beyond noise.")
@click.option("-q", "--quiet", is_flag=True, help="Print the verdict only.")
@click.option("-v", "--verbose", is_flag=True, help="Print all findings and all that did not change, too.")
@click.pass_context
def compare(
    context: click.Context, /, paths: tuple[str, ...], window: tuple[str, ...], fail_on_regression: bool, **given: Any
) -> int:
    """Say whether a fix worked: what got better or worse beyond noise, and what else changed.

    BEFORE and AFTER are each a report (HTML or JSON), a store that --save wrote, or logs: a file, a folder or a glob.
    With --window A..B --window C..D they are two stretches of one PATH; A and B are instants, or times before the end
    of the log such as 2h, and one of them may be left out.
    """
    from llmdoctor import cli

    typed = [name for name in given if context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT]
    # Outputs of llmdoctor.toml are where the reports of single analyses go.
    saved = replace(settings.load(Path.cwd()), output=None, json=None, md=None, jira=None, save=None, baseline=None)
    chosen = settings.merged(saved, given, typed)
    cli.check(chosen)
    found = _compared(_sides(paths, window), chosen, _command(paths, window, chosen))
    _put_out(found, chosen)
    return 1 if fail_on_regression and found.regressed else 0


def _sides(paths: Sequence[str], windows: Sequence[str]) -> list[tuple[str, str | None, str | None]]:
    """(path, since, until) of both sides."""
    if len(windows) == 2 and len(paths) == 1:
        if paths[0] == "-":
            raise UsageError("--window: standard input can be read once only: write it to a file first")
        return [(paths[0], *_window(text)) for text in windows]
    if windows:
        raise UsageError("--window: give it twice, with one PATH, as in --window ..2026-08-01T12:00Z --window 2h..")
    if len(paths) != 2:
        raise UsageError(f"compare takes BEFORE and AFTER, not {len(paths)} paths; put several logs into one folder")
    if paths[0] == paths[1] == "-":
        raise UsageError("-: only one side can come from standard input")
    for path in paths:
        if path != "-" and not Path(path).exists() and not glob(path, recursive=True):
            raise InputError(f"{path}: no such file or folder; check the path (globs and folders are allowed)")
    return [(path, None, None) for path in paths]


def _window(text: str) -> tuple[str | None, str | None]:
    first, dots, last = text.partition("..")
    if not dots or not (first.strip() or last.strip()):
        raise UsageError(f"--window {text}: write it as FROM..TO, as in 2026-08-01T12:00Z..2026-08-01T13:00Z or 3h..1h")
    return first.strip() or None, last.strip() or None


def _compared(
    sides: Sequence[tuple[str, str | None, str | None]], chosen: settings.Settings, command: str
) -> "Comparison":
    from llmdoctor.compare import compare as compare_sides

    with files.Progress(not chosen.quiet) as progress:
        before, after = (
            side(path, replace(chosen, since=since, until=until), progress) for path, since, until in sides
        )
    return compare_sides(before, after, command)


def side(path: str, chosen: settings.Settings, progress: files.Progress) -> "Side":
    """One side of a comparison: what a report carries, or what an analysis of anything else concludes."""
    from llmdoctor.compare import side as from_plain

    plain = _report(path)
    if plain is not None:
        return from_plain(path, "report", plain)
    from llmdoctor import cli
    from llmdoctor.diagnose.values import as_dict

    found = cli.diagnosed([path], replace(chosen, save=None), progress)
    bounds = f" {chosen.since or ''}..{chosen.until or ''}" if chosen.since or chosen.until else ""
    return from_plain(path + bounds, "store" if files.is_database(path) else "logs", as_dict(found))


def baseline(chosen: settings.Settings, progress: files.Progress) -> "Side | None":
    """The side that `--baseline` names, all of it, whatever the analysis leaves out by time."""
    if chosen.baseline is None:
        return None
    if chosen.baseline == "-":
        raise UsageError("--baseline -: name a file: standard input is for the logs")
    return side(chosen.baseline, replace(chosen, since=None, until=None, baseline=None), progress)


def against(before: "Side", diagnosis: "Diagnosis") -> "Diagnosis":
    """The diagnosis with what a comparison with an earlier state says, in short."""
    from llmdoctor.compare import compare as compare_sides
    from llmdoctor.compare import side as from_plain
    from llmdoctor.diagnose.values import as_dict
    from llmdoctor.report import compare_view

    found = compare_sides(before, from_plain("", "logs", as_dict(diagnosis)), diagnosis.command)
    return replace(diagnosis, baseline=compare_view.short(found))


def _report(path: str) -> dict[str, Any] | None:
    """What a report of ours carries; None for anything else. InputError where a report is damaged."""
    place = Path(path)
    if path == "-" or not place.is_file():
        return None
    with place.open("rb") as file:
        head = file.read(4096)
    html = head.lower().startswith(b"<!doctype html>") and b"llmdoctor" in head
    return embed.read(path) if html or b'"llmdoctor.report/' in head else None


def _command(paths: Sequence[str], windows: Sequence[str], chosen: settings.Settings) -> str:
    """The command line that concludes the same, wherever its outputs went."""
    from llmdoctor import cli

    words = ["llmdoctor", "compare", *paths, *(word for text in windows for word in ("--window", text))]
    return shlex.join([*words, *cli.options(chosen)])


def _put_out(found: "Comparison", chosen: settings.Settings) -> None:
    from llmdoctor.report import compare_text

    outputs = {"html": chosen.output, "json": chosen.json, "md": chosen.md}
    put_out(outputs, partial(_rendered, found), partial(compare_text.render, found), chosen)


def _rendered(found: "Comparison", kind: str) -> str:
    if kind == "html":
        from llmdoctor.report import compare_html

        return compare_html.render(found)
    if kind == "json":
        from llmdoctor.compare import to_json

        return to_json(found)
    from llmdoctor.report import compare_markdown

    return compare_markdown.render(found)
