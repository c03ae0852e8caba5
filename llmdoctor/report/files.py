"""Where a report goes: files that are whole or not there, standard output, and a sign of life on a terminal."""

import os
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TextIO

from llmdoctor.errors import UsageError


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
    handle, name = tempfile.mkstemp(prefix=f".{target.name[:100]}.", dir=target.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        os.chmod(name, mode)
        os.replace(name, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
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


class Progress:
    """One line on a terminal's standard error for what takes more than a second; silent anywhere else."""

    def __init__(self, wanted: bool) -> None:
        self._live = wanted and sys.stderr.isatty()
        self._doing, self._begun, self._done = "", time.monotonic(), threading.Event()
        self._thread = threading.Thread(target=self._tell, daemon=True)

    def doing(self, what: str) -> None:
        """What is being done from now on."""
        self._doing = what

    def __enter__(self) -> "Progress":
        if self._live:
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._done.set()
        if self._live:
            self._thread.join()

    def _tell(self) -> None:
        wrote = False
        while not self._done.wait(1.0 if not wrote else 0.5):
            seconds = time.monotonic() - self._begun
            say(f"\r\x1b[Kllmdoctor: {self._doing}, {seconds:.0f} s", sys.stderr)
            wrote = True
        if wrote:
            say("\r\x1b[K", sys.stderr)
