"""The SQL of one read: keys of the records -> fields of a page -> columns of `attempts`, in one streaming query.

Two ways to read the keys. Strict: DuckDB parses numbers as numbers, and refuses the file at the first wrong value;
clean files, nearly all, cost little more than a bare read. Tolerant: every key is read as text and cast once; what
was there and could not be cast sets a bit of `_bad`, and a line that is no JSON has nothing at all (`_dead`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from llmdoctor.ingest.fields import INNER, Alias
from llmdoctor.ingest.formats import Format
from llmdoctor.ingest.mapping import MAPPED, mapped_columns
from llmdoctor.ingest.units import NUMERIC, typed
from llmdoctor.store import package_sql

DEAD, CALL, FOREIGN, OTHER = 0, 1, 2, 3
"""What a line is: unreadable, a call, readable but no call, a row of another table (`_kind`)."""

LEDGER = "_input, _bad0, _bad1, _dead, _guess"
_BITS = 60

_SIGNS = ("started_at", "ended_at", "total_ms", "outcome", "http_status", "ttft_ms")
"""A record with one of these, right or wrong, is a call, where the page does not say itself (`is_call`)."""


@dataclass(frozen=True)
class Plan:
    """The fields to read and how: `typed` are the fields which a strict read leaves to DuckDB's own conversion,
    `flagged` those with a bit in `_bad` (in that order), `guesses` the aliases with a bit in `_guess`."""

    format: Format
    fields: Mapping[str, tuple[Alias, ...]]
    typed: frozenset[str]
    flagged: tuple[str, ...]
    objects: tuple[str, ...]
    guesses: tuple[Alias, ...]

    @property
    def roots(self) -> dict[str, str]:
        """Key of the record -> type to read it as."""
        found: dict[str, str] = {}
        for name, aliases in self.fields.items():
            for alias in aliases:
                if alias.root == INNER:
                    found |= {root: "JSON" for root, _ in self.format.nested}
                    continue
                kind = NUMERIC[alias.unit].upper() if name in self.typed else "VARCHAR"
                if alias.root in self.objects:
                    kind = "JSON"
                found.setdefault(alias.root, kind)
        return found


def plan(fmt: Format, wanted: Sequence[str] | None = None, strict: bool = False, zone: str = "UTC") -> Plan:
    """How to read the fields of a page (only the `wanted` ones where given). DuckDB's own reading of an instant knows
    nothing of the session's zone, so with another one than UTC instants are cast."""
    fields = {
        name: aliases
        for name, aliases in fmt.fields.items()
        if wanted is None or name in wanted or name.endswith(MAPPED)
    }
    every = [alias for aliases in fields.values() for alias in aliases]
    objects = tuple(dict.fromkeys(alias.root for alias in every if alias.below != "$" and alias.root != INNER))
    if any(alias.root == INNER for alias in every):
        objects = tuple(dict.fromkeys([*objects, *(root for root, _ in fmt.nested)]))
    numeric = NUMERIC.keys() - ({"iso"} if zone != "UTC" else set())
    units: dict[str, set[str]] = {}
    for alias in every:
        units.setdefault(alias.root, set()).add(alias.unit)
    strictly = {
        name
        for name, aliases in fields.items()
        if strict and all(a.root not in objects and a.unit in numeric and len(units[a.root]) == 1 for a in aliases)
    }
    flagged = [n for n, aliases in fields.items() if n not in strictly and any(a.unit != "text" for a in aliases)]
    guesses = tuple(dict.fromkeys(alias for alias in every if alias.guess))[:_BITS]
    return Plan(fmt, fields, frozenset(strictly), tuple(flagged), objects, guesses)


def from_files(how: Plan, files: Sequence[str], packing: str, ids: Sequence[int], strict: bool) -> str:
    """The relation of raw keys, read from newline-delimited JSON files."""
    source = _source(how.roots, files, packing, strict)
    first = ids[0]
    if list(ids) == list(range(first, first + len(ids))):
        return f"select *, cast(file_index + {first} as integer) as _input from {source}"
    # A list with an entry for each file, indexed in each row, would take files times rows steps.
    places = ", ".join(f"({place}, cast({number} as integer))" for place, number in enumerate(ids))
    return (
        f"select read.*, named._input from (select *, cast(file_index as bigint) as _place from {source}) as read "
        f"join (values {places}) as named (_place, _input) on read._place = named._place"
    )


def from_pool(how: Plan, file: str, strict: bool, ids: Sequence[int] | None = None) -> str:
    """The same from one file whose records name their input under `_input`; of the inputs `ids` only, where given."""
    source = _source({**how.roots, "_input": "INTEGER"}, [file], "plain", strict)
    return f"select * from {source}" + (f" where _input in ({', '.join(map(str, ids))})" if ids else "")


def _source(roots: Mapping[str, str], files: Sequence[str], packing: str, strict: bool) -> str:
    columns = ", ".join(f"{literal(root)}: '{kind}'" for root, kind in roots.items())
    names = ", ".join(literal(name) for name in files)
    compression = {"gzip": "gzip", "zstd": "zstd"}.get(packing, "none")
    tolerant = "" if strict else ", ignore_errors = true"
    return (
        f"read_json([{names}], format = 'newline_delimited', compression = '{compression}', "
        f"hive_partitioning = false{tolerant}, columns = {{{columns}}})"
    )


def from_lines(how: Plan) -> str:
    """The relation of raw keys, read from `lines(line, _input)`: single lines that are known to be JSON objects."""
    scalars = [root for root, kind in how.roots.items() if kind != "JSON"]
    objects = [root for root, kind in how.roots.items() if kind == "JSON"]
    parts = ["_input"]
    parts += [f"s[{index}] as {quoted(root)}" for index, root in enumerate(scalars, 1)]
    parts += [f"o[{index}] as {quoted(root)}" for index, root in enumerate(objects, 1)]
    texts = f"json_extract_string(line, {_paths(scalars)}) as s" if scalars else "null as s"
    jsons = f"json_extract(line, {_paths(objects)}) as o" if objects else "null as o"
    return f"select {', '.join(parts)} from (select _input, {texts}, {jsons} from lines)"


def fields_sql(how: Plan, raw: str) -> str:
    """Typed fields and the ledger columns over a relation of raw keys."""
    first = ["_input"]
    places: dict[tuple[str, str], str] = {}
    inner = any(alias.root == INNER for aliases in how.fields.values() for alias in aliases)
    for root, kind in {**how.roots, **({INNER: "JSON"} if inner else {})}.items():
        if kind == "JSON":
            belows = list(dict.fromkeys(a.below for aliases in how.fields.values() for a in aliases if a.root == root))
            places |= {(root, below): f"{quoted('j ' + root)}[{i}]" for i, below in enumerate(belows, 1)}
            wanted = "[" + ", ".join(literal(below) for below in belows) + "]"
            first.append(f"json_extract_string({quoted(root)}, {wanted}) as {quoted('j ' + root)}")
        else:
            places[root, "$"] = quoted(root)
        if root != INNER:
            first.append(quoted(root))
    second = ["_input", f"{_dead(how)} as _dead", f"{_guess_bits(how, places)} as _guess", _loose_roots(how)]
    third = ["_input", "_dead", "_guess"]
    for name, aliases in how.fields.items():
        if name in how.typed:
            value = ", ".join(typed(quoted(alias.root), alias.unit, True) for alias in aliases)
            second.append(f"coalesce({value}) as {quoted(name)}")
            third.append(quoted(name))
            continue
        groups = _groups(aliases)
        for index, group in enumerate(groups):
            text = _first_of(how, group, places)
            second.append(f"{_cleaned(how.format, group, text)} as {quoted(f'r{index} {name}')}")
        values = [typed(quoted(f"r{i} {name}"), group[0].unit, False) for i, group in enumerate(groups)]
        third.append(f"{_coalesce(values)} as {quoted(name)}")
        if name in how.flagged:
            third.append(f"{_coalesce([quoted(f'r{i} {name}') for i in range(len(groups))])} as {quoted('r ' + name)}")
    third.append("_loose")
    last = ["_input", "_dead", "_guess", *(quoted(name) for name in how.fields)]
    last += [f"{_bad_bits(how.flagged[:_BITS])} as _bad0", f"{_bad_bits(how.flagged[_BITS:])} + _loose as _bad1"]
    sql = f"select *, {_inner(how)} as {quoted(INNER)} from ({raw})" if inner else raw
    for layer in (first, second, third, last):
        sql = f"select {', '.join(layer)} from ({sql})"
    return sql


def rows_sql(
    how: Plan, raw: str, given: Mapping[str, str], attempts: Mapping[str, str], kept: Sequence[str] | None = None
) -> str:
    """One SELECT of all columns of `attempts` (name -> type, as in the schema), `_input`, `_bad0`, `_bad1`, `_guess`
    and `_kind`. `given` are the columns that the page's query returns (see `page_sql`). With `kept` only these columns,
    and `_more`: what a row has in other ones, as a JSON object, and null where that is nothing."""
    other = '"table" is not null' if "table" in given else "false"
    mapped = mapped_columns(how.format)
    signs = [] if "is_call" in given else [name for name in _SIGNS if name in given]
    known = [*signs, *(name for name in how.format.told if name in mapped.values())]
    own = ["coalesce(is_call, false)"] if "is_call" in given else []
    wrong = _wrong(how, [*signs, *how.format.told])
    call = " or ".join([*own, wrong, *(f"{quoted(name)} is not null" for name in known)])
    kind = f"case when _dead then {DEAD} when {other} then {OTHER} when {call} then {CALL} else {FOREIGN} end"
    columns = []
    for name, type_ in attempts.items():
        value = _fitted(quoted(name), given[name], type_) if name in given else f"cast(null as {type_})"
        if name in mapped:
            value = f"coalesce({_fitted(quoted(mapped[name]), '', type_)}, {value})"
        if name == "vantage" and how.format.vantage:
            value = f"coalesce({value}, {literal(how.format.vantage)})"
        if name == "input_id":
            value = "_input"
        columns.append(f"{value} as {quoted(name)}")
    columns += ["_bad0", "_bad1", "_guess", f"cast({kind} as utinyint) as _kind"]
    completed = f"select {', '.join(columns)} from ({page_sql(how, raw)})"
    rows = f"with given as ({completed}) {package_sql('ingest/normal.sql')}"
    if kept is None:
        return rows
    others = [name for name in attempts if name not in kept]
    some = " or ".join(f"{quoted(name)} is not null" for name in others)
    more = f"case when {some} then json_object({', '.join(f'{literal(name)}, {quoted(name)}' for name in others)}) end"
    names = ", ".join(quoted(name) for name in kept)
    return f"select {names}, _bad0, _bad1, _guess, _kind, {more} as _more from ({rows})"


def _wrong(how: Plan, names: Sequence[str]) -> str:
    """The condition that one of the fields has a value that could not be cast."""
    tests = []
    for ledger, flagged in (("_bad0", how.flagged[:_BITS]), ("_bad1", how.flagged[_BITS:])):
        bits = sum(1 << i for i, name in enumerate(flagged) if name in names)
        tests += [f"{ledger} & {bits} <> 0"] if bits else []
    return f"({' or '.join(tests) or 'false'})"


_LARGEST = {"INTEGER": 2_000_000_000, "BIGINT": 9_000_000_000_000_000}


def _fitted(value: str, given: str, wanted: str) -> str:
    """A value in the type of its column. A count beyond all measure becomes the largest one there is: finish.py takes
    it for impossible and counts it, where a bare cast would end the read of all files."""
    largest = _LARGEST.get(wanted)
    if largest is None or given in (wanted, "INTEGER"):
        return f"cast({value} as {wanted})"
    bounded = f"case when {value} > {largest} then {largest} when {value} < -{largest} then -{largest} else {value} end"
    return f"cast({bounded} as {wanted})"


def page_sql(how: Plan, raw: str) -> str:
    """The page's own query over its fields, the ledger columns carried along."""
    fields = fields_sql(how, raw)
    if how.format.native:
        return f"select * from ({fields})"
    body = how.format.rows.lstrip()[len("select") :]
    kept = ", ".join([LEDGER, *map(quoted, mapped_columns(how.format).values())])
    return f"with fields as ({fields}) select {kept}, {body}"


def quoted(name: str) -> str:
    """An SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """An SQL string."""
    return "'" + text.replace("'", "''") + "'"


def _paths(roots: Sequence[str]) -> str:
    return "[" + ", ".join(literal(f'$."{root}"') for root in roots) + "]"


def _groups(aliases: Sequence[Alias]) -> list[list[Alias]]:
    """Neighbours of one unit, so that they are cast together."""
    groups: list[list[Alias]] = []
    for alias in aliases:
        if groups and groups[-1][0].unit == alias.unit:
            groups[-1].append(alias)
        else:
            groups.append([alias])
    return groups


def _coalesce(values: Sequence[str]) -> str:
    return values[0] if len(values) == 1 else f"coalesce({', '.join(values)})"


def _first_of(how: Plan, group: Sequence[Alias], places: Mapping[tuple[str, str], str]) -> str:
    """The first alias that is there: plain keys, then parts of objects, each object asked only where there is one."""
    texts: list[str] = []
    parts: dict[str, list[str]] = {}
    for alias in group:
        place = places[alias.root, alias.below]
        if alias.root in how.objects or alias.root == INNER:
            parts.setdefault(alias.root, []).append(place)
        else:
            texts.append(place)
    for root, inside in parts.items():
        texts.append(f"case when {quoted('j ' + root)} is not null then {_coalesce(inside)} end")
    return _coalesce(texts)


def _cleaned(fmt: Format, group: Sequence[Alias], value: str) -> str:
    """Texts that stand for nothing become null, once a field: for each alias it would cost more than the read."""
    for text in () if any(alias.keep for alias in group) else fmt.nulls:
        value = f"nullif({value}, {literal(text)})"
    return value


def _inner(how: Plan) -> str:
    """The first of the nested objects that is there."""
    places = [f"json_extract({quoted(root)}, {literal(below)})" for root, below in how.format.nested]
    return _coalesce([f"case when json_type({place}) = 'OBJECT' then {place} end" for place in places])


def _dead(how: Plan) -> str:
    if how.typed:
        return "false"
    roots = [quoted(root) if kind != "JSON" else f"cast({quoted(root)} as varchar)" for root, kind in how.roots.items()]
    return f"{_coalesce(roots)} is null"


def _guess_bits(how: Plan, places: Mapping[tuple[str, str], str]) -> str:
    bits = [
        f"case when {places[alias.root, alias.below]} is not null then {1 << i} else 0 end"
        for i, alias in enumerate(how.guesses)
    ]
    return f"cast({' + '.join(bits) or '0'} as ubigint)"


def _loose_roots(how: Plan) -> str:
    """A key whose parts are wanted but which is no object: `"usage": "none"`."""
    bits = []
    for i, root in enumerate(loose_roots(how)):
        text = f"ltrim(cast({quoted(root)} as varchar))"
        bits.append(
            f"case when {quoted(root)} is not null and left({text}, 1) not in ('{{', '[', 'n') "
            f"then {1 << (_BITS - 20 + i)} else 0 end"
        )
    return f"cast({' + '.join(bits) or '0'} as ubigint) as _loose"


def loose_roots(how: Plan) -> tuple[str, ...]:
    """The keys that must be objects, at most 20 of them."""
    scalars = {alias.root for aliases in how.fields.values() for alias in aliases if alias.below == "$"}
    return tuple(r for r in how.objects if r not in scalars and r not in how.format.may_be_text)[:20]


def bad_names(how: Plan, bad0: int, bad1: int) -> list[str]:
    """The fields behind the bits of `_bad0` and `_bad1`."""
    names = [name for i, name in enumerate(how.flagged[:_BITS]) if bad0 >> i & 1]
    names += [name for i, name in enumerate(how.flagged[_BITS:]) if bad1 >> i & 1]
    return names + [root for i, root in enumerate(loose_roots(how)) if bad1 >> (_BITS - 20 + i) & 1]


def _bad_bits(names: Sequence[str]) -> str:
    bits = [
        f"case when {quoted(name)} is null and {quoted('r ' + name)} is not null then {1 << i} else 0 end"
        for i, name in enumerate(names)
    ]
    return f"cast({' + '.join(bits) or '0'} as ubigint)"
