"""What llmdoctor itself wrote: reports, which are passed over, and stores, which are taken over."""

import os
from collections.abc import Sequence
from pathlib import Path

from llmdoctor.errors import UsageError
from llmdoctor.ingest.find import Source


def is_store(head: bytes) -> bool:
    """Told by the first bytes of a file: a DuckDB file, whoever wrote it."""
    return head[8:12] == b"DUCK"


def apart(sources: Sequence[Source]) -> tuple[list[Source], list[Source], list[str]]:
    """Logs, stores, and a sentence for each report that llmdoctor itself wrote into the folder before."""
    logs: list[Source] = []
    stores: list[Source] = []
    said = []
    for source in sources:
        head = _head(source)
        if b'"llmdoctor.report/' in head or (head.lower().startswith(b"<!doctype html>") and b"llmdoctor" in head):
            said.append(f"{source.shown} is a report of llmdoctor and was not read.")
        else:
            (stores if is_store(head) else logs).append(source)
    return logs, stores, said


def _head(source: Source) -> bytes:
    if source.problem:
        return b""
    try:
        with source.path.open("rb") as file:
            return file.read(4096)
    except OSError:
        return b""


def spare(save: Path | None, logs: Sequence[Source], stores: Sequence[Source]) -> None:
    """UsageError where --save would put an end to a log, or to a store that is not taken over."""
    if save is None or not save.exists():
        return
    if any(os.path.samefile(save, source.path) for source in logs if not source.problem):
        raise UsageError(f"{save}: is one of the logs that were read: write elsewhere")
    _require_store(save)
    if save.stat().st_size and not any(os.path.samefile(save, source.path) for source in stores):
        raise UsageError(f"{save}: is there already: name it as a PATH too, to add to it, or remove it first")


def _require_store(path: Path) -> None:
    """UsageError where `path` is a file that is no store: a log is never replaced."""
    if path.is_file() and path.stat().st_size:
        with path.open("rb") as file:
            if not is_store(file.read(16)):
                raise UsageError(f"{path}: is there and is no store of llmdoctor: write elsewhere")
