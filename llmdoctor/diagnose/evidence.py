"""Cause pages + store -> judgements: what speaks for and against each cause, and how much that is worth."""

import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from llmdoctor.diagnose.front import Fronts
from llmdoctor.diagnose.values import Evidence, Side, instant, six
from llmdoctor.errors import StoreError
from llmdoctor.rulebook import CauseRule, EvidenceRule, Kind
from llmdoctor.store import Row, Store

LISTED_FROM = 0.3
CONFIRMED_FROM = 0.5
EXPLAINED_AWAY = 0.65
DECISIVE_CAP = 0.2


# Where a value of a dimension stands out, whichever column names it.
STANDS_OUT = """
select distinct vantage from slices
where  replace(dimension, 'upstream_', '') = :dimension and (kind = :kind or :kind = 'any') and lift >= 2
and    (significant or kind = 'failed')
"""


@dataclass(frozen=True)
class Asked:
    """The answer to one piece of evidence: its rows by subject, or why there are none."""

    rule: EvidenceRule
    rows: Mapping[str, Row]
    missing: tuple[str, ...] = ()
    failed: str | None = None


@dataclass(frozen=True)
class Judgement:
    """One cause under one subject. `confidence` is raw until explained away; `figures` are those of all evidence."""

    rule: CauseRule
    confidence: float
    evidence: tuple[Evidence, ...]
    figures: Mapping[str, Any]
    open_question: str | None


def ask_all(store: Store, fronts: Fronts, rule: CauseRule, kind: Kind) -> list[Asked]:
    """Runs every piece of evidence of a cause once, for findings of this kind."""
    return [_ask(store, fronts, rule, piece, kind) for piece in rule.evidence]


def _ask(store: Store, fronts: Fronts, rule: CauseRule, piece: EvidenceRule, kind: Kind) -> Asked:
    needs, asked = (*piece.needs, *_named(rule)), {"dimension": rule.dimension, "kind": kind}
    # A gateway that names its own process only, and an engine behind it of which one replica stands out.
    preferred = [row["vantage"] for row in store.ask(STANDS_OUT, asked)] if rule.dimension else []
    choice = fronts.choose(needs, piece.min_rows, preferred)
    if choice.vantage is None:
        return Asked(piece, {}, choice.missing)
    try:
        rows = store.ask(piece.query.text, asked)
    except StoreError as error:
        return Asked(piece, {}, failed=f"{rule.page.path}:{piece.query.line}: {error}")
    return Asked(piece, {str(row["subject"]): row for row in rows})


def _named(rule: CauseRule) -> tuple[str, ...]:
    """What must be known to judge by a dimension. A proxy names the replica that served as its upstream."""
    if rule.dimension == "instance":
        return ("instance|upstream_instance",)
    return (rule.dimension,) if rule.dimension else ()


def judge(rule: CauseRule, asked: Sequence[Asked], subject: str) -> Judgement:
    """Weighs the answers for one subject: its own row, else the row `all`.

    Raw confidence is (weight for - weight against) / all weight, unknown pieces included; a decisive piece against caps
    it."""
    pieces: list[Evidence] = []
    figures: dict[str, Any] = {}
    balance, total, capped = 0.0, 0.0, False
    open_question, open_weight = None, 0.0
    for answer in asked:
        row = answer.rows.get(subject, answer.rows.get("all"))
        evidence = _weigh(answer, row)
        pieces.append(evidence)
        figures |= evidence.values
        total += answer.rule.weight
        if evidence.verdict == "for":
            balance += answer.rule.weight
        elif evidence.verdict == "against":
            balance -= answer.rule.weight
            capped |= answer.rule.decisive
        elif answer.rule.weight > open_weight:
            open_question, open_weight = answer.rule.unknown, answer.rule.weight
    confidence = max(0.0, balance / total) if total else 0.0
    confidence = min(confidence, DECISIVE_CAP) if capped else confidence
    return Judgement(rule, confidence, tuple(pieces), figures, open_question)


def _weigh(answer: Asked, row: Row | None) -> Evidence:
    if answer.failed:
        return Evidence(f"This could not be looked at: {answer.failed}", "unknown", {})
    if row is None or row["supports"] is None:
        return Evidence(answer.rule.unknown, "unknown", {})
    values = {name: _plain(value) for name, value in row.items() if name not in ("subject", "supports")}
    side: Side = "for" if row["supports"] else "against"
    return Evidence(fill(answer.rule.sentence, values), side, values)


def _plain(value: Any) -> Any:
    """A figure as JSON can hold it: numbers to 6 digits, instants as text."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, int):
        return value
    if isinstance(value, float | Decimal):
        return six(value)
    if isinstance(value, datetime):
        return instant(value)
    return str(value)


class _Lenient(string.Formatter):
    """Formats a figure that is unknown as a question mark instead of failing."""

    def format_field(self, value: Any, format_spec: str) -> str:
        if value is None:
            return "?"
        try:
            return str(super().format_field(value, format_spec))
        except (TypeError, ValueError):
            return str(value)

    def get_value(self, key: int | str, _args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        return kwargs.get(str(key))


def fill(sentence: str, figures: Mapping[str, Any]) -> str:
    """The sentence with its figures; a figure that is not known shows as "?"."""
    return _Lenient().vformat(sentence, (), figures)


def explain_away(judgements: Mapping[str, Judgement], elsewhere: Mapping[str, Judgement]) -> dict[str, float]:
    """Confidence of each cause after specific causes have explained generic ones away, by id.

    Every cause is compared with the others as they stood before, so the order does not matter; `elsewhere` are the
    causes of other findings, for the specific one may explain another symptom of the same fault."""
    known = {**elsewhere, **judgements}
    return {
        cause_id: judgement.confidence
        * (
            EXPLAINED_AWAY
            if any(
                known[other].confidence >= CONFIRMED_FROM
                for other in judgement.rule.explained_away_by
                if other in known
            )
            else 1.0
        )
        for cause_id, judgement in judgements.items()
    }
