"""The command `show`: one request over all vantages on one time axis."""
# ruff: noqa: PLC0415  `llmdoctor --help` must not wait for DuckDB or polars: they are imported where they are used.

import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from llmdoctor import settings
from llmdoctor.cli_output import put_out
from llmdoctor.report import files

if TYPE_CHECKING:
    from llmdoctor.diagnose.request import Request


@click.command()
@click.argument("request_id", metavar="REQUEST_ID")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--format", metavar="NAME", help="Format of all files; else each is recognised.")
@click.option("--map", multiple=True, metavar="FIELD=PATH[:UNIT]", help="Where a home-made log keeps a field.")
@click.option("--formats", multiple=True, metavar="DIR", help="Further format pages.")
@click.option("--tz", metavar="ZONE", help="Time zone of instants that name none (default UTC).")
@click.option("--json", metavar="FILE", help="Write the request as JSON; - is standard output.")
@click.option("--hash-ids", is_flag=True, help="Replace ids and hosts by hashes.")
@click.pass_context
def show(context: click.Context, /, request_id: str, paths: tuple[str, ...], **given: Any) -> None:
    """Print one request over all vantages: its attempts on one time axis, and what does not fit together.

    REQUEST_ID is a request_id, incoming_id, response_id, trace_id or task_id, or the beginning of one that no other
    request has. PATH is a file, a folder or a glob, plain or compressed; - is standard input.
    """
    typed = [name for name in given if context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT]
    saved = replace(settings.load(Path.cwd()), json=None)  # that is where the report goes
    chosen = settings.merged(saved, given, typed)
    if chosen.json and chosen.json != "-":
        files.check(chosen.json)
    _put_out(_request(request_id, sorted(set(paths)), chosen), chosen)


def _request(request_id: str, paths: list[str], chosen: settings.Settings) -> "Request":
    from llmdoctor.diagnose.request import look_up
    from llmdoctor.ingest import ReadOptions, read
    from llmdoctor.store import Store

    # polars has put a handler before Python's that restarts reads: Ctrl-C would wait for the next line of a pipe.
    signal.siginterrupt(signal.SIGINT, True)
    with files.Progress(True) as progress, Store(memory=chosen.memory) as store:
        progress.doing(f"reading {len(paths)} path{'s' * (len(paths) != 1)}")
        store.create()
        folders = tuple(Path(folder) for folder in chosen.formats)
        how = ReadOptions(format=chosen.format, timezone=chosen.tz, maps=chosen.map, formats_dirs=folders)
        read(store, paths, how, sys.stdin.buffer)
        progress.doing("looking for the request")
        found = look_up(store, request_id, chosen.hash_ids)
        files.spare([path for (path,) in store.run("select path from inputs where rows > 0")], [chosen.json])
    return found


def _put_out(request: "Request", chosen: settings.Settings) -> None:
    from llmdoctor.report import request as screen

    def summary(colour: bool, encoding: str, **_: object) -> str:
        return screen.render(request, colour=colour, encoding=encoding)

    put_out({"json": chosen.json}, lambda _: screen.to_json(request), summary, chosen)
