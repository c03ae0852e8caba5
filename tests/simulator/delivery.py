"""From the engine's token instants to what a client reads."""

from __future__ import annotations

import random
from bisect import bisect_right
from dataclasses import dataclass

from tests.simulator.door import Delivery


@dataclass(frozen=True)
class Received:
    """The events with content that a client has: instants (seconds), sizes in bytes, and the socket read of each.

    sizes and reads are empty where nobody gathered anything: every event came in a read of its own.
    """

    times: list[float]
    sizes: list[int]
    reads: list[int]

    def until(self, at: float) -> Received:
        """What had come by then."""
        count = bisect_right(self.times, at)
        return Received(self.times[:count], self.sizes[:count], self.reads[:count])


NOTHING = Received([], [], [])


def receive(tokens: list[float], done: bool, delivery: Delivery, way_s: float, rng: random.Random) -> Received:
    """What a streaming client receives of ``tokens`` (engine instants); ``way_s`` is the way back.

    ``done``: the engine has finished; whatever waits for the end (a full buffer, a fake stream) only arrives then.
    """
    if not tokens:
        return NOTHING
    if delivery.mode == "direct":
        return Received([at + way_s for at in _events(tokens, delivery)], [], [])
    if delivery.mode == "proxy_lumps":
        return _lumps(tokens, done, delivery, way_s, rng)
    if not done:
        return NOTHING
    if delivery.mode == "proxy_full":
        return _full(tokens, delivery, way_s, rng)
    return _fake(tokens, delivery, way_s, rng)


def event_sizes(count: int, mean: int, rng: random.Random) -> list[int]:
    """An OpenAI-style chunk is some 220 to 330 bytes of JSON around one short piece of text."""
    return [round(mean * rng.uniform(0.94, 1.08)) for _ in range(count)]


def _events(tokens: list[float], delivery: Delivery) -> list[float]:
    """Instants at which the server writes an event: one a token, or the first and then every k tokens."""
    k = delivery.tokens_per_event
    if k == 1:
        return tokens
    marks = [tokens[0], *tokens[k::k]]
    return marks if marks[-1] == tokens[-1] else [*marks, tokens[-1]]


def _lumps(tokens: list[float], done: bool, delivery: Delivery, way_s: float, rng: random.Random) -> Received:
    """A proxy buffer of fixed size: handed on when full, and at the end (nginx proxy_buffers: 4k or 8k pages)."""
    events = _events(tokens, delivery)
    sizes = event_sizes(len(events), delivery.event_bytes, rng)
    times, reads = list[float](), list[int]()
    filled, held, read = delivery.event_bytes, 0, 0  # the role event came first
    for at, size in zip(events, sizes, strict=True):
        held += 1
        filled += size
        if filled >= delivery.lump_bytes:
            read += 1
            times.extend([at + way_s] * held)
            reads.extend([read] * held)
            held, filled = 0, filled - delivery.lump_bytes
    if done:
        times.extend([events[-1] + way_s] * held)
        reads.extend([read + 1] * held)
    return Received(times, sizes[: len(times)], reads)


def _full(tokens: list[float], delivery: Delivery, way_s: float, rng: random.Random) -> Received:
    """A proxy that collects the whole body, then sends it: 16 KB a read, a fraction of a millisecond apart."""
    sizes = event_sizes(len(_events(tokens, delivery)), delivery.event_bytes, rng)
    times, reads = list[float](), list[int]()
    sent, at = 0, tokens[-1] + way_s + rng.uniform(0.0005, 0.003)
    for size in sizes:
        if (sent + size) // 16_384 > sent // 16_384:
            at += rng.uniform(0.0001, 0.0008)
        sent += size
        times.append(at)
        reads.append(1 + sent // 16_384)
    return Received(times, sizes, reads)


def _fake(tokens: list[float], delivery: Delivery, way_s: float, rng: random.Random) -> Received:
    """An application that has the whole answer and cuts it into words: at once, or with a pause after each."""
    words = max(1, round(0.75 * len(tokens)))
    at, times = tokens[-1] + way_s + rng.uniform(0.001, 0.006), list[float]()
    for number in range(words):
        if number:
            paced = delivery.mode == "fake_paced"
            at += delivery.pace_ms / 1000 * rng.gauss(1, 0.04) if paced else rng.uniform(0.00003, 0.0002)
        times.append(at)
    return Received(times, event_sizes(words, delivery.event_bytes, rng), list(range(1, words + 1)))
