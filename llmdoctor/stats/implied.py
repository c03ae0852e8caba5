"""What a record leaves out and its neighbours tell: a replica runs one model, the tries of one task have one caller.

A value is taken over only where the log itself shows that one thing follows from the other: no two known rows of any
key disagree. Columns of what happened (durations, outcomes, usage) are never filled, for what is missing there may be
the fault; nor is the replica that answered, which a call that reached none does not have."""

from collections.abc import Mapping, Sequence

from llmdoctor.store import Store, package_sql

# What follows from what: the column that must be there, the key made of it, the columns that the key settles. An empty
# text stands for all rows: every one that has the column says the same.
_FOLLOWS = (
    ("task_id", "task_id", ("model", "operation", "region", "tenant", "caller", "app_version", "user_agent")),
    ("instance", "instance", ("provider", "model", "region", "app_version")),
    ("conversation_id", "conversation_id", ("tenant", "caller")),
    ("batch_id", "batch_id", ("caller", "model", "template_id")),
    ("prompt_hash", "prompt_hash", ("input_tokens", "prompt_chars", "prefix_hash", "caller", "model")),
    ("ttft_ms", "case when ttft_ms is not null then true end", ("stream",)),
    ("vantage", "''", ("provider", "model", "route", "operation", "region", "tenant", "caller", "app_version")),
)
LEAST_ROWS = 20
"""Known rows of a column, or of rows that share a key, below which nothing is said: of 20 that agree, at most one in
seven may be otherwise (95 %)."""


def write_implied(store: Store) -> None:
    """Fills holes of `attempts` (of columns that half of the rows of a vantage or more have), and says in the notes of
    the inputs what was filled in."""
    given = store.columns("attempt_rows")
    patchy = _patchy(store, given)
    before = _known(store, patchy)
    for needed, key, columns in _FOLLOWS:
        for column in columns:
            if column in patchy and needed in given:
                names = {"key": key, "column": column, "least": LEAST_ROWS}
                store.script(package_sql("derived/implied.sql").format(**names))
    for input_id, counts in _known(store, patchy).items():
        more = [
            (name, now - then) for name, now, then in zip(patchy, counts, before[input_id], strict=True) if now > then
        ]
        if more:
            told = "known from other records where it is left out: " + ", ".join(f"{name} ({n:,})" for name, n in more)
            store.run("update inputs set note = concat_ws('; ', note, ?) where input_id = ?", [told, input_id])


def _patchy(store: Store, given: Mapping[str, str]) -> list[str]:
    """The columns that some rows lack and at least half of all have."""
    names = sorted({name for _, _, columns in _FOLLOWS for name in columns} & given.keys())
    counts = store.run(f"select {', '.join(['count(*)', *(f'count({name})' for name in names)])} from attempt_rows")[0]
    return [name for name, known in zip(names, counts[1:], strict=True) if known < counts[0] <= 2 * known]


def _known(store: Store, columns: Sequence[str]) -> dict[int, tuple[int, ...]]:
    """Input -> how many of its rows have each of the columns."""
    if not columns:
        return {}
    counted = ", ".join(f"count({name})" for name in columns)
    return {row[0]: row[1:] for row in store.run(f"select input_id, {counted} from attempt_rows group by input_id")}
