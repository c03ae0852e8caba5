-- The views that several rules share, in the SQL that DuckDB and Spark both read. `front` is the attempts of one
-- vantage: the engine sets it for each rule to the outermost vantage that has the columns which the rule needs.

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
       case when f.server_outcome is not null or f.server_ttft_ms is not null or f.server_total_ms is not null
            then 'id' else i.joined_by end                    as joined_by
from   front f
left   join inner_side i on i.attempt_id = f.attempt_id;

-- One row per front attempt of a task that was tried more than once: its place among the tries and the wait since the
-- try before.
create view tries as
select t.attempt_id, t.task, t.inferred, t.started_at, t.ended_at, t.total_ms, t.outcome, t.attempt, t.http_status,
       t.prompt_hash, t.previous_outcome, t.previous_retry_after_ms, t.previous_total_ms, t.gap_ms, t.retry
from   tried t
join   front f on t.attempt_id = f.attempt_id;

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
    select attempt_id, count(*) as lumps, sum(chunks) as timed_chunks, max(chunks) as largest_lump,
           max(at_ms) - min(at_ms) as spread_ms,
           percentile_disc(0.5) within group (order by gap_ms) as lump_gap_ms,
           percentile_disc(0.5) within group (order by bytes)  as lump_bytes
    from   lumps
    group  by attempt_id
)
select f.attempt_id, f.vantage, f.started_at, f.model, f.ttft_ms, f.total_ms, f.output_tokens, f.reasoning_tokens,
       f.chunks, f.max_gap_ms, f.cache_hit, f.outcome, coalesce(l.spread_ms, f.total_ms - f.ttft_ms) as spread_ms,
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
-- Tokens of hidden reasoning are no pieces; a chunk stands for four tokens at most where chunks were counted. Lumps are
-- seen where pieces were timed; else where the longest gap is 30 mean gaps or more in 3 of 10 streams, and alike in them.
create view bursts as
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
    where  coalesce(s.cache_hit, false) = false
), longer as (
    select * from sized where pieces >= 32 and total_ms >= 300
), alike as (
    select vantage,
           count_if(gap_ratio >= 30) >= 0.3 * count(*) and count_if(gap_ratio >= 30) >= 5
           and percentile_disc(0.75) within group (order by case when gap_ratio >= 30 then gap_ratio end)
               <= 1.6 * percentile_disc(0.25) within group (order by case when gap_ratio >= 30 then gap_ratio end) as lumps
    from   longer
    group  by vantage
)
select l.attempt_id, l.vantage, l.started_at, l.model, l.ttft_ms, l.total_ms, l.max_gap_ms, l.chunks, l.spread_ms,
       l.tokens, l.pieces, l.timed, l.lump_bytes, coalesce(l.lump_gap_ms, l.max_gap_ms) as lump_gap_ms,
       l.ttft_ms >= 0.9 * l.total_ms and l.spread_ms < 1.0 * (l.pieces - 1) as one_burst,
       coalesce(case when l.timed then l.lumps >= 2 and l.timed_chunks >= 8 * l.lumps and l.lump_gap_ms >= 50
                     else a.lumps and l.gap_ratio >= 30 end, false)        as lumpy
from   longer l
join   alike a on a.vantage = l.vantage;
