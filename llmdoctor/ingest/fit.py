"""Records against the pages: which of them know the keys, and which fits best."""

import functools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llmdoctor.ingest.formats import Format


@dataclass(frozen=True)
class Candidate:
    """A page that fits some records: how many of those looked at, and by which keys."""

    format: Format
    hits: int
    looked_at: int
    keys: tuple[str, ...]

    @property
    def reason(self) -> str:
        """In words."""
        if self.format.shape == "text":
            return f"{self.hits} of {self.looked_at} lines looked at are of the kinds {', '.join(self.keys)}"
        return f"{self.hits} of {self.looked_at} records looked at have {', '.join(self.keys)}"


def ranked(records: Sequence[Mapping[str, Any]], pages: Sequence[Format], forced: Format | None) -> list[Candidate]:
    """Pages by how many records they fit; among those that fit about as many, the one that asks for more keys. Generic
    pages come last: the first of them is also tried where nothing fits."""
    forms = Counter(map(_form, records))
    hits: Counter[Format] = Counter()
    keys: dict[Format, tuple[str, ...]] = {}
    known = tuple(pages)
    for form, count in forms.items():
        for page, matching in _fitting(known, form):
            hits[page] += count
            keys[page] = max(keys.get(page, ()), matching, key=len)
    for page in pages:
        if page.shape != "text" and page not in hits and ((page.generic and records) or forced):
            hits[page], keys[page] = 0, ()
    none = ("no key of a known format",)
    found = [Candidate(page, count, len(records), keys[page] or none) for page, count in hits.items()]
    best = max((one.hits for one in found if not one.format.generic), default=0)
    found = [one for one in found if one.format.generic or one.hits * 2 >= best]
    return sorted(found, key=lambda one: (one.format.generic, -len(one.keys), -one.hits, one.format.id))


@functools.lru_cache(maxsize=10_000)
def _fitting(pages: tuple[Format, ...], form: frozenset[str]) -> tuple[tuple[Format, tuple[str, ...]], ...]:
    """The pages that know records with these keys, and by which of them."""
    found = ((page, _matching(form, page.needs, page.any_of)) for page in pages if page.shape != "text")
    return tuple((page, keys) for page, keys in found if keys is not None)


def _form(record: Mapping[str, Any]) -> frozenset[str]:
    """All keys of a record; most records are flat, and thousands of small files are asked for theirs."""
    return frozenset(_paths(record) if dict in map(type, record.values()) else record)


def _paths(record: Mapping[str, Any], before: str = "", deep: int = 3) -> Iterator[str]:
    """The keys of a record, those of objects in it as `usage.prompt_tokens`."""
    for key, value in record.items():
        yield before + key
        if deep and isinstance(value, dict):
            yield from _paths(value, f"{before}{key}.", deep - 1)


def _matching(
    form: frozenset[str], needs: tuple[str, ...], any_of: tuple[tuple[str, ...], ...]
) -> tuple[str, ...] | None:
    """The keys by which records of that form are recognised, None where they are not."""
    if not all(_has(form, key) for key in needs):
        return None
    if not any_of:
        return needs
    groups = [group for group in any_of if all(_has(form, key) for key in group)]
    return needs + max(groups, key=len) if groups else None


def _has(form: frozenset[str], key: str) -> bool:
    if key.endswith("*"):
        return any(path.startswith(key[:-1]) for path in form)
    return key in form
