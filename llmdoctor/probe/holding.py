"""How a proxy may hold a stream back or cut it: blocks of bytes in, blocks of bytes out, each when it leaves."""

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Literal

Pieces = SimpleQueue[bytes | Exception]
"""What comes in, as it comes: bytes, at last b"" for a proper end or the error that ended it."""

_TICK_S = 0.02
_UNITS = {"ms": 1, "s": 1000}
_AMOUNT = re.compile(r"(?:(deadline|idle)=)?([1-9]\d*)(ms|s|k/s|b/s|k|b|)", re.IGNORECASE)
_WORDS: dict[str, Literal["whole", "none", "behind"]] = {"whole": "whole", "none": "none", "behind": "behind"}


@dataclass(frozen=True)
class Hold:
    """What is done to the answer. Held back: the `whole` of it, blocks of `amount` bytes, all of each `amount`
    milliseconds (`period`), all but `amount` bytes a second (`rate`), or each piece until the next comes (`behind`).
    Cut: after `amount` milliseconds, by a `deadline` since the request or when that long nothing came (`idle`). `none`
    of it lets everything pass at once."""

    kind: Literal["whole", "bytes", "period", "rate", "behind", "deadline", "idle", "none"] = "whole"
    amount: int = 0

    @classmethod
    def parse(cls, text: str) -> "Hold":
        """`whole`, `none`, `behind`, `16384`, `16k`, `250ms`, `2s`, `4k/s`, `deadline=5s` or `idle=500ms`. ValueError
        for anything else."""
        word = text.strip().lower()
        if word in _WORDS:
            return cls(_WORDS[word])
        match = _AMOUNT.fullmatch(word)
        if match is not None:
            timer, amount, unit = match[1], int(match[2]), match[3]
            if unit in _UNITS:
                kinds: dict[str | None, Literal["deadline", "idle"]] = {"deadline": "deadline", "idle": "idle"}
                return cls(kinds.get(timer, "period"), amount * _UNITS[unit])
            if timer is None:
                return cls("rate" if unit.endswith("/s") else "bytes", amount * (1024 if unit.startswith("k") else 1))
        raise ValueError(
            f"{text!r} is none of whole, none, behind, a size (16384, 16k), a time (250ms, 2s), a rate (4k/s) "
            "and a cut (deadline=5s, idle=500ms)"
        )

    @property
    def late_headers(self) -> bool:
        """Whether the headers wait for the first block, as they do in proxies that buffer."""
        return self.kind in ("bytes", "period")


def held(pieces: Pieces, hold: Hold, since: float) -> Iterator[bytes]:
    """The blocks that leave. `since` is when the request came (time.monotonic). OSError where the stream broke off, or
    was cut."""
    ways: dict[str, Callable[[], Iterator[bytes]]] = {
        "bytes": lambda: _blocks(pieces, hold.amount),
        "period": lambda: _ticking(pieces, hold.amount / 1e3),
        "rate": lambda: _shaped(pieces, hold.amount),
        "behind": lambda: _behind(pieces),
        "deadline": lambda: _cut(pieces, lambda: since + hold.amount / 1e3),
        "idle": lambda: _cut(pieces, lambda: time.monotonic() + hold.amount / 1e3),
    }
    return ways.get(hold.kind, lambda: _cut(pieces, lambda: None))()


def _next(pieces: Pieces, timeout_s: float | None = None) -> bytes:
    """The next piece, b"" at the end. Empty where none comes in time, OSError where the stream broke off."""
    piece = pieces.get(timeout=None if timeout_s is None else max(0.0, timeout_s))
    if isinstance(piece, Exception):
        raise OSError("the stream broke off") from piece
    return piece


def _cut(pieces: Pieces, until: Callable[[], float | None]) -> Iterator[bytes]:
    """Everything at once, until the moment that is asked for before each piece."""
    while True:
        end = until()
        try:
            piece = _next(pieces, None if end is None else end - time.monotonic())
        except Empty:
            raise OSError("cut by a timer") from None
        if not piece:
            return
        yield piece


def _behind(pieces: Pieces) -> Iterator[bytes]:
    kept = b""
    while piece := _next(pieces):
        if kept:
            yield kept
        kept = piece
    yield kept


def _blocks(pieces: Pieces, size: int) -> Iterator[bytes]:
    kept = b""
    while piece := _next(pieces):
        kept += piece
        while len(kept) >= size:
            yield kept[:size]
            kept = kept[size:]
    yield kept


def _ticking(pieces: Pieces, period_s: float) -> Iterator[bytes]:
    kept, next_s = b"", time.monotonic() + period_s
    while True:
        try:
            piece = _next(pieces, next_s - time.monotonic())
        except Empty:
            next_s += period_s
            yield kept
            kept = b""
            continue
        kept += piece
        if not piece:
            yield kept
            return


def _shaped(pieces: Pieces, bytes_s: int) -> Iterator[bytes]:
    """At most so many bytes a second, in small steps; what time passed without bytes to send is not made up for."""
    kept, ended, may = b"", False, 0.0
    while kept or not ended:
        time.sleep(_TICK_S)
        while not pieces.empty() and not ended:
            piece = _next(pieces)
            kept, ended = kept + piece, not piece
        may = min(may + bytes_s * _TICK_S, len(kept))
        if may >= 1:
            yield kept[: int(may)]
            kept, may = kept[int(may) :], may - int(may)
