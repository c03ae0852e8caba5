"""Which logs share no id, and the line of configuration for each product that would give them one."""

from collections.abc import Iterator

from llmdoctor.diagnose.values import MissingField
from llmdoctor.pairs import strangers
from llmdoctor.rulebook import Rulebook
from llmdoctor.store import Store

# Keys of rules/fields.toml: this, and the name of a product or of a vantage.
PREFIX = "shared_id."


def unshared_ids(store: Store, book: Rulebook) -> tuple[MissingField, ...]:
    """One entry for each two vantages whose logs share no id, the outer one first; () where all are joined."""
    unlocks = tuple(sorted(_unlocked(book)))
    return tuple(
        MissingField(f"request_id on both sides ({outer}, {inner})", unlocks, _how(store, book, outer, inner))
        for outer, inner in strangers(store)
    )


def _unlocked(book: Rulebook) -> Iterator[str]:
    """Rules that compare the two sides of a call."""
    for symptom in book.symptoms:
        if any(need.startswith("calls.") for need in symptom.needs):
            yield symptom.id
    for cause in book.causes:
        if any(need.startswith("calls.") for piece in cause.evidence for need in piece.needs):
            yield cause.id


def _how(store: Store, book: Rulebook, outer: str, inner: str) -> str:
    guessed, rows = store.run(
        "select (select count(*) from pairs where vantage = $outer and partner_vantage = $inner),"
        " (select count(*) from attempts where vantage = $inner)",
        {"outer": outer, "inner": inner},
    )[0]
    told = f"{guessed:,} of {rows:,} were brought together by time alone, which decides nothing. " if guessed else ""
    sides = (f"{side}: {text}" for side in (outer, inner) for text in _lines(store, book, side))
    return f"These logs share no id. {told}{' '.join(sides)}"


def _lines(store: Store, book: Rulebook, vantage: str) -> list[str]:
    """What to write for the products whose logs were read at this vantage, else for the vantage as such."""
    formats = store.run(
        "select distinct i.format from inputs i join attempts a using (input_id) where a.vantage = ? and i.format"
        " is not null order by 1",
        [vantage],
    )
    words = dict.fromkeys(word for (name,) in formats for word in str(name).split("_"))
    found = [book.fields[PREFIX + word] for word in words if PREFIX + word in book.fields]
    return found or [book.fields[key] for key in (PREFIX + vantage,) if key in book.fields]
