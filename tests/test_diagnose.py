"""The engine keeps its promises: gate, excess, shares, explaining away, what is missing, the same bytes each time."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from llmdoctor import rulebook
from llmdoctor.diagnose import Diagnosis, Options, diagnose
from llmdoctor.diagnose.evidence import fill
from llmdoctor.diagnose.values import SCHEMA, as_dict, to_json
from llmdoctor.errors import UsageError
from tests.filled import filled

SYMPTOM = """# Attempts fail

```toml
severity = "low"
unit     = "share"
counts   = "attempts"
needs    = ["outcome"]
min_rows = {min_rows}
affected = "outcome = 'failed'"

[limits.share]
default = 0.1
help    = "share of attempts"
```

## Seen when

```sql
select vantage, 'all' as subject, 0.5 as observed, :share as expected, count_if(outcome = 'failed') as affected,
       count(*) as total, min(started_at) as first_at, max(started_at) as last_at,
       count_if(outcome = 'failed') > :share * count(*) as holds
from   front
group  by vantage
```

## Why it matters

It does.

## When this is wrong

Never.

## Examples

```sql found attempts
select 'failed' as outcome
```

```sql absent attempts
select 'completed' as outcome
```
"""

CAUSE = """# {title}

```toml
layer             = "{layer}"
explains          = ["{explains}"]
explained_away_by = [{away}]
```

## Evidence

### It is so in {{n}} rows

```toml
weight  = 1
needs   = [{needs}]
unknown = "Nobody knows."
```

```sql
select 'all' as subject, {supports} as supports, count(*) as n from front
```

### It is not so

```toml
weight   = {against_weight}
decisive = {decisive}
unknown  = "Nobody knows either."
```

```sql
select 'all' as subject, {second} as supports
```

## Affected

```sql
select 'all' as subject, attempt_id, 1 as claim from front where {where}
```

## Fix

### nginx

Set it.

## Verify

Look.

## When this is wrong

Never.

## Examples

```sql found attempts
select 'failed' as outcome
```

```sql absent attempts
select 'completed' as outcome
```
"""


@pytest.fixture
def rules(tmp_path: Path) -> "Rules":
    return Rules(tmp_path)


class Rules:
    """A folder of made-up rules beside the shipped ones."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "symptoms").mkdir()
        (folder / "causes").mkdir()
        self.symptom()

    def symptom(
        self, min_rows: int = 1, change: tuple[str, str] = ("\0", ""), symptom_id: str = "made_symptom"
    ) -> None:
        text = SYMPTOM.replace("{min_rows}", str(min_rows)).replace(*change)
        (self.folder / "symptoms" / f"{symptom_id}.md").write_text(text)

    def cause(self, cause_id: str, **how: Any) -> None:
        usual = {
            "title": cause_id, "layer": "caller", "explains": "made_symptom", "away": "",
            "needs": "", "supports": "true", "against_weight": "1",
            "decisive": "false", "second": "cast(null as boolean)", "where": "outcome = 'failed'",
        }  # fmt: skip
        (self.folder / "causes" / f"{cause_id}.md").write_text(CAUSE.format(**(usual | how)))

    def judge(self, rows: list[dict[str, Any]], **options: Any) -> Diagnosis:
        book = rulebook.load([self.folder])
        made = {path.stem for path in self.folder.glob("*/*.md")}
        kept = rulebook.Rulebook(
            tuple(rule for rule in book.symptoms if rule.id in made),
            tuple(rule for rule in book.causes if rule.id in made),
            book.fields,
            book.profile,
            book.calibration,
        )
        with filled(rows) as store:
            return diagnose(store, kept, Options(**options))


def failing(failed: int, fine: int, **more: Any) -> list[dict[str, Any]]:
    bad = [{"at_s": index, "total_ms": 100.0, "outcome": "failed", **more} for index in range(failed)]
    return [*bad, *({"at_s": 1000 + index, "total_ms": 100.0} for index in range(fine))]


def test_a_cause_is_not_even_asked_where_no_limit_is_broken(rules: Rules) -> None:
    rules.cause("made_cause")
    found = rules.judge(failing(0, 20))
    assert found.causes == ()
    assert "no such limit is broken" in found.considered["made_cause"]


def test_confidence_counts_unknown_pieces_in_the_denominator(rules: Rules) -> None:
    rules.cause("made_cause")
    assert rules.judge(failing(10, 10)).causes[0].score == 0.5
    rules.cause("made_cause", second="true")
    assert rules.judge(failing(10, 10)).causes[0].score == 1.0


def test_evidence_against_pulls_down_and_a_decisive_piece_caps(rules: Rules) -> None:
    rules.cause("made_cause", second="false", against_weight="0.2")
    assert rules.judge(failing(10, 10)).causes[0].score == pytest.approx(0.667, abs=0.001)
    rules.cause("made_cause", second="false", against_weight="0.2", decisive="true")
    assert rules.judge(failing(10, 10)).causes == ()


def test_a_specific_cause_explains_a_generic_one_away(rules: Rules) -> None:
    rules.cause("specific_cause", second="true")
    rules.cause("generic_cause", second="true", away='"specific_cause"')
    found = rules.judge(failing(10, 10))
    assert [(cause.id, cause.score) for cause in found.causes] == [
        ("specific_cause", 1.0),
        ("generic_cause", 0.65),
    ]


def test_an_ignored_cause_explains_nothing_away(rules: Rules) -> None:
    rules.cause("specific_cause", second="true")
    rules.cause("generic_cause", second="true", away='"specific_cause"')
    found = rules.judge(failing(10, 10), ignore=("specific_cause",))
    assert [(cause.id, cause.score) for cause in found.causes] == [("generic_cause", 1.0)]


def test_a_hint_does_not_lead_however_severe_its_finding(rules: Rules) -> None:
    rules.symptom(change=('severity = "low"', 'severity = "critical"'))
    rules.symptom(symptom_id="milder_symptom")
    rules.cause("hint", against_weight="1.8")
    rules.cause("likely_cause", explains="milder_symptom")
    found = rules.judge(failing(10, 10))
    assert [(cause.id, cause.score) for cause in found.causes] == [("likely_cause", 0.5), ("hint", 0.357)]


def test_of_equal_causes_the_layer_to_look_at_first_leads(rules: Rules) -> None:
    rules.cause("a_cause", layer="provider")
    rules.cause("b_cause", layer="caller")
    rules.cause("c_cause", layer="gateway")
    assert [cause.id for cause in rules.judge(failing(10, 10)).causes] == ["b_cause", "c_cause", "a_cause"]


def test_shares_and_the_unexplained_part_add_up_to_one(rules: Rules) -> None:
    rules.cause("first_cause", second="true", where="outcome = 'failed' and region = 'eu'")
    rules.cause("second_cause", where="outcome = 'failed' and attempt_id <= 8")
    rows = failing(10, 10)
    for row in rows[:6]:
        row["region"] = "eu"
    found = rules.judge(rows)
    shares = {cause.id: cause.excess_share for cause in found.causes}
    # Six attempts are claimed by both (split 2 : 1 by confidence), two by the second alone, two by nobody.
    assert shares == {"first_cause": 0.4, "second_cause": 0.4}
    assert found.unexplained[0].share == pytest.approx(0.2)


def test_a_claim_outside_the_excess_counts_for_nothing(rules: Rules) -> None:
    rules.cause("made_cause", where="outcome = 'completed'")
    cause = rules.judge(failing(10, 10)).causes[0]
    assert (cause.affected, cause.excess_share) == (0, 0.0)


def test_a_missing_field_is_named_with_what_it_would_unlock(rules: Rules) -> None:
    rules.cause("made_cause", needs='"queue_ms"')
    found = rules.judge(failing(10, 10))
    assert [(one.field, one.unlocks) for one in found.unknown] == [("queue_ms", ("made_cause",))]
    assert found.rules.present == ("made_symptom",)


def test_too_few_rows_are_unknown_and_say_how_many_more(rules: Rules) -> None:
    rules.symptom(min_rows=25)
    symptom = rules.judge(failing(10, 10)).symptoms[0]
    assert symptom.state == "unknown"
    assert symptom.reason == "5 more rows with the fields that it needs (25 in all)"


def test_a_query_that_fails_is_a_value_and_not_the_end_of_the_run(rules: Rules) -> None:
    rules.symptom(change=("count(*) as total", "count(nonsense) as total"))
    found = rules.judge(failing(10, 10))
    assert found.rules.failed == ("made_symptom",)
    assert "made_symptom.md:" in (found.symptoms[0].reason or "")


def test_an_ignored_symptom_is_shown_as_suppressed_and_explains_nothing(rules: Rules) -> None:
    rules.cause("made_cause")
    found = rules.judge(failing(10, 10), ignore=("made_symptom",))
    assert [(one.id, one.state, one.reason) for one in found.symptoms] == [
        ("made_symptom", "suppressed", "by --ignore")
    ]
    assert found.causes == ()


def test_a_mistyped_rule_is_answered_with_the_near_one(rules: Rules) -> None:
    with pytest.raises(UsageError, match="did you mean made_symptom"):
        rules.judge(failing(1, 1), ignore=("made_symptm",))


def test_severity_steps_up_where_more_than_a_fifth_is_affected(rules: Rules) -> None:
    rules.symptom(change=("0.5 as observed", "0.2 as observed"))
    assert rules.judge(failing(3, 22)).symptoms[0].severity == "low"
    assert rules.judge(failing(10, 15)).symptoms[0].severity == "medium"


def test_the_outermost_vantage_that_knows_the_fields_is_the_front(rules: Rules) -> None:
    rules.cause("made_cause")
    rows = failing(10, 10)
    rows += [{"at_s": 5 + index, "total_ms": 50.0, "vantage": "gateway"} for index in range(20)]
    assert rules.judge(rows).symptoms[0].vantage == "client"


def test_a_sentence_with_an_unknown_figure_shows_a_question_mark() -> None:
    assert fill("{share:.0%} of {n}, {ratio:.1f}x", {"share": 0.25, "n": 8, "ratio": None}) == "25% of 8, ?x"


def many_rows() -> list[dict[str, Any]]:
    draw = random.Random(2)
    rows = []
    for index in range(900):
        total_ms = 800 * draw.lognormvariate(0, 1)
        rows.append(
            {"at_s": index * 0.4, "total_ms": total_ms, "ttft_ms": total_ms * 0.3, "stream": True, "model": "m"}
            | {"input_tokens": draw.randrange(2000), "output_tokens": draw.randrange(1, 400), "request_id": f"r{index}"}
            | {"instance": f"i{index % 3}", "outcome": "failed" if draw.random() < 0.05 else "completed"}
        )
    return rows


@pytest.mark.parametrize("threads", [1, 2])
def test_the_same_rows_give_the_same_bytes_whatever_their_order_or_the_threads(threads: int) -> None:
    book = rulebook.load()
    rows = many_rows()
    with filled(rows, threads=2) as store:
        expected = to_json(diagnose(store, book))
    random.Random(threads).shuffle(rows)
    with filled(rows, threads=threads) as store:
        assert to_json(diagnose(store, book)) == expected


def test_the_json_has_every_key_that_the_design_names() -> None:
    with filled(many_rows()) as store:
        found = json.loads(to_json(diagnose(store, rulebook.load())))
    assert found["schema"] == SCHEMA
    assert set(KEYS) <= set(found)
    assert set(found["verdict"]) >= {"level", "text"}
    assert set(found["window"]) == {"from", "to"}
    for name, keys in KEYS.items():
        for row in found[name] if isinstance(found[name], list) else []:
            assert set(row) >= set(keys), name
    assert found["metrics"]
    assert found["symptoms"]


KEYS: dict[str, tuple[str, ...]] = {
    "schema": (),
    "command": (),
    "version": (),
    "verdict": (),
    "window": (),
    "inputs": ("path", "format", "vantage", "bytes", "lines", "rows", "rejected", "blank", "foreign"),
    "metrics": ("vantage", "model", "stream", "name", "n", "censored", "p50", "p95", "p99", "low", "high"),
    "symptoms": (
        "id", "title", "severity", "state", "vantage", "subject", "observed", "expected", "unit", "affected", "total",
        "first_at", "last_at", "reason",
    ),
    "causes": (
        "id", "title", "layer", "symptom", "subject", "explains", "confidence", "provisional", "rank", "affected",
        "excess", "excess_share", "evidence", "fix", "verify", "caveat", "examples",
    ),
    "unexplained": ("symptom", "subject", "excess", "share"),
    "unknown": ("field", "unlocks", "how"),
    "timeouts": ("vantage", "model", "route", "connect_ms", "first_token_ms", "idle_ms", "total_ms", "n", "basis"),
    "rules": (),
}  # fmt: skip


def test_as_dict_begins_with_the_keys_in_their_documented_order() -> None:
    with filled(many_rows()[:40]) as store:
        found = as_dict(diagnose(store, rulebook.load()))
    assert list(found)[:5] == ["schema", "command", "version", "verdict", "window"]


def test_one_wrong_clock_does_not_flatten_the_timeline() -> None:
    rows = [{"at_s": index, "total_ms": 100.0} for index in range(60)]
    with filled([*rows, {"at_s": -50 * 365 * 86400, "total_ms": 100.0}]) as store:
        timeline = diagnose(store, rulebook.load()).timeline
    assert timeline.bin_ms == 1000.0
    assert sum(one.requests for one in timeline.bins) == 60
