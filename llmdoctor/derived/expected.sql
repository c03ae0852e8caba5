-- What an attempt of this model, streaming and size takes in the quiet part of this very log.
-- Quiet: calm, completed, no cache answer, in stretches of the log (tenths by row) whose token-adjusted median for the
-- model is at most 1.25 times that of its best fifth: a fault that began at 40 % of the log does not dilute it.
create table sized as
with counted as (select count(*) as n from attempts)
select a.attempt_id, hash(a.vantage, a.model, coalesce(a.stream, false)) as kind, hash(a.vantage, a.model) as whose,
       cast(floor(log2(1 + greatest(a.input_tokens, 0))) as integer)  as input_band,
       cast(floor(log2(1 + greatest(a.output_tokens, 0))) as integer) as output_band,
       a.ttft_ms, a.total_ms,
       coalesce(i.load, 'usual') as load,
       a.outcome = 'completed' and coalesce(a.cache_hit, false) = false and a.total_ms is not null as usable,
       cast((a.attempt_id - 1) * 10 // c.n as integer) as stretch,     -- attempt_id is a rank
       -- Medians of bands need no more than some 200,000 rows: every k-th by start.
       a.attempt_id % greatest(1, c.n // 200000) = 0 as sampled
from   attempts a
cross  join counted c
left   join in_flight i using (attempt_id);

create table worse as
with band as (
    select kind, coalesce(input_band, -1) as input_band, coalesce(output_band, -1) as output_band, count(*) as n,
           percentile_disc(0.5) within group (order by total_ms) as total_ms,
           percentile_disc(0.5) within group (order by ttft_ms)  as ttft_ms
    from   sized
    where  usable and sampled
    group  by all
), ratio as (
    select s.whose, s.stretch,
           s.total_ms / nullif(b.total_ms, 0) as total_ratio, s.ttft_ms / nullif(b.ttft_ms, 0) as ttft_ratio
    from   sized s
    join   band b on  s.kind = b.kind and b.n >= 5
                  and coalesce(s.input_band, -1) = b.input_band and coalesce(s.output_band, -1) = b.output_band
    where  s.usable and s.sampled
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
with chosen as (
    select s.*
    from   sized s
    anti   join worse w on s.whose = w.whose and s.stretch = w.stretch
    where  s.usable and s.load = 'calm' and s.sampled
), own as (       -- same model, streaming, input and output band
    select kind, coalesce(input_band, -1) as input_band, coalesce(output_band, -1) as output_band,
           percentile_disc(0.5) within group (order by total_ms) as total_ms
    from   chosen
    group  by all
    having count(*) >= 5
), answer as (    -- same model, streaming and output band
    select kind, coalesce(output_band, -1) as output_band,
           percentile_disc(0.5) within group (order by total_ms) as total_ms
    from   chosen
    group  by all
    having count(*) >= 5
), prompt as (    -- same model, streaming and input band
    select kind, coalesce(input_band, -1) as input_band,
           percentile_disc(0.5) within group (order by ttft_ms) as ttft_ms
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
       s.input_band, s.output_band, s.stretch, s.load,
       coalesce(s.usable and s.load = 'calm', false) and w.whose is null as quiet,
       coalesce(own.total_ms, answer.total_ms, typical.total_ms) as expected_total_ms,
       coalesce(prompt.ttft_ms, typical.ttft_ms) as expected_ttft_ms,
       typical.total_ms as typical_total_ms,
       typical.ttft_ms  as typical_ttft_ms
from   sized s
left   join worse   w  on s.whose = w.whose and s.stretch = w.stretch
left   join own        on s.kind = own.kind and coalesce(s.input_band, -1) = own.input_band
                      and coalesce(s.output_band, -1) = own.output_band
left   join answer     on s.kind = answer.kind and coalesce(s.output_band, -1) = answer.output_band
left   join prompt     on s.kind = prompt.kind and coalesce(s.input_band, -1) = prompt.input_band
left   join typical    on s.kind = typical.kind;

drop table worse;
drop table sized;
