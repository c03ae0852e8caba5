"""What a comparison says, as frozen values; `to_json` is the published form (`llmdoctor.comparison/1`).

Numbers are rounded to 6 significant digits, unknown is None: the same two sides always give the same bytes.
"""

import dataclasses
import json
from dataclasses import dataclass
from typing import Any, Literal

from llmdoctor.diagnose.values import Severity

SCHEMA = "llmdoctor.comparison/1"

# fixed: better, and what was found before is gone. partly_fixed: better, and some of it is still there. better: better,
# and nothing had been found. traded: something is better and something worse. mix: other requests, not another service.
Level = Literal[
    "fixed", "partly_fixed", "better", "no_change", "mix", "traded", "regression", "undetermined"
]  # fmt: skip
# same: within noise. slight: beyond noise, but too small to matter. mix: gone at equal requests. shifted: from before
# the first token to after it, or back. few: too few attempts.
# untold: one side does not know it.
State = Literal["better", "worse", "slight", "same", "mix", "shifted", "few", "untold"]
Turn = Literal["appeared", "cleared", "better", "worse", "same", "near", "untold"]


@dataclass(frozen=True)
class Verdict:
    """The answer: one level, one sentence and what to do next."""

    level: Level
    text: str
    next: str


@dataclass(frozen=True)
class Source:
    """One side: where it came from (`kind`: report, store or logs), where its requests were seen, how many (None where
    no figures of them are kept), when."""

    path: str
    kind: str
    version: str
    vantage: str | None
    n: int | None
    window_from: str | None
    window_to: str | None
    verdict: str
    text: str


@dataclass(frozen=True)
class EqualMix:
    """The change among completed requests of kinds that both sides have, weighted as they were before. `covered` is
    the smaller of the two shares of requests that are of such kinds; `decides` where it differs by 5 % or more from
    the change of all requests: then the state is that of this one."""

    before: float
    after: float
    change: float
    low: float | None
    high: float | None
    covered: float
    decides: bool


@dataclass(frozen=True)
class Change:
    """One figure on both sides. `change` with its 95 % interval is relative (0.1: a tenth more) for durations, costs
    and ratios, the difference for shares and counts (`relative` says which). `reason` is why there is no answer."""

    name: str
    unit: str
    before: float | None
    after: float | None
    n_before: int
    n_after: int
    relative: bool
    change: float | None
    low: float | None
    high: float | None
    state: State
    reason: str | None = None
    equal_mix: EqualMix | None = None


@dataclass(frozen=True)
class Seen:
    """A finding on one side; `expected` is its limit."""

    state: str
    severity: Severity
    observed: float | None
    affected: int | None
    total: int | None
    expected: float | None = None


@dataclass(frozen=True)
class Turned:
    """What became of one finding. near: it crossed its limit, but moved no more than noise. `elsewhere`: it was seen
    where no figures are compared; `sure`: how it went over time says so."""

    id: str
    title: str
    subject: str
    unit: str
    turn: Turn
    before: Seen | None
    after: Seen | None
    cause_before: str | None
    cause_after: str | None
    elsewhere: bool
    sure: bool = False


@dataclass(frozen=True)
class Other:
    """Something else that may have changed between the sides, in words; `moved`: it did."""

    name: str
    title: str
    before: str
    after: str
    moved: bool


@dataclass(frozen=True)
class Comparison:
    """Everything concluded from two sides."""

    command: str
    version: str
    verdict: Verdict
    before: Source
    after: Source
    figures: tuple[Change, ...]
    findings: tuple[Turned, ...]
    changed: tuple[Other, ...]
    warnings: tuple[str, ...]

    @property
    def regressed(self) -> bool:
        """Whether anything got worse beyond noise: what `--fail-on-regression` asks."""
        return self.verdict.level in ("regression", "traded")


def as_dict(comparison: Comparison) -> dict[str, Any]:
    """The published form, `schema` first."""
    return {"schema": SCHEMA, **dataclasses.asdict(comparison)}


def to_json(comparison: Comparison) -> str:
    """`as_dict` as text, a newline at the end."""
    return json.dumps(as_dict(comparison), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
