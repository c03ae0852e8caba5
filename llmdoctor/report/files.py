"""Where a report goes: files that are whole or not there, standard output, and a sign of life on a terminal."""

import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from types import TracebackType
from typing import TextIO

from llmdoctor.errors import InterruptError, UsageError


def check(path: str) -> None:
    """UsageError where the file could not be written, before an hour of work is spent on what goes into it."""
    target = Path(path)
    folder = target.parent
    if target.is_dir():
        raise UsageError(f"{path}: is a folder: name a file in it")
    if not folder.is_dir():
        raise UsageError(f"{path}: there is no folder {folder}: make it first, or write elsewhere")
    if not os.access(target if target.exists() else folder, os.W_OK):
        raise UsageError(f"{path}: may not be written: write elsewhere, or change its permissions")


def is_database(path: str) -> bool:
    """Whether a DuckDB file, such as a saved store, stands there."""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(12)[8:] == b"DUCK"


def spare(read: Sequence[str], outputs: Sequence[str | None]) -> None:
    """UsageError where an output is one of the logs that were read; a former report beside them may be replaced."""
    logs = {os.path.realpath(path) for path in read if path != "-"}
    for path in outputs:
        if path and path != "-" and os.path.realpath(path) in logs:
            raise UsageError(f"{path}: is one of the logs that were read: write elsewhere")


def write(path: str, text: str) -> None:
    """Writes a file beside its place and renames it, so that nobody ever sees half of it. A device or a pipe is
    written to directly. UsageError where the system refuses."""
    target = Path(os.path.realpath(path))
    try:
        if target.exists() and not target.is_file():
            target.write_text(text, encoding="utf-8")
        else:
            _replace(target, text)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written ({error.strerror}): write elsewhere") from error


def _replace(target: Path, text: str) -> None:
    mode = target.stat().st_mode & 0o7777 if target.exists() else 0o666 & ~_umask()
    beside = target.parent / f".{target.name[:100]}.{token_hex(6)}"
    try:  # from here on: Ctrl-C may come as soon as the file is there
        with os.fdopen(
            os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8", newline="\n"
        ) as file:
            file.write(text)
        beside.chmod(mode)
        beside.replace(target)
    except BaseException:
        with suppress(OSError):
            beside.unlink()
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def say(text: str, stream: TextIO) -> None:
    """Writes to a standard stream as far as its encoding goes. A reader that went away is no error;
    UsageError where standard output cannot be written."""
    try:
        stream.write(text.encode(stream.encoding or "utf-8", "replace").decode(stream.encoding or "utf-8", "replace"))
        stream.flush()
    except BrokenPipeError:
        _drop(stream)
    except OSError as error:
        _drop(stream)
        if stream is not sys.stderr:
            raise UsageError(f"standard output cannot be written ({error.strerror}): name a file elsewhere") from error


def _drop(stream: TextIO) -> None:
    """Python flushes once more when it ends: gives it something that takes it."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def coloured(stream: TextIO) -> bool:
    """Colour only on a terminal that knows it, and never against NO_COLOR."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _starting() -> str:
    return "starting"


class Progress:
    """What is being done: one line on a terminal's standard error for what takes more than a second, nothing anywhere
    else; and, where the work is interrupted, how far it got and what was written by then (`InterruptError`)."""

    def __init__(self, wanted: bool, pressed: Callable[[], bool] = lambda: False) -> None:
        """`pressed`: whether Ctrl-C came. Libraries turn it into errors of their own."""
        self._live, self._pressed = wanted and sys.stderr.isatty(), pressed
        self._doing: Callable[[], str] = _starting
        self._reached: Callable[[], str] = _starting
        self._last = _starting()
        self._written: list[str] = []
        self._begun, self._done = time.monotonic(), threading.Event()
        self._thread = threading.Thread(target=self._tell, daemon=True)

    def doing(self, what: str | Callable[[], str], reached: Callable[[], str] | None = None) -> None:
        """What is being done from now on: a text, or what tells it at any time; `reached` tells how much of it is
        done."""
        text = what if callable(what) else None
        self._doing = text or (lambda: str(what))
        self._reached = reached or self._doing
        self._last = self._reached()

    def wrote(self, path: str) -> None:
        """A file is written now and stays, whatever happens."""
        self._written.append(path)

    def rest(self) -> None:
        """Ends the line: the terminal is needed for something else."""
        self._done.set()
        if self._thread.is_alive():
            self._thread.join()

    def __enter__(self) -> "Progress":
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.rest()
        if kind is not None and (issubclass(kind, KeyboardInterrupt) or self._pressed()):
            raise InterruptError(self._interrupted()) from error

    def _interrupted(self) -> str:
        written = f"{' and '.join(self._written) or 'nothing'} {'were' if self._written[1:] else 'was'} written"
        return f"interrupted while {self._last}; {written}"

    def _tell(self) -> None:
        shown = False
        while not self._done.wait(0.25):
            self._last = self._reached()
            seconds = time.monotonic() - self._begun
            if self._live and seconds >= 1:
                told = self._doing()
                say(f"\r\x1b[Kllmdoctor: {told if ', ' in told else f'{told}, {seconds:.0f} s'}", sys.stderr)
                shown = True
        if shown:
            say("\r\x1b[K", sys.stderr)
