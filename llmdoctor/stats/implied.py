"""What a record leaves out and its neighbours tell: a replica runs one model, the tries of one task have one caller.

A value is taken over only where the log itself shows that one thing follows from the other: no two known rows of any
key disagree. Columns of what happened (durations, outcomes, usage) are never filled, for what is missing there may be
the fault; nor is the replica that answered, which a call that reached none does not have."""

from collections.abc import Iterator

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
    """Fills holes of `attempts` (a column that half of the rows of a vantage or more have), and says in the notes of
    the inputs how many."""
    table = "attempt_rows" if store.columns("attempt_rows") else "attempts"
    given = store.columns(table)
    patchy = set(_patchy(store, table, given))
    for needed, key, columns in _FOLLOWS:
        for column in columns:
            if column in patchy and needed in given:
                names = {"table": table, "key": key, "column": column, "least": LEAST_ROWS}
                store.script(package_sql("derived/implied.sql").format(**names))


def _patchy(store: Store, table: str, given: dict[str, str]) -> Iterator[str]:
    """The columns that some rows lack and at least half of all have."""
    names = sorted({name for _, _, columns in _FOLLOWS for name in columns} & given.keys())
    counts = store.run(f"select {', '.join(f'count({name})' for name in names)}, count(*) from {table}")[0]
    yield from (name for name, known in zip(names, counts, strict=False) if known < counts[-1] <= 2 * known)
