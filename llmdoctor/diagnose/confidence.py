"""Raw score -> probability: how often a cause with that score was right in simulated incidents.

The tables stand in `rules/calibration.toml`, which only `make accuracy` writes. There is one per field profile, for a
score means less where fewer fields were at hand, and one more for each page that was listed often enough.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal

from llmdoctor.diagnose.values import Symptom
from llmdoctor.store import Store

Profile = Literal["full", "client"]

# What only the serving side can say. A log with any of it, or with two vantages, is "full".
_INNER = (
    "queue_ms", "prefill_ms", "decode_ms", "overhead_ms", "server_outcome", "server_ttft_ms", "server_total_ms",
    "upstream_total_ms",
)  # fmt: skip


def profile_of(store: Store) -> Profile:
    """`full` where a record says what happened behind the caller, else `client`."""
    known = " or ".join(f"count({column}) > 0" for column in _INNER)
    ((inner, vantages),) = store.run(f"select {known}, count(distinct vantage) from attempts")
    return "full" if inner or vantages > 1 else "client"


def probability(
    tables: Mapping[str, Any], profile: Profile, cause_id: str, finding: Symptom, score: float
) -> float | None:
    """The share of causes with this score that were right, 0 to 1; None where no table covers the finding.

    Findings of a probe are not covered: their evidence is an experiment, and no incident of a probe was simulated."""
    table = tables.get(profile)
    if table is None or finding.vantage == "probe":
        return None
    return between(table.get("causes", {}).get(cause_id, table["pooled"]), score)


def between(knots: Sequence[Sequence[float]], score: float) -> float:
    """The probability of a score: linear between the (score, probability) knots, which ascend; flat outside."""
    if score <= knots[0][0]:
        return float(knots[0][1])
    for (low, p_low), (high, p_high) in pairwise(knots):
        if score <= high:
            return float(p_low + (p_high - p_low) * (score - low) / (high - low)) if high > low else float(p_high)
    return float(knots[-1][1])


def rounded(confidence: float) -> float:
    """Three digits, and never 1 by rounding, also where it is printed with two."""
    return 1.0 if confidence == 1 else min(round(confidence, 3), 0.99)
