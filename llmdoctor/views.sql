-- The views that several rules share, in the SQL that DuckDB and Spark both read. `front` is the attempts of one
-- vantage: the engine sets it for each rule to the outermost vantage that has the columns which the rule needs.

-- One row per front attempt with what the inner side reported of the same call, its own report first.
create view calls as
with inner_side as (
    select p.attempt_id,
           max(case when p.partner_vantage in ('gateway', 'cloud', 'engine') then b.outcome end)      as outcome,
           max(case when p.partner_vantage in ('gateway', 'cloud', 'engine') then b.ttft_ms end)      as ttft_ms,
           max(case when p.partner_vantage in ('gateway', 'cloud', 'engine') then b.total_ms end)     as total_ms,
           max(case when p.partner_vantage = 'proxy' then coalesce(b.upstream_total_ms, b.total_ms) end) as proxy_total_ms,
           max(b.header_ms)                                                                           as header_ms,
           max(b.upstream_attempts)                                                                   as upstream_attempts,
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
       case when f.server_outcome is not null or f.server_total_ms is not null then 'id' else i.joined_by end as joined_by
from   front f
left   join inner_side i on i.attempt_id = f.attempt_id;

-- One row per front attempt that can be put to a task: its place among the tries and the wait since the try before.
-- Without a task id, the same prompt of the same caller within a minute of a try that failed counts as the same task.
create view tries as
with keyed as (
    select attempt_id, started_at, ended_at, total_ms, outcome, attempt, http_status, retry_after_ms, prompt_hash,
           coalesce(task_id, trace_id, prompt_hash || ' ' || coalesce(caller, '')) as task,
           task_id is null and trace_id is null as inferred
    from   front
    where  coalesce(task_id, trace_id, prompt_hash) is not null
), ordered as (
    select k.*,
           lag(outcome)        over of_task as previous_outcome,
           lag(retry_after_ms) over of_task as previous_retry_after_ms,
           lag(total_ms)       over of_task as previous_total_ms,
           lag(prompt_hash)    over of_task as previous_prompt_hash,
           lag(attempt)        over of_task as previous_attempt,
           (unix_micros(started_at) - unix_micros(lag(ended_at) over of_task)) / 1000.0 as gap_ms
    from   keyed k
    window of_task as (partition by task order by started_at, attempt_id)
)
select attempt_id, task, inferred, started_at, ended_at, total_ms, outcome, attempt, http_status, prompt_hash,
       previous_outcome, previous_retry_after_ms, previous_total_ms, gap_ms,
       case when previous_outcome is null then false
            when inferred then previous_outcome <> 'completed' and gap_ms between -1000 and 60000
            when attempt is not null then attempt > 1
            else previous_outcome not in ('completed', 'unknown')
                 and coalesce(prompt_hash = previous_prompt_hash, true) end as retry
from   ordered;

-- One row per task with an id of its own (not inferred).
create view tasks as
select task, count(*) as attempts, count_if(retry) as retries, min(started_at) as started_at, max(ended_at) as ended_at,
       count_if(outcome = 'completed') as completed
from   tries
where  not inferred
group  by task;

-- One row per streamed front attempt that brought content; lump columns only where its chunks were timed.
create view streams as
with lumped as (
    select attempt_id, count(*) as lumps, sum(chunks) as timed_chunks, max(chunks) as largest_lump,
           max(at_ms) - min(at_ms) as spread_ms,
           percentile_disc(0.5) within group (order by gap_ms) as lump_gap_ms,
           percentile_disc(0.5) within group (order by bytes)  as lump_bytes
    from   lumps
    group  by attempt_id
)
select f.attempt_id, f.vantage, f.started_at, f.model, f.ttft_ms, f.total_ms, f.output_tokens, f.chunks, f.max_gap_ms,
       f.outcome, coalesce(l.spread_ms, f.total_ms - f.ttft_ms) as spread_ms,
       coalesce(f.output_tokens, f.chunks, l.timed_chunks) as pieces,
       l.lumps, l.timed_chunks, l.largest_lump, l.lump_gap_ms, l.lump_bytes
from   front f
left   join lumped l on l.attempt_id = f.attempt_id
where  f.stream and f.ttft_ms is not null and f.total_ms is not null and f.outcome in ('completed', 'incomplete', 'unknown');

-- One row per minute of the front vantage.
create view minutes as
select date_trunc('minute', started_at) as minute_at, count(*) as attempts,
       count_if(outcome = 'completed') as completed,
       count_if(outcome in ('failed', 'timeout', 'rate_limited', 'incomplete')) as failures
from   front
where  started_at is not null
group  by date_trunc('minute', started_at);

-- One row per streamed front attempt of at least 32 pieces that was waited for: does its content come at once?
-- Tokens of hidden reasoning are no pieces; a chunk stands for four tokens at most where chunks were counted.
create view bursts as
with sized as (
    select s.attempt_id, s.vantage, s.started_at, s.model, s.ttft_ms, s.total_ms, s.max_gap_ms, s.chunks, s.spread_ms,
           s.lumps, s.timed_chunks, s.lump_gap_ms, s.lump_bytes,
           f.output_tokens - coalesce(f.reasoning_tokens, 0) as tokens,
           case when f.output_tokens is null then coalesce(f.chunks, s.timed_chunks)
                when f.chunks >= 8 then least(f.output_tokens - coalesce(f.reasoning_tokens, 0), 4 * f.chunks)
                else f.output_tokens - coalesce(f.reasoning_tokens, 0) end as pieces
    from   streams s
    join   front f on f.attempt_id = s.attempt_id
    where  coalesce(f.cache_hit, false) = false
)
select attempt_id, vantage, started_at, model, ttft_ms, total_ms, max_gap_ms, chunks, spread_ms, tokens, pieces,
       lumps, timed_chunks, lump_gap_ms, lump_bytes,
       lumps is not null and timed_chunks >= 32                    as timed,
       ttft_ms >= 0.9 * total_ms and spread_ms < 1.0 * (pieces - 1) as one_burst,
       coalesce(lumps >= 2 and timed_chunks >= 32 and timed_chunks >= 8 * lumps and lump_gap_ms >= 50, false) as lumpy
from   sized
where  pieces >= 32 and total_ms >= 300;
