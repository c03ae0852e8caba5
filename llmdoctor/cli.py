"""The commands: options in, exit code out. Only this module prints and exits.

Exit codes: 0 ran; 1 `--fail-on` was reached, or a test of a page failed; 2 usage; 3 the input cannot be used;
130 interrupted.
"""
# ruff: noqa: PLC0415  `llmdoctor --help` must not wait for DuckDB, polars or Jinja: they are imported where they are used.

import gc
import os
import re
import shlex
import signal
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from llmdoctor import (
    __version__,
    cli_compare,
    cli_explain,
    cli_formats,
    cli_output,
    cli_pages,
    cli_probe,
    cli_show,
    settings,
)
from llmdoctor.errors import InterruptError, LlmdoctorError, UsageError
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
    llmdoctor probe https://llm.example.com/v1/chat/completions --direct 10.0.0.5:8000
    llmdoctor compare before/ after/         did the fix work?
    """


@llmdoctor.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--format", metavar="NAME", help="Format of all files; else each is recognised.")
@click.option("--map", multiple=True, metavar="FIELD=PATH[:UNIT]", help="Where a home-made log keeps a field.")
@click.option(
    "--formats", multiple=True, metavar="DIR", help="Further format pages; the same name replaces one of ours."
)
@click.option("--tz", metavar="ZONE", help="Time zone of instants that name none (default UTC).")
@click.option("--since", metavar="T", help="Only requests from this instant on; 1h: the last hour of the log.")
@click.option("--until", metavar="T", help="Only requests before this instant; 30m: without the last 30 minutes.")
@click.option("--where", metavar="SQL", help="Only attempts for which this condition holds.")
@click.option("--profile", metavar="NAME", help="Absolute limits: chat (default), interactive, agent, batch.")
@click.option("--set", multiple=True, metavar="RULE.LIMIT=V", help="Change one limit.")
@click.option("--ignore", multiple=True, metavar="ID", help="Leave a rule out; it is listed as suppressed.")
@click.option("--only", multiple=True, metavar="ID", help="Judge this rule only.")
@click.option("--rules", multiple=True, metavar="DIR", help="Further rules; the same id replaces one of ours.")
@click.option("-o", "--output", metavar="FILE", help="Write the HTML report.")
@click.option("--json", metavar="FILE", help="Write the diagnosis as JSON.")
@click.option("--md", metavar="FILE", help="Write the text for a ticket (Markdown).")
@click.option("--jira", metavar="FILE", help="Write the text for a ticket (Jira).")
@click.option("--save", metavar="FILE", help="Keep what was read: a store, to be named as a PATH later.")
@click.option("--baseline", metavar="REPORT|LOGS", help="Say what changed since an earlier report, store or log.")
@click.option("--memory", metavar="SIZE", help="Memory for the database, as in 2GB.")
@click.option("--hash-ids", is_flag=True, help="Replace ids, tenants, callers and hosts by hashes.")
@click.option("--fail-on", type=_LEVELS, help="Exit with 1 where a finding is at least this bad.")
@click.option("-q", "--quiet", is_flag=True, help="Print the verdict only.")
@click.option("-v", "--verbose", is_flag=True, help="Print all evidence and how every rule ended.")
@click.pass_context
def analyze(context: click.Context, /, paths: tuple[str, ...], **given: Any) -> int:
    """Say what is wrong in logs, why, and what to change.

    PATH is a file, a folder or a glob, plain or compressed; - is standard input. FILE may be - for standard output.
    A store that --save wrote is a PATH as well: what it knows is not read again. T is an instant, or a time before the
    end of the log such as 1d, 2h30m or 90s.
    Settings may also stand in llmdoctor.toml, looked for upwards from here.
    """
    typed = [name for name in given if context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT]
    chosen = settings.merged(settings.load(Path.cwd()), given, typed)
    check(chosen)
    with files.Progress(not chosen.quiet, lambda: _CTRL_C.at is not None) as progress:
        baseline = cli_compare.baseline(chosen, progress)
        diagnosis = diagnosed(sorted(set(paths)), chosen, progress)
        if baseline:
            diagnosis = cli_compare.against(baseline, diagnosis)
        put_out(diagnosis, chosen, progress)
    return ending(diagnosis, chosen)


def ending(diagnosis: "Diagnosis", chosen: settings.Settings) -> int:
    """The exit code: 1 where a finding is at least as bad as `--fail-on`."""
    worst = diagnosis.worst()
    reached = chosen.fail_on and worst and settings.LEVELS.index(worst) >= settings.LEVELS.index(chosen.fail_on)
    return 1 if reached else 0


def check(chosen: settings.Settings) -> None:
    """Whatever can be seen to be wrong before the work begins."""
    if chosen.memory and not re.fullmatch(r"\d+(\.\d+)?\s*[KMGT]i?B", chosen.memory, re.IGNORECASE):
        raise UsageError(f"--memory {chosen.memory}: write a number and a unit, as in 2GB")
    outputs = [path for path in (*_outputs(chosen).values(), chosen.save) if path]
    if chosen.save == "-":
        raise UsageError("--save -: name a file")
    if chosen.quiet and chosen.verbose:
        raise UsageError("--quiet and --verbose: choose one")
    if outputs.count("-") > 1:
        raise UsageError("-: only one output can go to standard output; name files for the others")
    real = [os.path.realpath(path) for path in outputs if path != "-"]
    if len(set(real)) < len(real):
        raise UsageError("--output, --json, --md, --jira, --save: two of them name the same file")
    for path in outputs:
        if path != "-":
            files.check(path)
            if path != chosen.save and files.is_database(path):
                raise UsageError(f"{path}: is a database: write the report elsewhere")


def diagnosed(paths: Sequence[str], chosen: settings.Settings, progress: files.Progress) -> "Diagnosis":
    """Reads and diagnoses; what the user need not see is hidden in the result."""
    from llmdoctor.diagnose import Options, diagnose
    from llmdoctor.ingest import Meter, ReadOptions, read, resolved
    from llmdoctor.report.privacy import hidden
    from llmdoctor.rulebook import load
    from llmdoctor.store import Store

    # polars has put a handler before Python's that restarts reads: Ctrl-C would wait for the next line of a pipe.
    signal.siginterrupt(signal.SIGINT, True)
    rulebook = load([Path(folder) for folder in chosen.rules], dict(chosen.set), chosen.profile)
    for rule in (*chosen.only, *chosen.ignore):
        rulebook.check_id(rule)
    folders = tuple(Path(folder) for folder in chosen.formats)
    save = Path(chosen.save) if chosen.save else None
    how = ReadOptions(chosen.format, chosen.tz, chosen.since, chosen.until, chosen.where, chosen.map, folders, save)
    meter = Meter(progress.wrote)
    progress.doing(meter.text, meter.reached)
    with Store(memory=chosen.memory) as store:
        store.create()
        notes = read(store, paths, how, sys.stdin.buffer, meter)
        progress.doing("diagnosing")
        shown = {**chosen.shown(), **resolved(store)}
        options = Options(_command(paths, chosen), tuple(notes), shown, chosen.ignore, chosen.only, chosen.verbose)
        found = diagnose(store, rulebook, options)
    files.spare([file.path for file in found.inputs if file.rows], list(_outputs(chosen).values()))
    return hidden(found, chosen.hash_ids)


def _command(paths: Sequence[str], chosen: settings.Settings) -> str:
    """The command line that concludes the same, wherever its outputs went."""
    return shlex.join(["llmdoctor", "analyze", *paths, *options(chosen)])


def options(chosen: settings.Settings) -> list[str]:
    """The options that bear on what is concluded, where they are not the defaults."""
    words = []
    for name in ("format", "tz", "since", "until", "where", "profile", "baseline"):
        if getattr(chosen, name) != getattr(settings.Settings(), name):
            words += [f"--{name}", getattr(chosen, name)]
    for name in ("ignore", "only", "rules", "formats"):
        words += [word for value in getattr(chosen, name) for word in (f"--{name}", value)]
    words += [word for field, place in chosen.map.items() for word in ("--map", f"{field}={place}")]
    words += [word for limit, value in chosen.set.items() for word in ("--set", f"{limit}={value:g}")]
    return words + ["--hash-ids"] * chosen.hash_ids


def put_out(diagnosis: "Diagnosis", chosen: settings.Settings, progress: files.Progress | None = None) -> None:
    """Files first, the summary last, so that it can name them."""
    from llmdoctor.report import text

    rendered = partial(_rendered, diagnosis)
    cli_output.put_out(_outputs(chosen), rendered, partial(text.render, diagnosis), chosen, progress)


def _outputs(chosen: settings.Settings) -> dict[str, str | None]:
    """Where each of the kinds goes, None where it is not wanted."""
    return {"html": chosen.output, "json": chosen.json, "md": chosen.md, "jira": chosen.jira}


def _rendered(diagnosis: "Diagnosis", kind: str) -> str:
    if kind == "html":
        from llmdoctor.report import html

        return html.render(diagnosis)
    if kind == "json":
        from llmdoctor.diagnose.values import to_json

        return to_json(diagnosis)
    from llmdoctor.report import jira, markdown

    return jira.render(diagnosis) if kind == "jira" else markdown.render(diagnosis)


llmdoctor.add_command(cli_pages.rules)
llmdoctor.add_command(cli_formats.formats)
llmdoctor.add_command(cli_show.show)
llmdoctor.add_command(cli_compare.compare)
llmdoctor.add_command(cli_explain.explain)
llmdoctor.add_command(cli_explain.man)
llmdoctor.add_command(cli_probe.probe)
llmdoctor.add_command(cli_probe.canary)


class _CtrlC:
    """The first Ctrl-C ends the work; more of them in the next seconds would only cut the cleaning up short."""

    def __init__(self) -> None:
        self.at: float | None = None

    def __call__(self, _number: int, _frame: object) -> None:
        now = time.monotonic()
        if self.at is None or now - self.at > 3:
            self.at = now
            raise KeyboardInterrupt


_CTRL_C = _CtrlC()


def main() -> NoReturn:
    """The console script."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _CTRL_C)
    gc.set_threshold(100_000)  # what a run reads it keeps to its end: looking for garbage took a tenth of the time
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """One command line; returns the exit code. Whatever goes wrong is one line on standard error."""
    code: object
    if "_LLMDOCTOR_COMPLETE" in os.environ:
        from llmdoctor import cli_completion

        cli_completion.prepare(llmdoctor)
    try:
        code = llmdoctor.main(args=list(arguments), prog_name="llmdoctor", standalone_mode=False)
    except BaseException as error:
        if os.environ.get("LLMDOCTOR_TRACEBACK") and not isinstance(error, _EXPECTED):
            raise
        code = _failed(error)
    return code if isinstance(code, int) else 0


_EXPECTED = (click.ClickException, click.Abort, LlmdoctorError, KeyboardInterrupt, SystemExit)


def _failed(error: BaseException) -> int:
    if isinstance(error, click.Abort | KeyboardInterrupt) or (_CTRL_C.at and not isinstance(error, InterruptError)):
        # Whatever Ctrl-C has broken on its way, it was Ctrl-C.
        return _complain("interrupted", 130)
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        files.say(error.format_message() + "\n", sys.stderr)
        return 2
    if isinstance(error, click.ClickException):
        place = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "llmdoctor"
        return _complain(f"{error.format_message().rstrip('.')}; see '{place} --help'", 2)
    if isinstance(error, LlmdoctorError):
        return _complain(str(error), error.exit_code)
    if isinstance(error, SystemExit):  # how click ends when the reader of a help text went away
        return 0
    name = unquoted(f"{type(error).__name__}: {error}".removesuffix(": "))
    return _complain(f"a fault of llmdoctor itself, {name}; LLMDOCTOR_TRACEBACK=1 shows where: please report it", 3)


def _complain(text: str, code: int) -> int:
    """One line: what, where, what to do next."""
    files.say(f"llmdoctor: {mask(figures.line(text))}\n", sys.stderr)
    return code
