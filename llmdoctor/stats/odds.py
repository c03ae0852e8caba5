"""How much likelier bad attempts are within a value than outside it: log odds with a lower bound."""

import math
from collections.abc import Mapping, Sequence

from llmdoctor.store import Row


def slice_row(vantage: str, kind: str, dimension: str, count: Row, totals: Mapping[str, int]) -> Row:
    """One row of the table `slices`, not yet significant. `count` are the value and its attempts: `rows` judged and
    `bad` ones, those of calm periods, and what they `lost` (ms, or failed attempts); `totals` the same of all."""
    a, b = count["bad"], count["rows"] - count["bad"]
    c, d = totals["bad"] - a, totals["rows"] - totals["bad"] - b
    log_odds = math.log((a + 0.5) / (b + 0.5)) - math.log((c + 0.5) / (d + 0.5))
    error = math.sqrt(sum(1 / (cell + 0.5) for cell in (a, b, c, d)))
    calm_in, calm_out = count["calm"], totals["calm"] - count["calm"]
    calm_lift = None
    if calm_in >= 10 and calm_out >= 10 and totals["calm_bad"] >= 5:
        calm_lift = ((count["calm_bad"] + 0.5) / calm_in) / ((totals["calm_bad"] - count["calm_bad"] + 0.5) / calm_out)
    share_out = (c + 0.5) / (c + d)
    lost_as_others = (a + b) * (totals["lost"] - count["lost"]) / (c + d)
    return {
        "vantage": vantage,
        "kind": kind,
        "dimension": dimension,
        "value": count["value"],
        "own_value": count["value"],
        "second": None,
        "second_value": None,
        "rows_in": a + b,
        "bad_in": a,
        "rows_out": c + d,
        "bad_out": c,
        "lift": ((a + 0.5) / (a + b)) / share_out,
        "lower_bound": log_odds - 1.96 * error,
        "calm_lift": calm_lift,
        "p_value": math.erfc(abs(log_odds / error) / math.sqrt(2)),
        "significant": False,
        "explained_share": max(0.0, count["lost"] - lost_as_others) / max(totals["lost"], 1),
    }


def bound(inside: tuple[int, int], outside: tuple[int, int]) -> float:
    """Lower end of the 95 % interval of the log odds ratio of two (bad, all)."""
    cells = [cell + 0.5 for bad, count in (inside, outside) for cell in (bad, count - bad)]
    log_odds = math.log(cells[0] / cells[1]) - math.log(cells[2] / cells[3])
    return log_odds - 1.96 * math.sqrt(sum(1 / cell for cell in cells))


def passing(rows: Sequence[Row]) -> list[Row]:
    """Those that pass Benjamini-Hochberg at 0.05 over all that were tried, and are worse than the rest."""
    ordered = sorted(rows, key=lambda row: row["p_value"])
    ranked = enumerate(ordered, 1)
    passed = max((rank for rank, row in ranked if row["p_value"] <= 0.05 * rank / len(ordered)), default=0)
    return [row for row in ordered[:passed] if row["lower_bound"] > 0 and row["lift"] >= 1.5]
