"""Which vantage a rule is judged at, and what is missing where it cannot be judged.

The outermost vantage that knows every column a rule needs in enough rows is the rule's front: what the user saw
counts before what an inner hop saw. Missing is decided here, never by a rule's query.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from llmdoctor.stats import set_front
from llmdoctor.store import Row, Store, padded

OF_TASKS = frozenset({"task_events", "task_audit"})
"""What tells of tasks: their rows count by themselves, however few attempts there are beside them."""

ENOUGH = 200_000
"""Attempts that curves, kinds and pictures are read from: of more, one in k. Counts are of all."""


@dataclass(frozen=True)
class Choice:
    """Where a rule can be judged. `vantage` is None where it cannot; `missing` are the needs that no record meets,
    `rows` the most rows that meet them all at one vantage."""

    vantage: str | None
    rows: int
    missing: tuple[str, ...]

    def why_not(self, min_rows: int) -> str:
        """The sentence for an unknown outcome."""
        if self.missing:
            names = ", ".join(need.replace("|", " or ") for need in self.missing)
            return f"no record has {names}"
        return f"{min_rows - self.rows} more rows with the fields that it needs ({min_rows} in all)"


def one_in(every: int, of: str = "") -> str:
    """SQL that is true of one attempt in `every`, as the multiples of the golden section say (of 2 ** 32, for
    remainders of fractions are slow): evenly spread, and in step with no replicas or models that take turns."""
    return f"({of}attempt_id * 2654435769 & 4294967295) < {4294967296 // every}"


def _names_one(column: str) -> bool:
    """Whether a column names single calls or what was in them: long texts, of which no curve is made."""
    return column.endswith(("_id", "_hash")) and column not in ("attempt_id", "task_id", "trace_id")


class Fronts:
    """Counts of known values per vantage, asked once."""

    def __init__(self, store: Store, needs: Iterable[str]) -> None:
        """`needs` are all needs that will be asked for, so that their columns are counted in one pass."""
        self._store = store
        self._tables: dict[str, frozenset[str]] = {}
        self._columns = self._columns_of("attempts")
        names = sorted(self._columns.intersection(name for need in needs for name in need.split("|")))
        counts = ", ".join(f"count(a.{name}) as {name}" for name in names)
        found = store.rows(
            f"with counted as (select vantage as of_vantage, count(*) as all_rows, {counts} from attempts a group by 1)"
            " select c.* from counted c join vantages v on c.of_vantage = v.vantage order by v.depth"
        )
        self.vantages: tuple[str, ...] = tuple(row["of_vantage"] for row in found)
        # A log of tasks alone has no attempts, and so no vantage: its tables are asked beside an empty front.
        self._places = self.vantages or ("client",)
        self._known = {row["of_vantage"]: row for row in found} or {"client": dict.fromkeys([*names, "all_rows"], 0)}
        self._asked: dict[tuple[str, str], int] = {}
        self._current: str | None = None
        self._thinned: str | None = None
        self._alone = [row["all_rows"] for row in found] == [store.run("select count(*) from attempts")[0][0]]

    def use(self, vantage: str) -> None:
        """Points the view `front` at a vantage."""
        if vantage != self._current:
            set_front(self._store, vantage, self._alone)
            self._current = vantage

    def thin(self, vantage: str) -> int:
        """Points `front` at a vantage, and `thinned` at one in k of its attempts, with the columns of `front_expected`
        but those that name single calls; gives k."""
        self.use(vantage)
        every = max(1, int(self._known[vantage]["all_rows"]) // ENOUGH)
        if self._thinned != vantage:
            self._store.script(f"create or replace temp view thinned as {self._thin_rows(every)}")
            self._thinned = vantage
        return every

    def _thin_rows(self, every: int) -> str:
        if every == 1:
            return "select * from front_expected"
        shown = {name: kind for name, kind in self._store.columns("front_expected").items() if not _names_one(name)}
        given = self._store.columns("attempt_rows").keys() | self._store.columns("expected").keys()
        own = [name for name in shown if name in given]
        columns = ", ".join(f'"{name}"' for name in own)
        self._store.script(
            f"create or replace temp table thinned_rows as select {columns} from front_expected where {one_in(every)}"
        )
        return f"select {padded(shown, own)} from thinned_rows"

    def forget(self) -> None:
        """To be called when what stands behind `attempts` was exchanged."""
        self._current = None

    def choose(self, needs: Sequence[str], min_rows: int, preferred: Collection[str] = ()) -> Choice:
        """The outermost vantage with `min_rows` rows that meet all `needs`, of the `preferred` ones if any does, and
        points `front` at it."""
        missing = tuple(need for need in needs if not any(self._count(vantage, (need,)) for vantage in self._places))
        if missing:
            return Choice(None, 0, missing)
        most = 0
        for vantage in sorted(self._places, key=lambda place: place not in preferred):
            rows = self._count(vantage, tuple(needs))
            most = max(most, rows)
            if rows >= max(min_rows, 1):
                self.use(vantage)
                return Choice(vantage, rows, ())
        return Choice(None, most, ())

    def _count(self, vantage: str, needs: tuple[str, ...]) -> int:
        own = [need for need in needs if set(need.split("|")) <= self._columns]
        apart = bool(needs) and all(OF_TASKS.intersection(re.split(r"[|.]", need)) for need in needs)
        counts = [] if apart else [self._count_own(vantage, own)]
        counts += [self._count_other(vantage, need) for need in needs if need not in own]
        return min(counts)

    def _count_own(self, vantage: str, needs: Sequence[str]) -> int:
        known = self._known[vantage]
        if all(self._full(known, need) for need in needs):
            return int(known["all_rows"])
        if any(all(known[name] == 0 for name in need.split("|")) for need in needs):
            return 0
        test = " and ".join(
            f"({' or '.join(f'{name} is not null' for name in need.split('|'))})"
            for need in needs
            if not self._full(known, need)
        )
        return self._ask(vantage, f"select count(*) from attempts where vantage = $vantage and {test}")

    @staticmethod
    def _full(known: Row, need: str) -> bool:
        return any(known[name] == known["all_rows"] for name in need.split("|"))

    def _count_other(self, vantage: str, need: str) -> int:
        """`view.column` = rows of that view where it is known, `table` = rows of that table, `a|b` = the more."""
        if "|" in need:
            return self._count_either(vantage, need.split("|"))
        if not re.fullmatch(r"[a-z_]+(\.[a-z_]+)?", need):
            return 0
        table, _, column = need.partition(".")
        if not self._columns_of(table):
            return 0
        if column:
            self.use(vantage)
            return self._ask(vantage, f"select count({column}) from {table} where $vantage is not null")
        if "attempt_id" in self._columns_of(table):
            return self._ask(
                vantage,
                f"select count(*) from {table} t join attempts a on t.attempt_id = a.attempt_id"
                " where a.vantage = $vantage",
            )
        return self._ask(vantage, f"select count(*) from {table} where $vantage is not null")

    def _count_either(self, vantage: str, needs: Sequence[str]) -> int:
        """The more of several counts; columns of one view in one pass."""
        parts = [one.partition(".") for one in needs]
        if len({view for view, *_ in parts}) > 1 or not all(column for *_, column in parts):
            return max(self._count(vantage, (one,)) for one in needs)
        self.use(vantage)
        counts = ", ".join(f"count({column})" for *_, column in parts)
        return self._ask(vantage, f"select greatest({counts}) from {parts[0][0]} where $vantage is not null")

    def _columns_of(self, table: str) -> frozenset[str]:
        if table not in self._tables:
            self._tables[table] = frozenset(self._store.columns(table))
        return self._tables[table]

    def _ask(self, vantage: str, sql: str) -> int:
        if (vantage, sql) not in self._asked:
            self._asked[vantage, sql] = int(self._store.run(sql, {"vantage": vantage})[0][0])
        return self._asked[vantage, sql]
