-- Tables that are worked out once, after the last row is in and before the store is sealed, because many rules read
-- them. DuckDB SQL; what rules read of them is portable. One row per attempt unless it says otherwise.

-- One row per attempt of a task that was tried more than once, at every vantage: its place among the tries and the wait
-- since the try before. Filled by tried.sql where there is such a task at all.
create table tried (
    attempt_id              bigint,
    vantage                 varchar,
    task                    varchar,
    inferred                boolean,      -- no task id: put together by prompt and caller
    started_at              timestamptz,
    ended_at                timestamptz,
    total_ms                double,
    outcome                 varchar,
    attempt                 integer,
    http_status             integer,
    prompt_hash             varchar,
    previous_outcome        varchar,
    previous_retry_after_ms double,
    previous_total_ms       double,
    gap_ms                  double,       -- from the end of the try before
    retry                   boolean       -- this one is a retry, not another call of the task
);

-- The same call seen from two vantages: each row of an inner vantage is used once, an outer row has at most one
-- partner per inner vantage. Ids first (the answer's, then the request's), then the trace with the nearest start.
create table vantages as
select * from (values ('client', 1), ('probe', 2), ('bench', 3), ('gateway', 4), ('proxy', 5), ('cloud', 6), ('engine', 7))
    as known (vantage, depth);

create table pairs (attempt_id bigint, partner_id bigint, vantage varchar, partner_vantage varchar, joined_by varchar);

-- One row per lump of content chunks of one stream: chunks that came within a millisecond (or a twentieth of the mean
-- gap) of the one before.
create table lumps as
with content as (
    select attempt_id, seq, at_ms, bytes,
           at_ms - lag(at_ms) over of_stream as gap_ms,
           (max(at_ms) over (partition by attempt_id) - min(at_ms) over (partition by attempt_id))
               / nullif(count(*) over (partition by attempt_id) - 1, 0) as mean_gap_ms
    from   chunks
    where  kind in ('text', 'reasoning', 'tool')
    window of_stream as (partition by attempt_id order by seq)
), numbered as (
    select *, sum(case when gap_ms < greatest(1.0, mean_gap_ms / 20) then 0 else 1 end)
                  over (partition by attempt_id order by seq rows unbounded preceding) as lump
    from   content
)
select attempt_id, cast(lump as integer) as lump, min(at_ms) as at_ms, count(*) as chunks, sum(bytes) as bytes,
       max(case when gap_ms >= greatest(1.0, mean_gap_ms / 20) then gap_ms end) as gap_ms
from   numbered
group  by attempt_id, lump;
