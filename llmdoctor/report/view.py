"""What every output shows alike: the findings in order, each with its causes, and the words for levels."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from llmdoctor.diagnose.values import CaseGroup, Cause, Diagnosis, Evidence, Metric, Side, Symptom
from llmdoctor.report import figures
from llmdoctor.report.figures import NBSP
from llmdoctor.stats import LEAST_ROWS

LEVELS = {"healthy": "Healthy", "attention": "Attention", "unhealthy": "Unhealthy", "undetermined": "Undetermined"}
SHAPES = {"critical": "■", "high": "▲", "medium": "●", "low": "○"}
SIDES: dict[Side, str] = {"for": "for", "against": "against", "unknown": "cannot tell"}
METRICS = {
    "ttft_ms": "TTFT",
    "ttfo_ms": "TTFO",
    "tpot_ms": "TPOT",
    "total_ms": "total",
    "queue_ms": "queue",
    "max_gap_ms": "longest gap",
}
LIMITS = {
    "concurrency": "calls at a time",
    "retries": "retries, of the first tries",
    "max_tokens": "max_tokens",
    "without_retries": "tail without the retries",
    "without_longest": "tail without the longest 1 %",
}

FORMULAS = {
    "TTFT": "from sending the request to the first non-empty generated delta of any channel; streams only",
    "TTFO": "from sending the request to the first generated delta that is not reasoning",
    "TPOT": "(total - TTFT) / (output tokens - 1), per request; other tools define it otherwise",
    "total": "from sending the request to its last byte, or to the moment of giving up",
    "queue": "waiting for the engine, as the engine reports it",
    "longest gap": "the longest silence between two chunks of one stream",
}


@dataclass(frozen=True)
class Finding:
    """One present symptom with what is said about it. `also` are causes told under another finding: (cause, its
    finding's number)."""

    number: int
    symptom: Symptom
    causes: tuple[Cause, ...]
    also: tuple[tuple[Cause, int], ...]
    unexplained: float | None
    cases: tuple[CaseGroup, ...]

    @property
    def best(self) -> Cause | None:
        """The cause to name in one word, None where none is listed."""
        return self.causes[0] if self.causes else next((cause for cause, _ in self.also), None)


def findings(diagnosis: Diagnosis) -> tuple[Finding, ...]:
    """The present symptoms, worst first. Each cause stands under one of them; each group of example requests under
    the first finding of its vantage."""
    present = diagnosis.present
    home: dict[tuple[str, str], int] = {}
    shelf: dict[str | None, int] = {}
    for position, symptom in enumerate(present, 1):
        home.setdefault((symptom.id, symptom.subject), position)
        shelf.setdefault(symptom.vantage, position)
    own: dict[int, list[Cause]] = defaultdict(list)
    elsewhere: dict[tuple[str, str | None], list[tuple[Cause, int]]] = defaultdict(list)
    for cause in diagnosis.causes:
        where = home.get((cause.symptom, cause.subject))
        if where is not None:
            own[where].append(cause)
            for symptom_id in dict.fromkeys((cause.symptom, *cause.explains)):
                elsewhere[symptom_id, cause.subject].append((cause, where))
                elsewhere[symptom_id, None].append((cause, where))
    cases: dict[int | None, list[CaseGroup]] = defaultdict(list)
    for group in diagnosis.cases:
        cases[shelf.get(group.vantage)].append(group)
    left = {(item.symptom, item.subject): item.share for item in diagnosis.unexplained}
    return tuple(
        Finding(
            number=position,
            symptom=symptom,
            causes=tuple(own[position]),
            also=tuple(pair for pair in _concerning(symptom, elsewhere) if pair[1] != position),
            unexplained=left.get((symptom.id, symptom.subject)),
            cases=tuple(cases[position]),
        )
        for position, symptom in enumerate(present, 1)
    )


def _concerning(
    symptom: Symptom, causes: Mapping[tuple[str, str | None], list[tuple[Cause, int]]]
) -> list[tuple[Cause, int]]:
    """Causes that explain this symptom: of the same subject or of all; those of any subject where it is about all."""
    if symptom.subject == "all":
        return causes.get((symptom.id, None), [])
    return [*causes.get((symptom.id, symptom.subject), []), *causes.get((symptom.id, "all"), [])]


def stray_cases(diagnosis: Diagnosis) -> tuple[CaseGroup, ...]:
    """Groups of example requests that no finding shows, because it was made at another vantage or there is none."""
    shown = {symptom.vantage for symptom in diagnosis.present}
    return tuple(group for group in diagnosis.cases if group.vantage not in shown)


def strongest(evidence: Sequence[Evidence], each: int) -> list[Evidence]:
    """At most `each` sentences for and as many against, as the engine ordered them."""
    return [item for side in ("for", "against") for item in [e for e in evidence if e.verdict == side][:each]]


def certainty(cause: Cause) -> str:
    """ "72 %, provisional": a probability once `rules/calibration.toml` knows the page, a score until then."""
    return percent(cause.confidence) + (", provisional" if cause.provisional else "")


def percent(confidence: float) -> str:
    """0.695 -> "69 %": as the two digits that the verdict says."""
    return f"{float(f'{confidence:.2f}') * 100:.0f}{NBSP}%"


def metric_name(metric: Metric) -> str:
    """The word of DESIGN section 8 for a column: "ttft_ms" -> "TTFT"."""
    return METRICS.get(metric.name, metric.name.removesuffix("_ms").replace("_", " "))


def population(metric: Metric) -> str:
    """Which requests a metric is about: "gateway, llama-70b, streamed"."""
    kind = {True: "streamed", False: "not streamed", None: ""}[metric.stream]
    return ", ".join(figures.line(word) for word in (metric.vantage, metric.model or "", kind) if word)


def percentiles(metric: Metric) -> list[str]:
    """P50, P95 and P99; "too few" requests for one, or "cut off": it lies beyond what was waited for."""
    values = {0.5: metric.p50, 0.95: metric.p95, 0.99: metric.p99}
    return [
        figures.duration(value) if value is not None else "too few" if metric.n < LEAST_ROWS[q] else "cut off"
        for q, value in values.items()
    ]


def interval(metric: Metric) -> str:
    """The 95 % interval of the highest percentile shown, "" without one."""
    if metric.low is None or metric.high is None:
        return ""
    return f"{figures.duration(metric.low)} to {figures.duration(metric.high)}"


def affected(symptom: Symptom, of: str = f"{NBSP}of{NBSP}") -> str:
    """How many of how many: "340 of 2,000"."""
    if symptom.affected is None or symptom.total is None:
        return figures.count(symptom.affected)
    return f"{symptom.affected:,}{of}{symptom.total:,}"


def affected_share(symptom: Symptom) -> str:
    """ "17 %", or "" where one of the numbers is not known."""
    return figures.share(symptom.affected / symptom.total) if symptom.total and symptom.affected is not None else ""


def scope(diagnosis: Diagnosis) -> str:
    """What was read: files, lines, what was not read, window, gaps, vantages."""
    inputs = diagnosis.inputs
    lines, rejected = sum(file.lines for file in inputs), sum(file.rejected for file in inputs)
    parts = [f"{figures.plural(lines, 'line')} in {figures.plural(len(inputs), 'file')}"]
    parts.append(f"{rejected:,} rejected ({figures.share(rejected / lines)})" if rejected else "none rejected")
    if wrong := sum(sum(file.bad_fields.values()) for file in inputs):
        parts.append(f"{figures.plural(wrong, 'value')} of a wrong type")
    if window := figures.span(diagnosis.window_from, diagnosis.window_to):
        parts.append(window)
    elif any(file.rows for file in inputs):
        parts.append("no record tells its time")
    gap = max((file.longest_gap_ms for file in inputs if file.longest_gap_ms is not None), default=None)
    if gap is not None:
        parts.append(f"longest gap {figures.duration(gap)}")
    vantages = sorted({figures.line(file.vantage) for file in inputs if file.vantage})
    if vantages:
        parts.append(f"seen at {figures.listed(vantages, 4)}")
    return "; ".join(parts)


def exposed(diagnosis: Diagnosis, at_most: int) -> list[str]:
    """A sentence for each file that holds secrets: which kinds, in how many lines, where first, and what to do."""
    files = [file for file in diagnosis.inputs if file.secrets]
    told = []
    for file in files[:at_most]:
        kinds = [
            f"{figures.line(one.kind)} in {figures.plural(one.lines, 'line')} (first: line {one.first_line:,})"
            for one in file.secrets
        ]
        rotate = any(one.kind != "e-mail address" for one in file.secrets)
        todo = "rotate what is exposed and mask it at the logger" if rotate else "mask it at the logger"
        told.append(f"{figures.line(file.path)}: {figures.listed(kinds, 4)}; {todo}")
    if len(files) > at_most:
        told.append(f"secrets also stand in {figures.plural(len(files) - at_most, 'more file')}")
    return told


def course(diagnosis: Diagnosis) -> list[str]:
    """What happened in the order of time: the findings as one story, and the moments at which latencies rose."""
    told = [diagnosis.story.text] if diagnosis.story else []
    return [figures.line(text) for text in (*told, *(shift.text for shift in diagnosis.shifts))]


def tally(diagnosis: Diagnosis) -> list[tuple[str, str, tuple[str, ...]]]:
    """How every rule ended: word, what it means, ids."""
    rules = diagnosis.rules
    return [
        ("present", "seen in these logs", rules.present),
        ("absent", "looked for and not seen", rules.absent),
        ("unknown", "could not be decided from these logs", rules.unknown),
        ("suppressed", "switched off for this run", rules.suppressed),
        ("failed", "ended in an error of the rule itself", rules.failed),
    ]
