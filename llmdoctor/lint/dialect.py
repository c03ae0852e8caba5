"""The common SQL of DuckDB and Spark 4 that rules are written in: which words it has, and what to write for the others.

Sources: DESIGN section 3 and `tests/real/test_sail.py`, which runs every rule on both and compares.
"""

import re
from collections.abc import Sequence

from llmdoctor.lint.sqltree import AGGREGATES, Node, children, kind_of, words

COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
QUOTED = re.compile(r'"')
VARCHAR = re.compile(r"\b(?:varchar|text)\s*(?=\))|::\s*(?:varchar|text)\b", re.IGNORECASE)
_TEXT_OR_COMMENT = re.compile(r"'(?:[^']|'')*'|--[^\n]*|/\*.*?\*/", re.DOTALL)

# Their result depends on the order in which doubles are added.
SUMS = words(
    "sum avg corr covar_pop covar_samp regr_slope regr_intercept regr_r2 stddev stddev_samp stddev_pop variance"
    " var_samp var_pop"
)
WINDOWS = words("row_number rank dense_rank percent_rank cume_dist ntile lag lead first_value last_value nth_value")
SCALARS = words(
    "+ - * / % || ~~ !~~ ~~* !~~* abs ceil ceiling floor round sign sqrt exp ln log2 log10 power pow mod"
    " coalesce nullif greatest least if ifnull lower upper length trim ltrim rtrim substr substring replace contains"
    " date_trunc unix_micros hour minute second year month day size explode array_contains error"
)
ALLOWED = AGGREGATES | WINDOWS | SCALARS

VOLATILE = words(
    "now random uuid gen_random_uuid uuidv4 uuidv7 setseed getenv today get_current_timestamp get_current_time"
    " transaction_timestamp txid_current nextval currval current_date current_time current_timestamp localtime"
    " localtimestamp current_user session_user user current_role current_catalog current_database current_schema"
    " current_schemas current_setting current_query version pg_typeof hash read_text read_blob"
)

_PERCENTILE = "write percentile_disc(q) within group (order by x)"
_DURATION = "write (unix_micros(b) - unix_micros(a)) / 1000.0 for milliseconds"
_ORDERLESS = "it depends on the order of rows: write min or max, or number the rows (row_number with a unique last key)"
_LISTS = "lists are not portable: write rows and aggregates"
INSTEAD = {
    **dict.fromkeys(("concat", "concat_ws"), "nulls differ between engines: write ||"),
    "log": "its base differs between engines: write ln, log2 or log10",
    **dict.fromkeys(
        ("quantile_cont", "quantile", "median", "mad", "approx_quantile", "reservoir_quantile"), _PERCENTILE
    ),
    **dict.fromkeys(("date_diff", "datediff", "date_sub", "epoch", "epoch_ms", "epoch_us", "age"), _DURATION),
    **dict.fromkeys(("any_value", "first", "last", "arbitrary", "mode"), _ORDERLESS),
    **dict.fromkeys(("list", "array_agg", "string_agg", "listagg", "group_concat", "histogram", "list_value"), _LISTS),
    **dict.fromkeys(("struct_pack", "row", "list_apply", "list_transform", "list_filter", "list_sum"), _LISTS),
    "time_bucket": "write date_trunc",
    "//": "write floor(a / nullif(b, 0))",
    **dict.fromkeys(("max_by", "min_by", "arg_max", "arg_min", "arg_max_null", "arg_min_null"), _ORDERLESS),
    "len": "write length for text, size for lists",
    "unnest": "write explode",
    "regexp_matches": "write like",
    "starts_with": "write like 'x%'",
    "**": "write power(a, b)",
    "^": "write power(a, b)",
    "approx_count_distinct": "an estimate differs between engines: write count(distinct x)",
    "dayofweek": "engines number the days differently: leave it out",
}

NODES = {
    "PIVOT": "has PIVOT or UNPIVOT: write one SELECT for each column, joined by union all",
    "RECURSIVE_CTE_NODE": "has a recursive CTE: write windows or joins",
    "ASOF": "has an ASOF join: join with lead() of the other side's time",
    "POSITIONAL": "has a positional join: join by a key",
    "UNION_BY_NAME": "has UNION BY NAME: name the columns in one order",
    "SAMPLE": "has a sample, which differs each time: read all rows",
}
NO_UNIQUE_KEY = (
    "has an ORDER BY whose ties are open: add a unique last key (attempt_id, or the columns of the GROUP BY)"
)


def blanked(sql: str) -> str:
    """The text with strings and comments blanked, same length."""
    return _TEXT_OR_COMMENT.sub(lambda found: " " * len(found.group()), sql)


def no_select(tree: Node) -> str:
    """What to say of a text that DuckDB could not turn into a tree."""
    if tree.get("error_type") == "parser":
        return f"cannot be parsed: {tree['error_message']}"
    return "is no SELECT: rules only read"


def volatile(name: str) -> str:
    """What to say of a function whose answer is another each time."""
    return f"uses {name}, whose answer is another each time or on each machine: use columns of the log"


def select_fault(node: Node) -> str | None:
    """What a SELECT as a whole has that is not portable."""
    modifiers = {modifier["type"]: modifier for modifier in node.get("modifiers", ())}
    if "qualify" in node:
        return "has QUALIFY: number the rows in a CTE and filter in the next SELECT"
    if node.get("aggregate_handling") == "FORCE_AGGREGATES":
        return "has GROUP BY ALL: name the columns"
    if modifiers.get("DISTINCT_MODIFIER", {}).get("distinct_on_targets"):
        return "has DISTINCT ON: take row_number() = 1"
    if {"LIMIT_MODIFIER", "LIMIT_PERCENT_MODIFIER"} & modifiers.keys() and "ORDER_MODIFIER" not in modifiers:
        return "has LIMIT without ORDER BY: say which rows come first"
    return None


def star_fault(item: Node) -> str | None:
    """What a star has that is not portable."""
    if item.get("columns") or item.keys() & {"exclude_list", "qualified_exclude_list", "replace_list", "rename_list"}:
        return "has * EXCLUDE, * REPLACE or COLUMNS(): name the columns"
    return None


def order_fault(order: Node) -> str | None:
    """What one key of an ORDER BY lacks. attempt_id is never null."""
    expression = order["expression"]
    if expression["class"] == "STAR":
        return "has ORDER BY ALL: name the columns"
    if order["null_order"] == "ORDER_DEFAULT" and expression.get("column_names", [""])[-1] != "attempt_id":
        return "has an ORDER BY that does not say where nulls go: add NULLS FIRST or NULLS LAST to each key"
    return None


def needs_unique_order(node: Node) -> bool:
    """Whether a window's result depends on the order of rows that compare equal."""
    name = str(node.get("function_name", ""))
    by_rows = "ROWS" in str(node.get("start")) or "ROWS" in str(node.get("end"))
    return by_rows or name in WINDOWS - {"rank", "dense_rank", "percent_rank", "cume_dist"}


def expression_fault(node: Node, operands: Sequence[Node], kinds: Sequence[str]) -> str | None:
    """What one expression has that is not portable, and what to write instead. `kinds` are those of its operands."""
    name = str(node.get("function_name", ""))
    if node["class"] == "CAST":
        return _cast_fault(node, kinds)
    if node["class"] == "LAMBDA" or node["type"] in ("ARRAY_EXTRACT", "ARRAY_SLICE", "ARRAY_CONSTRUCTOR"):
        return _LISTS
    if name == "/" and _loses_digits(kinds):
        return (
            "divides decimals, whose digits differ between engines: write / 1e3 for / 1000.0, leave out * 1.0, or cast"
        )
    return _word_fault(node, name, operands) or _sum_fault(name, kinds) if name else None


def _loses_digits(kinds: Sequence[str]) -> bool:
    """Spark gives a decimal as few as four digits more than the dividend has; int / int and doubles are doubles."""
    left, right = kinds
    return (left in ("int", "short") and right in ("short", "decimal")) or (left == "short" and right == "int")


def _word_fault(node: Node, name: str, operands: Sequence[Node]) -> str | None:
    if name in INSTEAD:
        return f"uses {name}: {INSTEAD[name]}"
    if name not in ALLOWED:
        return (
            f"uses {name}, which is not in the common SQL of DuckDB and Spark: see ALLOWED in llmdoctor/lint/dialect.py"
        )
    if name in ("/", "%", "mod") and not _never_zero(operands[-1]):
        return f"divides ({name}) by what may be 0: write a {name} nullif(b, 0)"
    if name == "quantile_disc" and not node.get("order_bys", {}).get("orders"):
        return f"has a quantile of another form: {_PERCENTILE}"
    return None


def _sum_fault(name: str, kinds: Sequence[str]) -> str | None:
    if name in SUMS and kinds[:1] == ["bool"]:
        return f"takes the {name} of a condition: write count_if(x), or case when x then 1 else 0 end"
    arguments = kinds[:1] if name in ("sum", "avg") or name.startswith(("std", "var")) else kinds[:2]
    if name in SUMS and "double" in arguments:
        return f"takes {name} of doubles, which depends on the order of rows: write cast(x as decimal(18, 3))"
    return None


def _cast_fault(node: Node, kinds: Sequence[str]) -> str | None:
    target = kind_of(str(node.get("type_expr", {}).get("type_name", "")))
    if kinds[:1] == ["text"] and target in ("instant", "int"):
        return "casts text to an instant or integer, which engines read differently: use a column of that type"
    if target == "int" and kinds[:1] in (["double"], ["decimal"], ["short"]) and not _is_whole(node["child"]):
        return "casts a fraction to an integer, which DuckDB rounds and Spark cuts: write cast(round(x) as bigint)"
    return None


def _is_whole(node: Node) -> bool:
    name, arguments = node.get("function_name"), len(list(children(node)))
    return name in ("floor", "ceil", "ceiling") or (name == "round" and arguments == 1)


def _never_zero(node: Node) -> bool:
    name = node.get("function_name")
    if node["class"] == "CONSTANT":
        return node["literal"].get("kind") in ("INTEGER", "NUMERIC") and float(node["literal"]["text"]) != 0
    if node["class"] == "CAST":
        return _never_zero(node["child"])
    if name == "greatest":
        return any(child["class"] == "CONSTANT" and _never_zero(child) for child in children(node))
    return name == "nullif"
