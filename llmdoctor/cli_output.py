"""What commands print and write: files and the summary that names them, lines, tables, results of tests."""

import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from llmdoctor import settings
from llmdoctor.errors import InputError, UsageError
from llmdoctor.report import columns, figures, files


def put_out(
    outputs: Mapping[str, str | None],
    rendered: Callable[[str], str],
    summary: Callable[..., str],
    chosen: settings.Settings,
    progress: files.Progress | None = None,
) -> None:
    """Files first, the summary last, so that it can name them. `outputs`: kind -> where it goes, None where it is not
    wanted, "-" for standard output; `rendered` gives the text of a kind, `summary` that of the screen for `colour`,
    `encoding`, `quiet`, `verbose` and the `paths` written. It goes to standard error where standard output is taken."""
    progress = progress or files.Progress(False)
    wanted = [(path, kind) for kind, path in outputs.items() if path]
    for path, kind in sorted(wanted, key=lambda one: one[0] == "-"):
        progress.doing(f"writing {path}")
        if path == "-":
            progress.rest()
            files.say(rendered(kind), sys.stdout)
        else:
            files.write(path, rendered(kind))
            progress.wrote(path)
    progress.rest()
    stream = sys.stderr if "-" in outputs.values() else sys.stdout
    text = summary(
        colour=files.coloured(stream),
        encoding=stream.encoding or "ascii",
        quiet=chosen.quiet,
        verbose=chosen.verbose,
        paths=() if chosen.quiet else [path for path, _ in wanted if path != "-"],
    )
    files.say(text, stream)


def put(text: str) -> None:
    """One line or more on standard output."""
    files.say(figures.clean(text) + "\n", sys.stdout)


def put_page(path: Path) -> None:
    """The text of a file; InputError where it cannot be read."""
    try:
        put(path.read_text(encoding="utf-8").rstrip())
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from error


def put_new(path: Path, text: str, option: str) -> None:
    """Writes a new page, and its folder where there is none; UsageError where that cannot be made."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{path.parent}: cannot be made ({error.strerror}): choose another {option} DIR") from error
    files.write(str(path), text)


def put_table(rows: Sequence[Sequence[str]]) -> None:
    """Aligned columns; cut to the width of a terminal, whole in a pipe."""
    wide = shutil.get_terminal_size().columns if sys.stdout.isatty() else 10_000
    for row in columns.table([[figures.line(cell) for cell in row] for row in rows], "<<<", wide, ((2, 10),)):
        put(row)


def put_results(results: Iterable[tuple[str, bool, str]]) -> int:
    """Prints what failed and how many held; 1 where any failed."""
    held = failed = 0
    for name, ok, text in results:
        held, failed = held + ok, failed + (not ok)
        if not ok:
            put(f"FAILED {name}: {text}")
    put(f"{held} held, {failed} failed")
    return 1 if failed else 0
