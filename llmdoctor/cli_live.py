"""What is seen on a terminal while a probe runs: which request is under way, and how the answers arrive, hop by hop."""

import shutil
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

from llmdoctor.diagnose.values import Arrival
from llmdoctor.report import arrivals, figures, files

_EVERY_S = 0.1
_LEAST_MS = 1000.0
"""The axis is never shorter, so that a quick first answer does not jump."""


@dataclass
class _Answer:
    """The newest answer of one hop."""

    variant: str
    number: int
    begun_s: float
    times: list[float] = field(default_factory=list)


class Live:
    """Drawn ten times a second on standard error for as long as a `with` block, and then taken away without a trace.
    `on` is false where nobody looks: then not a byte is written."""

    def __init__(self, hops: Sequence[str], wanted: int, on: bool) -> None:
        self._hops, self._wanted, self._on = hops, wanted, on
        self.done = 0
        self._answers: dict[str, _Answer] = {}
        self._current = ""
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._drawn = 0
        self._thread = threading.Thread(target=self._run, daemon=True, name="display")

    def __enter__(self) -> Self:
        if self._on:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._on:
            self._stop.set()
            self._thread.join()
            files.say(self._back() + "\x1b[J", sys.stderr)

    def seen(self, hop: str, variant: str, number: int, at_ms: float | None) -> None:
        """A request was sent (no time), or a chunk of its answer arrived."""
        with self._lock:
            answer = self._answers.get(hop)
            if answer is None or (answer.variant, answer.number) != (variant, number):
                answer = self._answers[hop] = _Answer(variant, number, time.monotonic())
            self._current = hop
            if at_ms is not None:
                answer.times.append(at_ms)

    def _run(self) -> None:
        while not self._stop.wait(_EVERY_S):
            lines = self._lines(*shutil.get_terminal_size())
            text = "\n".join(f"{line}\x1b[K" for line in lines)
            files.say(f"{self._back()}{text}\x1b[J", sys.stderr)
            self._drawn = len(lines)

    def _back(self) -> str:
        """To the beginning of what was drawn last."""
        return "\r" + (f"\x1b[{self._drawn - 1}A" if self._drawn > 1 else "")

    def _lines(self, columns: int, rows: int) -> list[str]:
        with self._lock:
            shown = {hop: (one, list(one.times)) for hop, one in self._answers.items()}
            hop, done = self._current, self.done
        if hop not in shown:
            return [figures.cut("llmdoctor: self-check and a first request to each hop", columns - 1)]
        current, times = shown[hop]
        elapsed_ms = (time.monotonic() - current.begun_s) * 1000
        told = f"{len(times)} chunks" if times else "no token yet"
        number = min(done + 1, self._wanted)
        first = f"llmdoctor: request {number} of {self._wanted}: {figures.line(hop)}, {current.variant}, {told}, "
        lines = [figures.cut(f"{first}{elapsed_ms / 1000:.1f} s", columns - 1)]
        wide = max(len(figures.cut(figures.line(name), 16)) for name in self._hops)
        if columns < wide + 44 or rows < len(self._hops) + 2:
            return lines
        ends = {name: max(until, default=0.0) for name, (_, until) in shown.items()} | {hop: elapsed_ms}
        longest = max(_LEAST_MS, *ends.values())
        for name in self._hops:
            row = _row(name, shown[name][1] if name in shown else [], ends.get(name, 0.0))
            lines.append(f"  {figures.cut(figures.line(name), 16):<{wide}} {arrivals.line(row, longest)}")
        return lines


def _row(hop: str, times: Sequence[float], end_ms: float) -> Arrival:
    return Arrival(hop, "", None, {"total_ms": end_ms}, len(times), tuple((at, 1) for at in times), {})
