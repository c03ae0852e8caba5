"""What a diagnosis says, as frozen values. The report, the JSON and the comparison read these and nothing else.

Numbers are already rounded to 6 significant digits, instants are ISO 8601 text in UTC, unknown is None: the same
Diagnosis always gives the same bytes. `to_json` is the published form (`llmdoctor.report/1`).
"""

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Literal

from llmdoctor.diagnose.course import Shift, Story
from llmdoctor.diagnose.pictures import Pictures
from llmdoctor.diagnose.sample import Sample

SCHEMA = "llmdoctor.report/1"

Level = Literal["healthy", "attention", "unhealthy", "undetermined"]
Severity = Literal["low", "medium", "high", "critical"]
State = Literal["present", "absent", "unknown", "suppressed", "failed"]
Side = Literal["for", "against", "unknown"]

SEVERITIES: tuple[Severity, ...] = ("low", "medium", "high", "critical")
NOT_ASKED = "not asked"
"""How the ending of a cause begins that no broken limit led to."""


def six(value: float | Decimal | None) -> float | None:
    """A number rounded to 6 significant digits, so that threads and summing order cannot show; None for no number."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{float(value):.6g}")


def instant(value: datetime | None) -> str | None:
    """An instant as ISO 8601 in UTC with milliseconds."""
    if value is None:
        return None
    return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(frozen=True)
class Verdict:
    """The first thing a reader sees: one level, one sentence and the command to run next."""

    level: Level
    text: str
    next: str


@dataclass(frozen=True)
class Secret:
    """One kind of secret in one file: in how many lines, and in which first. Never the secret."""

    kind: str
    lines: int
    first_line: int


@dataclass(frozen=True)
class InputFile:
    """One file: lines = rows + rejected + blank + foreign. `examples` are (line, reason, redacted snippet)."""

    path: str
    format: str | None
    vantage: str | None
    reason: str
    bytes: int
    lines: int
    rows: int
    rejected: int
    blank: int
    foreign: int
    doubled: int
    out_of_order: int | None
    longest_gap_ms: float | None
    grew: bool
    note: str | None
    bad_fields: Mapping[str, int]
    examples: tuple[tuple[int, str, str], ...]
    secrets: tuple[Secret, ...] = ()


@dataclass(frozen=True)
class Metric:
    """Percentiles of one duration in one population. Nearest rank over all attempts, those that were cut (timeouts,
    cancellations) counted as "at least"; a percentile with too few rows for its interval is None. `low` and `high`
    are the 95 % order-statistic interval of the highest percentile shown, `p50_low` and so on those of each."""

    vantage: str
    model: str | None
    stream: bool | None
    name: str
    n: int
    censored: int
    p50: float | None
    p95: float | None
    p99: float | None
    low: float | None
    high: float | None
    p50_low: float | None = None
    p50_high: float | None = None
    p95_low: float | None = None
    p95_high: float | None = None
    p99_low: float | None = None
    p99_high: float | None = None


@dataclass(frozen=True)
class Symptom:
    """One symptom for one subject at one vantage; `affected` and `total` are what it `counts`, attempts or tasks (which
    have no vantage)."""

    id: str
    title: str
    severity: Severity
    state: State
    vantage: str | None
    subject: str
    observed: float | None
    expected: float | None
    unit: str
    affected: int | None
    total: int | None
    first_at: str | None
    last_at: str | None
    reason: str | None
    why: str = ""
    caveat: str = ""
    self_explained: bool = False
    counts: str = "attempts"


@dataclass(frozen=True)
class Evidence:
    """One sentence for or against a cause, its figures filled in, and the values behind it."""

    text: str
    verdict: Side
    values: Mapping[str, Any]


@dataclass(frozen=True)
class Fix:
    """What to change in one product."""

    product: str
    text: str


@dataclass(frozen=True)
class Example:
    """One real request: where to find it in the logs."""

    request_id: str | None
    file: str
    line: int | None


@dataclass(frozen=True)
class Cause:
    """One cause under the finding (symptom x subject) that it explains best. `score` is what its evidence weighs,
    `confidence` how often such a score is right; where that is not known (`provisional`) they are equal."""

    id: str
    title: str
    layer: str
    symptom: str
    subject: str
    explains: tuple[str, ...]
    confidence: float
    provisional: bool
    rank: int
    affected: int
    excess: float | None
    excess_share: float | None
    evidence: tuple[Evidence, ...]
    fix: tuple[Fix, ...]
    verify: str
    caveat: str
    examples: tuple[Example, ...]
    equal_to: tuple[str, ...] = ()
    separate_by: str | None = None
    score: float | None = None


@dataclass(frozen=True)
class Unexplained:
    """What no listed cause accounts for in one finding."""

    symptom: str
    subject: str
    excess: float
    share: float


@dataclass(frozen=True)
class MissingField:
    """A field that no record has, the rules it would unlock and how to log it."""

    field: str
    unlocks: tuple[str, ...]
    how: str


@dataclass(frozen=True)
class TimeoutAdvice:
    """Advised limits for one population, with the share of successful requests that each would have cut."""

    vantage: str
    model: str | None
    route: str | None
    connect_ms: float | None
    first_token_ms: float | None
    idle_ms: float | None
    total_ms: float | None
    n: int
    basis: str
    cut_share: Mapping[str, float]
    warning: str | None


@dataclass(frozen=True)
class Advice:
    """A limit that the log suggests (`kind` concurrency, retries, max_tokens), or the tail as it would have been
    (without_retries, without_longest: `estimate`). `value` in `unit` (calls, share, tokens, ms) is None where the log
    shows no limit; `text` says what it does, `basis` what it rests on."""

    kind: str
    vantage: str
    model: str | None
    route: str | None
    value: float | None
    unit: str
    text: str
    basis: str
    estimate: bool
    n: int


@dataclass(frozen=True)
class Part:
    """A stretch of the way of one request. `exact` is false where only a bound is known."""

    name: str
    start_ms: float
    duration_ms: float
    exact: bool


@dataclass(frozen=True)
class Case:
    """A real request shown as example of its kind: normal, slow or failed."""

    kind: Literal["normal", "slow", "failed"]
    example: Example
    vantage: str
    started_at: str
    outcome: str
    model: str | None
    stream: bool | None
    input_tokens: int | None
    output_tokens: int | None
    attempt: int | None
    ttft_ms: float | None
    total_ms: float | None
    parts: tuple[Part, ...]
    remark: str | None


@dataclass(frozen=True)
class CaseGroup:
    """A normal, a slow and a failed request of one kind (same vantage, model, stream, near-equal tokens)."""

    vantage: str
    title: str
    cases: tuple[Case, ...]


@dataclass(frozen=True)
class Bin:
    """One stretch of time of the outermost vantage."""

    at: str
    requests: int
    failures: int
    retries: int
    p50_ttft_ms: float | None
    p99_ttft_ms: float | None
    p50_total_ms: float | None
    p99_total_ms: float | None
    max_in_flight: int | None


@dataclass(frozen=True)
class Timeline:
    """Equal bins from the first to the last start. At most 120."""

    vantage: str | None
    bin_ms: float
    bins: tuple[Bin, ...]


@dataclass(frozen=True)
class RuleTally:
    """How every rule ended, by id."""

    present: tuple[str, ...]
    absent: tuple[str, ...]
    unknown: tuple[str, ...]
    suppressed: tuple[str, ...]
    failed: tuple[str, ...]


@dataclass(frozen=True)
class Arrival:
    """How one streamed answer came over one hop of a probe. `phases` in milliseconds since the send, `lumps` are
    (milliseconds, chunks) pairs, `facts` those of its response."""

    hop: str
    outcome: str
    http_status: int | None
    phases: Mapping[str, float | None]
    chunks: int
    lumps: tuple[tuple[float, int], ...]
    facts: Mapping[str, str]


@dataclass(frozen=True)
class Baseline:
    """What a comparison with an earlier state says, in short: its level and sentence, what to know before they are
    believed, and the figures that moved as text (name, before, after, change, what that means)."""

    path: str
    level: str
    text: str
    warnings: tuple[str, ...]
    figures: tuple[tuple[str, str, str, str, str], ...]


@dataclass(frozen=True)
class Population:
    """How many requests, and the mean of their whole time."""

    n: int
    mean_ms: float


@dataclass(frozen=True)
class Stretch:
    """One stretch of the way: its mean in each population (normal, slow, failed), and its share of what the slow
    requests take beyond the normal ones (None without slow ones). Not `exact`: at most this much, for no field tells it
    apart from what else its name says, or from what follows. "unexplained" is what no stretch is known for."""

    name: str
    exact: bool
    mean_ms: Mapping[str, float]
    excess_share: float | None


@dataclass(frozen=True)
class Where:
    """Where the time of the requests of one kind went. The means of the stretches add up to those of the populations,
    the shares of the excess to 1."""

    vantage: str
    model: str | None
    stream: bool | None
    operation: str | None
    populations: Mapping[str, Population]
    stretches: tuple[Stretch, ...]


@dataclass(frozen=True)
class Diagnosis:
    """Everything concluded from one set of inputs. Lists are in the order in which they are shown."""

    command: str
    version: str
    verdict: Verdict
    window_from: str | None
    window_to: str | None
    inputs: tuple[InputFile, ...]
    metrics: tuple[Metric, ...]
    symptoms: tuple[Symptom, ...]
    causes: tuple[Cause, ...]
    unexplained: tuple[Unexplained, ...]
    unknown: tuple[MissingField, ...]
    timeouts: tuple[TimeoutAdvice, ...]
    rules: RuleTally
    cases: tuple[CaseGroup, ...]
    timeline: Timeline
    notes: tuple[str, ...]
    settings: Mapping[str, str]
    considered: Mapping[str, str] = field(default_factory=dict)
    arrivals: tuple[Arrival, ...] = ()
    where: tuple[Where, ...] = ()
    samples: tuple[Sample, ...] = ()
    baseline: Baseline | None = None
    pictures: Pictures = field(default_factory=Pictures)
    shifts: tuple[Shift, ...] = ()
    story: Story | None = None
    limits: tuple[Advice, ...] = ()

    @property
    def present(self) -> tuple[Symptom, ...]:
        """The findings, worst first."""
        return tuple(symptom for symptom in self.symptoms if symptom.state == "present")

    def worst(self) -> Severity | None:
        """The highest severity among the findings, None without one."""
        return max((symptom.severity for symptom in self.present), key=SEVERITIES.index, default=None)


def as_dict(diagnosis: Diagnosis) -> dict[str, Any]:
    """The published form: keys as documented, tuples as lists, `window` as one object."""
    plain = dataclasses.asdict(diagnosis)
    window = {"from": plain.pop("window_from"), "to": plain.pop("window_to")}
    head = {"schema": SCHEMA, "command": plain.pop("command"), "version": plain.pop("version")}
    return head | {"verdict": plain.pop("verdict"), "window": window} | plain


def to_json(diagnosis: Diagnosis, indent: int | None = 2) -> str:
    """`as_dict` as text. Never NaN or infinity (they are None long before); a newline at the end."""
    return json.dumps(as_dict(diagnosis), indent=indent, ensure_ascii=False, allow_nan=False) + "\n"
