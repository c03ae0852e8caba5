-- Fills the holes of {column} by {key} (stats/implied.py), vantage by vantage: where no two rows of one key disagree, at
-- least {least} rows that are not the first of their key say so, and half of all rows or more have the column.
create or replace temp table followed as
with keyed as (
    select vantage, {key} as key, count({column}) as known, min({column}) as value, max({column}) as other
    from   attempt_rows
    where  {key} is not null
    group  by all
), sure as (
    select vantage from keyed group by vantage
    having bool_and(value is not distinct from other) and sum(greatest(known - 1, 0)) >= {least}
    intersect
    select vantage from attempt_rows group by vantage having 2 * count({column}) >= count(*)
)
select vantage, key, value from keyed semi join sure using (vantage) where known > 0;

update attempt_rows set {column} = f.value
from   followed f
where  attempt_rows.{column} is null and attempt_rows.vantage = f.vantage and f.key = {key};

drop table followed;
