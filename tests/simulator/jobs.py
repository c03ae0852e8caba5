"""The clock of the simulation and one sequence of an engine."""

from __future__ import annotations

import heapq
from collections.abc import Callable


class Clock:
    """The event queue: (time, order of entry, what to do)."""

    def __init__(self) -> None:
        self.now = 0.0
        self._entries = 0
        self._events: list[tuple[float, int, Callable[[], None]]] = []

    def at(self, time: float, do: Callable[[], None]) -> None:
        self._entries += 1
        heapq.heappush(self._events, (max(time, self.now), self._entries, do))

    def run(self) -> None:
        while self._events:
            self.now, _, do = heapq.heappop(self._events)
            do()


class Job:
    """One sequence in an engine. Times are engine times in seconds, None until they happen."""

    __slots__ = (
        "aborted",
        "answer",
        "cached",
        "done",
        "ends_at_step",
        "finished",
        "first",
        "held",
        "joined",
        "left",
        "on_end",
        "options",
        "preemptions",
        "prefix",
        "prefix_tokens",
        "produced",
        "prompt",
        "scheduled",
        "spans",
        "submitted",
    )

    def __init__(
        self, prompt: int, answer: int, prefix: str, prefix_tokens: int, on_end: Callable[[], None], options: str = ""
    ) -> None:
        self.prompt, self.answer, self.prefix, self.prefix_tokens = prompt, answer, prefix, prefix_tokens
        self.on_end, self.options = on_end, options
        self.submitted = 0.0
        self.scheduled: float | None = None
        self.first: float | None = None
        self.done: float | None = None
        self.cached = self.produced = self.left = self.held = self.preemptions = 0
        self.joined = self.ends_at_step = -1
        self.spans: list[tuple[int, int]] = []
        self.aborted = self.finished = False
