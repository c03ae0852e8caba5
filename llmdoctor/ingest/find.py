"""Paths as the user gave them -> the files to read, in a stable order, and what was passed over and why."""

import glob
import os
import re
import shutil
import stat
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from llmdoctor.errors import InputError


@dataclass(frozen=True)
class Source:
    """One file to read. `shown` is the path as the user gave it, `path` where its bytes lie, `problem` says in words
    why it cannot be read (then nothing else about it is known)."""

    input_id: int
    shown: str
    path: Path
    size: int
    mtime_ns: int
    problem: str | None = None


@dataclass(frozen=True)
class Found:
    """All files of one run, sorted by the path shown, and one sentence for each thing that was passed over."""

    sources: tuple[Source, ...]
    notes: tuple[str, ...]


def find(paths: Sequence[str], spool: Path, stdin: BinaryIO | None = None) -> Found:
    """Files behind `paths`: files, globs, folders (recursively, hidden entries passed over) and `-` for `stdin`,
    which is copied into the folder `spool`. InputError where a path does not exist."""
    shown: dict[str, Path] = {}
    notes: list[str] = []
    for path in paths:
        if path == "-":
            shown["-"] = _spooled(spool, stdin)
        else:
            for name in _expanded(path, notes):
                shown.setdefault(name, Path(name))
    first_seen: dict[tuple[int, int], str] = {}
    sources: list[Source] = []
    for name in in_order(shown):
        source = _source(len(sources) + 1, name, shown[name])
        if source.problem is None:
            status = shown[name].stat()
            twin = first_seen.setdefault((status.st_dev, status.st_ino), name)
            if twin != name:
                notes.append(f"{name} is the same file as {twin} and was read once.")
                continue
        sources.append(source)
    return Found(tuple(sources), tuple(notes))


_ROTATED = re.compile(r"(.+?)(?:\.(\d{1,4})|[.-](\d{8}(?:[-T]?\d{2,6})?))(?:\.(?:gz|zst|bz2|xz|lz4))?")


def in_order(names: Collection[str]) -> list[str]:
    """Paths sorted, a rotated log from its oldest part (`app.log.3.gz`, `app.log-20260105`) to the newest."""

    def key(name: str) -> tuple[str, int, int, str]:
        match = _ROTATED.fullmatch(name)
        if match is None or match[1] not in names:
            return (name, 1, 0, name)
        return (match[1], 0, -int(match[2]) if match[2] else 0, name)

    return sorted(names, key=key)


def _spooled(spool: Path, stdin: BinaryIO | None) -> Path:
    if stdin is None:
        raise InputError("-: no standard input is connected; name a file or pipe a log into the command")
    copy = spool / "stdin"
    with copy.open("wb") as out:
        shutil.copyfileobj(stdin, out, 1 << 20)
    return copy


def _expanded(path: str, notes: list[str]) -> Iterator[str]:
    found = sorted(glob.glob(path, recursive=True)) if glob.has_magic(path) else []
    names = [path] if os.path.lexists(path) else found
    if not names:
        raise InputError(f"{path}: no such file or folder; check the path (globs and folders are allowed)")
    for name in names:
        if os.path.isdir(name):
            yield from _inside(name, notes)
        else:
            yield name


def _inside(folder: str, notes: list[str]) -> Iterator[str]:
    hidden = links = 0

    def unreadable(error: OSError) -> None:
        notes.append(f"{error.filename}: folder cannot be read ({error.strerror}).")

    for top, folders, files in os.walk(folder, onerror=unreadable):
        hidden += sum(name.startswith(".") for name in (*folders, *files))
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        links += sum(os.path.islink(os.path.join(top, name)) for name in folders)
        for name in sorted(files):
            if not name.startswith("."):
                yield os.path.join(top, name)
    if hidden:
        notes.append(f"{folder}: {hidden} hidden {'entry was' if hidden == 1 else 'entries were'} passed over.")
    if links:
        what = "link to a folder was" if links == 1 else "links to folders were"
        notes.append(f"{folder}: {links} {what} not followed; name the folder itself to read it.")


def _source(input_id: int, name: str, path: Path) -> Source:
    shown = name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    try:
        status = path.stat()
    except OSError as error:
        return Source(input_id, shown, path, 0, 0, f"cannot be read ({error.strerror})")
    problem = _kind(status.st_mode)
    if problem is None:
        try:
            with path.open("rb") as file:
                file.read(1)
        except OSError as error:
            problem = f"cannot be read ({error.strerror})"
    return Source(input_id, shown, path, status.st_size, status.st_mtime_ns, problem)


def _kind(mode: int) -> str | None:
    """Why something that is no plain file is not opened: a FIFO or a device would block for ever."""
    if stat.S_ISREG(mode):
        return None
    for test, name in ((stat.S_ISFIFO, "a named pipe"), (stat.S_ISSOCK, "a socket"), (stat.S_ISDIR, "a folder")):
        if test(mode):
            return f"{name}, not a file"
    return "a device, not a file"
