-- How many other attempts of the same vantage were running when each one started, and how long nothing had run.
-- Run once per vantage ($vantage). attempt_id is a rank by start, so the starts before a row are counted already.
insert into in_flight
with known as (
    select attempt_id, epoch_us(started_at) as start_us, epoch_us(ended_at) as end_us,
           row_number() over (order by attempt_id) as started
    from   attempts
    where  vantage = $vantage
    and    started_at is not null and ended_at >= started_at and time_basis is distinct from 'relative'
), ends as (
    select end_us, row_number() over (order by end_us) as ended from known
), starts as (
    select k.attempt_id,
           cast(greatest(k.started - 1 - coalesce(e.ended, 0), 0) as integer) as others,
           (k.start_us - e.end_us) / 1000.0 as since_end_ms
    from   known k
    asof   left join ends e on k.start_us >= e.end_us
), usual as (
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
