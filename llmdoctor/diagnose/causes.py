"""Findings -> causes: who is judged, what each accounts for, in which order they are shown."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

from llmdoctor.diagnose import shares
from llmdoctor.diagnose.confidence import probability, profile_of, rounded
from llmdoctor.diagnose.evidence import LISTED_FROM, Asked, Judgement, ask_all, explain_away, fill, judge
from llmdoctor.diagnose.front import Fronts
from llmdoctor.diagnose.part import part_of
from llmdoctor.diagnose.probing import plain, products
from llmdoctor.diagnose.values import NOT_ASKED, SEVERITIES, Cause, Example, Fix, Symptom, Unexplained, six
from llmdoctor.rulebook import LAYERS, CauseRule, Kind, Rulebook
from llmdoctor.store import Row, Store

EXAMPLES = 3
EQUAL_WITHIN = 0.05
LEADS_FROM = 0.4  # a hint: with less a cause stands behind those that have more, however severe its finding


@dataclass(frozen=True)
class Causes:
    """The listed causes in rank order, and the attempts that are their examples, by cause; what stays unexplained; how
    every cause rule ended and what it would need; a note where they were weighed on a part of the log."""

    listed: tuple[Cause, ...]
    examples: Mapping[str, Sequence[int]]
    unexplained: tuple[Unexplained, ...]
    ends: Mapping[str, str]
    missing: tuple[tuple[str, str], ...]
    considered: Mapping[str, str]
    notes: tuple[str, ...] = ()

    def on(self, lines: Mapping[int, int]) -> "Causes":
        """The same with the lines (by attempt_id) on which the examples stand."""
        listed = tuple(
            replace(
                cause,
                examples=tuple(
                    replace(example, line=lines.get(number))
                    for number, example in zip(self.examples[cause.id], cause.examples, strict=True)
                ),
            )
            for cause in self.listed
        )
        return replace(self, listed=listed)


@dataclass(frozen=True)
class _Candidate:
    """One cause under one finding."""

    number: int
    finding: Symptom
    judgement: Judgement
    confidence: float
    sure: float | None
    claim: shares.Claim | None

    @property
    def accounts(self) -> float:
        """Probability x share of the excess; a finding without excess counts its causes whole."""
        share = 1.0 if self.claim is None or self.claim.share is None else self.claim.share
        return six((self.confidence if self.sure is None else self.sure) * share) or 0.0

    @property
    def weight(self) -> tuple[bool, int, float, int, float, float]:
        """What is more than a hint first, then by severity of the finding and by what it accounts for; of equal ones
        (to a tenth) the layer to look at first."""
        return (
            self.confidence >= LEADS_FROM,
            SEVERITIES.index(self.finding.severity),
            round(self.accounts, 1),
            -LAYERS.index(self.judgement.rule.layer),
            self.accounts,
            self.confidence,
        )


def judge_causes(
    store: Store, fronts: Fronts, book: Rulebook, symptoms: Sequence[Symptom], skip: Collection[str]
) -> Causes:
    """Judges each cause under each present finding that it explains; without one it is not asked at all (the gate)."""
    findings = [one for one in symptoms if one.state == "present"]
    gated = [rule for rule in book.causes if any(one.id in rule.explains for one in findings)]
    shares.begin(store)
    for number, finding in enumerate(findings):
        shares.add_excess(store, fronts, number, finding, next(one for one in book.symptoms if one.id == finding.id))
    with part_of(store, fronts) if gated else nullcontext() as part:
        kinds = {one.id: one.kind for one in book.symptoms}
        every = [(rule, kind) for rule in gated for kind in sorted(_kinds_of(rule, findings, kinds))]
        answers = {(rule.id, kind): ask_all(store, fronts, rule, kind) for rule, kind in every}
        weighed = _weighed(book, answers, findings, skip)
        for rule in gated:
            listed_under = [
                shares.Under(number, finding, confidence, rule.kind_of(kinds[finding.id]))
                for number, (finding, under) in enumerate(zip(findings, weighed, strict=True))
                for judgement, confidence in under
                if judgement.rule.id == rule.id and confidence >= LISTED_FROM
            ]
            if listed_under:
                shares.add_claims(store, fronts, rule, listed_under)
        settled = [shares.settle(store, number) for number in range(len(findings))]
    asked: dict[str, list[Asked]] = {}
    for (rule_id, _), found in answers.items():
        asked.setdefault(rule_id, []).extend(found)
    profile = profile_of(store)
    candidates: list[_Candidate] = []
    unexplained: list[Unexplained] = []
    for number, (finding, under, (claims, whole, left)) in enumerate(zip(findings, weighed, settled, strict=True)):
        candidates += (
            _Candidate(
                number,
                finding,
                judgement,
                confidence,
                probability(book.calibration, profile, judgement.rule.id, finding, confidence),
                claims.get(judgement.rule.id, _nothing(whole)),
            )
            for judgement, confidence in under
        )
        if whole:
            unexplained.append(Unexplained(finding.id, finding.subject, six(left) or 0.0, six(left / whole) or 0.0))
    best = _best_of_each(candidates)
    examples = _examples(store, best)
    listed = _ranked(store, best, examples)
    return Causes(
        listed=_with_equals(listed, best),
        examples={cause: [int(row["attempt_id"]) for row in found] for cause, found in examples.items()},
        unexplained=tuple(unexplained),
        ends={rule.id: _end(rule, best, asked, skip) for rule in book.causes},
        missing=tuple(
            dict.fromkeys((need, name) for name, found in asked.items() for one in found for need in one.missing)
        ),
        considered=_considered(book, asked, candidates),
        notes=(part,) if part else (),
    )


def _kinds_of(rule: CauseRule, findings: Sequence[Symptom], kinds: Mapping[str, Kind]) -> set[Kind]:
    return {rule.kind_of(kinds[one.id]) for one in findings if one.id in rule.explains}


def _weighed(
    book: Rulebook,
    answers: Mapping[tuple[str, Kind], Sequence[Asked]],
    findings: Sequence[Symptom],
    skip: Collection[str],
) -> list[list[tuple[Judgement, float]]]:
    """For each finding the causes under it with their confidence. The caller of a probe is the probe: nothing is laid
    at its door."""
    rules, kinds = {rule.id: rule for rule in book.causes}, {one.id: one.kind for one in book.symptoms}
    dimensions = {rule.dimension for rule in book.causes}
    elsewhere: dict[str, Judgement] = {}
    for (rule_id, _), found in answers.items():
        if rule_id not in skip:
            one = judge(rules[rule_id], found, "all")
            held = elsewhere.get(rule_id)
            elsewhere[rule_id] = one if held is None or one.confidence > held.confidence else held
    weighed = []
    for finding in findings:
        judgements = {
            rule.id: judge(rule, answers[rule.id, rule.kind_of(kinds[finding.id])], finding.subject)
            for rule in book.causes
            if finding.id in rule.explains
            and rule.id not in skip
            and (finding.vantage, rule.layer) != ("probe", "caller")
            and _may_be(rule, finding.subject, dimensions)
        }
        confidence = explain_away(judgements, elsewhere)
        weighed.append([(judgement, confidence[rule_id]) for rule_id, judgement in judgements.items()])
    return weighed


def _may_be(rule: CauseRule, subject: str, dimensions: Collection[str | None]) -> bool:
    """False where a finding is about one value of another dimension: a slow model is no slow instance, though all of
    its instances are slow."""
    column = subject.partition("=")[0].removeprefix("upstream_")
    return rule.dimension is None or column not in dimensions or column == rule.dimension


def _nothing(whole: float) -> shares.Claim | None:
    """A cause that claims no attempt accounts for nothing; without any excess there is nothing to account for."""
    return shares.Claim(0, 0.0, 0.0) if whole else None


def _best_of_each(candidates: Sequence[_Candidate]) -> list[_Candidate]:
    """Each cause under the finding that it explains best, from 0.3 up, in rank order."""
    best: dict[str, _Candidate] = {}
    for one in candidates:
        held = best.get(one.judgement.rule.id)
        if one.confidence >= LISTED_FROM and (held is None or one.weight > held.weight):
            best[one.judgement.rule.id] = one
    by_id = sorted(best.values(), key=lambda one: one.judgement.rule.id)
    return sorted(by_id, key=lambda one: one.weight, reverse=True)


def _ranked(store: Store, best: Sequence[_Candidate], examples: Mapping[str, Sequence[Row]]) -> list[Cause]:
    seen = products(store)
    return [
        Cause(
            id=one.judgement.rule.id,
            title=fill(one.judgement.rule.title, one.judgement.figures),
            layer=one.judgement.rule.layer,
            symptom=one.finding.id,
            subject=one.finding.subject,
            explains=one.judgement.rule.explains,
            confidence=rounded(one.confidence if one.sure is None else one.sure),
            score=rounded(one.confidence),
            provisional=one.sure is None,
            rank=rank,
            affected=one.claim.affected if one.claim else 0,
            excess=one.claim.excess if one.claim else None,
            excess_share=one.claim.share if one.claim else None,
            evidence=one.judgement.evidence,
            fix=_fixes(one.judgement.rule, seen.get(one.finding.subject) or seen["all"]),
            verify=one.judgement.rule.verify,
            caveat=one.judgement.rule.caveat,
            examples=tuple(
                Example(row["request_id"], row["path"] or "", None) for row in examples[one.judgement.rule.id]
            ),
        )
        for rank, one in enumerate(best, 1)
    ]


def _fixes(rule: CauseRule, words: Sequence[str]) -> tuple[Fix, ...]:
    """Fixes for the products that were seen first, the page's order otherwise."""
    ordered = sorted(rule.fixes, key=lambda fix: not any(plain(word) in plain(fix[0]) for word in words))
    return tuple(Fix(product, text) for product, text in ordered)


def _examples(store: Store, best: Sequence[_Candidate]) -> dict[str, list[Row]]:
    """The attempts that a cause claims most of, up to three each."""
    return {
        one.judgement.rule.id: store.rows(
            "select c.attempt_id, a.request_id, i.path from claims c join attempts a using (attempt_id)"
            " left join inputs i using (input_id) where c.finding = ? and c.cause = ?"
            " order by c.claim desc, c.attempt_id limit ?",
            [one.number, one.judgement.rule.id, EXAMPLES],
        )
        or store.rows(  # tasks: their events stand in no line that is kept
            "select c.attempt_id, t.task as request_id, null as path from claims c"
            " join task_audit t on t.task_key = c.attempt_id where c.finding = ? and c.cause = ?"
            " order by c.attempt_id desc limit ?",
            [one.number, one.judgement.rule.id, EXAMPLES],
        )
        for one in best
    }


def _with_equals(listed: Sequence[Cause], best: Sequence[_Candidate]) -> tuple[Cause, ...]:
    """Causes under one finding that weigh the same are shown as equal, with the one measurement that would decide."""
    shown: list[Cause] = []
    for cause, one in zip(listed, best, strict=True):
        rivals = [
            (other, candidate)
            for other, candidate in zip(listed, best, strict=True)
            if other.id != cause.id
            and candidate.number == one.number
            and abs(candidate.accounts - one.accounts) <= EQUAL_WITHIN
        ]
        questions = [one.judgement.open_question, *(rival.judgement.open_question for _, rival in rivals)]
        decide = next((question for question in questions if question), None) if rivals else None
        shown.append(replace(cause, equal_to=tuple(other.id for other, _ in rivals), separate_by=decide))
    return tuple(shown)


def _end(
    rule: CauseRule, best: Sequence[_Candidate], asked: Mapping[str, Sequence[Asked]], skip: Collection[str]
) -> str:
    if rule.id in skip:
        return "suppressed"
    if any(one.judgement.rule.id == rule.id for one in best):
        return "present"
    answers = asked.get(rule.id, ())
    if answers and all(one.failed for one in answers):
        return "failed"
    if answers and not any(one.rows for one in answers):
        return "unknown"
    return "absent"


def _considered(
    book: Rulebook, asked: Mapping[str, Sequence[Asked]], candidates: Sequence[_Candidate]
) -> dict[str, str]:
    """For --verbose: how each cause came out, also those that are not listed."""
    told = {}
    for rule in book.causes:
        tried = [one for one in candidates if one.judgement.rule.id == rule.id]
        if rule.id not in asked:
            told[rule.id] = f"{NOT_ASKED}: it explains {', '.join(rule.explains)}, and no such limit is broken"
        elif tried:
            top = max(tried, key=lambda one: one.confidence)
            sides = " | ".join(f"{piece.verdict}: {piece.text}" for piece in top.judgement.evidence)
            told[rule.id] = f"confidence {top.confidence:.2f} under {top.finding.id} ({top.finding.subject}); {sides}"
    return told
