"""The page that `rules new` writes: it loads, passes `rules lint` and holds under `rules test`; then it is changed."""

from llmdoctor.errors import UsageError
from llmdoctor.rulebook import ID

_SYMPTOM = """# Calls to one route fail

```toml
severity = "medium"
unit     = "share"
counts   = "attempts"
needs    = ["outcome", "route"]
min_rows = 20
affected = "outcome = 'failed' and route is not null"

[limits.failed_share]
default = 0.05
help    = "share of a route's attempts that failed"
```

What is counted, over which rows, and why the limit is what it is.

## Seen when

```sql
with judged as (
    select vantage, route, started_at, outcome = 'failed' as failed
    from   front
    where  outcome is not null and route is not null
), routes as (
    select vantage, route, count_if(failed) as failures, count(*) as n,
           min(case when failed then started_at end) as first_at,
           max(case when failed then started_at end) as last_at
    from   judged
    group  by vantage, route
)
select vantage,
       'route=' || route                        as subject,
       failures / cast(nullif(n, 0) as double)  as observed,
       :failed_share                            as expected,
       failures                                 as affected,
       n                                        as total,
       first_at, last_at,
       failures / cast(nullif(n, 0) as double) > :failed_share as holds
from   routes
```

## Why it matters

What the user feels, in a sentence or two.

## When this is wrong

When the limit is broken although nothing is wrong.

## Examples

```sql found attempts
select 'gateway' as vantage, '/v1/chat' as route, 'failed' as outcome from range(10)
union all select 'gateway', '/v1/chat', 'completed' from range(90)
```

```sql absent attempts
select 'gateway' as vantage, '/v1/chat' as route, 'completed' as outcome from range(100)
```
"""

_CAUSE = """# One route alone fails

```toml
layer    = "application"
explains = ["errors"]
```

What goes wrong in the machine, and how it looks in a log.

## Evidence

### {share:.0%} of all failures are on {worst}, which has {traffic:.0%} of the traffic

```toml
weight   = 2
needs    = ["outcome", "route"]
min_rows = 20
unknown  = "Whether one route alone fails cannot be told: no record names its route."
```

Why this speaks for the cause, and for which look-alike it returns false.

```sql
with routes as (
    select route, count_if(outcome = 'failed') as failures, count(*) as n
    from   front
    where  outcome is not null and route is not null
    group  by route
), whole as (
    select sum(failures) as failures, sum(n) as n from routes
), ranked as (
    select r.route, r.failures / cast(nullif(w.failures, 0) as double) as share,
           r.n / cast(nullif(w.n, 0) as double) as traffic,
           row_number() over (order by r.failures desc nulls last, r.route nulls last) as place
    from   routes r
    cross  join whole w
)
select 'all' as subject,
       case when share >= 0.9 and traffic <= 0.5 then true when share < 0.6 then false end as supports,
       share, traffic, route as worst
from   ranked
where  place = 1 and share is not null
```

## Affected

Which attempts, and how much of the damage the cause claims in each (for failures 1).

```sql
select 'all' as subject, attempt_id, 1.0 as claim
from   front
where  outcome = 'failed' and route is not null
```

## Fix

### The application

Undo the last change of that route.

## Verify

`llmdoctor analyze` over an hour after the change: the share of failures falls below 1 %.

## When this is wrong

When the evidence is true although something else is the cause.

## Examples

```sql found attempts
select 'gateway' as vantage, '/v1/beta' as route, 'failed' as outcome from range(10)
union all select 'gateway', '/v1/chat', 'completed' from range(90)
```

```sql absent attempts
select 'gateway' as vantage, '/v1/beta' as route, 'failed' as outcome from range(5)
union all select 'gateway', '/v1/chat', 'failed' from range(5)
union all select 'gateway', '/v1/chat', 'completed' from range(45)
union all select 'gateway', '/v1/beta', 'completed' from range(45)
```
"""


def skeleton(rule_id: str, kind: str) -> str:
    """The text of a new page of that kind ("symptom" or "cause"). UsageError where the id is none."""
    if not ID.fullmatch(rule_id):
        raise UsageError(f"{rule_id!r}: an id is lower case words joined by underscores, as in slow_retrieval")
    return _SYMPTOM if kind == "symptom" else _CAUSE
