"""A page's query as a tree: which columns it reads, what it returns, and where it leaves the common SQL of rules.

DuckDB parses (`json_serialize_sql`), this module walks: names are followed through CTEs, subqueries and the views of
views.sql down to the columns of the tables, with a rough type of each. Which words are allowed stands in `dialect.py`.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from llmdoctor.errors import StoreError
from llmdoctor.lint import dialect, sqltree
from llmdoctor.lint.sqltree import Node
from llmdoctor.store import Store, bind_limits, package_sql

Tokens = frozenset[str]

TABLES = (
    "attempts", "front", "front_expected", "chunks", "facts", "stages", "task_events", "engine_samples", "inputs",
    "rejects", "bad_fields", "secrets", "expected", "in_flight", "pairs", "lumps", "tried", "asked_again", "vantages",
    "slices", "quantiles", "walls", "segments", "silences", "path", "staged", "task_audit",
)  # fmt: skip
# What makes a row of a table unique: the last key of an ORDER BY comes from here (or from a GROUP BY).
KEYS: Mapping[str, tuple[str, ...]] = {
    "attempts": ("attempt_id",),
    "front": ("attempt_id",),
    "front_expected": ("attempt_id",),
    "staged": ("attempt_id",),
    "task_audit": ("task_key",),
    "expected": ("attempt_id",),
    "in_flight": ("attempt_id",),
    "tried": ("attempt_id",),
    "chunks": ("attempt_id", "seq"),
    "lumps": ("attempt_id", "lump"),
    "facts": ("attempt_id", "name"),
    "vantages": ("vantage",),
    "pairs": ("attempt_id", "partner_vantage"),
    "inputs": ("input_id",),
    "walls": ("vantage", "outcome", "wall_ms"),
    "slices": ("vantage", "kind", "dimension", "value"),
    "segments": ("vantage", "name", "segment"),
    "silences": ("vantage", "from_at"),
    "engine_samples": ("at", "instance", "name"),
    "task_events": ("task_id", "at", "state"),
}


@dataclass(frozen=True)
class Column:
    """One column of a relation: its rough type, the reads it stands for, and whether it can be false.

    A read is the set of names by which `needs` may call it: `{"ttft_ms", "calls.ttft_ms"}`."""

    kind: str = "unknown"
    reads: frozenset[Tokens] = frozenset()
    can_be_false: bool = True


@dataclass(frozen=True)
class Relation:
    """What a FROM offers: columns, sets of columns that make a row unique, names without which there are no rows."""

    columns: Mapping[str, Column]
    keys: tuple[Tokens, ...] = ()
    rows: Tokens = frozenset()


@dataclass
class Scope:
    """The relations of one SELECT by alias, the SELECT around it, and the names of its own columns."""

    outer: "Scope | None" = None
    sources: dict[str, Relation] = field(default_factory=dict)
    aliases: dict[str, Column] = field(default_factory=dict)
    listing: bool = False
    folding: bool = False
    hidden: set[str] = field(default_factory=set)
    later: frozenset[str] = frozenset()
    grouped: tuple[Tokens, ...] | None = None
    rows: Tokens = frozenset()
    fixed: Tokens = frozenset()

    @property
    def keys(self) -> tuple[Tokens, ...]:
        """Sets of column names that make a row unique here."""
        if self.grouped is not None:
            return self.grouped
        return tuple(key for relation in self.sources.values() for key in relation.keys)


@dataclass(frozen=True)
class Query:
    """What is known of one statement. `faults` are (offset in the text, what is wrong and what to write instead)."""

    relation: Relation
    reads: frozenset[Tokens]
    faults: tuple[tuple[int, str], ...]


def catalogue(store: Store) -> dict[str, Relation]:
    """Everything a rule may read, in a store that was prepared: tables, and the views with what they stand for."""
    found = {name: _table(store, name) for name in TABLES}
    found = {name: relation for name, relation in found.items() if relation.columns}
    for name, text in (*_derived(), *views()):
        query = examine(store, text, found, portable=False)
        columns = {
            column: replace(known, reads=frozenset({frozenset({f"{name}.{column}"}).union(*known.reads)}))
            for column, known in query.relation.columns.items()
        }
        found[name] = Relation(columns, query.relation.keys, query.relation.rows | {name})
    return found


def views() -> Iterator[tuple[str, str]]:
    """Name and SELECT of each view of views.sql, in order."""
    for statement in filter(None, map(str.strip, _bare("views.sql").split(";"))):
        head, _, body = statement.partition(" as\n")
        yield head.split()[-1], body


def _derived() -> Iterator[tuple[str, str]]:
    """Name and SELECT of the derived tables that stand for columns of attempts, as views do."""
    for file in ("tried", "asked_again"):
        head, _, body = _bare(f"derived/{file}.sql").strip().rstrip(";").partition("\n")
        yield head.split()[-1], body


def _bare(file: str) -> str:
    return dialect.COMMENT.sub(lambda found: " " * len(found.group()), package_sql(file))


def _table(store: Store, table: str) -> Relation:
    own = table in ("front", "front_expected", "attempts")
    names = _names_beside(store) if table == "front_expected" else {}
    columns = {
        name: Column(
            sqltree.kind_of(kind), frozenset({names.get(name, frozenset({name if own else f"{table}.{name}"}))})
        )
        for name, kind in store.columns(table).items()
    }
    keys = (frozenset(KEYS[table]),) if table in KEYS else ()
    return Relation(columns, keys, frozenset() if own else frozenset({table}))


def _names_beside(store: Store) -> dict[str, Tokens]:
    """Columns of `expected` -> how `needs` may call them, wherever they are read."""
    tables = {name: store.columns(name) for name in ("expected", "in_flight")}
    return {
        column: frozenset(f"{table}.{column}" for table, columns in tables.items() if column in columns)
        for column in tables["expected"]
        if column != "attempt_id"
    }


def examine(
    store: Store, sql: str, known: Mapping[str, Relation], functions: Sequence[str] = (), portable: bool = True
) -> Query:
    """Parses and walks one SELECT over the relations `known` and the table functions `functions`."""
    text, _ = bind_limits(sql)
    try:
        answer = store.run("select json_serialize_sql(?, skip_null := true, skip_empty := true)", [text])[0][0]
    except StoreError as error:
        return Query(Relation({}), frozenset(), ((0, f"cannot be parsed: {error}"),))
    tree = json.loads(answer)
    if tree["error"]:
        return Query(Relation({}), frozenset(), ((int(tree.get("position", 0)), dialect.no_select(tree)),))
    walker = _Walker(known, functions, portable)
    if len(tree["statements"]) != 1:
        walker.fault(0, "has several statements: write one SELECT")
    if portable and (quoted := dialect.QUOTED.search(dialect.blanked(text))):
        walker.fault(quoted.start(), "has a quoted identifier, which Spark reads as text: write the plain name")
    if portable and (named := dialect.VARCHAR.search(dialect.blanked(text))):
        walker.fault(named.start(), "casts to varchar, which Spark wants with a length: write cast(x as string)")
    relation = walker.query(tree["statements"][0]["node"], {}, None)
    walker.reads |= all_reads(relation.columns.values())  # those that came through a star
    return Query(relation, frozenset(walker.reads), tuple(walker.faults))


class _Walker:
    """One walk over one tree; collects reads and faults."""

    def __init__(self, known: Mapping[str, Relation], functions: Sequence[str], portable: bool) -> None:
        self.known, self.functions, self.portable = known, functions, portable
        self.reads: set[Tokens] = set()
        self.faults: list[tuple[int, str]] = []

    def fault(self, at: Node | int, text: str | None) -> None:
        if text:
            offset = at if isinstance(at, int) else int(at.get("query_location", 0))
            self.faults.append((offset if offset < 2**32 else 0, text))

    def unportable(self, at: Node | int, text: str | None) -> None:
        if self.portable:
            self.fault(at, text)

    # --- queries

    def query(self, node: Node, around: Mapping[str, Relation], outer: Scope | None) -> Relation:
        ctes = dict(around)
        for entry in node.get("cte_map", {}).get("map", ()):
            body = entry["value"]["query_node"]
            self.unportable(body, dialect.NODES.get(body["type"]))
            ctes[entry["key"]] = self.query(body, ctes, outer) if body["type"] in _QUERIES else Relation({})
        if node["type"] == "SELECT_NODE":
            return self._select(node, ctes, outer)
        self.unportable(node, dialect.NODES.get(str(node.get("setop_type"))))
        sides = [self.query(child, ctes, outer) for child in node.get("children", ())]
        for modifier in node.get("modifiers", ()):
            self._orders(modifier.get("orders", ()), (), sides[0].keys, Scope(sources={"": sides[0]}))
        distinct = not node.get("setop_all") and node.get("setop_type") == "UNION"
        columns = {
            name: Column(column.kind, column.reads, any(side.false_at(index) for side in map(_Side, sides)))
            for index, (name, column) in enumerate(sides[0].columns.items())
        }
        rows = frozenset[str]().union(*(side.rows for side in sides))
        return Relation(columns, (frozenset(columns),) if distinct else (), rows)

    def _select(self, node: Node, ctes: Mapping[str, Relation], outer: Scope | None) -> Relation:
        names = sqltree.output_names(node["select_list"])
        scope = Scope(outer, later=frozenset(names))
        self._source(node.get("from_table", {"type": "EMPTY"}), scope, ctes)
        filters = [self._expression(node[key], scope, ctes) for key in ("where_clause",) if key in node]
        scope.later = frozenset()
        scope.fixed = sqltree.fixed_names(node.get("where_clause"))
        groups = node.get("group_expressions", [])
        if groups:
            scope.grouped = (sqltree.group_names(groups, node["select_list"]),)
        elif sqltree.aggregates(node):
            scope.grouped = (frozenset(),)
        scope.listing = True
        columns = self._outputs(node["select_list"], scope, ctes)
        scope.listing = False
        filters += [self._expression(group, scope, ctes) for group in groups]
        scope.folding = True
        for key in ("having", "qualify"):
            if key in node:
                self._expression(node[key], scope, ctes)
        scope.folding = False
        self.unportable(node, dialect.select_fault(node))
        keys = self._output_keys(node, scope, columns)
        for modifier in node.get("modifiers", ()):
            self._orders(modifier.get("orders", ()), (), (*keys, *scope.keys), scope, ctes)
        needed = scope.rows.union(*(tokens for column in filters for tokens in column.reads))
        return Relation(columns, keys, needed)

    def _outputs(self, items: Sequence[Node], scope: Scope, ctes: Mapping[str, Relation]) -> dict[str, Column]:
        columns: dict[str, Column] = {}
        for item in items:
            if item["class"] == "STAR":
                self.unportable(item, dialect.star_fault(item))
                for alias, relation in scope.sources.items():
                    if item.get("relation_name", alias) == alias:
                        columns |= relation.columns
                continue
            column = self._expression(item, scope, ctes)
            name = sqltree.output_name(item)
            columns[name] = scope.aliases[name] = column
            if item["class"] != "COLUMN_REF":
                scope.hidden.add(name)
        return columns

    def _output_keys(self, node: Node, scope: Scope, columns: Mapping[str, Column]) -> tuple[Tokens, ...]:
        if any(modifier["type"] == "DISTINCT_MODIFIER" for modifier in node.get("modifiers", ())):
            return (frozenset(columns),)
        renamed = {
            item["column_names"][-1]: sqltree.output_name(item)
            for item in node["select_list"]
            if item["class"] == "COLUMN_REF"
        }
        keys = (frozenset(renamed.get(name, name) for name in key - scope.fixed) for key in scope.keys)
        return tuple(key for key in keys if key <= columns.keys())

    # --- where rows come from

    def _source(self, node: Node, scope: Scope, ctes: Mapping[str, Relation]) -> None:
        kind = node["type"]
        if kind == "JOIN":
            self.unportable(node, dialect.NODES.get(node.get("ref_type", "")))
            self._source(node["left"], scope, ctes)
            rows = scope.rows
            self._source(node["right"], scope, ctes)
            if node.get("join_type") in ("LEFT", "FULL", "ANTI"):
                scope.rows = rows
            for name in node.get("using_columns", ()):
                self._resolve([name], scope)
            if "condition" in node:
                self._expression(node["condition"], scope, ctes)
            return
        relation = self._relation(node, scope, ctes)
        if names := node.get("column_name_alias"):
            columns = list(relation.columns.items())
            renamed = dict(zip(names, (column for _, column in columns), strict=False))
            relation = Relation(renamed | dict(columns[len(names) :]), (frozenset(renamed),))
        if kind != "EMPTY":
            scope.sources[node.get("alias") or node.get("table_name") or f"#{len(scope.sources)}"] = relation
            scope.rows |= relation.rows
        self.unportable(node, dialect.NODES["SAMPLE"] if "sample" in node else None)

    def _relation(self, node: Node, scope: Scope, ctes: Mapping[str, Relation]) -> Relation:
        kind = node["type"]
        if kind == "BASE_TABLE":
            return self._named(node, ctes)
        if kind == "SUBQUERY":
            return self.query(node["subquery"]["node"], ctes, scope.outer)
        if kind == "EXPRESSION_LIST":
            row = [self._expression(value, scope, ctes) for value in node["values"][0]]
            return Relation({f"col{index}": column for index, column in enumerate(row)})
        if kind == "TABLE_FUNCTION":
            name = str(node["function"].get("function_name", "?"))
            if name not in self.functions:
                self.fault(node, f"reads the table function {name}(): read a table or view of schema.sql or views.sql")
            return Relation({name: Column("int")}, (frozenset({name}),))
        self.fault(
            node, dialect.NODES.get(kind, f"has a {kind.lower()}: write a plain SELECT") if kind != "EMPTY" else None
        )
        return Relation({})

    def _named(self, node: Node, ctes: Mapping[str, Relation]) -> Relation:
        path = node["qualified_name"]["path"]
        name = str(path[-1])
        if len(path) == 1 and name in ctes:
            return ctes[name]
        if len(path) > 1 or name not in self.known:
            self.fault(node, f"reads {'.'.join(path)}: rules read {', '.join(self.known) or 'their own CTEs only'}")
            return Relation({})
        relation = self.known[name]
        if relation.rows:
            self.reads.add(relation.rows)
        return relation

    # --- expressions

    def _expression(self, node: Node, scope: Scope, ctes: Mapping[str, Relation]) -> Column:
        kind = node["class"]
        if kind == "COLUMN_REF":
            return self._reference(node, scope)
        if kind == "SUBQUERY":
            inner = self.query(node["subquery"]["node"], ctes, scope)
            first = next(iter(inner.columns.values()), Column())
            below = [self._expression(child, scope, ctes) for child in sqltree.children(node, skip=("subquery",))]
            scalar = node.get("subquery_type") == "SCALAR"
            return Column(first.kind if scalar else "bool", all_reads([first, *below]))
        operands = [(child, self._expression(child, scope, ctes)) for child in sqltree.children(node)]
        self._check(node, operands, scope)
        reads = all_reads(column for _, column in operands)
        if node.get("function_name") == "count_star" and scope.rows:
            reads = frozenset({scope.rows})
        kinds = [column.kind for _, column in operands]
        return Column(sqltree.result_kind(node, kinds), reads, sqltree.can_be_false(node, [c for _, c in operands]))

    def _check(self, node: Node, operands: Sequence[tuple[Node, Column]], scope: Scope) -> None:
        name = str(node.get("function_name", ""))
        if name in dialect.VOLATILE:
            self.fault(node, dialect.volatile(name))
            return
        kinds = [column.kind for _, column in operands]
        self.unportable(node, dialect.expression_fault(node, [child for child, _ in operands], kinds))
        if node["class"] == "WINDOW":
            unique = dialect.needs_unique_order(node)
            self._orders(node.get("orders", ()), node.get("partitions", ()), scope.keys if unique else None, scope)

    def _reference(self, node: Node, scope: Scope) -> Column:
        names = node["column_names"]
        found = self._resolve(names, scope)
        own = scope.aliases.get(names[0]) if len(names) == 1 else None
        if found is None and own and not scope.listing:
            return own
        if found and (scope.listing or scope.folding) and len(names) == 1 and names[0] in scope.hidden:
            self.unportable(node, f"uses {names[0]} after giving its name to another column: choose another name")
        if found is None and names[0] in dialect.VOLATILE:
            self.fault(node, dialect.volatile(names[0]))
        elif found is None and (own or names[0] in scope.later):
            self.unportable(node, f"uses {names[0]}, a column of its own SELECT: make it in a CTE before")
        return found or own or Column()

    def _resolve(self, names: Sequence[str], scope: Scope | None) -> Column | None:
        while scope is not None:
            if len(names) > 1 and names[0] in scope.sources:
                candidates = [scope.sources[names[0]].columns.get(names[1])]
            else:
                candidates = [relation.columns.get(names[0]) for relation in scope.sources.values()]
            for column in candidates:
                if column is not None:
                    self.reads.update(column.reads)
                    return column
            scope = scope.outer
        return None

    def _orders(
        self,
        orders: Sequence[Node],
        partitions: Sequence[Node],
        keys: Sequence[Tokens] | None,
        scope: Scope,
        ctes: Mapping[str, Relation] | None = None,
    ) -> None:
        """Checks an ORDER BY; `keys` None: ties do not matter here."""
        for order in orders:
            expression = order["expression"]
            if ctes is not None:
                self._expression(expression, scope, ctes)
            self.unportable(expression, dialect.order_fault(order))
        names = {part["column_names"][-1] for part in partitions if part["class"] == "COLUMN_REF"} | scope.fixed
        names |= {o["expression"]["column_names"][-1] for o in orders if o["expression"]["class"] == "COLUMN_REF"}
        closed = "attempt_id" in names or any(key <= names for key in keys or ())
        if orders and keys is not None and not closed:
            self.unportable(orders[-1]["expression"], dialect.NO_UNIQUE_KEY)


_QUERIES = ("SELECT_NODE", "SET_OPERATION_NODE")


@dataclass(frozen=True)
class _Side:
    """One side of a UNION, asked by position."""

    relation: Relation

    def false_at(self, index: int) -> bool:
        columns = list(self.relation.columns.values())
        return index >= len(columns) or columns[index].can_be_false


def all_reads(columns: Iterable[Column]) -> frozenset[Tokens]:
    return frozenset[Tokens]().union(*(column.reads for column in columns))
