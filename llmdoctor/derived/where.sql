-- Where the time of the requests of one kind went, for stages.py: one row per request and stretch of its way. The
-- stretches of a request add up to whole_ms and overlap nowhere: each known one takes at most what those before it left, in
-- the order in which they happen. What no field tells apart stands under the names of everything it may hold, not exact.
-- A request is a task with stages, else the tries of one call, the last of them standing for it, else one attempt.
with kind as (
    select f.attempt_id, f.vantage, f.outcome, f.stream, f.task_id, f.trace_id, f.total_ms, f.ttft_ms, f.dns_ms, f.connect_ms, f.tls_ms,
           f.queue_ms, f.prefill_ms, f.decode_ms, f.server_ttft_ms, f.server_total_ms, f.upstream_attempts, f.expected_total_ms, f.times
    from   thinned f
    where  f.total_ms > 0 and f.model is not distinct from :model and f.stream is not distinct from :stream
    and    f.operation is not distinct from :operation and f.attempt_id % :every = 0
), tried_again as (
    select t.attempt_id, t.task, t.started_at, t.gap_ms, t.retry,
           sum(case when t.retry then 0 else 1 end) over (partition by t.task order by t.started_at, t.attempt_id) as segment
    from   tried t
    where  t.vantage = :vantage and t.task in (select task from tried where retry)
), placed as (
    select attempt_id,
           row_number() over (partition by task, segment order by started_at desc, attempt_id desc) = 1 as is_last,
           (epoch_us(started_at) - min(epoch_us(started_at)) over (partition by task, segment)) / 1e3 as before_ms,
           sum(case when retry then cast(greatest(gap_ms, 0) as decimal(18, 3)) end) over (partition by task, segment) as waits_ms
    from   tried_again
), inner_side as (    -- as in the view `calls`, of these requests alone
    select p.attempt_id, max(b.queue_ms) as queue_ms, max(b.prefill_ms) as prefill_ms, max(b.decode_ms) as decode_ms,
           max(b.ttft_ms) filter (p.partner_vantage <> 'proxy') as ttft_ms,
           coalesce(max(b.total_ms) filter (p.partner_vantage <> 'proxy'), max(coalesce(b.upstream_total_ms, b.total_ms))) as total_ms,
           max(b.upstream_attempts) as upstream_attempts
    from   kind k
    join   pairs p on p.attempt_id = k.attempt_id and p.joined_by <> 'time'
    join   attempts b on b.attempt_id = p.partner_id
    group  by p.attempt_id
), units as (
    select distinct unit, attempt_id from path where attempt_id is not null
), requests as (
    select k.attempt_id, k.outcome, k.vantage, k.times, k.expected_total_ms, k.total_ms as t,
           coalesce(k.queue_ms, i.queue_ms) as queue_ms, coalesce(k.prefill_ms, i.prefill_ms) as prefill_ms,
           coalesce(k.decode_ms, i.decode_ms) as decode_ms,
           k.ttft_ms is not null or (coalesce(k.stream, false) and k.outcome <> 'completed') as streamed,
           least(coalesce(k.ttft_ms, k.total_ms), k.total_ms)                     as w,
           coalesce(k.dns_ms, 0) + coalesce(k.connect_ms, 0) + coalesce(k.tls_ms, 0) as connect_ms,
           coalesce(o.retrieval_ms, 0) as retrieval_ms, coalesce(o.tool_ms, 0) as tool_ms, coalesce(o.prepare_ms, 0) as prepare_ms,
           coalesce(o.delivery_ms, 0) as delivery_ms, coalesce(o.before_inside, true) as before_inside,
           coalesce(o.after_inside, true) as after_inside,
           coalesce(k.server_ttft_ms, i.ttft_ms) as server_ttft_ms, coalesce(k.server_total_ms, i.total_ms) as server_total_ms,
           k.outcome = 'completed' and coalesce(k.upstream_attempts, i.upstream_attempts, 1) <= 1 as plain,   -- nobody tried again on the way
           case when u.unit is null then least(coalesce(p.waits_ms, 0), coalesce(p.before_ms, 0)) else 0 end as waits_ms,
           case when u.unit is null then greatest(coalesce(p.before_ms, 0) - coalesce(p.waits_ms, 0), 0) else 0 end as tries_ms,
           u.unit
    from   kind k
    left   join staged o on o.attempt_id = k.attempt_id
    left   join inner_side i on i.attempt_id = k.attempt_id
    left   join placed p on p.attempt_id = k.attempt_id
    left   join units u on u.attempt_id = k.attempt_id
    where  u.unit is not null
    or     (coalesce(p.is_last, true) and not coalesce(k.task_id in (select unit from units), false)
            and not coalesce(k.trace_id in (select unit from units), false))
), first as (
    select *, least(connect_ms, w) as con,
           case when before_inside then least(retrieval_ms + tool_ms + prepare_ms, w - con) else 0 end as prep,
           least(coalesce(queue_ms, 0), w - con - prep) as q,
           least(coalesce(prefill_ms, 0), w - con - prep - q) as pre,
           case when after_inside then least(delivery_ms, case when streamed then t - w else w - con - prep - q - pre end) else 0 end as deliv,
           case when streamed then 0 else least(coalesce(decode_ms, 0), w - con - prep - q - pre - deliv) end as late_decode
    from   requests
), second as (
    select *, w - con - prep - q - pre - late_decode - case when streamed then 0 else deliv end as left_ms,
           case when streamed and ttft_known then server_ttft_ms is not null else server_total_ms is not null end as server_known,
           case when streamed and ttft_known then w - server_ttft_ms else t - server_total_ms end as between_ms
    from   (select *, w < t or (streamed and w = t and outcome = 'completed') as ttft_known from first)
), third as (
    select *,
           case when server_known then least(greatest(between_ms - con - prep, 0), left_ms) else 0 end as net,
           case when streamed then t - w - deliv else 0 end as stream_ms,
           case when decode_ms is not null then decode_ms
                when server_ttft_ms is not null and server_total_ms >= server_ttft_ms then server_total_ms - server_ttft_ms end as known_decode_ms,
           list_filter([case when queue_ms is null then 'queue' end, case when prefill_ms is null then 'prefill' end,
                        case when not streamed and decode_ms is null then 'decode' end,
                        case when not server_known and vantage <> 'engine' then 'network' end], lambda one: one is not null) as unknown
    from   second
), listed as (
    select attempt_id, outcome, times, expected_total_ms, unit,
           [{name: 'earlier tries', ms: tries_ms, exact: true},
            {name: 'waits between tries', ms: waits_ms, exact: true},
            {name: 'connect', ms: con, exact: true},
            {name: 'retrieval', ms: case when before_inside then prep * retrieval_ms / nullif(retrieval_ms + tool_ms + prepare_ms, 0)
                                         else retrieval_ms end, exact: true},
            {name: 'tools', ms: case when before_inside then prep * tool_ms / nullif(retrieval_ms + tool_ms + prepare_ms, 0)
                                     else tool_ms end, exact: true},
            {name: 'prepare', ms: case when before_inside then prep * prepare_ms / nullif(retrieval_ms + tool_ms + prepare_ms, 0)
                                       else prepare_ms end, exact: true},
            {name: 'queue', ms: q, exact: true},
            {name: 'prefill', ms: pre, exact: true},
            {name: case len(unknown) when 0 then 'unexplained' when 1 then unknown[1]
                        else array_to_string(unknown[:-2], ', ') || ' or ' || unknown[-1] end,
             ms: left_ms - net, exact: len(unknown) = 0 or (len(unknown) = 1 and unknown[1] <> 'network')},
            {name: case when plain then 'network' else 'network, gateway or tries behind it' end, ms: net, exact: plain},
            {name: 'decode', ms: late_decode + coalesce(least(known_decode_ms, stream_ms), stream_ms),
             exact: stream_ms = 0 or known_decode_ms is not null},
            {name: 'network', ms: stream_ms - coalesce(least(known_decode_ms, stream_ms), stream_ms),
             exact: server_total_ms is not null},
            {name: 'delivery', ms: case when after_inside then deliv else delivery_ms end, exact: true}] as stretches
    from   third
    where  unit is null
), parts as (
    select attempt_id, outcome, times, expected_total_ms, false as by_path, unnest(stretches, recursive := true) from listed
    union  all by name
    select r.attempt_id, r.outcome, null as times, null as expected_total_ms, true as by_path,
           case p.part when 'between' then 'unexplained' when 'tool' then 'tools' when 'generate' then 'model calls' else p.part end as name,
           p.ms, true as exact
    from   requests r
    join   path p on p.unit = r.unit
    where  r.unit is not null
)
select attempt_id, outcome, by_path, name, sum(cast(ms as decimal(18, 3))) as ms, bool_and(exact) as exact,
       any_value(times) as times, any_value(expected_total_ms) as expected_total_ms,
       sum(sum(cast(ms as decimal(18, 3)))) over (partition by attempt_id) as whole_ms
from   parts
where  ms > 0
group  by attempt_id, outcome, by_path, name
