"""Which rows of two vantages are the same attempt: fills the table `pairs`.

By ids first, the most certain first; tries that share one id never multiply: each inner row is used once, each outer
row has at most one partner per inner vantage, the nearest start decides. Where two vantages share no id at all, rows
are joined by time if only one of each can belong to the other; that is weak evidence, and `joined_by` says so.
"""

from itertools import combinations

from llmdoctor.store import Store, package_sql

# How a pair is called, the outer side's column, the inner side's.
PASSES = (
    ("id", "response_id", "response_id"),
    ("id", "request_id", "incoming_id"),
    ("id", "request_id", "request_id"),
    ("id", "response_id", "request_id"),  # the server's own id, which the caller read from the response's headers
    ("id", "incoming_id", "incoming_id"),
    ("trace", "trace_id", "trace_id"),
    ("trace", "task_id", "task_id"),
    ("trace", "task_id", "trace_id"),
    ("trace", "trace_id", "incoming_id"),
    ("trace", "task_id", "incoming_id"),
)
IDS = ("response_id", "request_id", "incoming_id", "trace_id", "task_id")

CALLERS = frozenset(("client", "probe", "bench"))
# A key on more rows of one side than this is no single request.
MOST_TRIES = 200
# By how much an inner attempt may stand out of its outer one: clocks of machines that are kept in step differ by less.
TOLERANCE_US = 20_000
BOTH_LEFT = "select count(*) from (select key from sides group by key having count(distinct inside) = 2)"
# By time: at most so many rows a side, and so many pairs of rows that run at the same moment.
MOST_ROWS = 50_000
MOST_OVERLAPS = 1_000_000
# As many times more unique pairs than chance gives, which is seen by shifting one side by these medians of a duration.
ABOVE_CHANCE = 3
CHANCE = (1.3, -1.7, 2.9, -3.1)
# A clock offset is believed from so many rows on that agree, and from that share of them.
LEAST_AGREEING, AGREEING_SHARE = 8, 0.6


def join_vantages(store: Store) -> None:
    """Fills `pairs` (made by tables.sql, empty) from `attempts`, for every two vantages, the outer one first."""
    counts = ", ".join(f"count({name}) as {name}" for name in IDS)
    known = store.rows(
        f"select vantage, depth, count(*) as n, {counts} from attempts join vantages using (vantage)"
        " group by vantage, depth order by depth"
    )
    for outer, inner in combinations(known, 2):
        left = min(outer["n"], inner["n"])
        for joined_by, outer_id, inner_id in PASSES:
            if left and outer[outer_id] and inner[inner_id]:
                _by_id(store, outer["vantage"], inner["vantage"], joined_by, outer_id, inner_id)
                left = min(outer["n"], inner["n"]) - _joined(store, outer["vantage"], inner["vantage"])
    for one, other in strangers(store):
        _by_time(store, one, other)
    for table in ("keyed", "sides", "whole", "nearest", "spans", "nested"):
        store.script(f"drop table if exists {table}")


def _joined(store: Store, outer: str, inner: str) -> int:
    return int(store.run("select count(*) from pairs where vantage = ? and partner_vantage = ?", [outer, inner])[0][0])


def _by_id(store: Store, outer: str, inner: str, joined_by: str, outer_id: str, inner_id: str) -> None:
    names = {
        "outer": f"'{outer}'",
        "inner": f"'{inner}'",
        "joined_by": f"'{joined_by}'",
        "outer_id": outer_id,
        "inner_id": inner_id,
        "most": MOST_TRIES,
        "tolerance_us": TOLERANCE_US,
    }
    store.script(package_sql("derived/pairs.sql").format(**names))
    if not store.run("select count(*) from keyed where outer_rows + inner_rows > 2")[0][0]:
        return
    store.script(package_sql("derived/pairs_retries.sql").format(**names))
    nearest = package_sql("derived/pairs_nearest.sql").format(**names)
    while store.run(BOTH_LEFT)[0][0]:
        store.script(nearest)


# --- by time


def strangers(store: Store) -> list[tuple[str, str]]:
    """Vantages (outer, inner) of which no row is joined to one of the other by an id, also not by way of a third. Two
    that call (client, probe, bench) are not on one way."""
    names = [name for (name,) in store.run("select vantage from vantages order by depth")]
    group = {name: name for name in names}
    for outer, inner in store.run("select distinct vantage, partner_vantage from pairs where joined_by <> 'time'"):
        group = {name: group[outer] if of == group[inner] else of for name, of in group.items()}
    there = {name for (name,) in store.run("select distinct vantage from attempts")}
    seen = [name for name in names if name in there]
    ways = (two for two in combinations(seen, 2) if not CALLERS.issuperset(two))
    return [(outer, inner) for outer, inner in ways if group[outer] != group[inner]]


def _by_time(store: Store, outer: str, inner: str) -> None:
    """Joins what nests in one way only: an inner attempt starts after its outer one and ends before it; model (its last
    part), streaming and tokens are the same where both sides have them; the one fits into no other, and nothing else
    fits into the other. Nothing is joined where there are too many rows to look at, or where it looks like chance."""
    names = {"outer": f"'{outer}'", "inner": f"'{inner}'"}
    if max(_rows(store, outer), _rows(store, inner)) > MOST_ROWS:
        return
    store.script(package_sql("derived/pairs_time.sql").format(**names, tolerance_us=TOLERANCE_US))
    if _overlaps(store) > MOST_OVERLAPS:
        return
    middle = store.run("select quantile_disc(end_us - start_us, 0.5) from spans where not inside")[0][0]
    for shift in (0, _offset(store)):
        if shift is not None and _beats_chance(store, shift, max(int(middle or 0), 200_000)):
            store.script(
                f"insert into pairs select attempt_id, partner_id, {names['outer']}, {names['inner']}, 'time'"
                f" from ({_nested(shift)})"
                " where attempt_id not in (select attempt_id from pairs where joined_by <> 'time')"
            )
            return


def _rows(store: Store, vantage: str) -> int:
    return int(store.run("select count(*) from attempts where vantage = ?", [vantage])[0][0])


def _overlaps(store: Store) -> int:
    """How many pairs of rows overlap in time: what a join of spans can come to."""
    found = store.run(
        """
        with moments as (
            select start_us - slack_us as at_us, inside, 1 as opens from spans
            union all select end_us + slack_us, inside, -1 from spans
        ), running as (
            select inside, opens, sum(case when not inside then opens else 0 end)
                   over (order by at_us, opens desc rows unbounded preceding) as outers
            from   moments
        )
        select coalesce(sum(outers), 0) from running where inside and opens = 1
        """
    )
    return int(found[0][0])


def _nested(shift_us: int) -> str:
    """SQL for (attempt_id, partner_id) of rows that fit each other and no other, the inner clock set back by this."""
    return f"""
        with nested as (
            select o.attempt_id, i.attempt_id as partner_id,
                   count(*) over (partition by o.attempt_id) as inners,
                   count(*) over (partition by i.attempt_id) as outers
            from   (select * from spans where not inside) o
            join   (select * from spans where inside) i
                   on  o.start_us - o.slack_us <= i.start_us + i.slack_us - {shift_us}
                   and i.end_us - i.slack_us - {shift_us} <= o.end_us + o.slack_us
            where  {_ALIKE}
        )
        select attempt_id, partner_id from nested where inners = 1 and outers = 1
    """


_ALIKE = " and ".join(
    f"coalesce(o.{name} = i.{name}, true)" for name in ("model", "stream", "input_tokens", "output_tokens")
)


def _beats_chance(store: Store, shift_us: int, step_us: int) -> bool:
    """Whether this shift gives clearly more unique pairs than shifts that must be wrong; another one than 0 must also
    fit most of the rows."""
    found = _unique(store, shift_us)
    if not found or (shift_us and found < max(LEAST_AGREEING, AGREEING_SHARE * _fewest(store))):
        return False
    wrong = [_unique(store, shift_us + int(step_us * factor)) for factor in CHANCE]
    return found >= ABOVE_CHANCE * sum(wrong) / len(wrong)


def _unique(store: Store, shift_us: int) -> int:
    return int(store.run(f"select count(*) from ({_nested(shift_us)})")[0][0])


def _fewest(store: Store) -> int:
    return int(store.run("select least(count(*) filter (inside), count(*) filter (not inside)) from spans")[0][0])


def _offset(store: Store) -> int | None:
    """By how many microseconds the inner clock is ahead; None where that is not clear. Of up to 200 inner rows, and
    all outer rows that took about as long: the difference of their middles that most of them have in common."""
    found = store.run(
        f"""
        with chosen as (
            select * from spans where inside order by hash(attempt_id), attempt_id limit 200
        ), apart as (
            select i.attempt_id, (i.start_us + i.end_us - o.start_us - o.end_us) // 2 as middle_us
            from   (select * from spans where not inside) o
            join   chosen i on (o.end_us - o.start_us) - (i.end_us - i.start_us)
                               between -i.slack_us - o.slack_us and greatest(100_000, (o.end_us - o.start_us) // 10)
            where  {_ALIKE}
        ), bins as (
            select middle_us // 100_000 as bin, attempt_id, min(middle_us) as middle_us from apart group by all
        ), heights as (     -- a bin and the next: a heap may stand on an edge
            select b.bin, count(distinct n.attempt_id) as height, quantile_disc(n.middle_us, 0.5) as middle_us
            from   (select distinct bin from bins) b
            join   bins n on n.bin in (b.bin, b.bin + 1)
            group  by b.bin
        ), best as (
            select * from heights order by height desc, bin limit 1
        )
        select b.height, b.middle_us, (select count(*) from chosen) as n,
               (select max(h.height) from heights h where abs(h.bin - b.bin) > 2) as next
        from   best b
        """
    )
    if not found:
        return None
    height, middle_us, rows, following = found[0]
    clear = height >= max(LEAST_AGREEING, AGREEING_SHARE * rows) and height >= 2 * (following or 0)
    return int(middle_us) if clear else None
