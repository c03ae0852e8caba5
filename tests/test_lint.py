"""Every way in which a rule page can be wrong beyond its shape, each pinned to its message."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from llmdoctor import lint, rulebook, stats
from llmdoctor.lint import queries
from llmdoctor.store import Store

SYMPTOM = """# Calls fail

```toml
severity = "high"
unit = "share"
counts = "attempts"
needs = [{needs}]
also = [{also}]
affected = "{affected}"

[limits.share]
default = 0.01
help = "share of failed attempts"
{limits}
```

## Seen when

```sql
{query}
```

## Why it matters

{why}

## When this is wrong

Never.

## Examples

```sql found {table}
{found}
```

```sql absent attempts
select 'completed' as outcome from range(9)
```
"""
SEEN = """select vantage, 'all' as subject, count_if(outcome = 'failed') / nullif(count(*), 0) as observed,
       :share as expected, count_if(outcome = 'failed') as affected, count(*) as total,
       min(started_at) as first_at, max(started_at) as last_at, count_if(outcome = 'failed') > :share as holds
from   {source}
group  by vantage"""
SYMPTOM_FIELDS = {
    "needs": '"http_status"',
    "also": "",
    "affected": "outcome = 'failed' and http_status > 499",
    "limits": "",
    "query": SEEN.format(source="front"),
    "why": "They do.",
    "table": "attempts",
    "found": "select 'failed' as outcome from range(9)",
}

CAUSE = """# {title}

```toml
layer = "provider"
explains = [{explains}]
{ids}
```

## Evidence

### {sentence}

```toml
weight = {weight}
needs = [{needs}]
also = [{also}]
unknown = "It cannot be told."
```

```sql
{query}
```

## Affected

```sql
{claims}
```

## Fix

{fix}

## Verify

{verify}

## When this is wrong

Sometimes.

## Examples

```sql found attempts
select 'rate_limited' as outcome from range(9)
```

```sql absent attempts
select 'completed' as outcome from range(9)
```
"""
CAUSE_FIELDS = {
    "title": "The provider refuses",
    "explains": '"rate_limited"',
    "ids": "",
    "sentence": "{share:.0%} of {n} calls are refused",
    "weight": "1",
    "needs": '"http_status"',
    "also": "",
    "query": """select 'all' as subject, count_if(http_status = 429) > 3 as supports,
       count_if(http_status = 429) / nullif(count(*), 0) as share, count(*) as n
from   front""",
    "claims": "select 'all' as subject, attempt_id, 1 as claim from front where http_status = 429",
    "fix": "### nginx\n\nRaise `limit_req`.",
    "verify": "Run it again.",
}

Lint = Callable[..., list[str]]


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of rules of its own, with one shipped symptom, so that a fault elsewhere is no fault here."""
    shipped, folder = rulebook.shipped_rules(), tmp_path / "own"
    for name in ("profiles.toml", "symptoms/rate_limited.md"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes((shipped / name).read_bytes())
    (folder / "causes").mkdir()
    monkeypatch.setattr(rulebook, "shipped_rules", lambda: folder)
    return folder


@pytest.fixture(scope="module")
def desk() -> Iterator[lint.Desk]:
    with lint.desk() as one:
        yield one


@pytest.fixture
def symptom(own: Path, desk: lint.Desk) -> Lint:
    """Lints one symptom page `mine` that differs from a good one in what is given."""

    def check(page_id: str = "mine", **changed: str) -> list[str]:
        (own / f"symptoms/{page_id}.md").write_text(SYMPTOM.format(**SYMPTOM_FIELDS | changed), encoding="utf-8")
        return [fault for fault in lint.faults(desk, rulebook.load()) if f"/{page_id}.md:" in fault]

    return check


@pytest.fixture
def cause(own: Path, desk: lint.Desk) -> Lint:
    """Lints one cause page `mine_too` that differs from a good one in what is given."""

    def check(**changed: str) -> list[str]:
        (own / "causes/mine_too.md").write_text(CAUSE.format(**CAUSE_FIELDS | changed), encoding="utf-8")
        return [fault for fault in lint.faults(desk, rulebook.load()) if "/mine_too.md:" in fault]

    return check


def _evidence(select: str, source: str = "front") -> str:
    return f"select 'all' as subject, http_status > 499 as supports, {select} as share, 1 as n\nfrom   {source}"


def test_a_good_page_has_no_fault(symptom: Lint, cause: Lint) -> None:
    assert symptom() == []
    assert cause() == []


def test_a_fault_names_file_and_line(symptom: Lint) -> None:
    assert symptom(why="") == ["own/symptoms/mine.md:1: '## Why it matters' is empty: write a sentence"]


def test_the_shared_views_are_common_sql() -> None:
    with Store() as store:
        store.create()
        stats.prepare(store)
        known = queries.catalogue(store)
        assert {name: queries.examine(store, text, known).faults for name, text in queries.views()} == {
            name: () for name, _ in queries.views()
        }


# --- what a query may be and may read


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("delete from attempts", "query is no SELECT: rules only read"),
        ("select from where", "query cannot be parsed: "),
        (f"{SEEN.format(source='front')}; select 1", "query has several statements: write one SELECT"),
        (SEEN.format(source="secret_plans"), "query reads secret_plans: rules read attempts, front, "),
        (SEEN.format(source="information_schema.tables"), "query reads information_schema.tables: rules read "),
        (SEEN.format(source="read_csv('/etc/passwd')"), "query reads the table function read_csv(): read a table"),
        (SEEN.format(source="(select frnt.vantage from front) f"), "query does not run: Binder Error"),
    ],
)
def test_a_query_only_selects_from_what_rules_may_read(symptom: Lint, query: str, message: str) -> None:
    assert any(message in fault for fault in symptom(query=query)), symptom(query=query)


@pytest.mark.parametrize("word", ["now()", "random()", "current_date", "current_timestamp", "getenv('HOME')", "uuid()"])
def test_a_query_reads_neither_clock_nor_dice_nor_machine(cause: Lint, word: str) -> None:
    name = word.split("(", maxsplit=1)[0]
    fault = f"uses {name}, whose answer is another each time or on each machine: use columns of the log"
    assert any(fault in one for one in cause(query=_evidence(word)))


# --- the common SQL of DuckDB and Spark


@pytest.mark.parametrize(
    ("select", "message"),
    [
        ("concat('a', model)", "uses concat: nulls differ between engines: write ||"),
        ("total_ms / input_tokens", "divides (/) by what may be 0: write a / nullif(b, 0)"),
        ("input_tokens % output_tokens", "divides (%) by what may be 0: write a % nullif(b, 0)"),
        ("input_tokens // 2", "uses //: write floor(a / nullif(b, 0))"),
        ("input_tokens / 1000.0", "divides decimals, whose digits differ between engines: write / 1e3 for / 1000.0"),
        ("input_tokens * 1.0 / nullif(output_tokens, 0)", "divides decimals, whose digits differ between engines"),
        ("log(total_ms)", "uses log: its base differs between engines: write ln, log2 or log10"),
        ("cast(model as integer)", "casts text to an instant or integer, which engines read differently"),
        ("cast(model || 'Z' as timestamptz)", "casts text to an instant or integer, which engines read differently"),
        ("cast(total_ms * 1000 as bigint)", "casts a fraction to an integer, which DuckDB rounds and Spark cuts"),
        ("cast(total_ms as varchar)", "casts to varchar, which Spark wants with a length: write cast(x as string)"),
        ("quantile_cont(total_ms, 0.5)", "uses quantile_cont: write percentile_disc(q) within group (order by x)"),
        ("median(total_ms)", "uses median: write percentile_disc(q) within group (order by x)"),
        ("quantile_disc(total_ms, 0.5)", "has a quantile of another form: write percentile_disc(q)"),
        ("sum(total_ms)", "takes sum of doubles, which depends on the order of rows: write cast(x as decimal(18, 3))"),
        ("avg(ttft_ms + 1)", "takes avg of doubles, which depends on the order of rows"),
        ("sum(stream)", "takes the sum of a condition: write count_if(x), or case when x then 1 else 0 end"),
        ("any_value(model)", "uses any_value: it depends on the order of rows: write min or max"),
        ("max_by(model, total_ms)", "uses max_by: it depends on the order of rows: write min or max"),
        ("list(model)", "uses list: lists are not portable: write rows and aggregates"),
        ("[1, 2]", "lists are not portable: write rows and aggregates"),
        ("date_diff('ms', started_at, ended_at)", "uses date_diff: write (unix_micros(b) - unix_micros(a)) / 1000.0"),
        ("soundex(model)", "uses soundex, which is not in the common SQL of DuckDB and Spark"),
        ('max("model")', "has a quoted identifier, which Spark reads as text: write the plain name"),
        ("total_ms + 1 as total_ms, total_ms + 2", "uses total_ms after giving its name to another column"),
        ("1 as one, one + 1", "uses one, a column of its own SELECT: make it in a CTE before"),
        (
            "row_number() over (order by total_ms, attempt_id)",
            "has an ORDER BY that does not say where nulls go: add NULLS FIRST or NULLS LAST to each key",
        ),
        (
            "lag(total_ms) over (partition by model order by started_at nulls last)",
            "has an ORDER BY whose ties are open: add a unique last key (attempt_id, or the columns of the GROUP BY)",
        ),
    ],
)
def test_an_expression_is_common_sql(cause: Lint, select: str, message: str) -> None:
    found = cause(query=_evidence(select))
    assert any(message in fault for fault in found), found


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("front qualify row_number() over (order by attempt_id) = 1", "has QUALIFY: number the rows in a CTE"),
        (
            "(select max(total_ms) as total_ms from front having max(total_ms) > 1) f",
            "uses total_ms after giving its name to another column: choose another name",
        ),
        ("front group by all", "has GROUP BY ALL: name the columns"),
        ("front order by attempt_id nulls last limit 3 offset 1", ""),
        ("front limit 3", "has LIMIT without ORDER BY: say which rows come first"),
        ("front order by all", "has ORDER BY ALL: name the columns"),
        ("front asof join in_flight i on front.attempt_id >= i.attempt_id", "has an ASOF join: join with lead()"),
        ("front positional join in_flight", "has a positional join: join by a key"),
        ("front unpivot (x for y in (ttft_ms, total_ms))", "has PIVOT or UNPIVOT: write one SELECT for each column"),
        ("front tablesample 10%", "has a sample, which differs each time: read all rows"),
        ("(select * exclude (line) from front) f", "has * EXCLUDE, * REPLACE or COLUMNS(): name the columns"),
        ("(select distinct on (model) * from front) f", "has DISTINCT ON: take row_number() = 1"),
        ("(select * from front union by name select * from front) f", "has UNION BY NAME: name the columns"),
    ],
)
def test_a_select_is_common_sql(cause: Lint, source: str, message: str) -> None:
    found = cause(query=_evidence("1", source))
    assert any(message in fault for fault in found) if message else not [f for f in found if "query" in f], found


def test_a_recursive_cte_is_refused(cause: Lint) -> None:
    query = "with recursive r as (select 1 as x union all select x + 1 from r where x < 3)\n" + _evidence("1")
    assert any("has a recursive CTE: write windows or joins" in fault for fault in cause(query=query))


def test_words_in_comments_and_strings_are_no_faults(cause: Lint) -> None:
    assert cause(query=CAUSE_FIELDS["query"] + ' -- "quoted" now() 5 // 2\nwhere model <> \'"x" :limit\'') == []


def test_order_is_unique_by_group_by_fixed_columns_and_keys(cause: Lint) -> None:
    query = """with by_model as (
    select model, count(*) as n from front group by model
), placed as (
    select n, row_number() over (order by n desc nulls last, model nulls last) as place from by_model
), best as (
    select row_number() over (order by lower_bound desc nulls last, value nulls last) as place
    from   slices
    where  dimension = 'model' and kind = 'slow' and vantage in (select vantage from front)
)
select 'all' as subject, max(http_status) > 499 as supports, 0.5 as share, count(*) as n
from   front, placed p, best b where p.place = 1 and b.place = 1"""
    assert cause(query=query) == []


def test_what_decides_does_not_rest_on_sides_joined_by_time_alone(cause: Lint) -> None:
    query = _evidence("1", "calls where server_outcome is not null")
    fault = "query decides by what the other side says: ask that joined_by <> 'time' in calls"
    weak = {"needs": '"calls.server_outcome", "http_status"', "also": '"calls.joined_by"'}
    assert not any(fault in one for one in cause(query=query, **weak))
    assert any(fault in one for one in cause(query=query, **weak, weight="1\ndecisive = true"))
    assert cause(query=query + " and joined_by <> 'time'", **weak, weight="1\ndecisive = true") == []


# --- limits


def test_a_limit_that_is_used_must_exist(symptom: Lint, cause: Lint) -> None:
    query = SYMPTOM_FIELDS["query"] + "\nhaving count(*) > :least"
    assert symptom(query=query) == ["own/symptoms/mine.md:25: no limit is called 'least': there is :share"]
    fault = "own/causes/mine_too.md:23: no limit is called 'dimension': this page has none"
    assert fault in cause(query=_evidence("1") + "\nwhere model = :dimension")


def test_a_limit_that_exists_must_be_used(symptom: Lint) -> None:
    limits = "\n[limits.least]\ndefault = 3\nhelp = 'x'"
    assert symptom(limits=limits) == [
        "own/symptoms/mine.md:1: limit 'least' is not used by the query: write :least there or drop it"
    ]


def test_a_page_for_several_ids_may_use_its_dimension(cause: Lint) -> None:
    ids = 'ids = { bad_colour = "model" }'
    assert cause(ids=ids, query=CAUSE_FIELDS["query"] + "\nwhere :dimension = 'model'") == []
    assert cause(ids='ids = { bad_colour = "colour" }') == [
        "own/causes/mine_too.md:1: ids: 'colour' is no column of attempts"
    ]


# --- columns and sentences


def test_a_symptom_returns_exactly_its_columns(symptom: Lint) -> None:
    for change in ("as is_so", "as holds, 1 as more"):
        found = symptom(query=SYMPTOM_FIELDS["query"].replace("as holds", change))
        assert [fault for fault in found if "a symptom returns vantage, subject, observed, expected," in fault]


def test_evidence_returns_subject_and_supports(cause: Lint) -> None:
    query = CAUSE_FIELDS["query"].replace("as supports", "as helps")
    assert any("query returns no supports: give it subject, supports" in fault for fault in cause(query=query))


def test_affected_returns_subject_attempt_and_claim(cause: Lint) -> None:
    claims = "select 'all' as subject, attempt_id, 1 as amount from front"
    assert any("query returns no claim: give it subject, attempt_id, claim" in fault for fault in cause(claims=claims))


def test_a_figure_of_a_sentence_is_a_column(cause: Lint) -> None:
    assert any("{rate} is no column of the query: it returns share, n" in f for f in cause(sentence="{rate} fail"))
    assert any("{shaer} is no column of the query" in fault for fault in cause(title="{shaer} fail"))


def test_a_figure_fits_its_format(cause: Lint) -> None:
    assert any("{n:d%} does not fit its value: use one like :.0f" in fault for fault in cause(sentence="{n:d%} fail"))
    assert any("sentence cannot be read: " in fault for fault in cause(sentence="{n fail"))


# --- needs


def test_each_column_that_is_read_is_named(symptom: Lint, cause: Lint) -> None:
    assert symptom(needs="") == [
        "own/symptoms/mine.md:1: query reads http_status: add it to needs, or to also if it can do without"
    ]
    assert cause(needs="") == [
        "own/causes/mine_too.md:11: query reads http_status: add it to needs, or to also if it can do without"
    ]
    assert cause(needs="", also='"http_status"') == []


def test_a_column_read_through_a_star_and_a_cte_is_named(cause: Lint) -> None:
    query = "with all_of as (select * from front), more as (select * from all_of)\n" + _evidence("max_tokens", "more")
    fault = "query reads max_tokens: add it to needs, or to also if it can do without"
    assert [one for one in cause(query=query) if fault in one]


def test_a_column_read_through_a_view_is_named_by_either_name(cause: Lint) -> None:
    query = CAUSE_FIELDS["query"].replace("from   front", "from   calls where server_ttft_ms > 3")
    assert any("query reads server_ttft_ms" in fault for fault in cause(query=query))
    assert cause(query=query, needs='"http_status", "calls.server_ttft_ms"') == []
    assert cause(query=query, needs='"http_status", "server_ttft_ms"') == []


def test_a_table_that_may_be_empty_is_named(cause: Lint) -> None:
    query = CAUSE_FIELDS["query"].replace("from   front", "from   front, engine_samples e where e.value > 3")
    assert any("query reads engine_samples" in fault for fault in cause(query=query))
    assert cause(query=query, needs='"http_status", "engine_samples"') == []


def test_a_need_is_read(cause: Lint) -> None:
    assert any(
        "needs names ttft_ms, which the query does not read: drop it" in fault
        for fault in cause(needs='"http_status", "ttft_ms"')
    )
    assert cause(needs='"http_status|error_type"') == []


def test_a_need_exists(cause: Lint) -> None:
    fault = "needs names http_stats: no column of attempts, view.column or table"
    assert any(fault in one for one in cause(needs='"http_status", "http_stats"'))


# --- the rest of a page


def test_an_affected_condition_runs(symptom: Lint) -> None:
    found = symptom(affected="outcom = 'failed' and http_status > 1")
    assert any("affected: query does not run: Binder Error" in fault for fault in found)


def test_some_evidence_can_speak_against(cause: Lint) -> None:
    query = CAUSE_FIELDS["query"].replace("> 3 as supports", "> 3 as s").replace("select 'all'", "select 'all'")
    query = f"with asked as ({query})\nselect subject, case when s then true end as supports, share, n from asked"
    assert cause(query=query) == [
        "own/causes/mine_too.md:9: no piece of evidence can speak against this cause: let one return false for its "
        "look-alike"
    ]


def test_a_cause_has_fixes_a_check_and_weight(cause: Lint) -> None:
    assert any("'## Fix' is empty: write one '###' for each product" in fault for fault in cause(fix="Do it."))
    assert any("'## Fix' is empty" in fault for fault in cause(fix="### nginx"))
    assert any("'## Verify' is empty: write a sentence" in fault for fault in cause(verify=""))
    assert any("a piece of evidence weighs more than 0" in fault for fault in cause(weight="0"))


def test_ids_and_limits_are_lower_case_words(symptom: Lint, cause: Lint) -> None:
    assert any("'BadColour' is no id" in fault for fault in cause(ids='ids = { BadColour = "model" }'))
    limits = "\n[limits.Least]\ndefault = 3\nhelp = 'x'"
    assert any("'Least' is no id: write lower case words" in fault for fault in symptom(limits=limits))


def test_an_example_selects_columns_of_its_table_from_nothing(symptom: Lint) -> None:
    assert any("example gives colour: no column of attempts" in fault for fault in symptom(found="select 1 as colour"))
    assert any("example of 'atempts': rows go into attempts," in fault for fault in symptom(table="atempts"))
    assert any("example's query reads attempts: " in fault for fault in symptom(found="select * from attempts"))
    assert any("example's query uses random, whose answer" in f for f in symptom(found="select random() as total_ms"))
    assert symptom(found="select 1000 + range % 7 as total_ms from range(9)") == []
