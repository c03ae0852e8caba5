-- What an attempt of this model, streaming and size takes in the quiet part of this very log. `sized_rows` are those of
-- the view `sized`, all vantages, with what was running beside each (stats.py).
-- Quiet: calm, completed, no cache answer, in stretches of the log (tenths by row) whose token-adjusted median for the
-- model is at most 1.25 times that of its best fifth: a fault that began at 40 % of the log does not dilute it.
create temp table sampled as      -- medians of bands need no more than some 200,000 rows: every k-th by start
with counted as (select count(*) as n from attempts)
select s.whose, s.kind, coalesce(s.input_band, -1) as input_band, coalesce(s.output_band, -1) as output_band,
       s.ttft_ms, s.total_ms, s.load, cast((s.attempt_id - 1) * 10 // c.n as integer) as stretch   -- attempt_id is a rank
from   sized_rows s
cross  join counted c
where  s.answered and s.total_ms is not null and s.attempt_id % greatest(1, c.n // 200000) = 0;

create temp table worse as
with band as (
    select kind, input_band, output_band, count(*) as n,
           percentile_disc(0.5) within group (order by total_ms) as total_ms,
           percentile_disc(0.5) within group (order by ttft_ms)  as ttft_ms
    from   sampled
    group  by all
), ratio as (
    select s.whose, s.stretch,
           s.total_ms / nullif(b.total_ms, 0) as total_ratio, s.ttft_ms / nullif(b.ttft_ms, 0) as ttft_ratio
    from   sampled s
    join   band b on  s.kind = b.kind and b.n >= 5 and s.input_band = b.input_band and s.output_band = b.output_band
), stretches as (     -- total and first token apart: a first token that comes late within the same total would hide
    select whose, stretch,
           percentile_disc(0.5) within group (order by total_ratio) as total_ratio,
           percentile_disc(0.5) within group (order by ttft_ratio)  as ttft_ratio
    from   ratio
    group  by all
), best as (
    select whose,
           percentile_disc(0.2) within group (order by total_ratio) as total_ratio,
           percentile_disc(0.2) within group (order by ttft_ratio)  as ttft_ratio
    from   stretches
    group  by whose
)
select t.whose, t.stretch
from   stretches t
join   best b on t.whose = b.whose
where  t.total_ratio > 1.25 * b.total_ratio or t.ttft_ratio > 1.25 * b.ttft_ratio;

create table expected as
with placed as (
    select s.*, cast((s.attempt_id - 1) * 10 // c.n as integer) as stretch
    from   sized_rows s
    cross  join (select count(*) as n from attempts) c
), chosen as (
    select s.*
    from   sampled s
    anti   join worse w on s.whose = w.whose and s.stretch = w.stretch
    where  s.load = 'calm'
), own as (       -- same model, streaming, input and output band
    select kind, input_band, output_band, percentile_disc(0.5) within group (order by total_ms) as total_ms
    from   chosen
    group  by all
    having count(*) >= 5
), answer as (    -- same model, streaming and output band
    select kind, output_band, percentile_disc(0.5) within group (order by total_ms) as total_ms
    from   chosen
    group  by all
    having count(*) >= 5
), prompt as (    -- same model, streaming and input band
    select kind, input_band, percentile_disc(0.5) within group (order by ttft_ms) as ttft_ms
    from   chosen
    group  by all
    having count(*) >= 5
), typical as (   -- same model and streaming, whatever the size
    select kind,
           percentile_disc(0.5) within group (order by total_ms) as total_ms,
           percentile_disc(0.5) within group (order by ttft_ms)  as ttft_ms
    from   chosen
    group  by kind
)
select s.attempt_id,
       s.input_band, s.output_band, s.stretch, coalesce(s.load, 'usual') as load,
       coalesce(s.answered and s.total_ms is not null and s.load = 'calm', false) and w.whose is null as quiet,
       coalesce(own.total_ms, answer.total_ms, typical.total_ms) as expected_total_ms,
       coalesce(prompt.ttft_ms, typical.ttft_ms) as expected_ttft_ms,
       typical.total_ms as typical_total_ms,
       typical.ttft_ms  as typical_ttft_ms,
       -- how many times what it should take, the whole or the first token
       case when s.answered
            then greatest(s.total_ms / nullif(expected_total_ms, 0),
                          coalesce(s.ttft_ms / nullif(expected_ttft_ms, 0), 0)) end as times,
       s.others, s.idle_ms
from   placed s
left   join worse   w  on s.whose = w.whose and s.stretch = w.stretch
left   join own        on s.kind = own.kind and coalesce(s.input_band, -1) = own.input_band
                      and coalesce(s.output_band, -1) = own.output_band
left   join answer     on s.kind = answer.kind and coalesce(s.output_band, -1) = answer.output_band
left   join prompt     on s.kind = prompt.kind and coalesce(s.input_band, -1) = prompt.input_band
left   join typical    on s.kind = typical.kind;

drop table worse;
drop table sampled;

-- How many other attempts of the same vantage were running when each one started; those with a known start and end.
create view in_flight as
select attempt_id,
       others,     -- other attempts of the vantage running at the start
       idle_ms,    -- how long none had been running; null where some were, and for the first
       load        -- calm: at most half the median (or the lowest tenth) | busy: the highest quarter | usual
from   expected
where  others is not null;
