"""The plain answers beside the findings: files, percentiles, the course of time, missing fields, the verdict."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from llmdoctor.diagnose.front import Fronts
from llmdoctor.diagnose.values import (
    Bin,
    Cause,
    InputFile,
    Level,
    Metric,
    MissingField,
    Secret,
    Symptom,
    Timeline,
    Verdict,
    instant,
    six,
)
from llmdoctor.rulebook import Rulebook
from llmdoctor.store import Store

BIN_SECONDS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200, 86400, 604800)
MAX_BINS = 120
YEAR_US = 366 * 86400 * 1_000_000
MOST_REJECTS = 5

# What a rule needs that nobody logs as such: the table it is made of, or nothing that a field would change.
LOGGED_AS: Mapping[str, str | None] = {
    "lumps": "chunks",
    "slices": None,
    "walls": None,
    "segments": None,
    "pairs": None,
    "expected": None,
    "in_flight": None,
    "in_flight.load": None,
    "tries": "task_id",
    "tries.gap_ms": "task_id",
    "journeys.whole_ms": "stages",
    "task_audit": "task_events",
    "task_audit.worker": "task_events",
    "task_audit.result_us": "task_events",
    "task_audit.conflict": "idempotency_key",
}

# What only a probe can see: no log would be more complete with it.
PROBED = frozenset({"hop", "variant", "facts", "hops", "probes", "shapes", "lump_sizes", "beside"})

# Latency is decided by any of the first, errors by all of the second.
DECIDES_LATENCY = ("high_ttft", "tail_latency", "slow_overall")
DECIDES_ERRORS = ("errors",)

# Said of a first token that comes late, where only answers of one length were seen.
_AS_FAR = (
    ", as far as answers of one length tell: their first token comes late, and only longer and shorter ones (no "
    "--quick) show whether they were computed before they were sent"
)

# What `affected` of a symptom counts, by its unit, where that is not attempts.
_COUNTED = {"tries": "tasks", "lines": "lines"}


def list_inputs(store: Store) -> tuple[InputFile, ...]:
    """Every file in the order of its path, with its ledger and a few examples of what could not be read."""
    bad: dict[int, dict[str, int]] = defaultdict(dict)
    for number, field, values in store.run("select input_id, field, bad_values from bad_fields order by 1, 2"):
        bad[number][field] = int(values)
    examples: dict[int, list[tuple[int, str, str]]] = defaultdict(list)
    for number, line, reason, snippet in store.run(
        "select input_id, line, reason, snippet from rejects order by input_id, fatal desc, line, reason"
    ):
        if len(examples[number]) < MOST_REJECTS:
            examples[number].append((line, reason, snippet or ""))
    secrets: dict[int, list[Secret]] = defaultdict(list)
    for number, kind, lines, first in store.run(
        'select input_id, kind, "count", first_line from secrets order by input_id, first_line, kind'
    ):
        secrets[number].append(Secret(kind, int(lines), int(first)))
    return tuple(
        InputFile(
            path=row["path"],
            format=row["format"],
            vantage=row["vantage"],
            reason=row["reason"] or "",
            bytes=row["bytes"] or 0,
            lines=row["lines"] or 0,
            rows=row["rows"] or 0,
            rejected=row["rejected"] or 0,
            blank=row["blank"] or 0,
            foreign=row["foreign_lines"] or 0,
            doubled=row["doubled"] or 0,
            out_of_order=row["out_of_order"],
            longest_gap_ms=six(row["longest_gap_ms"]),
            grew=bool(row["grew"]),
            note=row["note"],
            bad_fields=bad[row["input_id"]],
            examples=tuple(examples[row["input_id"]]),
            secrets=tuple(secrets[row["input_id"]]),
        )
        for row in store.rows("select * from inputs order by input_id")
    )


def list_metrics(store: Store) -> tuple[Metric, ...]:
    """Percentiles as `stats` computed them, rounded, the outermost vantage first and the biggest population first. None
    of a probe: its few requests go to several places, on purpose in several ways."""
    rows = store.rows(
        "select q.* from quantiles q join vantages v using (vantage) where q.vantage <> 'probe'"
        " order by v.depth, q.n desc, q.model, q.stream, q.name"
    )
    figures = [name for name in store.columns("quantiles") if name.startswith("p") or name in ("low", "high")]
    return tuple(Metric(**(row | {name: six(row[name]) for name in figures})) for row in rows)


def window(store: Store) -> tuple[str | None, str | None]:
    """First start and last end of all attempts whose times name a day; of the tasks, where there are no attempts."""
    first, last = store.run(
        "select min(started_at), max(coalesce(ended_at, started_at)) from attempts"
        " where time_basis is distinct from 'relative'"
    )[0]
    if first is None:
        first, last = store.run('select min("at"), max("at") from task_events where not exists (from attempts)')[0]
    return instant(first), instant(last)


def timeline(store: Store, fronts: Fronts) -> Timeline:
    """At most 120 equal bins of the outermost vantage, of the two years around the middle start: one wrong clock must
    not flatten the rest. P99 only where a bin has 100 requests. Nothing of a probe: its requests go to several places
    in turn, and their course is that of its plan."""
    if not fronts.vantages or fronts.vantages[0] == "probe":
        return Timeline(None, 0, ())
    fronts.use(fronts.vantages[0])
    middle = store.run("select epoch_us(quantile_disc(started_at, 0.5)) from front")[0][0]
    if middle is None:
        return Timeline(fronts.vantages[0], 0, ())
    near = f"epoch_us(f.started_at) between {middle - YEAR_US} and {middle + YEAR_US}"
    first, last = store.run(f"select epoch_us(min(started_at)), epoch_us(max(started_at)) from front f where {near}")[0]
    seconds = next(size for size in BIN_SECONDS if (last - first) / 1e6 / size < MAX_BINS - 1)
    rows = store.rows(
        f"""
        select epoch_us(f.started_at) // {seconds * 1_000_000} as bin, count(*) as requests,
               count(*) filter (f.outcome in ('failed', 'timeout', 'incomplete', 'empty', 'rate_limited')) as failures,
               quantile_disc(f.ttft_ms, [0.5, 0.99]) as ttft, count(f.ttft_ms) as n_ttft,
               quantile_disc(f.total_ms, [0.5, 0.99]) as total,
               max(f.others) + 1 as max_in_flight
        from   front_expected f
        where  {near}
        group  by 1
        """
    )
    retries = dict(
        store.run(f"select epoch_us(started_at) // {seconds * 1_000_000}, count(*) from tries where retry group by 1")
    )
    found = {int(row["bin"]): row for row in rows}
    return Timeline(
        fronts.vantages[0],
        seconds * 1000.0,
        tuple(_bin(number, seconds, found.get(number), retries) for number in range(min(found), max(found) + 1)),
    )


def _bin(number: int, seconds: int, row: Mapping[str, object] | None, retries: Mapping[int, int]) -> Bin:
    at = instant(datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=number * seconds)) or ""
    if row is None:
        return Bin(at, 0, 0, 0, None, None, None, None, 0)
    return _filled(at, dict(row), int(retries.get(number, 0)))


def _filled(at: str, row: dict[str, object], retries: int) -> Bin:
    ttft = row["ttft"] if isinstance(row["ttft"], list) else [None, None]
    total = row["total"] if isinstance(row["total"], list) else [None, None]
    many_first = int(str(row["n_ttft"])) >= 100
    many = int(str(row["requests"])) >= 100
    return Bin(
        at=at,
        requests=int(str(row["requests"])),
        failures=int(str(row["failures"])),
        retries=retries,
        p50_ttft_ms=six(ttft[0]),
        p99_ttft_ms=six(ttft[1]) if many_first else None,
        p50_total_ms=six(total[0]),
        p99_total_ms=six(total[1]) if many else None,
        max_in_flight=None if row["max_in_flight"] is None else int(str(row["max_in_flight"])),
    )


def missing_fields(store: Store, book: Rulebook, wanted: Iterable[tuple[str, str]]) -> tuple[MissingField, ...]:
    """What would be known with one more field: (field, rule) pairs, the field that unlocks most rules first. Nobody can
    add a field to a probe, so for one alone there are none."""
    if store.run("select bool_and(vantage = 'probe') from attempts")[0][0]:
        return ()
    unlocks: dict[str, set[str]] = defaultdict(set)
    for need, rule_id in wanted:
        field = "|".join(one for one in need.split("|") if one.partition(".")[0] not in PROBED)
        if field and (logged := LOGGED_AS.get(field, field)) is not None:
            unlocks[logged].add(rule_id)
    ordered = sorted(unlocks, key=lambda field: (-len(unlocks[field]), field))
    return tuple(
        MissingField(field.removeprefix("calls."), tuple(sorted(unlocks[field])), _how(book, field))
        for field in ordered
    )


def _how(book: Rulebook, field: str) -> str:
    names = [name.rpartition(".")[2] for name in field.split("|")]
    known = [book.fields[key] for key in (field, *names) if key in book.fields]
    return known[0] if known else f"Log {' or '.join(names)} under exactly this name in the native log."


def verdict(symptoms: Sequence[Symptom], causes: Sequence[Cause], command: str) -> Verdict:
    """Healthy: nothing present, latency and errors decided. Attention: only low or medium. Unhealthy: any high or
    critical. Undetermined: nothing present and those not decided."""
    present = [one for one in symptoms if one.state == "present"]
    if present:
        level: Level = "unhealthy" if any(one.severity in ("high", "critical") for one in present) else "attention"
        return Verdict(level, _what(present, causes), _next(present[0], causes, command))
    reasons = [one.reason for one in symptoms if one.vantage == "probe" and one.state == "unknown"]
    if doubt := next((reason for reason in reasons if reason != "not decidable"), None):
        text = f"This probe cannot be believed: {doubt}."
        return Verdict("undetermined", text, "Probe again from a quieter machine.")
    absent = {one.id for one in symptoms if one.state == "absent"}
    if absent & set(DECIDES_LATENCY) and absent >= set(DECIDES_ERRORS):
        judged = [one for one in symptoms if one.id == "burst_delivery" and _place(one)]
        judged.sort(key=lambda one: one.subject)
        live = [str(_place(one)) for one in judged]
        doubt = _AS_FAR * any(one.state == "unknown" for one in judged)
        if not live and any(_place(one) for one in symptoms if one.id == "high_ttft"):
            text = "No limit is seen to be broken, but whether the stream is live cannot be told: too few pieces came."
            return Verdict("undetermined", text, "Probe again with a --body that gives a longer answer in text.")
        told = f"The stream is live at {' and at '.join(live)}{doubt}. " if live else ""
        return Verdict("healthy", f"{told}No limit is broken: latency and errors were checked and are fine.", "")
    if any(map(_place, symptoms)) and absent >= set(DECIDES_ERRORS):
        text = "No limit is seen to be broken, but latency could not be decided: too few streams were asked for."
        return Verdict("undetermined", text, "Probe again with a larger --repeat.")
    what = [word for word, ids in (("latency", DECIDES_LATENCY), ("errors", DECIDES_ERRORS)) if not absent & set(ids)]
    text = f"No limit is seen to be broken, but {' and '.join(what)} could not be decided from these logs."
    return Verdict("undetermined", text, "See what could not be checked, and which field would unlock it.")


def _what(present: Sequence[Symptom], causes: Sequence[Cause]) -> str:
    first = present[0]
    left = len(present) - 1
    more = f" (and {left} more finding{'s' if left > 1 else ''})" if left else ""
    sentence = f"{_said(first, causes)}{more}."
    if not causes:
        return (
            sentence if first.self_explained or first.reason else f"{sentence} No cause that is known here explains it."
        )
    best = causes[0]
    equal = f" or, equally, {', '.join(best.equal_to)}" if best.equal_to else ""
    doubt = ", provisional" if best.provisional else ""
    return f"{sentence} Most likely: {best.title}{equal} (confidence {best.confidence:.2f}{doubt})."


def _said(symptom: Symptom, causes: Sequence[Cause]) -> str:
    """The finding in words: its title; of a probe the place first, what happens to the stream there, and how its calls
    ended or the sentence of evidence that holds it against the place inside."""
    place = _place(symptom)
    if place is None:
        return f"{symptom.title}{_share(symptom)}"
    here = [one for one in causes if (one.symptom, one.subject) == (symptom.id, symptom.subject)]
    title = symptom.title[0].lower() + symptom.title[1:]
    if symptom.id == "burst_delivery" and here:
        names = {one.id for one in here if one.confidence >= here[0].confidence - 0.1}
        known = {"fake_streaming": "the stream is faked", "not_streaming": "no stream comes", "cache_replay": title}
        title = known.get(here[0].id, "the stream is held back")
        if len(names) > 1 and "fake_streaming" in names:
            title = "the stream is held back or faked on this way"
    sides = [one for one in here[0].evidence if one.verdict == "for"] if here else []
    beside = [*(one for one in sides if "inside" in one.values), *sides]
    told = symptom.reason or next((one.text for one in beside), "")
    return f"{place}: {title}{_share(symptom)}" + (f": {told}" if told else "")


def _place(symptom: Symptom) -> str | None:
    """The place of a probe that a finding is about."""
    return symptom.subject.removeprefix("hop=") if symptom.subject.startswith("hop=") else None


def _share(symptom: Symptom) -> str:
    if not symptom.affected or not symptom.total:
        return ""
    return f", {symptom.affected:,} of {symptom.total:,} {_COUNTED.get(symptom.unit, symptom.counts)}"


def _next(first: Symptom, causes: Sequence[Cause], command: str) -> str:
    if causes and causes[0].fix:
        text = " ".join(causes[0].fix[0].text.split())
        return f"{causes[0].fix[0].product}: {text.partition('. ')[0].rstrip('.')}."
    return f"Once that is mended: {command}" if first.reason else f"{command} --verbose"
