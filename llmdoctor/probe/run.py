"""Carries out a plan: requests go out, traces come back."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from llmdoctor.probe.asking import Listening, Target, call, models, models_url, route
from llmdoctor.probe.client import send
from llmdoctor.probe.exchange import Action, Read
from llmdoctor.probe.lag import Lag, Watch, loop_lag
from llmdoctor.probe.pieces import CONTENT, Placed
from llmdoctor.probe.plan import DROPPED_FIRST, ONCE, Hop, Plan, Step, expected_s, within
from llmdoctor.probe.reading import Reading
from llmdoctor.probe.trace import LAG_MS, Ask, Trace

Seen = Callable[[str, str, int, float | None], None]
"""Told when a request is sent and of each content chunk of its answer: hop, variant, number of the request,
milliseconds since its send (None = it is being sent)."""

MOST_S = 90.0
"""Longest time that the optional experiments may take."""
MOST_WAITED = 2
"""Requests of one hop that may run into a limit of ours: twice is no chance, and each takes as long as it may."""
WARM_TOKENS = 16
"""Length of the first answer: the least that the Responses API takes."""
CHEAP_S = 30.0
"""Seconds for a request that costs a server nothing."""
MOST_AGAIN = 3
"""Most requests that are sent once more because the client itself lagged."""
CUT_MS = 1000.0
"""A stream that broke off earlier was cut by no timer that anybody sets."""
MERGED = 0.6
"""Portions a piece, as a share of the usual, below which an experiment is repeated: merged, it has half at most."""


def run(
    target: Target, wanted: Plan, seen: Seen | None = None, left_out: Callable[[Sequence[str]], None] | None = None
) -> Iterator[Trace]:
    """One trace a request, in the order of the plan. The warm-up of a hop is not among them, unless the hop gives no
    answer to it: see `_Worth`. The plan loses its optional experiments where they would take, or have taken, too long;
    `left_out` is told which."""
    lag = loop_lag()
    hops = list(dict.fromkeys(step.hop for step in wanted.steps))
    warm = _warm_up(target, wanted)
    if answered := [warm[hop] for hop in hops if warm[hop].exchange.status is not None]:
        first, pace = _pace(answered[-1])
        wanted = within(wanted, first, pace, MOST_S) if expected_s(wanted, first, pace) > MOST_S else wanted
    if left_out is not None:
        left_out(wanted.dropped)
    numbers: Counter[tuple[str, str]] = Counter()
    usual: dict[Hop, float] = {}
    worth = _Worth(warm)
    late: dict[str, None] = {}
    begun = time.monotonic()
    with Watch() as watch:
        again, spare = MOST_AGAIN, wanted.spare

        def carried_out(step: Step) -> list[Trace]:
            return [_with_lag(one, lag, watch) for one in _carried_out(target, step, numbers, seen)]

        for step in wanted.steps:
            if step.hop in worth.given_up:
                continue
            if step.variant in DROPPED_FIRST and time.monotonic() - begun > MOST_S:
                late[step.variant] = None
                continue
            traces = [] if worth.silent(step.hop) else carried_out(step)
            lagged = [one for one in traces if one.usable() and (one.loop_lag_ms or 0.0) > LAG_MS]
            if again and spare and not step.beside and lagged:
                again, spare = again - 1, spare - 1
                numbers[step.hop.name, step.variant] -= 1
                traces = carried_out(step)
            yield from traces
            yield from (_with_lag(_counted(one, numbers), lag, watch) for one in worth.told_by(step.hop, traces))
            if step.hop in worth.given_up:
                continue
            if step.variant == "stream":
                usual[step.hop] = max(usual.get(step.hop, 0.0), traces[-1].arrivals())
            if spare and step.variant in ONCE and _doubtful(traces[-1], usual.get(step.hop, 0.0)):
                spare -= 1
                yield from carried_out(step)
    if late and left_out is not None:
        left_out(tuple(late))


class _Worth:
    """Which hops are worth another request. One that is silent is not; nor one whose first two answers are none, one
    that has used up a limit twice, or one whose answer has no end."""

    def __init__(self, warm: Mapping[Hop, Trace]) -> None:
        self.given_up: set[Hop] = set()
        self._warm = warm
        self._doubted = {hop for hop, trace in warm.items() if not trace.usable()}
        self._ran_out: Counter[Hop] = Counter()

    def silent(self, hop: Hop) -> bool:
        """Whether its warm-up used up a limit, so that nothing more is asked of it."""
        return hop in self._doubted and self._warm[hop].ran_out()

    def told_by(self, hop: Hop, traces: Sequence[Trace]) -> list[Trace]:
        """Takes note of what a hop answered; returns its warm-up where that is to count, as all or half of the answers
        of a hop that gives none."""
        if hop in self._doubted and not (traces and traces[0].usable()):
            self.given_up.add(hop)
            return [self._warm[hop]]
        self._doubted.discard(hop)
        self._ran_out[hop] += traces[0].ran_out()
        if self._ran_out[hop] == MOST_WAITED or traces[0].endless():
            self.given_up.add(hop)
        return []


def _warm_up(target: Target, wanted: Plan) -> dict[Hop, Trace]:
    """The first answer of each hop, all asked at once: nobody waits for one silent hop after the other. An answer that
    is far longer than what was asked for is not read to its end."""
    found: dict[Hop, Trace] = {}

    def ask(step: Step) -> None:
        found[step.hop] = _one(target, replace(step, max_tokens=WARM_TOKENS), 0, None, most=8 * WARM_TOKENS)

    threads = [
        threading.Thread(target=ask, args=(step,), daemon=True, name="warm-up")
        for step in _first_of_each_hop(wanted.steps)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def _counted(trace: Trace, numbers: Counter[tuple[str, str]]) -> Trace:
    """A warm-up that is to count after all, under the next number of its kind."""
    key = (trace.ask.hop, trace.ask.variant)
    numbers[key] += 1
    return replace(trace, ask=replace(trace.ask, number=numbers[key]))


def _with_lag(trace: Trace, lag: Lag, watch: Watch) -> Trace:
    """The trace with how late its stamps may be: always (the check before the probe), or while it was made."""
    known = [one for one in (lag.median_ms, watch.late_ms(trace.exchange)) if one is not None]
    return replace(trace, loop_lag_ms=max(known, default=None))


def _doubtful(trace: Trace, usual: float) -> bool:
    """Whether the one request of an experiment is sent once more, since once may be chance: it was cut, or its answer
    came in fewer portions than those of the usual streams over the same place (`usual`, as `Trace.arrivals`)."""
    return _cut(trace) or (trace.exchange.status == 200 and trace.arrivals() < MERGED * usual)


def _cut(trace: Trace) -> bool:
    """Whether a stream broke off late and without a reason."""
    ending, exchange = trace.ending, trace.exchange
    if ending is None or exchange.ending == "timeout" or ending.finish_reason is not None:
        return False
    return ending.outcome in ("incomplete", "failed") and exchange.phases.end >= CUT_MS


def _first_of_each_hop(steps: Sequence[Step]) -> list[Step]:
    found: dict[Hop, Step] = {}
    for step in steps:
        found.setdefault(step.hop, step)
    return list(found.values())


def _pace(trace: Trace) -> tuple[float, float]:
    """Seconds until the first token, and tokens a second after it."""
    content = [at for at, _, one in trace.timed() if one.piece.kind in CONTENT]
    if len(content) < 2 or content[-1] <= content[0]:
        return trace.exchange.phases.end / 1000, 200.0
    return content[0] / 1000, min(1000.0, (len(content) - 1) * 1000 / (content[-1] - content[0]))


def _carried_out(target: Target, step: Step, numbers: Counter[tuple[str, str]], seen: Seen | None) -> Iterator[Trace]:
    def number() -> int:
        key = (step.hop.name, step.variant)
        numbers[key] += 1
        return numbers[key]

    if not step.beside:
        yield _one(target, step, number(), seen)
        return
    if step.beside == "cheap":
        yield _cheap(target, step, "cheap_alone", 1)
    found: list[Trace] = []
    begun = threading.Event()

    def stream() -> None:
        found.append(_one(target, step, number(), seen, begun))
        begun.set()

    thread = threading.Thread(target=stream, daemon=True, name="probe")
    thread.start()
    begun.wait(target.limits.total_s)
    beside = _one(target, step, 2, seen) if step.beside == "pair" else _cheap(target, step, "cheap", 2)
    thread.join(target.limits.total_s + 5)
    yield from found
    yield beside


def _one(
    target: Target,
    step: Step,
    number: int,
    seen: Seen | None,
    begun: threading.Event | None = None,
    most: int | None = None,
) -> Trace:
    """One call. `begun` is set when its first byte is there (or, of a pair, when it is on its way). With `most`,
    reading stops after so many chunks."""
    hop = step.hop
    request, limit = call(target, step)
    ask = Ask(hop.name, step.variant, number, target.model, route(hop.url), step.stream, limit, place=hop.place)
    live = Listening(target, hop.url, step.stream)
    chunks = 0
    if begun is not None and step.beside == "pair":
        threading.Timer(0.05, begun.set).start()

    def on_read(read: Read) -> Action | None:
        nonlocal chunks
        content = sum(one.piece.kind in CONTENT and one.piece.text_chars > 0 for one in live.feed(read.data))
        chunks += content
        if begun is not None:
            begun.set()
        for _ in range(content if seen else 0):
            assert seen is not None
            seen(step.hop.name, step.variant, number, read.at_ms)
        if most is not None and chunks > most:
            return "stop"
        return None if content else "waiting"

    if seen is not None:
        seen(step.hop.name, step.variant, number, None)
    exchange = send(request, target.limits, on_read)
    # Read anew: what an answer means depends on its status and type, which were not known while it came.
    again = Reading(live.dialect, step.stream, exchange.status or 200, exchange.fact("content_type") or "")
    placed: list[Placed] = []
    for read in exchange.reads:
        placed.extend(again.feed(read.data))
    placed.extend(again.end(exchange.ending == "complete"))
    return Trace(ask, exchange, tuple(placed), again.ending(), dialect=live.name)


def _cheap(target: Target, step: Step, variant: str, number: int) -> Trace:
    """A request that costs the server nothing: what it waits, the server's loop was busy."""
    exchange = models(target, step.hop, CHEAP_S)
    ask = Ask(step.hop.name, variant, number, "", route(models_url(step.hop.url)), False, None, place=step.hop.place)
    return Trace(ask, exchange, (), None)
