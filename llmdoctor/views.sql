-- The views that several rules share, in the SQL that DuckDB and Spark both read. `front` is the attempts of one
-- vantage: the engine sets it for each rule to the outermost vantage that has the columns which the rule needs.
-- `front_expected` has the same rows with the columns of `expected` too; DuckDB has no estimate of its size, so what does not
-- need those columns reads `front`.

-- One row per front attempt with what the inner side reported of the same call, its own report first. `joined_by` says
-- how the two were brought together: id | trace | time. Time is a guess by when they ran, and never decides anything:
-- decisive evidence and symptoms ask that it is not 'time'. No attempt has partners by time beside others.
create view calls as
with inner_side as (
    select p.attempt_id,
           max(case when p.partner_vantage in ('gateway', 'cloud', 'engine') then b.outcome end)      as outcome,
           max(case when p.partner_vantage in ('gateway', 'cloud', 'engine') then b.ttft_ms end)      as ttft_ms,
           max(case when p.partner_vantage in ('gateway', 'cloud', 'engine') then b.total_ms end)     as total_ms,
           max(case when p.partner_vantage = 'proxy' then coalesce(b.upstream_total_ms, b.total_ms) end) as proxy_total_ms,
           max(b.header_ms)                                                                           as header_ms,
           max(b.upstream_attempts)                                                                   as upstream_attempts,
           max(b.output_tokens)                                                                       as output_tokens,
           max(b.cost_usd)                                                                            as cost_usd,
           min(p.joined_by)                                                                           as joined_by
    from   pairs p
    join   attempts b on b.attempt_id = p.partner_id
    group  by p.attempt_id
)
select f.attempt_id, f.vantage, f.started_at, f.outcome, f.timeout_phase, f.stream, f.ttft_ms, f.total_ms,
       f.input_tokens, f.output_tokens, f.http_status,
       coalesce(f.server_outcome, i.outcome)                  as server_outcome,
       coalesce(f.server_ttft_ms, i.ttft_ms)                  as server_ttft_ms,
       coalesce(f.server_total_ms, i.total_ms, i.proxy_total_ms) as server_total_ms,
       i.header_ms                                            as server_header_ms,
       coalesce(f.upstream_attempts, i.upstream_attempts)     as upstream_attempts,
       coalesce(f.output_tokens, i.output_tokens)             as paid_tokens,    -- known to either side
       coalesce(f.cost_usd, i.cost_usd)                       as paid_usd,
       case when f.client_gone_at is not null then (unix_micros(f.client_gone_at) - unix_micros(f.started_at)) / 1e3
            when f.outcome in ('timeout', 'cancelled') then f.total_ms end as left_ms,    -- when the caller had left
       case when f.server_outcome is not null or f.server_ttft_ms is not null or f.server_total_ms is not null
            then 'id' else i.joined_by end                    as joined_by
from   front f
left   join inner_side i on i.attempt_id = f.attempt_id;

-- One row: how the time of a large log is cut where pages count what runs beside what. They put the events of a `share` of the
-- bins in order, with 50,000 to 100,000 starts in all, and only sum those of the others; which, the multiples of the golden
-- section say: evenly spread, and in step with nothing that comes every minute. A small log is one bin.
create view cutting as
with span as (
    select cast(count(*) as double) as n, percentile_disc(0.05) within group (order by unix_micros(started_at)) as from_us,
           percentile_disc(0.95) within group (order by unix_micros(started_at)) as to_us
    from   front
)
select least(1e0, 5e4 / nullif(n, 0)) as share,
       case when n < 1e5 then 0e0 else least(1e0, 0.9e0 * n / nullif(5e2 * cast(to_us - from_us as double), 0)) end as bins_per_us   -- 500 starts
from   span;

-- One row per front attempt of a task that was tried more than once: its place among the tries and the wait since the
-- try before.
create view tries as
select t.attempt_id, t.task, t.inferred, t.started_at, t.ended_at, t.total_ms, t.outcome, t.attempt, t.http_status,
       t.prompt_hash, t.previous_outcome, t.previous_retry_after_ms, t.previous_total_ms, t.gap_ms, t.retry
from   tried t
join   front f on t.attempt_id = f.attempt_id;

-- One row per front attempt whose request the same caller sends more than once: the same prompt, else the same idempotency
-- key; answers of a cache and embeddings are none. `ran`: a model worked on it and it counts in the bill. `again`: it ran,
-- as one before had, and none of them was running any more when it began, so that samples asked for side by side are no
-- repeats. `repeated`: such a repeat within 10 s (a minute after one that did not complete), or of a batch, or in a block
-- (half or more of what its caller sends from the first to the last): what many people ask, and monitors, come singly.
create view reruns as
with asked as (
    select f.*, s.request, coalesce(f.caller, '') || ' ' || coalesce(f.conversation_id, '') as whose
    from   asked_again s
    join   front f on f.vantage = s.vantage and coalesce(f.prompt_hash, f.idempotency_key) = s.request
    where  f.started_at is not null and not coalesce(f.cache_hit, false) and coalesce(f.operation, '') not in ('embeddings', 'probe')
), given_up as (
    select attempt_id, paid_tokens, coalesce(server_outcome = 'completed' and joined_by <> 'time', false) as finished
    from   calls
    where  outcome in ('timeout', 'cancelled', 'failed')
), judged as (
    select a.attempt_id, a.request, a.whose, a.vantage, a.started_at, coalesce(a.ended_at, a.started_at) as ended_at, a.total_ms,
           a.outcome, a.http_status, a.finish_reason, a.terminal_seen, a.batch_id, coalesce(a.output_tokens, g.paid_tokens) as paid_tokens,
           coalesce(g.finished, false) as finished,
           coalesce(a.outcome in ('completed', 'empty', 'incomplete') or (a.outcome = 'unknown' and a.http_status between 200 and 299)
                    or g.finished or (a.outcome in ('timeout', 'cancelled') and a.output_tokens > 0), false) as ran
    from   asked a
    left   join given_up g on g.attempt_id = a.attempt_id
), placed as (
    select *, count(*) over so_far - 1                      as earlier,
           count_if(ran) over so_far - cast(ran as int)     as ran_earlier,
           lag(outcome) over in_turn                        as previous_outcome,
           lag(http_status) over in_turn                    as previous_status,
           lag(total_ms) over in_turn                       as previous_total_ms,
           lag(finish_reason is null and not coalesce(terminal_seen, false)) over in_turn as previous_unfinished,
           (unix_micros(started_at) - unix_micros(max(ended_at) over before)) / 1e3 as gap_ms
    from   judged
    window in_turn as (partition by request, whose order by started_at nulls first, attempt_id),
           so_far as (partition by request, whose order by started_at nulls first, attempt_id rows between unbounded preceding and current row),
           before as (partition by request, whose order by started_at nulls first, attempt_id rows between unbounded preceding and 1 preceding)
), marked as (
    select *, ran and ran_earlier > 0 and gap_ms >= -50 as again from placed
), later as (
    select whose, min(started_at) as from_at, max(started_at) as to_at, count(*) as n
    from   marked
    where  again and gap_ms > 10000
    group  by whose
    having count(*) >= 3
), blocks as (
    select l.whose
    from   later l
    join   front f on coalesce(f.caller, '') || ' ' || coalesce(f.conversation_id, '') = l.whose and f.started_at between l.from_at and l.to_at
    group  by l.whose, l.n
    having l.n >= 0.5 * count(*)
)
select m.*, m.again and (m.gap_ms <= case when m.previous_outcome = 'completed' then 10000 else 60000 end or m.batch_id is not null
                    or b.whose is not null) as repeated
from   marked m
left   join blocks b on b.whose = m.whose;

-- One row per front attempt: what was paid for it, as far as either side knows, and which part of it nobody received:
-- all of a call that timed out, that failed while the server finished it, or that repeats an answered one; of a call that
-- its caller left, what came afterwards.
create view spent as
with sides as (
    select attempt_id, vantage, started_at, outcome, stream, paid_tokens as tokens, paid_usd as usd, left_ms,
           coalesce(joined_by <> 'time' and server_outcome = 'completed', false)                  as finished,
           coalesce(case when joined_by <> 'time' then server_total_ms end, total_ms)             as ran_ms
    from   calls
)
select b.attempt_id, b.vantage, b.started_at, b.outcome, b.tokens, b.usd,
       case when r.attempt_id is not null or b.outcome = 'timeout' then 1.0
            when b.finished and (b.outcome = 'failed' or (b.outcome = 'cancelled' and not coalesce(b.stream, false))) then 1.0
            when b.left_ms < b.ran_ms then 1 - b.left_ms / nullif(b.ran_ms, 0)
            else 0.0 end as wasted
from   sides b
left   join (select attempt_id from reruns where repeated and previous_outcome not in ('timeout', 'cancelled', 'failed', 'rate_limited')) r
       on r.attempt_id = b.attempt_id;

-- One row per front attempt with the part of the log that it began in: a minute, of a shorter log a twentieth. `end_part`: the
-- one that it ended in. `again`: a retry. `bad`: less than half as much of the part (of five attempts or more) succeeds as in the
-- best tenth of the parts; `good`: at least four fifths as much, and four fifths of all. `tokens`: what it wrote, cut or not.
create view phases as
with known as (
    select f.attempt_id, f.outcome, f.total_ms, coalesce(f.output_tokens, f.chunks) as tokens,
           unix_micros(f.started_at) / 1e6 as at_s, coalesce(t.retry, f.attempt > 1, false) as again
    from   front f
    left   join tried t on t.attempt_id = f.attempt_id
    where  f.started_at is not null and f.outcome is not null
), span as (
    select min(at_s) as from_s, greatest(1, least(60, (max(at_s) - min(at_s)) / 20)) as width_s from known
), placed as (
    select k.*, s.width_s, floor((k.at_s - s.from_s) / nullif(s.width_s, 0)) as part
    from   known k
    cross  join span s
), parts as (
    select part, count(*) as attempts, count_if(outcome = 'completed') / cast(nullif(count(*), 0) as double) as passed
    from   placed
    group  by part
), best as (
    select percentile_disc(0.9) within group (order by passed) as passed from parts where attempts >= 5
)
select p.attempt_id, p.outcome, p.total_ms, p.tokens, p.again, p.part, p.width_s,
       floor((p.at_s + p.total_ms / 1e3 - s.from_s) / nullif(p.width_s, 0)) as end_part,
       n.attempts >= 5 and n.passed < 0.5 * b.passed as bad, n.passed >= greatest(0.8 * b.passed, 0.8) as good
from   placed p
join   parts n on n.part = p.part
cross  join best b
cross  join span s;

-- One row per front attempt: is it `batch` work (it has a batch id, or "batch" or "bulk" in its operation, route, caller or
-- tenant), and does a batch call run in the part of the log that it begins in (`beside`)? A part is a minute, of a shorter
-- log a fortieth; `parts` says in how many anything happens, `batch_parts` in how many of them batch calls run.
-- A log without batch work has no rows here.
create view lanes as
with marked as (
    select attempt_id, unix_micros(started_at) / 1e6 as at_s, unix_micros(coalesce(ended_at, started_at)) / 1e6 as end_s,
           batch_id is not null
               or lower(coalesce(operation, '') || ' ' || coalesce(route, '') || ' ' || coalesce(caller, '') || ' ' || coalesce(tenant, '')) like '%batch%'
               or lower(coalesce(operation, '') || ' ' || coalesce(route, '') || ' ' || coalesce(caller, '') || ' ' || coalesce(tenant, '')) like '%bulk%' as batch
    from   front
    where  started_at is not null
), span as (
    select min(at_s) as from_s, max(at_s) as to_s, greatest(least(60, (max(at_s) - min(at_s)) / 40), 1) as width_s
    from   marked
    having count_if(batch) > 0
), placed as (
    select m.attempt_id, m.batch, floor((m.at_s - s.from_s) / nullif(s.width_s, 0)) as part,
           floor((least(m.end_s, s.to_s) - s.from_s) / nullif(s.width_s, 0))        as end_part
    from   marked m
    cross  join span s
), edges as (
    select part, 0 as begun, 0 as done from placed where not batch
    union all
    select part, 1, 0 from placed where batch
    union all
    select end_part, 0, 1 from placed where batch
), summed as (
    select part, sum(begun) as begun, sum(done) as done from edges group by part
), running as (
    select part, sum(begun) over (order by part nulls last) - sum(done) over (order by part nulls last) + done as batch_calls from summed
)
select p.attempt_id, p.batch, p.part, n.parts, r.batch_calls > 0 as beside, n.batch_parts
from   placed p
join   running r on r.part = p.part
cross  join (select count(*) as parts, count_if(batch_calls > 0) as batch_parts from running) n;

-- One row per task with an id of its own (not inferred).
create view tasks as
select coalesce(f.task_id, f.trace_id) as task, count(*) as attempts, count_if(coalesce(t.retry, false)) as retries,
       min(f.started_at) as started_at, max(f.ended_at) as ended_at, count_if(f.outcome = 'completed') as completed
from   front f
left   join tried t on t.attempt_id = f.attempt_id
where  coalesce(f.task_id, f.trace_id) is not null
group  by coalesce(f.task_id, f.trace_id);

-- One row per streamed front attempt that brought content; lump columns only where its chunks were timed.
create view streams as
with lumped as (
    select attempt_id, count(*) as lumps, cast(sum(chunks) as bigint) as timed_chunks, max(chunks) as largest_lump,
           max(at_ms) - min(at_ms) as spread_ms,
           percentile_disc(0.5) within group (order by gap_ms) as lump_gap_ms,
           percentile_disc(0.5) within group (order by bytes)  as lump_bytes
    from   lumps
    group  by attempt_id
)
select f.attempt_id, f.vantage, f.started_at, f.model, f.hop, f.ttft_ms, f.total_ms, f.output_tokens, f.reasoning_tokens,
       f.chunks, f.max_gap_ms, f.cache_hit, f.outcome, coalesce(l.spread_ms, f.total_ms - f.ttft_ms) as spread_ms,
       coalesce(f.output_tokens, f.chunks, l.timed_chunks) as pieces,
       l.lumps, l.timed_chunks, l.largest_lump, l.lump_gap_ms, l.lump_bytes
from   front f
left   join lumped l on l.attempt_id = f.attempt_id
where  f.stream and f.ttft_ms is not null and f.total_ms is not null and f.outcome in ('completed', 'incomplete', 'unknown');

-- One row per moment at which a latency of a vantage rose for good: what it was and what it became. `p50_times` and
-- `p95_times` are null where the rise did not last (a later stretch comes back below 1.25 times what it was) or came
-- little by little. `to_id` is the last attempt of the log, for it lasts until there.
create view steps as
with placed as (
    select vantage, name, segment, from_at, first_id, sampled, abrupt, p50_ms, p95_ms,
           lag(p50_ms) over in_turn as p50_before_ms,
           lag(p95_ms) over in_turn as p95_before_ms,
           lag(sampled) over in_turn as rows_before,
           min(p50_ms) over onwards as p50_least_ms,
           min(p95_ms) over onwards as p95_least_ms,
           sum(sampled) over onwards   as rows_onwards,
           max(last_id) over (partition by vantage, name) as to_id
    from   segments
    where  name <> 'failed'
    window in_turn as (partition by vantage, name order by segment nulls last),
           onwards as (partition by vantage, name order by segment nulls last rows between current row and unbounded following)
)
select vantage, name, segment, from_at, first_id, to_id, rows_before, rows_onwards, p50_before_ms, p50_ms, p95_before_ms, p95_ms,
       case when abrupt and p50_least_ms >= 1.25 * p50_before_ms then p50_ms / nullif(p50_before_ms, 0) end as p50_times,
       case when abrupt and p95_least_ms >= 1.25 * p95_before_ms then p95_ms / nullif(p95_before_ms, 0) end as p95_times
from   placed
where  p50_ms > p50_before_ms or p95_ms > p95_before_ms;

-- One row per completed front attempt with a known time: what it lost, of its first token or, not streamed, in all, against
-- what its kind takes in the quiet part. `late`: half as much again, and 100 ms.
create view lateness as
with timed as (
    select f.attempt_id, f.input_tokens, f.output_tokens, f.total_ms, coalesce(f.quiet, false) as quiet, f.load,
           f.ttft_ms is not null                                                        as streamed,
           coalesce(f.ttft_ms, f.total_ms)                                              as took_ms,
           case when f.ttft_ms is not null then f.expected_ttft_ms else f.expected_total_ms end as usual_ms,
           f.expected_total_ms
    from   front_expected f
    where  f.outcome = 'completed' and f.total_ms is not null and f.hop is null and coalesce(f.cache_hit, false) = false
)
select attempt_id, input_tokens, output_tokens, total_ms, quiet, load, streamed, took_ms, usual_ms, expected_total_ms,
       took_ms - usual_ms as lost_ms, took_ms - usual_ms >= greatest(100, 0.5 * usual_ms) as late
from   timed
where  usual_ms is not null;

-- One row per front attempt that failed at once, before anything ran: a 502, or a failure without any word, that took at most
-- 100 ms or half of what the quickest twentieth of the answers in its tenth of the log needs for its first token; a reset,
-- which takes the way there and back and no more, at most 250 ms or a quarter more than those.
create view instant_failures as
with quickest as (
    select f.stretch, percentile_disc(0.05) within group (order by coalesce(f.ttft_ms, f.total_ms)) as ms
    from   front_expected f
    where  f.outcome = 'completed'
    group  by f.stretch
)
select f.attempt_id, f.total_ms
from   front_expected f
left   join quickest q on q.stretch = f.stretch
where  f.outcome = 'failed' and coalesce(f.error_type, '') not in ('rate_limit', 'quota', 'cancelled', 'invalid_request', 'auth', 'context_length', 'content_filter')
and    case when f.http_status is null and f.error_type = 'connection_reset' then f.total_ms <= greatest(250, 1.25 * coalesce(q.ms, 0))
            when f.error_type in ('connection_reset', 'upstream_error') or f.http_status = 502 or (f.http_status is null and f.error_type is null)
            then f.total_ms <= greatest(100, 0.5 * coalesce(q.ms, 0)) end;

-- One row per minute of the front vantage.
create view minutes as
select date_trunc('minute', started_at) as minute_at, count(*) as attempts,
       count_if(outcome = 'completed') as completed,
       count_if(outcome in ('failed', 'timeout', 'rate_limited', 'incomplete')) as failures
from   front
where  started_at is not null
group  by date_trunc('minute', started_at);

-- One row per front attempt of a second or more that failed, broke off or, in a proxy's log, was ended by its timer: what
-- somebody else's limit may have cut. Errors that are the caller's own, callers that left, and streams of a probe that give
-- the reason why they ended are none. `told`: it was answered with a gateway's status for it. `silence_ms`: since its last
-- piece; of a probe also since the headers, or since the send where the answer is a refusal. `flowing`: that is no longer
-- than its pieces were apart. A caller's own timeout is no cut.
create view cuts as
with cut as (
    select attempt_id, vantage, hop, total_ms, header_ms, max_gap_ms, http_status
    from   front f
    where  f.total_ms >= 1000 and f.client_gone_at is null
    and    ((f.outcome in ('failed', 'incomplete') and (f.hop is null or (f.finish_reason is null and coalesce(f.error_type, '') <> 'other'))
             and coalesce(f.error_type, '') not in ('rate_limit', 'quota', 'cancelled', 'context_length', 'content_filter', 'auth',
                                                    'invalid_request'))
            or (f.outcome = 'timeout' and f.hop is null
                and coalesce(f.vantage = 'proxy' or f.http_status in (504, 524) or (f.http_status = 408 and f.vantage <> 'gateway'), false)))
), last_pieces as (
    select c.attempt_id, max(c.at_ms) as at_ms, (max(c.at_ms) - min(c.at_ms)) / nullif(count(*) - 1, 0) as gap_ms, count(*) as pieces
    from   chunks c
    join   cut k on k.attempt_id = c.attempt_id
    group  by c.attempt_id
), timed as (
    select k.attempt_id, k.vantage, k.hop, k.total_ms, k.max_gap_ms, l.gap_ms, coalesce(l.pieces, 0) as pieces,
           case when k.hop is null then k.total_ms - l.at_ms
                when k.http_status >= 300 then k.total_ms
                else k.total_ms - coalesce(l.at_ms, k.header_ms, 0) end as silence_ms,
           coalesce(k.http_status in (504, 524) or (k.http_status = 408 and k.vantage <> 'gateway'), false) as told
    from   cut k
    left   join last_pieces l on l.attempt_id = k.attempt_id
)
select attempt_id, vantage, hop, total_ms, silence_ms, pieces,
       silence_ms <= greatest(500, 4 * coalesce(gap_ms, 0), 1.2 * coalesce(max_gap_ms, 0)) and silence_ms < 0.5 * total_ms as flowing,
       told
from   timed;

-- Place by place (all of a log is one): the one duration on which most cuts end, within about 1 % (of a probe, whose network
-- adds its share, and 25 ms), and the cuts that do, since the call was sent (1) and since its last piece (2). `highest` is
-- that of the two on which more do.
create view cut_walls as
with both_kinds as (
    select attempt_id, hop, 1 as since, total_ms as wall_ms, case when hop is null then 0 else 2500 end as slack_ms from cuts
    union all
    select attempt_id, hop, 2, silence_ms, case when hop is null then 0 else 2500 end from cuts
    where  silence_ms >= case when hop is null then 1000 else 500 end
), timed as (
    select attempt_id, hop, since, wall_ms, slack_ms, cast(floor(100 * ln(wall_ms + slack_ms)) as integer) as bin from both_kinds
), heights as (
    select hop, since, bin, count(*) as n from timed group by hop, since, bin
), paired as (
    select h.hop, h.since, h.bin, h.n + coalesce(above.n, 0) as n
    from   heights h
    left   join heights above on coalesce(above.hop, '') = coalesce(h.hop, '') and above.since = h.since and above.bin = h.bin + 1
), tallest as (
    select hop, since, bin, n, row_number() over (partition by hop order by n desc nulls last, since nulls last, bin nulls last) as place,
           row_number() over (partition by hop, since order by n desc nulls last, bin nulls last) as place_of_kind
    from   paired
)
select t.attempt_id, t.hop, t.since, t.wall_ms, b.n as on_wall, exp((b.bin + 2) / 100e0) - t.slack_ms as wall_end_ms, b.place = 1 as highest
from   timed t
join   tallest b on b.place_of_kind = 1 and coalesce(b.hop, '') = coalesce(t.hop, '') and b.since = t.since and t.bin in (b.bin, b.bin + 1);

-- One row per streamed front attempt of at least 32 pieces that was waited for. Tokens of hidden reasoning are no pieces; a
-- chunk stands for four tokens at most where chunks were counted. `gap_ratio`: the longest gap by the mean one.
create view long_streams as
with sized as (
    select s.attempt_id, s.vantage, s.started_at, s.model, s.ttft_ms, s.total_ms, s.max_gap_ms, s.chunks, s.spread_ms,
           s.lumps, s.timed_chunks, s.lump_gap_ms, s.lump_bytes,
           s.output_tokens - coalesce(s.reasoning_tokens, 0) as tokens,
           case when s.output_tokens is null then coalesce(s.chunks, s.timed_chunks)
                when s.chunks >= 8 then least(s.output_tokens - coalesce(s.reasoning_tokens, 0), 4 * s.chunks)
                else s.output_tokens - coalesce(s.reasoning_tokens, 0) end as pieces,
           coalesce(s.lumps is not null and s.timed_chunks >= 32, false)   as timed,
           case when s.chunks >= 32 and s.max_gap_ms >= 50
                then s.max_gap_ms * (s.chunks - 1) / nullif(s.spread_ms, 0) end as gap_ratio
    from   streams s
    where  coalesce(s.cache_hit, false) = false and s.hop is null
)
select * from sized where pieces >= 32 and total_ms >= 300;

-- One row of `long_streams` each: does its content come at once? Lumps are seen where pieces were timed; else where the
-- longest gap is 30 mean gaps or more in 3 of 10 streams, and alike in them. Streams of a probe are not among them:
-- `probes` holds each place against the next.
create view bursts as
with alike as (
    select vantage,
           count_if(gap_ratio >= 30) >= 0.3 * count(*) and count_if(gap_ratio >= 30) >= 5
           and percentile_disc(0.75) within group (order by case when gap_ratio >= 30 then gap_ratio end)
               <= 1.6 * percentile_disc(0.25) within group (order by case when gap_ratio >= 30 then gap_ratio end) as lumps
    from   long_streams
    group  by vantage
)
select l.attempt_id, l.vantage, l.started_at, l.model, l.ttft_ms, l.total_ms, l.max_gap_ms, l.chunks, l.spread_ms,
       l.tokens, l.pieces, l.timed, l.lump_bytes, coalesce(l.lump_gap_ms, l.max_gap_ms) as lump_gap_ms,
       l.ttft_ms >= 0.9 * l.total_ms and l.spread_ms < l.pieces - 1 as one_burst,
       coalesce(case when l.timed then l.lumps >= 2 and l.timed_chunks >= 8 * l.lumps and l.lump_gap_ms >= 50
                     else a.lumps and l.gap_ratio >= 30 end, false)        as lumpy
from   long_streams l
join   alike a on a.vantage = l.vantage;

-- One row: do a tenth of the long streams (and five) come in one burst or in lumps? Something holds them back then, and a
-- first token does not say when the model had it.
create view held_back as
select coalesce(count_if(one_burst or lumpy) >= greatest(5, 0.1 * count(*)), false) as holds from bursts;

-- One row per place of a probe, numbered from the application outwards: as the probe tells, else as its first round went.
create view hops as
select hop, row_number() over (order by told nulls last, first_id nulls last, hop nulls last) as place, count(*) over () as places
from   (
    select a.hop, min(f.value) as told, min(a.attempt_id) as first_id
    from   attempts a
    left   join facts f on f.attempt_id = a.attempt_id and f.name = 'place'
    where  a.vantage = 'probe' and a.hop is not null
    group  by a.hop
) known;

-- One row per place of a probe where calls were cut: how many, how many while bytes flowed and how many after they had
-- stopped, typical figures (last_ms from the send to the last byte), and how long the whole answers of this place and of the
-- next one inside take and are silent at the most.
create view cut_places as
with whole as (
    select hop, max(total_ms) as total_ms,
           max(greatest(coalesce(ttft_ms - coalesce(header_ms, 0), 0), coalesce(max_gap_ms, 0))) as silence_ms
    from   attempts
    where  vantage = 'probe' and hop is not null and stream and outcome = 'completed'
    group  by hop
), counted as (
    select hop, count(*) as cut, count_if(flows) as flowing, count_if(not flows and pieces >= 2) as stopped,
           percentile_disc(0.5) within group (order by silent_ms)           as silence_ms,
           percentile_disc(0.5) within group (order by took_ms)             as total_ms,
           percentile_disc(0.5) within group (order by took_ms - silent_ms) as last_ms
    from   (select hop, flowing as flows, pieces, silence_ms as silent_ms, total_ms as took_ms from cuts) each_cut
    where  hop is not null
    group  by hop
)
select c.hop, c.cut, c.flowing, c.stopped, c.silence_ms, c.total_ms, c.last_ms,
       own.total_ms as whole_ms, own.silence_ms as whole_silence_ms, i.hop as inner_hop, coalesce(k.cut, 0) as inner_cut,
       inside.total_ms as inner_whole_ms, inside.silence_ms as inner_silence_ms
from   counted c
join   hops h on h.hop = c.hop
left   join hops i on i.place = h.place - 1
left   join whole own on own.hop = c.hop
left   join whole inside on inside.hop = i.hop
left   join counted k on k.hop = i.hop;

-- One row per call of a probe that asked for a stream. `shape` says how its content came: even, lumps, whole (in one
-- burst at its end), late (even, but only once the whole answer was there), replay (at once, before the model could
-- have), behind (even, but each piece only with the next one), none (no stream at all); null where there are fewer than 16
-- pieces to judge by, or where they come at once in less than 300 ms, or as a tool call. A hop is held against the one inside it: what is so on both does not begin here. full_* are of the
-- lumps between the first and the last one, packed_ms the time between the pieces of one lump, tail_ms from the last piece of content but one to the end, byte_rate the bytes
-- of content a millisecond after the first lump, lagging the share of the pieces that came with the next one and before the one after
-- it, by the sender's own stamps (where the stamped pieces are eight or more). short_ttft_ms and long_ttft_ms are of answers
-- that did come at most half as long, and half as long again, as the usual ones: a limit on their length may be ignored.
create view probes as
with numbered as (
    select attempt_id, lump, at_ms, until_ms - at_ms as packed_ms, chunks, bytes, gap_ms as step_ms, max(lump) over (partition by attempt_id) as last_lump
    from   lumps
    where  attempt_id in (select attempt_id from attempts where vantage = 'probe')
), lumped as (
    select attempt_id, count(*) as lumps, max(at_ms) - min(at_ms) as spread_ms,
           percentile_disc(0.5) within group (order by case when lump < last_lump or last_lump <= 2 then step_ms end) as gap_ms,
           percentile_disc(0.15) within group (order by case when lump < last_lump then step_ms end) as gap_low_ms,
           percentile_disc(0.85) within group (order by case when lump < last_lump then step_ms end) as gap_high_ms,
           count_if(lump > 1 and lump < last_lump)                      as full_lumps,
           sum(case when lump > 1 and lump < last_lump then bytes end)  as full_bytes,
           sum(case when lump > 1 and lump < last_lump then chunks end) as full_chunks,
           sum(case when lump > 1 and lump < last_lump then cast(step_ms as decimal(18, 3)) end) as full_ms,
           sum(case when lump > 1 then bytes end) / nullif(max(at_ms) - min(at_ms), 0) as byte_rate,
           sum(cast(packed_ms as decimal(18, 3))) / nullif(sum(chunks) - count(*), 0) as packed_ms
    from   numbered
    group  by attempt_id
), read_pieces as (
    select c.attempt_id, c.seq, c.at_ms, c.kind, c.sent_at_ms,
           c.kind in ('text', 'reasoning', 'tool') as content
    from   chunks c
    where  c.attempt_id in (select attempt_id from attempts where vantage = 'probe' and stream)
), counted_back as (
    select attempt_id, at_ms, row_number() over (partition by attempt_id order by seq desc nulls last, attempt_id) as back
    from   read_pieces
    where  content
), tails as (
    select r.attempt_id, max(r.at_ms) - max(b.at_ms) as tail_ms
    from   read_pieces r
    join   counted_back b on b.attempt_id = r.attempt_id and b.back = 2
    group  by r.attempt_id
), stamped as (
    select attempt_id, content, at_ms - min(at_ms - sent_at_ms) over (partition by attempt_id) as came_ms, sent_at_ms,
           lead(sent_at_ms) over in_order as next_ms, lead(sent_at_ms, 2) over in_order as after_ms
    from   read_pieces
    where  sent_at_ms is not null
    window in_order as (partition by attempt_id order by seq nulls last, attempt_id)
), lagged as (
    select attempt_id,
           count_if(came_ms >= next_ms - 1 and (after_ms is null or after_ms < next_ms + 3 or came_ms < after_ms - 1))
               / nullif(count(*), 0) as lagging
    from   stamped
    where  content and next_ms >= sent_at_ms + 3
    group  by attempt_id
    having count(*) >= 8
), told as (
    select attempt_id, max(case when name = 'age' then value end)               as age,
           max(case when name = 'content_type' then value end)                 as content_type,
           max(case when name = 'content_length' then value end)               as content_length,
           max(case when name = 'content_encoding' then value end)             as content_encoding,
           max(case when name = 'x_accel_buffering' then value end)            as x_accel_buffering,
           max(case when name = 'http_version' then value end)                 as http_version,
           max(case when name = 'cert_issuer' then value end)                  as cert_issuer,
           max(case when name = 'guardrail' then value end)                    as guardrail,
           count_if(name = 'protocol_fault' and value = 'json_instead_of_stream') as documents
    from   facts
    group  by attempt_id
), worded as (
    select c.attempt_id, count_if(c.kind in ('text', 'reasoning')) as words
    from   chunks c
    join   attempts a on a.attempt_id = c.attempt_id
    where  a.vantage = 'probe' and a.stream
    group  by c.attempt_id
), asked as (
    select a.attempt_id, a.hop, h.place, h.places, coalesce(a.variant, 'stream') as variant, a.started_at, a.ended_at,
           a.outcome, a.http_status, a.ttft_ms, a.total_ms, a.header_ms, a.chunks,
           coalesce(a.output_tokens, a.chunks) as tokens,
           l.lumps, l.spread_ms, l.gap_ms, l.gap_low_ms, l.gap_high_ms,
           l.full_lumps, l.full_bytes, l.full_chunks, l.full_ms, l.byte_rate, l.packed_ms, e.tail_ms, g.lagging, t.guardrail,
           t.age, t.content_type, t.content_length, t.content_encoding, t.x_accel_buffering, t.http_version, t.cert_issuer,
           coalesce(w.words, 0) as words,
           coalesce(t.documents > 0, false)
               or (coalesce(a.chunks, 0) <= 1 and t.content_length is not null and coalesce(t.content_type, '') like 'application/json%')
               or (a.ttft_ms is null and a.outcome = 'completed') as document
    from   attempts a
    join   hops h on h.hop = a.hop
    left   join lumped l on l.attempt_id = a.attempt_id
    left   join told t on t.attempt_id = a.attempt_id
    left   join worded w on w.attempt_id = a.attempt_id
    left   join tails e on e.attempt_id = a.attempt_id
    left   join lagged g on g.attempt_id = a.attempt_id
    where  a.vantage = 'probe' and a.stream and a.outcome in ('completed', 'incomplete', 'unknown')
), typical as (
    select hop, place, variant, max(hop) as same_hop,
           percentile_disc(0.5) within group (order by ttft_ms)   as ttft_ms,
           percentile_disc(0.5) within group (order by tokens)    as tokens,
           percentile_disc(0.5) within group (order by spread_ms) as spread_ms,
           percentile_disc(0.5) within group (order by gap_ms)    as gap_ms,
           percentile_disc(0.5) within group (order by tail_ms)   as tail_ms,
           percentile_disc(0.5) within group (order by total_ms)  as total_ms,
           percentile_disc(0.5) within group (order by byte_rate) as byte_rate,
           percentile_disc(0.5) within group (order by chunks / nullif(lumps, 0)) as lump_chunks,
           percentile_disc(0.5) within group (order by chunks)    as chunks
    from   asked
    group  by hop, place, variant
), inside as (
    select hop, variant, lag(hop) over outwards as inner_hop, lag(ttft_ms) over outwards as inner_ttft_ms,
           lag(spread_ms) over outwards as inner_spread_ms, lag(gap_ms) over outwards as inner_gap_ms,
           lag(lump_chunks) over outwards as inner_lump_chunks, lag(tail_ms) over outwards as inner_tail_ms,
           lag(total_ms) over outwards as inner_total_ms, lag(byte_rate) over outwards as inner_byte_rate,
           lag(chunks) over outwards as inner_chunks
    from   typical
    window outwards as (partition by variant order by place nulls last, hop nulls last)
), lengths as (
    select t.hop, max(case when t.variant = 'short' and 2 * t.tokens <= s.tokens then t.ttft_ms end) as short_ttft_ms,
           max(case when t.variant = 'short' then t.tokens end)                                    as short_tokens,
           max(case when t.variant = 'long' and t.tokens >= 1.5 * s.tokens then t.ttft_ms end)     as long_ttft_ms
    from   typical t
    left   join typical s on s.hop = t.hop and s.variant = 'stream'
    group  by t.hop
), computed as (
    select max(total_ms) as whole_ms from attempts where vantage = 'probe' and variant = 'whole' and outcome = 'completed'
), judged as (
    select a.*, i.inner_hop, i.inner_ttft_ms, i.inner_spread_ms, i.inner_gap_ms, i.inner_byte_rate, i.inner_chunks,
           n.short_ttft_ms, n.long_ttft_ms, c.whole_ms,
           coalesce(a.lagging >= 0.8, false)
               or coalesce(a.lagging is null and a.variant = 'stream' and a.gap_ms >= 20
                           and a.ttft_ms - i.inner_ttft_ms between 0.4 * a.gap_ms and 2 * a.gap_ms
                           and i.inner_tail_ms - a.tail_ms between 0.6 * a.gap_ms and 1.5 * a.gap_ms
                           and abs(a.total_ms - i.inner_total_ms) <= a.gap_ms, false)         as behind,
           coalesce(a.words > 0 and a.ttft_ms >= 0.9 * a.total_ms and a.total_ms >= 300
                    and (a.spread_ms < 1.0 * (a.chunks - 1) or (a.chunks < 16 and a.tokens >= 32)), false)
               or coalesce(a.ttft_ms >= 0.8 * a.total_ms and i.inner_spread_ms >= 150 and a.spread_ms <= 0.25 * i.inner_spread_ms
                           and a.ttft_ms >= i.inner_ttft_ms + 0.5 * i.inner_spread_ms, false) as whole,
           coalesce(a.lumps >= 2 and a.chunks >= 8 * a.lumps and a.gap_ms >= 50 and a.packed_ms < 2, false)
               or coalesce(a.lumps >= 2 and a.chunks >= 1.8 * i.inner_lump_chunks * a.lumps and a.gap_ms >= 1.8 * i.inner_gap_ms
                           and a.gap_ms >= i.inner_gap_ms + 25, false)                        as lumpy,
           coalesce(a.ttft_ms <= 0.4 * i.inner_ttft_ms and a.spread_ms <= 0.1 * i.inner_spread_ms and i.inner_spread_ms >= 150, false)
               or coalesce(a.age is not null and a.total_ms < 300 and a.spread_ms < 0.5 * (a.chunks - 1), false) as replay,
           coalesce(a.variant in ('stream', 'long') and a.ttft_ms >= 1.5 * n.short_ttft_ms + 50 and a.tokens >= 2 * n.short_tokens
                    and case when a.variant = 'long' then a.ttft_ms >= 1.5 * c.whole_ms
                             else a.ttft_ms >= 0.7 * coalesce(c.whole_ms, a.ttft_ms)
                                  and coalesce(n.long_ttft_ms >= 1.3 * a.ttft_ms, c.whole_ms is not null) end, false) as late
    from   asked a
    left   join inside i on i.hop = a.hop and i.variant = a.variant
    left   join lengths n on n.hop = a.hop
    cross  join computed c
)
select attempt_id, hop, place, places, variant, started_at, ended_at, outcome, http_status, ttft_ms, total_ms, header_ms,
       chunks, tokens, lumps, spread_ms, gap_ms, gap_low_ms, gap_high_ms, full_lumps, full_bytes, full_chunks, full_ms, age,
       content_type, content_length, content_encoding, x_accel_buffering, http_version, cert_issuer, inner_hop, inner_ttft_ms,
       inner_spread_ms, inner_gap_ms, short_ttft_ms, long_ttft_ms, whole_ms, byte_rate, inner_byte_rate, inner_chunks, tail_ms,
       lagging, guardrail,
       case when document and coalesce(http_status, 200) < 300 then 'none'
            when (chunks >= 16 and lumps is not null) or (whole and tokens >= 32 and tokens >= 8 * chunks) then
                case when replay then 'replay' when whole then 'whole' when lumpy then 'lumps' when late then 'late'
                     when behind then 'behind'
                     when ttft_ms >= 0.9 * total_ms and spread_ms < 1.0 * (chunks - 1) then null else 'even' end
       end as shape
from   judged;

-- One row per place of a probe and kind of request: the shape that most of its streams have, typical figures, and the
-- same of the next place inside. `begins`: here the stream changes: not even, and not the same inside; a kind of its own
-- (encoded, tools, http2 ...) begins only what the usual request does not show at the same place.
create view shapes as
with counted as (
    select hop, place, places, variant, max(inner_hop) as inner_hop, count(shape) as n,
           count_if(shape <> 'even') as held, count_if(shape = 'none') as none, count_if(shape = 'replay') as replays,
           count_if(shape = 'whole') as wholes, count_if(shape = 'lumps') as lumpy, count_if(shape = 'late') as late,
           count_if(shape = 'behind') as behind,
           percentile_disc(0.5) within group (order by lagging)     as lagging,
           percentile_disc(0.5) within group (order by byte_rate)   as byte_rate,
           max(inner_byte_rate) as inner_byte_rate, max(inner_chunks) as inner_chunks, max(guardrail) as guardrail,
           percentile_disc(0.5) within group (order by ttft_ms)     as ttft_ms,
           percentile_disc(0.5) within group (order by total_ms)    as total_ms,
           percentile_disc(0.5) within group (order by header_ms)   as header_ms,
           percentile_disc(0.5) within group (order by spread_ms)   as spread_ms,
           percentile_disc(0.5) within group (order by gap_ms)      as gap_ms,
           percentile_disc(0.5) within group (order by tokens)      as tokens,
           percentile_disc(0.5) within group (order by chunks)      as chunks,
           sum(full_lumps) as full_lumps, sum(full_bytes) as full_bytes, sum(full_chunks) as full_chunks, sum(full_ms) as full_ms,
           max(content_type) as content_type, max(content_length) as content_length, max(content_encoding) as content_encoding,
           max(x_accel_buffering) as x_accel_buffering, max(age) as age, max(http_version) as http_version,
           max(cert_issuer) as cert_issuer, max(short_ttft_ms) as short_ttft_ms, max(long_ttft_ms) as long_ttft_ms,
           max(whole_ms) as whole_ms
    from   probes
    group  by hop, place, places, variant
), named as (
    select *, case when n = 0 then null when 2 * held <= n then 'even' when none >= greatest(replays, wholes, lumpy, late, behind) then 'none'
                   when replays >= greatest(wholes, lumpy, late, behind) then 'replay'
                   when wholes >= greatest(lumpy, late, behind) then 'whole' when lumpy >= greatest(late, behind) then 'lumps'
                   when late >= behind then 'late' else 'behind' end as shape
    from   counted
), usual as (
    select hop, max(case when variant = 'stream' then shape end) as stream_shape,
           max(case when variant = 'long' then shape end)        as long_shape
    from   named
    group  by hop
)
select s.*, u.stream_shape, u.long_shape, i.shape as inner_shape, i.ttft_ms as inner_ttft_ms, i.total_ms as inner_total_ms,
       i.header_ms as inner_header_ms, i.spread_ms as inner_spread_ms, i.gap_ms as inner_gap_ms,
       i.x_accel_buffering as inner_x_accel_buffering,
       coalesce(s.shape <> 'even' and s.shape <> coalesce(i.shape, 'even')
                and (s.variant in ('stream', 'long') or coalesce(u.stream_shape, 'even') = 'even'), false) as begins
from   named s
join   usual u on u.hop = s.hop
left   join named i on i.hop = s.inner_hop and i.variant = s.variant;

-- One row per place of a probe whose streams come in lumps: what a lump holds and how often one comes. `buffer_bytes` is
-- the usual size of a buffer (4 to 64 KB) that lumps of this size fill, within 2.5 %; `timer_ms`: no such size, but a usual
-- period of a timer, within 3 %; `kernel_ms`: neither, but what the network layer waits for more to send: 40 ms (the other
-- side's late acknowledgement) or 200 ms (a corked socket), which begins with the next piece and is counted in ticks, so it
-- takes up to 8 % or 1.3 gaps of the stream longer and never comes out even; or the round trip to this place. Both need a
-- period (lump_ms) that the end of the stream does not cut short: of two lumps the second is only the rest.
create view lump_sizes as
with summed as (
    select hop, place, max(inner_hop) as inner_hop, max(inner_gap_ms) as inner_gap_ms, sum(n) as streams, sum(lumpy) as lumpy,
           percentile_disc(0.5) within group (order by gap_ms) as gap_ms,
           sum(full_bytes) / nullif(sum(full_lumps), 0)  as lump_bytes,
           sum(full_chunks) / nullif(sum(full_lumps), 0) as lump_chunks,
           sum(full_ms) / nullif(sum(full_lumps), 0)     as lump_ms
    from   shapes
    where  variant in ('stream', 'long') and shape = 'lumps'
    group  by hop, place
), paced as (
    select *, coalesce(lump_ms, gap_ms) as period_ms,
           least(coalesce(inner_gap_ms, coalesce(lump_ms, gap_ms) / nullif(lump_chunks, 0), 0), 100) as piece_ms
    from   summed
), fitted as (
    select s.hop, min(b.size_bytes) as buffer_bytes
    from   summed s
    join   (select 4096 as size_bytes union all select 8192 union all select 16384 union all select 32768
            union all select 65536) b
           on s.lump_bytes between 0.975 * b.size_bytes and 1.025 * b.size_bytes and s.lump_chunks >= 2
    group  by s.hop
), ticking as (
    select p.hop, max(t.timer_ms) as timer_ms
    from   paced p
    join   (select 40 as timer_ms union all select 50 union all select 100 union all select 200 union all select 250
            union all select 400 union all select 500 union all select 1000 union all select 2000) t
           on p.lump_ms between 0.97 * t.timer_ms and case when t.timer_ms in (40, 200) then 1.01 else 1.03 end * t.timer_ms
    group  by p.hop
), round_trips as (
    select hop, percentile_disc(0.5) within group (order by connect_ms) as round_trip_ms
    from   attempts
    where  vantage = 'probe' and hop is not null
    group  by hop
), waiting as (
    select p.hop, max(k.kernel_ms) as kernel_ms
    from   paced p
    join   (select 40 as kernel_ms union all select 200) k
           on p.lump_ms > 1.01 * k.kernel_ms and p.lump_ms <= k.kernel_ms + greatest(0.08 * k.kernel_ms, 1.3 * p.piece_ms)
    group  by p.hop
)
select p.hop, p.place, p.inner_hop, p.inner_gap_ms, p.streams, p.lumpy, p.gap_ms, p.lump_bytes, p.lump_chunks, p.lump_ms,
       p.period_ms, f.buffer_bytes, p.lump_bytes / nullif(p.lump_ms, 0) as kb_per_s, r.round_trip_ms,
       case when f.buffer_bytes is null then t.timer_ms end as timer_ms,
       case when f.buffer_bytes is null and t.timer_ms is null
            then coalesce(w.kernel_ms, case when r.round_trip_ms >= 15 and p.lump_ms between 0.9 * r.round_trip_ms and 1.1 * r.round_trip_ms
                                            then r.round_trip_ms end) end as kernel_ms
from   paced p
left   join fitted f on f.hop = p.hop
left   join ticking t on t.hop = p.hop
left   join waiting w on w.hop = p.hop
left   join round_trips r on r.hop = p.hop;

-- One row per request of a probe that was sent while another stream ran: `pair` a second stream, `cheap` a request that
-- costs nothing. How long it waited, how long the like of it waits alone, how much longer the first stream ran, and
-- whether it was served only after that.
create view beside as
with numbered as (
    select attempt_id, hop, variant, ttft_ms, total_ms, started_at, ended_at,
           row_number() over (partition by hop, variant order by attempt_id nulls last) as number
    from   attempts
    where  vantage = 'probe' and variant in ('pair', 'cheap')
), alone as (
    select hop, percentile_disc(0.5) within group (order by case when variant = 'stream' then ttft_ms end) as ttft_ms,
           percentile_disc(0.5) within group (order by case when variant = 'cheap_alone' then total_ms end) as cheap_ms
    from   attempts
    where  vantage = 'probe'
    group  by hop
), waited as (
    select s.attempt_id, s.hop, s.variant, s.started_at, case when s.variant = 'pair' then s.ttft_ms else s.total_ms end as waited_ms,
           case when s.variant = 'pair' then a.ttft_ms else a.cheap_ms end                      as alone_ms,
           (unix_micros(f.ended_at) - unix_micros(s.started_at)) / 1e3                          as left_ms
    from   numbered f
    join   numbered s on s.hop = f.hop and s.variant = f.variant
    join   alone a on a.hop = s.hop
    where  f.number = 1 and s.number = 2
)
select attempt_id, hop, variant, started_at, waited_ms, alone_ms, left_ms,
       case when variant = 'pair' then case when left_ms >= 300 then waited_ms >= 0.9 * left_ms and waited_ms >= 2 * alone_ms + 100 end
            else waited_ms >= 250 and waited_ms >= 5 * alone_ms end as blocked
from   waited;

-- One row per request with times of its own stages (derived/staged.sql), of the front's vantage.
create view journeys as
select s.attempt_id, s.vantage, s.started_at, s.whole_ms, s.late_ms, s.first_ms, s.model_ms, s.retrieval_ms, s.tool_ms, s.prepare_ms,
       s.delivery_ms, s.other, s.other_ms, s.longest_ms, s.before_inside, s.after_inside, s.slow, s.quick, s.latest, s.earliest
from   staged s
where  s.vantage = (select max(vantage) from front);
