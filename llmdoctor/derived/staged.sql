-- Fills `staged`: see tables.sql. Columns lie within total_ms unless in one row of twenty of the vantage they do not fit into
-- it beside the wait for the first token (retrieval, tools, prepare) or after it (delivery).
insert into staged by name
with columned as (
    select attempt_id, vantage, started_at, total_ms, ttft_ms, coalesce(ttft_ms, total_ms) as wait_ms, retrieval_ms, tool_ms,
           case when vantage <> 'engine' and prepare_ms is not null
                then greatest(prepare_ms - coalesce(retrieval_ms, 0) - coalesce(tool_ms, 0), 0) end as prepare_ms,
           delivery_ms,
           case when vantage = 'engine' then coalesce(retrieval_ms, 0) + coalesce(tool_ms, 0)
                else greatest(coalesce(prepare_ms, 0), coalesce(retrieval_ms, 0) + coalesce(tool_ms, 0)) end as before_ms
    from   attempts
    where  total_ms > 0 and (prepare_ms is not null or retrieval_ms is not null or tool_ms is not null or delivery_ms is not null)
    and    attempt_id not in (select attempt_id from path where attempt_id is not null)
), fitting as (
    select vantage, count(*) filter (before_ms > wait_ms) <= 0.05 * count(*) as before_inside,
           count(*) filter (delivery_ms > 0 and delivery_ms >= total_ms - coalesce(ttft_ms, 0)) <= 0.05 * count(*) as after_inside
    from   columned
    group  by vantage
), told as (
    select c.attempt_id, c.vantage, c.started_at, c.retrieval_ms, c.tool_ms, c.prepare_ms, c.delivery_ms,
           null::varchar as other, null::double as other_ms, f.before_inside, f.after_inside,
           c.total_ms + case when f.before_inside then 0 else before_ms end
               + case when f.after_inside then 0 else coalesce(c.delivery_ms, 0) end as whole_ms,
           c.ttft_ms + case when f.before_inside then 0 else before_ms end           as first_ms,
           greatest(c.total_ms - case when f.before_inside then before_ms else 0 end
                    - case when f.after_inside then coalesce(c.delivery_ms, 0) else 0 end, 0) as model_ms
    from   columned c
    join   fitting f using (vantage)
), own_names as (
    select unit, arg_max(part, (ms, part)) as other, max(ms) as other_ms
    from   path
    where  part not in ('queue', 'retrieval', 'tool', 'prepare', 'delivery', 'generate', 'between')
    group  by unit
), walked as (
    select p.unit, any_value(p.attempt_id) as attempt_id, any_value(p.vantage) as vantage, any_value(p.started_at) as started_at,
           any_value(p.calls) as calls, any_value(p.whole_ms) as whole_ms,
           sum(p.ms) filter (p.part = 'retrieval') as retrieval_ms, sum(p.ms) filter (p.part = 'tool') as tool_ms,
           sum(p.ms) filter (p.part = 'prepare') as prepare_ms, sum(p.ms) filter (p.part = 'delivery') as delivery_ms,
           coalesce(sum(p.ms) filter (p.part in ('generate', 'queue')), 0) as model_ms
    from   path p
    where  p.attempt_id is not null
    group  by p.unit
), on_path as (
    select w.attempt_id, w.vantage, w.started_at, w.retrieval_ms, w.tool_ms, w.prepare_ms, w.delivery_ms, o.other, o.other_ms, w.whole_ms,
           w.model_ms, w.calls = 1 and w.whole_ms <= 1.001 * a.total_ms as inside,
           case when w.calls = 1 and w.whole_ms <= 1.001 * a.total_ms then a.ttft_ms end as first_ms
    from   walked w
    join   attempts a using (attempt_id)
    left   join own_names o on o.unit = w.unit
), both_kinds as (
    select attempt_id, vantage, started_at, retrieval_ms, tool_ms, prepare_ms, delivery_ms, other, other_ms, whole_ms, first_ms, model_ms,
           before_inside, after_inside
    from   told
    union  all
    select attempt_id, vantage, started_at, retrieval_ms, tool_ms, prepare_ms, delivery_ms, other, other_ms, whole_ms, first_ms, model_ms,
           inside, inside
    from   on_path
), late as (
    select b.*, b.whole_ms - coalesce(e.expected_total_ms, 0) as late_ms
    from   both_kinds b
    join   expected e using (attempt_id)
), bounds as (
    select vantage, least(quantile_disc(late_ms, 0.9), list_last(max(late_ms, 3))) as slow_from, quantile_disc(late_ms, 0.5) as middle,
           least(quantile_disc(first_ms, 0.9), list_last(max(first_ms, 3))) as latest_from, quantile_disc(first_ms, 0.5) as first_middle
    from   late
    group  by vantage
)
select l.*, greatest(coalesce(retrieval_ms, 0), coalesce(tool_ms, 0), coalesce(prepare_ms, 0), coalesce(delivery_ms, 0),
                     coalesce(other_ms, 0))                as longest_ms,
       late_ms >= slow_from as slow, late_ms <= middle as quick,
       coalesce(first_ms >= latest_from, false) as latest, coalesce(first_ms <= first_middle, false) as earliest
from   late l
join   bounds using (vantage);
