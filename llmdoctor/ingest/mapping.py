"""`--map FIELD=PATH[:UNIT]`: where a home-made log keeps a field, told by the user; it goes before what pages know."""

import difflib
from collections.abc import Mapping
from dataclasses import replace

from llmdoctor.errors import UsageError
from llmdoctor.ingest.fields import UNITS, Alias, below, split_path
from llmdoctor.ingest.formats import Format
from llmdoctor.ingest.spellings import with_places

MAPPED = " (mapped)"
"""Ends the name of a field that was mapped, so that it stands beside the field of the page."""

_CALL = frozenset({"ttft_ms", "total_ms", "queue_ms", "prefill_ms", "decode_ms", "header_ms", "http_status", "outcome"})
_CALL |= {"input_tokens", "output_tokens"}
"""A record that has one of these, mapped, is a call."""

_DEFAULTS = {"DOUBLE": "ms", "BIGINT": "int", "INTEGER": "int", "BOOLEAN": "bool", "TIMESTAMP WITH TIME ZONE": "time"}
_NOT_FREE = ("attempt_id", "input_id", "line")


def parse_maps(places: Mapping[str, str], columns: Mapping[str, str]) -> dict[str, Alias]:
    """Column -> the place to read it from, of {"ttft_ms": "timing.first:s"}. `columns` are those of `attempts` with
    their types. UsageError says which mapping is wrong and how to write it."""
    found: dict[str, Alias] = {}
    for name, place in places.items():
        text = f"{name}={place}"
        if name not in columns or name in _NOT_FREE:
            near = difflib.get_close_matches(name, columns, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]}?" if near else "see the columns in 'llmdoctor formats show llmdoctor'"
            raise UsageError(f"--map {text}: no field is called {name!r}: {hint}")
        found[name] = _alias(text, place, columns[name])
    return found


def _alias(text: str, place: str, kind: str) -> Alias:
    path, colon, unit = place.rpartition(":")
    if not colon or (unit not in UNITS and not path):
        path, unit = place, ""
    elif unit not in UNITS:
        near = difflib.get_close_matches(unit, UNITS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(UNITS))}"
        raise UsageError(f"--map {text}: no unit is called {unit!r}: {hint}")
    steps = split_path(path if path.startswith("$") else f"$.{path}")
    if not steps:
        raise UsageError(f'--map {text}: {path!r} is no path; write it as usage.tokens[0] or $."a.b".c')
    return Alias(steps[0], below(steps[1:]), unit or _DEFAULTS.get(kind, "text"), False, False)


def mapped(page: Format, maps: Mapping[str, Alias]) -> Format:
    """The page with the mapped fields: before the places that the page knows where its field has the column's name,
    else as a field of its own. A page for home-made logs is then also recognised by the keys that they name."""
    if not maps or page.shape == "prometheus":
        return page
    additions = [(name if name in page.fields else name + MAPPED, alias) for name, alias in maps.items()]
    opened = tuple(alias.root for alias in maps.values() if alias.below != "$")
    recipe = replace(page.recipe, inside=tuple(dict.fromkeys((*page.recipe.inside, *opened))))
    signs = tuple((maps[name].root,) for name in sorted(_CALL & maps.keys())) if page.generic else ()
    told = {(alias.root, alias.below) for alias in maps.values()}
    fields = {
        name: tuple(replace(one, guess=one.guess and (one.root, one.below) not in told) for one in aliases)
        for name, aliases in page.fields.items()
    }
    more = with_places(replace(page, recipe=recipe, fields=fields), tuple(additions))
    told_calls = tuple(name for name, _ in additions if name.removesuffix(MAPPED) in _CALL)
    return replace(more, any_of=page.any_of + signs, told=told_calls)


def mapped_columns(page: Format) -> dict[str, str]:
    """Column -> name of the field that was mapped onto it."""
    return {name.removesuffix(MAPPED): name for name in page.fields if name.endswith(MAPPED)}
