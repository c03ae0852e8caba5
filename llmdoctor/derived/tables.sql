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

-- The requests (the prompt, else the idempotency key) that a vantage saw more than once. Filled by asked_again.sql where
-- there is any.
create table asked_again (vantage varchar, request varchar);

-- One row per task, or lone call, that has timed stages, and part of its critical path: queue, prepare, retrieval, tool,
-- generate, delivery, a stage's own name, or between (nothing named ran). The parts of a unit add up to its whole_ms.
-- Filled by path.sql where there are stages at all.
create table path (
    unit                    varchar,      -- task_id or trace_id; '#' and the attempt_id where a call has neither
    attempt_id              bigint,       -- its last call at the outermost vantage that has one, null without a call
    vantage                 varchar,      -- of that call
    started_at              timestamptz,  -- of the unit
    part                    varchar,
    ms                      double,
    whole_ms                double,
    calls                   bigint        -- calls of the unit at that vantage
);

-- One row per attempt with times of its own stages, from columns or, standing for its task, from `path`. Filled by
-- staged.sql where there are any. Slow and quick are the slowest tenth (three at the least) and the quicker half of its
-- vantage by late_ms, latest and earliest the same by first_ms.
create table staged (
    vantage                 varchar,
    attempt_id              bigint,
    started_at              timestamptz,
    whole_ms                double,       -- with what lies outside total_ms
    late_ms                 double,       -- whole_ms less what these tokens take in the quiet part
    first_ms                double,       -- until the first token, where what comes before it is known to lie within
    model_ms                double,       -- the model's: the whole less every stage; of a path, its calls
    retrieval_ms            double,
    tool_ms                 double,
    prepare_ms              double,       -- without these two; an engine's own preparing is the model's
    delivery_ms             double,
    other                   varchar,      -- the longest of the stages with names of their own
    other_ms                double,
    longest_ms              double,       -- of all these stages
    before_inside           boolean,      -- retrieval, tools and prepare lie within total_ms
    after_inside            boolean,      -- delivery does
    slow                    boolean,
    quick                   boolean,
    latest                  boolean,
    earliest                boolean
);

-- One row per task of task_events, and one per idempotency key. `task_key` is negative: the number of a task where attempts
-- have their attempt_id. Up to a second between machines says nothing about the order of events. Filled by audit.sql.
create table task_audit (
    task_key                bigint,
    by_key                  boolean,      -- named by an idempotency key of attempts, of which only `conflict` is known
    task                    varchar,
    first_at                timestamptz,
    last_at                 timestamptz,
    last_us                 bigint,       -- its last event, heartbeats left out
    heartbeats              bigint,
    heartbeat_us            bigint,       -- the last of them
    run_us                  bigint,       -- first running
    end_us                  bigint,       -- first succeeded, failed or cancelled
    success_us              bigint,
    result_us               bigint,       -- the first event that names a result
    results                 bigint,       -- different ones
    success_worker          varchar,
    result_worker           varchar,
    step                    varchar,      -- its last: waiting | running | finalizing | again | succeeded | failed | cancelled | cancelling | other
    worker                  varchar,      -- of that step
    step_us                 bigint,
    executions              bigint,       -- times it was begun although it already ran elsewhere or had succeeded
    overlapping             bigint,       -- of these: while it ran elsewhere
    again_us                bigint,       -- the first of them
    late_result             boolean,      -- success was recorded before its result was (by one worker, or more than a second before)
    no_result               boolean,      -- it succeeded without a result, while four of five that succeed have one
    torn                    boolean,      -- cancelled, yet completed
    early_end               boolean,      -- it ended before it began
    two_results             boolean,      -- more than one, where at most half of the tasks have that
    conflict                boolean,      -- one key, two contents
    open_us                 bigint,       -- not ended: since its last step, to the last event of any task
    usual_us                bigint,       -- the P99 of that in the same state (waiting, or since it began), of five or more
    inconsistent            boolean       -- any of executions, late_result, no_result, torn, early_end, two_results, conflict
);

-- The same call seen from two vantages: each row of an inner vantage is used once, an outer row has at most one
-- partner per inner vantage. Ids first (the answer's, then the request's), then the trace with the nearest start.
create table vantages as
select * from (values ('client', 1), ('probe', 2), ('bench', 3), ('gateway', 4), ('proxy', 5), ('cloud', 6), ('engine', 7))
    as known (vantage, depth);

create table pairs (attempt_id bigint, partner_id bigint, vantage varchar, partner_vantage varchar, joined_by varchar);

-- One row per stretch of a vantage's log between two changes of one figure (ttft_ms, total_ms, failed), at least one for
-- each figure that is known. Filled by stats/segments.py, which says when a change is one.
create table segments (
    vantage                 varchar,
    name                    varchar,      -- what changes: ttft_ms | total_ms | failed
    segment                 integer,      -- from 1, in order of time
    from_at                 timestamptz,  -- its first start
    to_at                   timestamptz,  -- its last start
    first_id                bigint,       -- attempts of the vantage from this number
    last_id                 bigint,       -- to this one; attempt_id is a rank by start
    sampled                 bigint,       -- attempts that were looked at: of a large log not all
    p50_ms                  double,       -- null where there are too few, or for failed
    p95_ms                  double,
    failed_share            double,       -- for failed
    abrupt                  boolean       -- it began at one moment, not little by little; null for the first
);

-- The longest times without any start at one vantage, from ten times the usual one and a second on. Filled by
-- stats/silences.py.
create table silences (
    vantage                 varchar,
    from_at                 timestamptz,  -- the last start before
    to_at                   timestamptz,  -- the first one after
    gap_ms                  double,
    usual_ms                double,       -- P95 of the time between two neighbouring starts
    starts_before           bigint,
    starts_after            bigint,
    beside                  bigint        -- attempts of other vantages that began meanwhile
);

-- One row per value of a column that holds three slow or failed attempts of a vantage, and per pair of values that is worse
-- than both alone. Filled by stats/slices.py and stats/crossed.py.
create table slices (
    vantage                 varchar,
    kind                    varchar,      -- slow | failed
    dimension               varchar,      -- instance | upstream_instance | app_version | model | region | tenant
    value                   varchar,      -- as it is shown; of a pair "x, region=y"
    own_value               varchar,      -- of `dimension`
    second                  varchar,      -- the other column of a pair, else null
    second_value            varchar,
    rows_in                 bigint,       -- attempts that were judged, with this value
    bad_in                  bigint,
    rows_out                bigint,       -- and without it
    bad_out                 bigint,
    lift                    double,       -- share of bad ones inside over that outside
    lower_bound             double,       -- of the log odds ratio, 95 %
    calm_lift               double,       -- lift where little ran, null where that is too little to tell
    p_value                 double,
    significant             boolean,      -- Benjamini-Hochberg over all that were tried, and 1.5 times as likely
    explained_share         double        -- of all time lost (of failed: of all failures), what would go if it were like the others
);

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
select attempt_id, cast(lump as integer) as lump, min(at_ms) as at_ms, max(at_ms) as until_ms, count(*) as chunks, sum(bytes) as bytes,
       max(case when gap_ms >= greatest(1.0, mean_gap_ms / 20) then gap_ms end) as gap_ms
from   numbered
group  by attempt_id, lump;
