-- How many other attempts of the same vantage were running when each one started, and how long nothing had run.
-- Run once per vantage; `starts` (attempt_id, others, since_end_ms) is counted by stats.py.
insert into in_flight
with usual as (
    select greatest(percentile_disc(0.5) within group (order by others) // 2,
                    percentile_disc(0.1) within group (order by others)) as calm,
           greatest(percentile_disc(0.75) within group (order by others), 1) as busy
    from   starts
)
select s.attempt_id,
       s.others,
       case when s.others = 0 then s.since_end_ms end,
       case when s.others <= u.calm then 'calm' when s.others >= u.busy then 'busy' else 'usual' end
from   starts s
cross  join usual u;
