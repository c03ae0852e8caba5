-- The part of a large log on which causes are weighed, for part.py: ranges of attempt_id, which is a rank by start. Each is a
-- run of whole minutes that hold a twentieth of :enough together. Half of :enough are spread evenly; the others are where most
-- attempts were bad: took half as long again as theirs take, or did not complete. Of bad ones no more than tell what they
-- have in common, a tenth of :enough: where an incident takes more of the part than of the log, waits and loads no longer go
-- together as they do in the whole.
with minutes as (
    select epoch_us(date_trunc('minute', started_at)) // 60000000 as minute, count(*) as n,
           count(*) filter (times >= 1.5 or outcome <> 'completed') as bad, min(attempt_id) as from_id, max(attempt_id) as to_id
    from   attempts_expected
    where  started_at is not null
    group  by minute
), sized as (
    select *, greatest(1, cast(ceil(:enough / 20 / avg(n) over ()) as bigint)) as width, min(minute) over () as first_minute
    from   minutes
), runs as (
    select (minute - first_minute) // width as run, sum(n) as n, sum(bad) as bad, min(from_id) as from_id, max(to_id) as to_id,
           count(*) as minutes
    from   sized
    group  by run
), ranked as (    -- rows in the runs before this one; the multiples of the golden section are spread evenly
    select *, sum(n) over worst_first - n as worse, sum(bad) over worst_first - bad as worse_bad, sum(n) over evenly - n as before
    from   runs
    window worst_first as (order by bad desc, run rows unbounded preceding),
           evenly as (order by run * 0.6180339887e0 - floor(run * 0.6180339887e0), run rows unbounded preceding)
)
select from_id, to_id, minutes
from   ranked
where  (worse < :enough / 2 and worse_bad < :enough / 10) or before < :enough / 2
order  by from_id
