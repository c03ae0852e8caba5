-- What an attempt of this model, streaming and size takes in the quiet part of this very log: by the line that `fitted` found
-- for its tokens, times what twenty or more of its own band took against that line (it need not be straight).
-- Of an answer whose tokens are missing in a log that mostly has them nothing is expected: it may be long or short.
create table expected as
with told as (
    select kind, 2 * count(case when input_band >= 0 then 1 end) >= count(*) as has_input,
           2 * count(case when output_band >= 0 then 1 end) >= count(*)      as has_output
    from   fit_rows
    group  by kind
), lined as (
    select r.*, greatest(f.base + f.per_in * r.input_tokens + f.per_out * r.output_tokens, f.least_ms) as total_line_ms,
           greatest(f.first_base + f.first_per_in * r.input_tokens, f.first_least_ms)                  as ttft_line_ms
    from   fit_rows r
    join   fitted f on r.kind = f.kind
), own as (       -- same model, streaming, input and output band
    select kind, input_band, output_band, percentile_disc(0.5) within group (order by total_ms / nullif(total_line_ms, 0)) as total_times
    from   lined
    group  by all
    having count(*) >= 20
), prompt as (    -- same model, streaming and input band
    select kind, input_band, percentile_disc(0.5) within group (order by ttft_ms / nullif(ttft_line_ms, 0)) as ttft_times
    from   lined
    group  by all
    having count(ttft_ms) >= 20
), counted as (
    select count(*) as n from attempts
)
select s.attempt_id,
       s.input_band, s.output_band, cast((s.attempt_id - 1) * 10 // c.n as integer) as stretch, coalesce(s.load, 'usual') as load,
       coalesce(s.answered and s.total_ms is not null and s.load = 'calm', false) and w.whose is null as quiet,
       case when not (s.answered and ((t.has_input and s.input_band < 0) or (t.has_output and s.output_band < 0)))
            then greatest(f.base + f.per_in * s.input_tokens + f.per_out * s.output_tokens, f.least_ms)
                     * coalesce(own.total_times, 1) end as expected_total_ms,
       case when not (s.answered and t.has_input and s.input_band < 0)
            then greatest(f.first_base + f.first_per_in * s.input_tokens, f.first_least_ms)
                     * coalesce(prompt.ttft_times, 1) end as expected_ttft_ms,
       f.total_ms as typical_total_ms,   -- whatever the size
       f.ttft_ms  as typical_ttft_ms,
       -- how many times what it should take, the whole or the first token
       case when s.answered
            then greatest(s.total_ms / nullif(expected_total_ms, 0), s.ttft_ms / nullif(expected_ttft_ms, 0)) end as times,
       s.others, s.idle_ms
from   sized_rows s
cross  join counted c
left   join worse  w on s.whose = w.whose and cast((s.attempt_id - 1) * 10 // c.n as integer) = w.stretch
left   join fitted f on s.kind = f.kind
left   join told   t on s.kind = t.kind
left   join own      on s.kind = own.kind and s.input_band = own.input_band and s.output_band = own.output_band
left   join prompt   on s.kind = prompt.kind and s.input_band = prompt.input_band;

drop view sized_rows;
drop table beside;
drop table worse;
drop table fit_rows;
drop table fitted;

-- How many other attempts of the same vantage were running when each one started; those with a known start and end.
create view in_flight as
select attempt_id,
       others,     -- other attempts of the vantage running at the start
       idle_ms,    -- how long none had been running; null where some were, and for the first
       load        -- calm: at most half the median (or the lowest tenth) | busy: the highest quarter | usual
from   expected
where  others is not null;
