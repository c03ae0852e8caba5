"""Rows without secrets and without sentences: what may be kept in a file.

A column of text should hold a name, but an application may log anything in any field. A report masks what it shows; a
store keeps every row, so here the values themselves are replaced.
"""

from llmdoctor.ingest.query import literal, quoted
from llmdoctor.redact import hash_id, name
from llmdoctor.store import Store

# Values of which no kind of secret can be a part, and that are no sentence: nearly all, told by the database.
_PLAIN = r"[A-Za-z0-9_.:/+ -]{0,39}|(?:chatcmpl|cmpl|msg|resp|call|toolu|req|run)[-_][A-Za-z0-9]{1,39}"
_DOUBTFUL = (
    r"(?i)(?:^|[^a-z0-9])(?:sk-|aiza|a[ksbc][ic]a|gh[pousr]_|github_pat|xox|xapp-|hf_|gsk_|xai-|pplx-|nvapi-|glpat-|r8_"
    r"|[prs]k[-_]|eyj|bearer|basic)|key|token|secret|passw|passphrase|pwd|credential|authorization|cookie|-----begin"
    r"|(?:\S+\s+){7}\S"
)


def hide(store: Store) -> None:
    """Replaces, in every column of text, secrets and sentences by what a report would show for them and a short hash,
    so that equal values stay equal and different ones different."""
    for table in ("attempts", "other_rows", "engine_samples"):
        for column, kind in store.columns(table).items():
            if kind == "VARCHAR":
                _hide_in(store, table, quoted(column))


def _hide_in(store: Store, table: str, column: str) -> None:
    doubtful = store.run(
        f"select distinct {column} from {table} where {column} is not null and (not regexp_full_match({column}, "
        f"{literal(_PLAIN)}) or regexp_matches({column}, {literal(_DOUBTFUL)}))"
    )
    found = [(text, f"{shown[:80]} {hash_id(text)}") for (text,) in doubtful if (shown := name(text)) != text]
    if found:
        store.script("create or replace temp table hidden (was varchar, shown varchar)")
        store.insert("hidden", ("was", "shown"), found)
        store.script(
            f"update {table} set {column} = hidden.shown from hidden where {table}.{column} = hidden.was;"
            "drop table hidden"
        )
