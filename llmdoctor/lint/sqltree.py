"""The shape of DuckDB's parse tree: children, names, groups, and a rough type of each expression.

A tree is what `json_serialize_sql` gives: dicts; an expression is one with a "class".
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any

Node = dict[str, Any]


def words(text: str) -> frozenset[str]:
    """The words of a text as a set."""
    return frozenset(text.split())


AGGREGATES = words(
    "count count_star count_if sum avg min max bool_and bool_or quantile_disc corr covar_pop covar_samp"
    " regr_slope regr_intercept regr_r2 regr_count stddev stddev_samp stddev_pop variance var_samp var_pop"
)
_KINDS = {
    "VARCHAR": "text", "BOOLEAN": "bool", "DOUBLE": "double", "FLOAT": "double", "REAL": "double",
    "TINYINT": "int", "SMALLINT": "int", "INTEGER": "int", "INT": "int", "BIGINT": "int", "HUGEINT": "int",
    "STRING": "text", "TEXT": "text",
}  # fmt: skip
# "short": a decimal with few digits behind the point, such as 1000.0 or count(*) * 1.0.
_WIDTH = ("null", "bool", "int", "short", "decimal", "double")
_BOOLEAN_CLASSES = ("COMPARISON", "CONJUNCTION", "BETWEEN")


def kind_of(type_name: str) -> str:
    """The rough type of a DuckDB type: text, bool, int, decimal, double, instant or unknown."""
    upper = type_name.upper()
    if upper.startswith(("DECIMAL", "NUMERIC")):
        return "decimal"
    if upper.startswith(("TIMESTAMP", "DATE", "TIME")):
        return "instant"
    return _KINDS.get(upper, "unknown")


def children(node: Any, skip: Sequence[str] = ()) -> Iterator[Node]:
    """The expressions directly below a node, the arguments of a function first."""
    if isinstance(node, dict):
        keys = sorted((key for key in node if key not in (*skip, "type_expr")), key=lambda key: key != "arguments")
        node = [node[key] for key in keys]
    for value in node:
        if isinstance(value, dict) and "class" in value:
            yield value
        elif isinstance(value, dict | list):
            yield from children(value)


def output_name(item: Node) -> str:
    """The name of a select item."""
    return str(item.get("alias") or (item["column_names"][-1] if item["class"] == "COLUMN_REF" else "?"))


def output_names(items: Sequence[Node]) -> list[str]:
    """The names of all select items; a star has none."""
    return [output_name(item) for item in items if item["class"] != "STAR"]


def _bare(node: Any) -> str:
    """A node as text without its place and alias, to compare two."""
    if isinstance(node, dict):
        kept = {k: _bare(v) for k, v in node.items() if k not in ("query_location", "query_location_length", "alias")}
        return json.dumps(kept, sort_keys=True)
    return json.dumps([_bare(part) for part in node]) if isinstance(node, list) else json.dumps(node)


def group_names(groups: Sequence[Node], items: Sequence[Node]) -> frozenset[str]:
    """The column names that a GROUP BY makes unique."""
    known = {_bare(item): output_name(item) for item in items}
    names = []
    for group in groups:
        if group["class"] == "COLUMN_REF":
            names.append(str(group["column_names"][-1]))
        elif group["class"] == "CONSTANT" and group["literal"].get("kind") == "INTEGER":
            names.append(output_name(items[int(group["literal"]["text"]) - 1]))
        else:
            names.append(known.get(_bare(group), "?"))
    return frozenset(names)


def fixed_names(node: Node | None) -> frozenset[str]:
    """The columns that a WHERE holds to one value (`kind = 'slow' and dimension = :dimension`)."""
    if node is None:
        return frozenset()
    if node["type"] == "CONJUNCTION_AND":
        return frozenset[str]().union(*map(fixed_names, node["children"]))
    if node["class"] == "SUBQUERY" and node.get("child", {}).get("column_names", [""])[-1] == "vantage":
        return frozenset({"vantage"})  # `vantage in (select vantage from front)`: a front has one
    if node["type"] != "COMPARE_EQUAL":
        return frozenset()
    sides = (node["left"], node["right"])
    names = [str(side["column_names"][-1]) for side in sides if side["class"] == "COLUMN_REF"]
    return frozenset(names) if any(side["class"] in ("CONSTANT", "PARAMETER") for side in sides) else frozenset()


def aggregates(node: Node) -> bool:
    """Whether a SELECT without GROUP BY folds its rows into one."""
    return any(_has_aggregate(item) for item in node["select_list"])


def _has_aggregate(node: Node) -> bool:
    if node["class"] in ("WINDOW", "SUBQUERY"):
        return False
    return node.get("function_name") in AGGREGATES or any(_has_aggregate(child) for child in children(node))


def widest(kinds: Sequence[str]) -> str:
    """The type that holds all of them."""
    known = [kind for kind in kinds if kind != "null"] or ["null"]
    if all(kind in _WIDTH for kind in known):
        return max(known, key=_WIDTH.index)
    return known[0] if len(set(known)) == 1 else "double" if "double" in known else "unknown"


_FIRST = words("sum min max lag lead first_value last_value nth_value nullif abs round")
_WIDEST = words("+ - * % greatest least coalesce ifnull")
_TEXT = words("|| lower upper trim ltrim rtrim substr substring replace")
_BOOL = words("~~ !~~ ~~* !~~* contains bool_and bool_or")
_INT = words("count count_star count_if row_number rank dense_rank ntile length unix_micros hour minute second size")


def result_kind(node: Node, kinds: Sequence[str]) -> str:
    """The rough type of an expression whose operands have the rough types `kinds`."""
    kind = node["class"]
    if kind == "CONSTANT":
        return _literal_kind(node["literal"])
    if kind == "CAST":
        return kind_of(str(node["type_expr"].get("type_name", "")))
    if kind == "CASE":
        return widest([*kinds[1::2], *kinds[-1:]])
    if kind == "OPERATOR":
        return widest(kinds) if node["type"] == "OPERATOR_COALESCE" else "bool"
    if kind in ("FUNCTION", "WINDOW"):
        return _function_kind(str(node.get("function_name", "")), kinds or ["unknown"])
    return "bool" if kind in _BOOLEAN_CLASSES else "unknown"


def _function_kind(name: str, kinds: Sequence[str]) -> str:
    fixed = (("text", _TEXT), ("bool", _BOOL), ("int", _INT))
    given = {
        **{word: kind for kind, names in fixed for word in names},
        **dict.fromkeys(_WIDEST, widest(kinds)),
        **dict.fromkeys(_FIRST, kinds[0]),
        "quantile_disc": kinds[1] if len(kinds) > 1 else "unknown",  # the order, after the fraction
        "if": widest(kinds[1:]),
        "date_trunc": "instant",
    }
    return given.get(name, "double" if name in _DOUBLE else "unknown")


_DOUBLE = words("/ avg corr sqrt exp ln log2 log10 power pow regr_slope regr_r2 stddev stddev_samp floor ceil ceiling")


def _literal_kind(literal: Node) -> str:
    kind = literal.get("kind")
    if kind == "NUMERIC":
        return "double" if "e" in literal["text"].lower() else "short"
    return {"INTEGER": "int", "STRING": "text", "BOOLEAN": "bool", "NULL_LITERAL": "null"}.get(str(kind), "unknown")


def can_be_false(node: Node, operands: Sequence[Any]) -> bool:
    """Whether a condition can come out false at all (`case when x then true end` cannot)."""
    kind = node["class"]
    if kind == "CONSTANT":
        return bool(node["literal"].get("kind") == "BOOLEAN" and node["literal"]["text"] == "false")
    if kind == "CASE":
        return any(column.can_be_false for column in [*operands[1::2], *operands[-1:]])
    if node["type"] == "CONJUNCTION_OR":
        return all(column.can_be_false for column in operands)
    if node["type"] in ("CONJUNCTION_AND", "OPERATOR_COALESCE") or kind == "CAST":
        return any(column.can_be_false for column in operands)
    return True
