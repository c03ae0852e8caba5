-- What an attempt of this model, streaming and size takes in the quiet part of this very log.
-- Quiet: calm, completed, no cache answer, in stretches of the log (tenths by row) whose token-adjusted median is at
-- most 1.25 times that of the best quarter of stretches: a fault that began at 40 % of the log does not dilute it.
create table sized as
select a.attempt_id, a.vantage, coalesce(a.model, '') as model, coalesce(a.stream, false) as stream,
       cast(floor(log2(1 + a.input_tokens)) as integer)  as input_band,
       cast(floor(log2(1 + a.output_tokens)) as integer) as output_band,
       a.ttft_ms, a.total_ms,
       coalesce(i.load, 'usual') as load,
       a.outcome = 'completed' and coalesce(a.cache_hit, false) = false and a.total_ms is not null as usable,
       cast((a.attempt_id - 1) * 10 // (select count(*) from attempts) as integer) as stretch   -- attempt_id is a rank
from   attempts a
left   join in_flight i using (attempt_id);

create table quiet as
with band as (
    select vantage, model, stream, input_band, output_band, count(*) as n,
           percentile_disc(0.5) within group (order by total_ms) as total_ms,
           percentile_disc(0.5) within group (order by ttft_ms)  as ttft_ms
    from   sized
    where  usable
    group  by all
), ratio as (
    select s.vantage, s.stretch, s.load,
           greatest(s.total_ms / nullif(b.total_ms, 0), coalesce(s.ttft_ms / nullif(b.ttft_ms, 0), 0)) as ratio
    from   sized s
    join   band b on  s.vantage = b.vantage and s.model = b.model and s.stream = b.stream and b.n >= 5
                  and s.input_band is not distinct from b.input_band
                  and s.output_band is not distinct from b.output_band
    where  s.usable
), stretches as (
    select vantage, stretch, percentile_disc(0.5) within group (order by ratio) as median_ratio
    from   ratio
    group  by all
), best as (
    select vantage, percentile_disc(0.25) within group (order by median_ratio) as median_ratio
    from   stretches
    group  by vantage
)
select s.attempt_id
from   sized s
left   join stretches t on s.vantage = t.vantage and s.stretch = t.stretch
left   join best b on s.vantage = b.vantage
where  s.usable and s.load = 'calm'
and    coalesce(t.median_ratio <= 1.25 * b.median_ratio, true);

create table expected as
with chosen as (
    select s.* from sized s semi join quiet q using (attempt_id)
), own as (       -- same model, streaming, input and output band
    select vantage, model, stream, input_band, output_band, count(*) as n,
           percentile_disc(0.5) within group (order by total_ms) as total_ms,
           percentile_disc(0.5) within group (order by ttft_ms)  as ttft_ms
    from   chosen
    group  by all
), answer as (    -- same model, streaming and output band
    select vantage, model, stream, output_band, count(*) as n,
           percentile_disc(0.5) within group (order by total_ms) as total_ms
    from   chosen
    group  by all
), prompt as (    -- same model, streaming and input band
    select vantage, model, stream, input_band, count(*) as n,
           percentile_disc(0.5) within group (order by ttft_ms) as ttft_ms
    from   chosen
    group  by all
), kind as (      -- same model and streaming: what is typical, whatever the size
    select vantage, model, stream, count(*) as n,
           percentile_disc(0.5) within group (order by total_ms) as total_ms,
           percentile_disc(0.5) within group (order by ttft_ms)  as ttft_ms
    from   chosen
    group  by all
)
select s.attempt_id,
       s.input_band, s.output_band, s.stretch, s.load,
       q.attempt_id is not null as quiet,
       coalesce(case when own.n >= 5 then own.total_ms end, case when answer.n >= 5 then answer.total_ms end,
                kind.total_ms) as expected_total_ms,
       coalesce(case when prompt.n >= 5 then prompt.ttft_ms end, kind.ttft_ms) as expected_ttft_ms,
       kind.total_ms as typical_total_ms,
       kind.ttft_ms  as typical_ttft_ms
from   sized s
left   join quiet  q on s.attempt_id = q.attempt_id
left   join own    on s.vantage = own.vantage and s.model = own.model and s.stream = own.stream
                  and s.input_band is not distinct from own.input_band
                  and s.output_band is not distinct from own.output_band
left   join answer on s.vantage = answer.vantage and s.model = answer.model and s.stream = answer.stream
                  and s.output_band is not distinct from answer.output_band
left   join prompt on s.vantage = prompt.vantage and s.model = prompt.model and s.stream = prompt.stream
                  and s.input_band is not distinct from prompt.input_band
left   join kind   on s.vantage = kind.vantage and s.model = kind.model and s.stream = kind.stream;

drop table quiet;
drop table sized;
