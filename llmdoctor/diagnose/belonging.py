"""Which attempts belong to one request: by the id that was asked for, then by every id and pair that they share.

They stand in the table `belongs` (attempt_id, asked_for, link: the column, or `pair`, that brought them in).
"""

import difflib
from collections.abc import Sequence

from llmdoctor.errors import InputError, UsageError
from llmdoctor.pairs import MOST_TRIES
from llmdoctor.redact import hash_id, mask
from llmdoctor.store import Store

SEARCHED = ("request_id", "incoming_id", "response_id", "trace_id", "task_id")
# An attempt belongs to the same request where its second column holds what the first column of a known one holds.
# (Not by response_id: a model server that counts its answers begins again with each start; `pairs` allows for that.)
LINKS = (
    ("task_id", "task_id"),
    ("trace_id", "trace_id"),
    ("task_id", "trace_id"),
    ("trace_id", "task_id"),
    ("request_id", "request_id"),
    ("request_id", "incoming_id"),
    ("incoming_id", "request_id"),
    ("incoming_id", "incoming_id"),
    ("trace_id", "incoming_id"),
    ("incoming_id", "trace_id"),
)
SHOWN_IDS = 5


class Hidden:
    """What may be shown of a text: secrets masked, ids and hosts hashed where that was asked for."""

    def __init__(self, hash_ids: bool) -> None:
        self.hash_ids = hash_ids

    def text(self, value: str | None) -> str | None:
        """Of any text."""
        return None if value is None else mask(value)

    def id(self, value: str | None) -> str | None:
        """Of the name of a request, a person or a machine."""
        return hash_id(value) if value and self.hash_ids else self.text(value)


_EVERY_ID = " union all ".join(f"select {name} as id, attempt_id, '{name}' as place from attempts" for name in SEARCHED)


def find(store: Store, asked: str, hidden: Hidden) -> tuple[str, ...]:
    """Puts the attempts that carry the id, or that have the only one which begins so, into the table `belongs`. Returns
    the columns where it was found. InputError where there is none, UsageError where several requests have one."""
    if not asked:
        raise UsageError("REQUEST_ID is empty: give an id from a log or a report, or the beginning of one")
    store.script(f"create or replace temp table every_id as select * from ({_EVERY_ID}) where id is not null")
    for test in ("id = $asked", "starts_with(id, $asked)"):
        store.run(
            "create or replace temp table matched as select attempt_id, true as asked_for, min(place) as link"
            f" from every_id where {test} group by attempt_id",
            {"asked": asked},
        )
        if store.run("select count(*) from matched")[0][0]:
            _require_one(store, asked, test, hidden)
            places = store.run(f"select distinct place from every_id where {test} order by place", {"asked": asked})
            return tuple(place for (place,) in places)
    raise InputError(_not_found(store, asked, hidden))


def _require_one(store: Store, asked: str, test: str, hidden: Hidden) -> None:
    """Puts `matched` into `belongs`. UsageError unless all of it is one request: several ids may begin so and yet be
    the tries of one task, and one id may have been given twice."""
    store.script(
        "create or replace temp table belongs as select * from matched"
        " where attempt_id = (select min(attempt_id) from matched)"
    )
    gather(store)
    missed = "from matched where attempt_id not in (select attempt_id from belongs)"
    if store.run(f"select count(*) {missed}")[0][0]:
        ids = store.run(f"select distinct id from every_id where {test} order by id", {"asked": asked})
        if len(ids) > 1:
            raise UsageError(f"{mask(asked)!r} begins {_some(ids, 'ids', hidden)}: give more of it")
        tries = store.run("select distinct request_id from attempts semi join matched using (attempt_id) order by 1")
        raise UsageError(
            f"{mask(asked)!r} names {_some(tries, 'requests', hidden)}: give another id of the one you mean"
        )
    store.script("create or replace temp table belongs as select * from matched")


def _some(found: Sequence[tuple[str | None]], what: str, hidden: Hidden) -> str:
    """ "8 ids (a, b, c, d, e and 3 more)"."""
    shown = ", ".join(str(hidden.id(one) or "one without a request_id") for (one,) in found[:SHOWN_IDS])
    more = f" and {len(found) - SHOWN_IDS:,} more" if len(found) > SHOWN_IDS else ""
    return f"{len(found):,} {what} ({shown}{more})"


def _not_found(store: Store, asked: str, hidden: Hidden) -> str:
    known = dict(store.run("select place, count(distinct id) from every_id group by place"))
    searched = [name for name in SEARCHED if name in known]
    if not searched:
        return f"no attempt carries an id ({', '.join(SEARCHED)} are in no record): nothing can be shown by id"
    text = f"no attempt has the id {mask(asked)!r}: {', '.join(searched)} of {sum(known.values()):,} ids were searched"
    absent = [name for name in SEARCHED if name not in known]
    text += f" (in no record: {', '.join(absent)})" if absent else ""
    near = [] if hidden.hash_ids else _nearest(store, asked)
    advice = f"near it are {', '.join(map(mask, near))}" if near else "copy one from a log or a report"
    return f"{text}; {advice}"


def _nearest(store: Store, asked: str) -> list[str]:
    """Up to three ids that look like it; DuckDB chooses the fifty that difflib compares."""
    likely = store.run(
        "select id from (select distinct id from every_id where length(id) between ? and ?)"
        " order by jaro_winkler_similarity(id, ?) desc, id limit 50",
        [len(asked) // 2, 2 * len(asked) + 2, asked],
    )
    return difflib.get_close_matches(asked, [one for (one,) in likely], n=3, cutoff=0.6)


def gather(store: Store) -> int:
    """Adds to `belongs` what is linked to it, until nothing new comes; returns how many attempts there are. Ids on more
    rows than a request has tries link nothing."""
    there = {place for (place,) in store.run("select distinct place from every_id")}
    links = [(known, other) for known, other in LINKS if {known, other} <= there]
    count = 0
    while count < (now := int(store.run("select count(*) from belongs")[0][0])) <= MOST_TRIES:
        count = now
        for known, other in links:
            store.script(
                f"""
                insert into belongs
                with ids as (
                    select distinct a.{known} as id from attempts a semi join belongs b on a.attempt_id = b.attempt_id
                    where a.{known} <> ''
                ), found as (
                    select a.attempt_id, count(*) over (partition by i.id) as n
                    from   attempts a join ids i on a.{other} = i.id
                )
                select distinct attempt_id, false, '{other}' from found
                where  n <= {2 * MOST_TRIES} and attempt_id not in (select attempt_id from belongs)
                """
            )
        for column, partner in (("attempt_id", "partner_id"), ("partner_id", "attempt_id")):
            store.script(
                f"insert into belongs select distinct {partner}, false, 'pair' from pairs"
                f" where {column} in (select attempt_id from belongs)"
                f" and {partner} not in (select attempt_id from belongs)"
            )
    return now
