"""The commands: options in, exit code out. Only this module prints and exits.

Exit codes: 0 ran; 1 `--fail-on` was reached, or a test of a page failed; 2 usage; 3 the input cannot be used;
130 interrupted.
"""
# ruff: noqa: PLC0415  `llmdoctor --help` must not wait for DuckDB, polars or Jinja: they are imported where they are used.

import os
import re
import shlex
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from llmdoctor import __version__, cli_formats, cli_pages, cli_show, settings
from llmdoctor.errors import LlmdoctorError, UsageError
from llmdoctor.redact import mask, unquoted
from llmdoctor.report import figures, files

if TYPE_CHECKING:
    from llmdoctor.diagnose import Diagnosis

_HELP = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
_LEVELS = click.Choice(settings.LEVELS)


@click.group(context_settings=_HELP)
@click.version_option(__version__, prog_name="llmdoctor", message="%(prog)s %(version)s")
def llmdoctor() -> None:
    """Finds which stretch of the way makes an LLM application slow, with evidence, from its logs.

    \b
    llmdoctor analyze logs/                  one screen
    llmdoctor analyze logs/ -o report.html   one file for the ticket
    """


@llmdoctor.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--format", metavar="NAME", help="Format of all files; else each is recognised.")
@click.option("--map", multiple=True, metavar="FIELD=PATH[:UNIT]", help="Where a home-made log keeps a field.")
@click.option(
    "--formats", multiple=True, metavar="DIR", help="Further format pages; the same name replaces one of ours."
)
@click.option("--tz", metavar="ZONE", help="Time zone of instants that name none (default UTC).")
@click.option("--since", metavar="T", help="Only requests that start at this instant or later.")
@click.option("--until", metavar="T", help="Only requests that start before this instant.")
@click.option("--where", metavar="SQL", help="Only attempts for which this condition holds.")
@click.option("--profile", metavar="NAME", help="Absolute limits: chat (default), interactive, agent, batch.")
@click.option("--set", multiple=True, metavar="RULE.LIMIT=V", help="Change one limit.")
@click.option("--ignore", multiple=True, metavar="ID", help="Leave a rule out; it is listed as suppressed.")
@click.option("--only", multiple=True, metavar="ID", help="Judge this rule only.")
@click.option("--rules", multiple=True, metavar="DIR", help="Further rules; the same id replaces one of ours.")
@click.option("-o", "--output", metavar="FILE", help="Write the HTML report.")
@click.option("--json", metavar="FILE", help="Write the diagnosis as JSON.")
@click.option("--md", metavar="FILE", help="Write the text for a ticket (Markdown).")
@click.option("--memory", metavar="SIZE", help="Memory for the database, as in 2GB.")
@click.option("--hash-ids", is_flag=True, help="Replace ids, tenants, callers and hosts by hashes.")
@click.option("--fail-on", type=_LEVELS, help="Exit with 1 where a finding is at least this bad.")
@click.option("-q", "--quiet", is_flag=True, help="Print the verdict only.")
@click.option("-v", "--verbose", is_flag=True, help="Print all evidence and how every rule ended.")
@click.pass_context
def analyze(context: click.Context, /, paths: tuple[str, ...], **given: Any) -> int:
    """Say what is wrong in logs, why, and what to change.

    PATH is a file, a folder or a glob, plain or compressed; - is standard input. FILE may be - for standard output.
    Settings may also stand in llmdoctor.toml, looked for upwards from here.
    """
    typed = [name for name in given if context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT]
    chosen = settings.merged(settings.load(Path.cwd()), given, typed)
    _check(chosen)
    diagnosis = _diagnosis(sorted(set(paths)), chosen)
    _put_out(diagnosis, chosen)
    worst = diagnosis.worst()
    reached = chosen.fail_on and worst and settings.LEVELS.index(worst) >= settings.LEVELS.index(chosen.fail_on)
    return 1 if reached else 0


def _check(chosen: settings.Settings) -> None:
    """Whatever can be seen to be wrong before the work begins."""
    if chosen.memory and not re.fullmatch(r"\d+(\.\d+)?\s*[KMGT]i?B", chosen.memory, re.IGNORECASE):
        raise UsageError(f"--memory {chosen.memory}: write a number and a unit, as in 2GB")
    outputs = [path for path in (chosen.output, chosen.json, chosen.md) if path]
    if chosen.quiet and chosen.verbose:
        raise UsageError("--quiet and --verbose: choose one")
    if outputs.count("-") > 1:
        raise UsageError("-: only one output can go to standard output; name files for the others")
    real = [os.path.realpath(path) for path in outputs if path != "-"]
    if len(set(real)) < len(real):
        raise UsageError("--output, --json, --md: two of them name the same file")
    for path in outputs:
        if path != "-":
            files.check(path)


def _diagnosis(paths: Sequence[str], chosen: settings.Settings) -> "Diagnosis":
    from llmdoctor.diagnose import Options, diagnose
    from llmdoctor.ingest import ReadOptions, read
    from llmdoctor.report.privacy import hidden
    from llmdoctor.rulebook import load
    from llmdoctor.store import Store

    # polars has put a handler before Python's that restarts reads: Ctrl-C would wait for the next line of a pipe.
    signal.siginterrupt(signal.SIGINT, True)
    rulebook = load([Path(folder) for folder in chosen.rules], dict(chosen.set), chosen.profile)
    for rule in (*chosen.only, *chosen.ignore):
        rulebook.check_id(rule)
    folders = tuple(Path(folder) for folder in chosen.formats)
    how = ReadOptions(chosen.format, chosen.tz, chosen.since, chosen.until, chosen.where, chosen.map, folders)
    with files.Progress(not chosen.quiet) as progress, Store(memory=chosen.memory) as store:
        progress.doing(f"reading {len(paths)} path{'s' * (len(paths) != 1)}")
        store.create()
        notes = read(store, paths, how, sys.stdin.buffer)
        progress.doing("diagnosing")
        options = Options(
            _command(paths, chosen), tuple(notes), chosen.shown(), chosen.ignore, chosen.only, chosen.verbose
        )
        found = diagnose(store, rulebook, options)
    _spare_logs([file.path for file in found.inputs if file.rows], chosen)
    return hidden(found, chosen.hash_ids)


def _spare_logs(read: Sequence[str], chosen: settings.Settings) -> None:
    """An output never replaces a log that was read; a former report in the same folder it may."""
    logs = {os.path.realpath(path) for path in read if path != "-"}
    for path in (chosen.output, chosen.json, chosen.md):
        if path and path != "-" and os.path.realpath(path) in logs:
            raise UsageError(f"{path}: is one of the logs that were read: write elsewhere")


def _command(paths: Sequence[str], chosen: settings.Settings) -> str:
    """The command line that concludes the same, wherever its outputs went."""
    words = ["llmdoctor", "analyze", *paths]
    for name in ("format", "tz", "since", "until", "where", "profile"):
        if getattr(chosen, name) != getattr(settings.Settings(), name):
            words += [f"--{name}", getattr(chosen, name)]
    for name in ("ignore", "only", "rules", "formats"):
        words += [word for value in getattr(chosen, name) for word in (f"--{name}", value)]
    words += [word for field, place in chosen.map.items() for word in ("--map", f"{field}={place}")]
    words += [word for limit, value in chosen.set.items() for word in ("--set", f"{limit}={value:g}")]
    return shlex.join(words + ["--hash-ids"] * chosen.hash_ids)


def _put_out(diagnosis: "Diagnosis", chosen: settings.Settings) -> None:
    """Files first, the summary last, so that it can name them."""
    from llmdoctor.report import text

    written = [path for path in (chosen.output, chosen.json, chosen.md) if path and path != "-"]
    for path, kind in ((chosen.output, "html"), (chosen.json, "json"), (chosen.md, "md")):
        if path == "-":
            files.say(_rendered(diagnosis, kind), sys.stdout)
        elif path:
            files.write(path, _rendered(diagnosis, kind))
    stream = sys.stderr if "-" in (chosen.output, chosen.json, chosen.md) else sys.stdout
    summary = text.render(
        diagnosis,
        colour=files.coloured(stream),
        encoding=stream.encoding or "ascii",
        quiet=chosen.quiet,
        verbose=chosen.verbose,
        paths=() if chosen.quiet else written,
    )
    files.say(summary, stream)


def _rendered(diagnosis: "Diagnosis", kind: str) -> str:
    if kind == "html":
        from llmdoctor.report import html

        return html.render(diagnosis)
    if kind == "json":
        from llmdoctor.diagnose.values import to_json

        return to_json(diagnosis)
    from llmdoctor.report import markdown

    return markdown.render(diagnosis)


llmdoctor.add_command(cli_pages.rules)
llmdoctor.add_command(cli_formats.formats)
llmdoctor.add_command(cli_show.show)


def main() -> NoReturn:
    """The console script."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """One command line; returns the exit code. Whatever goes wrong is one line on standard error."""
    code: object
    try:
        code = llmdoctor.main(args=list(arguments), prog_name="llmdoctor", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        files.say(error.format_message() + "\n", sys.stderr)
        code = 2
    except click.ClickException as error:
        place = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "llmdoctor"
        code = _complain(f"{error.format_message().rstrip('.')}; see '{place} --help'", 2)
    except LlmdoctorError as error:
        code = _complain(str(error), error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        code = _complain("interrupted", 130)
    except SystemExit:  # how click ends when the reader of a help text went away
        code = 0
    except Exception as error:
        if os.environ.get("LLMDOCTOR_TRACEBACK"):
            raise
        name = unquoted(f"{type(error).__name__}: {error}".removesuffix(": "))
        code = _complain(f"a fault of llmdoctor itself, {name}; LLMDOCTOR_TRACEBACK=1 shows where: please report it", 3)
    return code if isinstance(code, int) else 0


def _complain(text: str, code: int) -> int:
    """One line: what, where, what to do next."""
    files.say(f"llmdoctor: {mask(figures.line(text))}\n", sys.stderr)
    return code
