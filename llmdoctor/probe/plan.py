"""Which requests to send over which hops, in which order, within which budget."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from llmdoctor.errors import InputError

BASE_TOKENS, SHORT_TOKENS, LONG_TOKENS, LASTING_TOKENS = 96, 16, 400, 4000
"""Lengths of answers: the usual one, one so short that a fake stream is early
(the Responses API takes no less), one of more than 64 KB on the wire (a
chunk of a chat completion takes 200 bytes and more), and one that lasts for minutes."""


@dataclass(frozen=True)
class Hop:
    """A place on the way. `connect_to` is HOST:PORT to go to while Host and SNI stay those of the URL. `place` is its
    number, 1 for the application; `plan` gives it."""

    name: str
    url: str
    connect_to: str | None = None
    place: int = 1


@dataclass(frozen=True)
class Step:
    """One thing to do at one hop. `beside` is done while the stream runs: `cheap` another request that costs nothing,
    `pair` a second stream."""

    hop: Hop
    variant: str
    max_tokens: int = BASE_TOKENS
    stream: bool = True
    encoding: str = "identity"
    http2: bool = False
    tools: bool = False
    beside: str = ""

    @property
    def requests(self) -> int:
        """How many are sent."""
        return 2 if self.beside == "pair" else 1

    @property
    def tokens(self) -> int:
        """How many are asked for at most."""
        return self.max_tokens * self.requests


@dataclass(frozen=True)
class Plan:
    """`steps` in order; `dropped` names the experiments that the budget left out, `spare` is how many requests it
    leaves for those that must be sent once more."""

    steps: tuple[Step, ...]
    dropped: tuple[str, ...] = ()
    spare: int = 8

    @property
    def requests(self) -> int:
        """All requests but the warm-up."""
        return sum(step.requests for step in self.steps)

    @property
    def tokens(self) -> int:
        """All output tokens at most."""
        return sum(step.tokens for step in self.steps)


BROWSER = "gzip, deflate, br, zstd"
ONCE = ("encoded", "long", "http2", "tools", "lasting")
"""Experiments of one stream to each place: what is found in one is looked at once more."""
DROPPED_FIRST = ("tools", "http2", "cheap", "pair", "whole", "long", "encoded", "short")
"""What goes when the budget is too small, first to last. Streams over all hops stay, though in fewer rounds."""


def plan(
    hops: Sequence[Hop],
    repeat: int = 3,
    budget: int = 30,
    tokens: int = 8000,
    quick: bool = False,
    lasting: bool = False,
    secure: bool = False,
) -> Plan:
    """The requests of one probe. `hops` from the application outwards. Rounds go over all hops in turn (A B A B), so
    that what changes with time changes for all of them. `secure`: HTTP/2 can be tried at the outermost hop. InputError
    where the budget is too small for one stream over each hop; for fewer rounds than `repeat` it may be."""
    if budget < len(hops):
        raise InputError(
            f"--budget {budget}: {len(hops)} places need at least {len(hops)} requests; name fewer, or allow more"
        )
    hops = [replace(hop, place=number) for number, hop in enumerate(hops, 1)]
    inner, outer = hops[0], hops[-1]
    rounds = [Step(hop, "stream") for _ in range(min(repeat, budget // len(hops))) for hop in hops]
    more: dict[str, list[Step]] = {}
    if not quick:
        more["short"] = [Step(hop, "short", SHORT_TOKENS) for _ in range(2) for hop in _ends(hops)]
        more["encoded"] = [Step(hop, "encoded", encoding=BROWSER) for hop in _ends(hops)]
        more["whole"] = [Step(inner, "whole", stream=False)]
        more["long"] = [Step(hop, "long", LONG_TOKENS) for hop in hops]
        more["pair"] = [Step(inner, "pair", beside="pair")]
        more["cheap"] = [Step(inner, "cheap", beside="cheap")]
        more["http2"] = [Step(outer, "http2", http2=True)] if secure else []
        more["tools"] = [Step(hop, "tools", tools=True) for hop in _ends(hops)]
    if lasting:
        more["lasting"] = [Step(hop, "lasting", LASTING_TOKENS) for hop in _ends(hops)]
        tokens += LASTING_TOKENS * len(_ends(hops))
    dropped: list[str] = []
    while True:
        found = Plan((*rounds, *(step for steps in more.values() for step in steps)), tuple(dropped))
        left = [name for name in DROPPED_FIRST if more.get(name)]
        if (found.requests <= budget and found.tokens <= tokens) or not left:
            return replace(found, spare=max(0, budget - found.requests))
        more.pop(left[0])
        dropped.append(left[0])


def within(wanted: Plan, seconds_each: float, tokens_each_second: float, most_s: float) -> Plan:
    """The plan without the experiments for which the time is too short, judged by the first answer: `seconds_each`
    until its first token, then so many tokens a second."""
    steps, dropped = wanted.steps, list(wanted.dropped)
    for name in DROPPED_FIRST:
        if expected_s(replace(wanted, steps=steps), seconds_each, tokens_each_second) <= most_s:
            break
        if any(step.variant == name for step in steps):
            steps = tuple(step for step in steps if step.variant != name)
            dropped.append(name)
    return replace(wanted, steps=steps, dropped=tuple(dropped))


def expected_s(wanted: Plan, seconds_each: float, tokens_each_second: float) -> float:
    """How long the plan takes at this pace."""
    return sum(seconds_each + step.max_tokens / max(tokens_each_second, 0.1) for step in wanted.steps)


def _ends(hops: Sequence[Hop]) -> Sequence[Hop]:
    """The innermost and the outermost hop."""
    return hops if len(hops) < 3 else (hops[0], hops[-1])
