"""How far a read has come: another thread may ask at any time, and the read pays nothing for it."""

import time
from collections.abc import Callable

from llmdoctor.ingest.unpack import READ
from llmdoctor.store import Store


class Meter:
    """The bytes of the files to be read, and how many of them have been. DuckDB tells how far its query is, Python
    counts what it reads itself; of the two that are at work on a group of files the one that is further counts."""

    def __init__(self, wrote: Callable[[str], object] = str) -> None:
        self.wrote = wrote
        """To be called with the name of a file that is written."""
        self._total = self._done = self._size = self._read = 0
        self._best, self._begun = 0.0, time.monotonic()
        self._store: Store | None = None
        self._now = "looking for files"

    def begin(self, total: int) -> None:
        """So many bytes are going to be read."""
        self._total, self._begun, self._now = total, time.monotonic(), ""

    def group(self, store: Store, size: int) -> None:
        """From here on `store` reads files of so many bytes."""
        self._done += self._size
        self._best, self._read, self._size, self._store = 0.0, READ.bytes, size, store

    def now(self, doing: str) -> None:
        """What is being done after all is read."""
        self._store, self._now = None, doing

    def leave(self) -> None:
        """The store is not asked any more: it may be closed."""
        self._of_group()
        self._store = None

    def share(self) -> float:
        """Read so far, from 0 to 1."""
        return min(1.0, (self._done + self._of_group()) / self._total) if self._total else 0.0

    def _of_group(self) -> float:
        if self._store is not None and self._size:
            queried = self._store.progress() * self._size
            self._best = max(self._best, min(float(self._size), max(queried, float(READ.bytes - self._read))))
        return self._best

    def text(self) -> str:
        """As in `reading 1.1 GB, 43 %, 210 MB/s, 3 s left`."""
        if self._now:
            return self._now
        share, seconds = self.share(), time.monotonic() - self._begun
        told = f"reading {amount(self._total)}, {share:.0%}".replace("%", " %")
        if share <= 0 or seconds <= 0:
            return told
        speed = share * self._total / seconds
        return f"{told}, {amount(speed)}/s, {(1 - share) * self._total / speed:.0f} s left"

    def reached(self) -> str:
        """As in `reading 1.1 GB (43 % done)`."""
        return self._now or f"reading {amount(self._total)} ({self.share():.0%} done)".replace("%", " %")


def amount(size: float) -> str:
    """Bytes with two significant digits, as in 1.1 GB."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 999.5 or unit == "GB":
            break
        size /= 1000
    return f"{size:.1f} {unit}" if size < 9.95 and unit != "B" else f"{size:,.0f} {unit}"
