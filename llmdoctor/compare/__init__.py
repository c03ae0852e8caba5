"""Two diagnoses -> Comparison: did it help, and what else changed?

All that is compared stands in the published form of a diagnosis: reports, stores and logs compare alike.

side       the published form of one diagnosis
changes    each figure, at equal mix too: beyond noise?
turned     findings that appeared, cleared, got better or worse
others     what else changed
judge      the verdict
"""

from collections.abc import Iterator
from datetime import datetime

from llmdoctor import __version__
from llmdoctor.compare.changes import changes
from llmdoctor.compare.findings import asked, turned
from llmdoctor.compare.others import OUTCOMES, others
from llmdoctor.compare.sides import Side, side
from llmdoctor.compare.values import Comparison, Level, Other, Verdict, as_dict, to_json
from llmdoctor.compare.verdict import elsewhere, judge

__all__ = ["Comparison", "Side", "as_dict", "compare", "side", "to_json"]


def compare(before: Side, after: Side, command: str) -> Comparison:
    """Compares two sides at the outermost vantage that both have."""
    vantage = next((one.vantage for one in before.samples if after.sample(one.vantage)), None)
    first, second = before.sample(vantage), after.sample(vantage)
    figures = changes(first, second, asked(before, after)) if first and second else ()
    changed = others(first, second) if first and second else ()
    findings = turned(before, after, figures, vantage)
    places = [", ".join(one.vantage for one in side.samples) for side in (before, after)]
    apart = vantage is None and all(places)
    if _same(before, after):
        verdict = Verdict("no_change", "Both sides are the same log: nothing can have changed.", "")
    elif apart:
        verdict = elsewhere(*places)
    else:
        verdict = judge(figures, findings, changed, after.plain["command"])
    return Comparison(
        command=command,
        version=__version__,
        verdict=verdict,
        before=before.source(vantage),
        after=after.source(vantage),
        figures=figures,
        findings=findings,
        changed=changed,
        warnings=(*_swapped(before, after, verdict.level), *_warnings(before, after, changed, vantage)),
    )


def _same(before: Side, after: Side) -> bool:
    """Whether both are of the same attempts, however they came here."""
    alike = before.samples == after.samples and before.plain["window"] == after.plain["window"]
    return alike and bool(before.samples) and None not in before.plain["window"].values()


SWAPPED: dict[Level, str] = {
    "regression": "what is worse here got better",
    "traded": "what is worse here got better, and what is better worse",
    **dict.fromkeys(("fixed", "partly_fixed", "better"), "what is better here got worse"),
}


def _swapped(before: Side, after: Side, level: Level) -> Iterator[str]:
    """A warning where AFTER is the older side: somebody may have given them the wrong way round."""
    end, start = after.plain["window"]["to"], before.plain["window"]["from"]
    if end and start and datetime.fromisoformat(end) < datetime.fromisoformat(start):
        meant = SWAPPED.get(level, "before and after are to be read so")
        yield f"AFTER is older than BEFORE: if you gave them the wrong way round, {meant}."


def _warnings(before: Side, after: Side, changed: tuple[Other, ...], vantage: str | None) -> list[str]:
    """What a reader must know before the verdict is believed."""
    said = []
    if vantage is None and (lacking := [side.path for side in (before, after) if not side.samples]):
        told = " and ".join(lacking)
        said.append(
            f"Only findings can be compared: {told} keeps no figures (a probe, or a report of an older version)."
        )
    moved = [one for one in changed if one.moved and one.name not in OUTCOMES]
    versions = {one.name for one in moved} & {"app_version", "prompt_version"}
    # New instances come with a new version: that is one change.
    moved = [one for one in moved if not (versions and one.name == "instance")]
    if len(moved) > 1:
        titles = [one.title.partition(",")[0] for one in moved]
        said.append(
            f"{len(moved)} things changed beside the times ({', '.join(titles[:5])}): the effect cannot be laid to one."
        )
    if before.plain["version"] != after.plain["version"]:
        said.append("The two reports come from different versions of llmdoctor: limits and rules may differ.")
    for one in (before, after):
        if lost := {name for name in one.plain.get("cut", {}) if str(name).startswith(("samples", "symptoms"))}:
            said.append(f"{one.path}: the report was cut to size and lost some of {', '.join(sorted(lost))}.")
    return said
