-- The quiet part: calm, completed, no cache answer, in stretches of the log (tenths by row) whose median for the model,
-- against the fit over all, is at most 1.25 times that of its best fifth: a fault that began at 40 % of the log does not
-- dilute it. Where each stretch is worse in one of the two, the best of them is quiet. Where calm ones of a kind are few (the
-- load hardly changes), those with the least beside them, 30 or a third.
create temp table worse as
with stretches as (   -- total and first token apart: a first token that comes late within the same total would hide
    select r.whose, r.stretch,
           percentile_disc(0.5) within group (order by r.total_ms / nullif(
               greatest(f.base + f.per_in * r.input_tokens + f.per_out * r.output_tokens, f.least_ms), 0)) as total_ratio,
           percentile_disc(0.5) within group (order by r.ttft_ms / nullif(
               greatest(f.first_base + f.first_per_in * r.input_tokens, f.first_least_ms), 0))             as ttft_ratio
    from   fit_rows r
    join   fitted f on r.kind = f.kind
    group  by r.whose, r.stretch
), best as (
    select whose,
           percentile_disc(0.2) within group (order by total_ratio) as total_ratio,
           percentile_disc(0.2) within group (order by ttft_ratio)  as ttft_ratio
    from   stretches
    group  by whose
), judged as (
    select t.whose, t.stretch, greatest(t.total_ratio / nullif(b.total_ratio, 0), t.ttft_ratio / nullif(b.ttft_ratio, 0)) as times
    from   stretches t
    join   best b on t.whose = b.whose
)
select whose, stretch from judged qualify times > greatest(1.25, min(times) over (partition by whose));

create or replace temp table fit_rows as
with even as (
    select r.*, row_number() over (partition by r.kind order by r.others nulls last, r.attempt_id) as place,
           count(*) over (partition by r.kind) as n
    from   fit_rows r
    anti   join worse w on r.whose = w.whose and r.stretch = w.stretch
)
select * exclude (place, n) from even where load = 'calm' or place <= least(30, n // 3);
