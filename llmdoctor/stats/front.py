"""The views `front` and `front_expected`, and values as SQL."""

from llmdoctor.store import Store


def set_front(store: Store, vantage: str, alone: bool = False) -> None:
    """Points `front` at the attempts of one vantage, and `front_expected` at the same rows with what `expected` says of
    them; `alone`: all attempts are of this one."""
    name = literal(vantage)
    where = "" if alone else f" where vantage = {name}"
    # A constant costs a query nothing to read, to group by and to join on.
    for view, rows in (("front", "attempts"), ("front_expected", "attempts_expected")):
        store.script(f"create or replace view {view} as select * replace ({name} as vantage) from {rows}{where}")


def literal(value: object) -> str:
    """A text, boolean or null as SQL writes it."""
    if value is None or isinstance(value, bool):
        return str(value).lower().replace("none", "null")
    return "'" + str(value).replace("'", "''") + "'"
