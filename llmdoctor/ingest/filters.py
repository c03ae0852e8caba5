"""--since, --until and --where: which attempts an analysis is about."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from llmdoctor.errors import InputError, StoreError, UsageError
from llmdoctor.ingest.finish import YEAR_US
from llmdoctor.ingest.query import literal
from llmdoctor.store import Store

_BEFORE_END = re.compile(r"-?(?=\d)(?:(\d{1,6})d)?(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,6})s)?")


@dataclass(frozen=True)
class Bound:
    """What --since or --until names: the instant, and the text as it stands in notes and settings."""

    at: datetime
    text: str


def select(store: Store, since: Bound | None, until: Bound | None, where: str | None) -> list[str]:
    """Removes what --since, --until and --where leave out. One note for each filter. UsageError where one is no
    condition."""
    notes = []
    tests = []
    for name, bound, sign in (("since", since, ">="), ("until", until, "<")):
        if bound:
            tests.append((name, bound.text, f"started_at {sign} timestamptz {literal(bound.at.isoformat())}"))
    if where:
        require_condition(store, where)
        tests.append(("where", where, where))
    for name, text, condition in tests:
        try:
            found = store.run(f"select attempt_id from attempts where ({condition}\n) is not true")
        except StoreError as error:
            raise UsageError(f"--{name}: {text!r} is no condition over the columns of attempts ({error})") from error
        store.script(f"delete from attempts where ({condition}\n) is not true")
        notes.append(f"--{name} {text}: {len(found):,} rows removed.")
    if tests:
        if store.run("select count(*) from attempts")[0][0] == 0:
            raise InputError(f"the filters left no row ({' '.join(notes)}): widen --since, --until or --where")
        for table in ("chunks", "stages", "facts"):
            store.script(
                f"delete from {table} where attempt_id is not null "
                "and attempt_id not in (select attempt_id from attempts)"
            )
    return notes


def require_condition(store: Store, where: str) -> None:
    """UsageError where --where is no condition. A text such as `a) or (b` would make sense inside the brackets that we
    put around it, and mean something else."""
    try:
        store.run(f"select 1 from attempts where {where}\nlimit 0")
    except StoreError as error:
        raise UsageError(f"--where: {where!r} is no condition over the columns of attempts ({error})") from error


def bound(store: Store, option: str, text: str) -> Bound:
    """What --since or --until names: an instant, or `1d`, `2h30m`, `90s` before the end of the log (a minus sign
    changes nothing). UsageError where it is neither."""
    if match := _BEFORE_END.fullmatch(text.strip().lower()):
        days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
        try:
            at = _end(store, option) - timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        except OverflowError as error:
            raise UsageError(f"{option}: {text!r} is longer than any log; write it as 1d, 2h30m or 90s") from error
        return Bound(at, f"{text} ({at.astimezone(UTC).isoformat().replace('+00:00', 'Z')})")
    try:
        return Bound(store.run("select cast(? as timestamptz)", [text])[0][0], text)
    except StoreError as error:
        raise UsageError(
            f"{option}: {text!r} is no time; write it as 2026-01-31T12:00:00Z, or as 1d, 2h30m or 90s before the end "
            "of the log"
        ) from error


def _end(store: Store, option: str) -> datetime:
    """The last instant of the log, rows left out that start more than a year away from the middle of all."""
    end: datetime | None = store.run(
        "with dated as (select started_at, ended_at from attempts where started_at is not null), "
        "middle as (select quantile_disc(started_at, 0.5) as at_middle from dated) "
        "select max(coalesce(ended_at, started_at)) from dated cross join middle "
        f"where abs(epoch_us(started_at) - epoch_us(at_middle)) <= {YEAR_US}"
    )[0][0]
    if end is None:
        raise UsageError(f"{option}: no record has a time, so the log has no end to count from")
    return end
