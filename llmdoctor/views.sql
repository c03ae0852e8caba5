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
select f.attempt_id, f.vantage, f.started_at, f.model, f.hop, f.ttft_ms, f.total_ms, f.output_tokens, f.reasoning_tokens,
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

-- One row per front attempt of a second or more that failed, broke off or, in a proxy's log, was ended by its timer: what
-- somebody else's limit may have cut. Errors that are the caller's own and callers that left are none. `told`: it was
-- answered with a gateway's status for it. A caller's own timeout has none.
create view cuts as
with last_pieces as (
    select attempt_id, max(at_ms) as at_ms from chunks group by attempt_id
)
select f.attempt_id, f.vantage, f.total_ms, f.total_ms - l.at_ms as silence_ms,
       coalesce(f.http_status in (504, 524) or (f.http_status = 408 and f.vantage <> 'gateway'), false) as told
from   front f
left   join last_pieces l on l.attempt_id = f.attempt_id
where  f.total_ms >= 1000 and f.client_gone_at is null
and    ((f.outcome in ('failed', 'incomplete')
         and coalesce(f.error_type, '') not in ('rate_limit', 'quota', 'cancelled', 'context_length', 'content_filter', 'auth',
                                                'invalid_request'))
        or (f.outcome = 'timeout'
            and coalesce(f.vantage = 'proxy' or f.http_status in (504, 524) or (f.http_status = 408 and f.vantage <> 'gateway'), false)));

-- The one duration on which most cuts end, within about 1 %, and the cuts that do: since the call was sent, or, where that
-- says more, since its last piece.
create view cut_walls as
with timed as (
    select attempt_id, 1 as since, total_ms as wall_ms, cast(floor(100 * ln(total_ms)) as integer) as bin from cuts
    union all
    select attempt_id, 2, silence_ms, cast(floor(100 * ln(silence_ms)) as integer) from cuts where silence_ms >= 1000
), heights as (
    select since, bin, count(*) as n from timed group by since, bin
), paired as (
    select h.since, h.bin, h.n + coalesce(above.n, 0) as n
    from   heights h
    left   join heights above on above.since = h.since and above.bin = h.bin + 1
), tallest as (
    select since, bin, n, row_number() over (order by n desc nulls last, since nulls last, bin nulls last) as place from paired
)
select t.attempt_id, t.since, t.wall_ms, b.n as on_wall, exp((b.bin + 2) / 100e0) as wall_end_ms
from   timed t
join   tallest b on b.place = 1 and b.since = t.since and t.bin in (b.bin, b.bin + 1);

-- One row per streamed front attempt of at least 32 pieces that was waited for: does its content come at once?
-- Tokens of hidden reasoning are no pieces; a chunk stands for four tokens at most where chunks were counted. Lumps are
-- seen where pieces were timed; else where the longest gap is 30 mean gaps or more in 3 of 10 streams, and alike in them.
-- Streams of a probe are not among them: `probes` holds each place against the next.
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
    where  coalesce(s.cache_hit, false) = false and s.hop is null
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

-- One row per place of a probe, numbered from the application outwards: a probe's first round goes over them in order.
create view hops as
select hop, row_number() over (order by first_id nulls last, hop nulls last) as place, count(*) over () as places
from   (select hop, min(attempt_id) as first_id from attempts where vantage = 'probe' and hop is not null group by hop) known;

-- One row per call of a probe that asked for a stream. `shape` says how its content came: even, lumps, whole (in one
-- burst at its end), late (even, but only once the whole answer was there), replay (at once, before the model could
-- have), none (no stream at all); null where there are fewer than 16 pieces to judge by. A hop is held against the one
-- inside it: what is so on both does not begin here. full_* are of the lumps between the first and the last one.
create view probes as
with numbered as (
    select attempt_id, lump, at_ms, chunks, bytes, gap_ms as step_ms, max(lump) over (partition by attempt_id) as last_lump
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
           sum(case when lump > 1 and lump < last_lump then cast(step_ms as decimal(18, 3)) end) as full_ms
    from   numbered
    group  by attempt_id
), told as (
    select attempt_id, max(case when name = 'age' then value end)               as age,
           max(case when name = 'content_type' then value end)                 as content_type,
           max(case when name = 'content_length' then value end)               as content_length,
           max(case when name = 'content_encoding' then value end)             as content_encoding,
           max(case when name = 'x_accel_buffering' then value end)            as x_accel_buffering,
           max(case when name = 'http_version' then value end)                 as http_version,
           max(case when name = 'cert_issuer' then value end)                  as cert_issuer,
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
           l.full_lumps, l.full_bytes, l.full_chunks, l.full_ms,
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
    where  a.vantage = 'probe' and a.stream and a.outcome in ('completed', 'incomplete', 'unknown')
), typical as (
    select hop, place, variant, max(hop) as same_hop,
           percentile_disc(0.5) within group (order by ttft_ms)   as ttft_ms,
           percentile_disc(0.5) within group (order by tokens)    as tokens,
           percentile_disc(0.5) within group (order by spread_ms) as spread_ms,
           percentile_disc(0.5) within group (order by gap_ms)    as gap_ms,
           percentile_disc(0.5) within group (order by chunks / nullif(lumps, 0)) as lump_chunks
    from   asked
    group  by hop, place, variant
), inside as (
    select hop, variant, lag(hop) over outwards as inner_hop, lag(ttft_ms) over outwards as inner_ttft_ms,
           lag(spread_ms) over outwards as inner_spread_ms, lag(gap_ms) over outwards as inner_gap_ms,
           lag(lump_chunks) over outwards as inner_lump_chunks
    from   typical
    window outwards as (partition by variant order by place nulls last, hop nulls last)
), lengths as (
    select hop, max(case when variant = 'short' then ttft_ms end) as short_ttft_ms,
           max(case when variant = 'short' then tokens end)       as short_tokens,
           max(case when variant = 'long' then ttft_ms end)       as long_ttft_ms
    from   typical
    group  by hop
), computed as (
    select max(total_ms) as whole_ms from attempts where vantage = 'probe' and variant = 'whole' and outcome = 'completed'
), judged as (
    select a.*, i.inner_hop, i.inner_ttft_ms, i.inner_spread_ms, i.inner_gap_ms, n.short_ttft_ms, n.long_ttft_ms, c.whole_ms,
           coalesce(a.words > 0 and a.ttft_ms >= 0.9 * a.total_ms and a.total_ms >= 300
                    and (a.spread_ms < 1.0 * (a.chunks - 1) or (a.chunks < 16 and a.tokens >= 32)), false)
               or coalesce(a.ttft_ms >= 0.8 * a.total_ms and i.inner_spread_ms >= 150 and a.spread_ms <= 0.25 * i.inner_spread_ms
                           and a.ttft_ms >= i.inner_ttft_ms + 0.5 * i.inner_spread_ms, false) as whole,
           coalesce(a.lumps >= 2 and a.chunks >= 8 * a.lumps and a.gap_ms >= 50, false)
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
       inner_spread_ms, inner_gap_ms, short_ttft_ms, long_ttft_ms, whole_ms,
       case when document and coalesce(http_status, 200) < 300 then 'none'
            when (chunks >= 16 and lumps is not null) or (whole and tokens >= 32 and tokens >= 8 * chunks) then
                case when replay then 'replay' when whole then 'whole' when lumpy then 'lumps' when late then 'late' else 'even' end
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
    select *, case when n = 0 then null when 2 * held <= n then 'even' when none >= greatest(replays, wholes, lumpy, late) then 'none'
                   when replays >= greatest(wholes, lumpy, late) then 'replay' when wholes >= greatest(lumpy, late) then 'whole'
                   when lumpy >= late then 'lumps' else 'late' end as shape
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
-- the usual size of a buffer (4 to 64 KB) that lumps of this size fill, within 2.5 %; `steady`: no such size, but a usual
-- period of a timer (within 3 %; those of 40 and 200 ms begin with the next piece, so a gap of the stream is added).
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
), fitted as (
    select s.hop as hop, s.place as place, s.inner_hop as inner_hop, s.inner_gap_ms as inner_gap_ms, s.streams as streams,
           s.lumpy as lumpy, s.gap_ms as gap_ms, s.lump_bytes as lump_bytes, s.lump_chunks as lump_chunks,
           s.lump_ms as lump_ms, min(b.size_bytes) as buffer_bytes
    from   summed s
    left   join (select 4096 as size_bytes union all select 8192 union all select 16384 union all select 32768
                 union all select 65536) b
           on s.lump_bytes between 0.975 * b.size_bytes and 1.025 * b.size_bytes and s.lump_chunks >= 2
    group  by s.hop, s.place, s.inner_hop, s.inner_gap_ms, s.streams, s.lumpy, s.gap_ms, s.lump_bytes, s.lump_chunks, s.lump_ms
), ticking as (
    select s.hop, max(p.period_ms) as period_ms
    from   summed s
    join   (select 40 as period_ms union all select 50 union all select 100 union all select 200 union all select 250
            union all select 400 union all select 500 union all select 1000 union all select 2000) p
           on coalesce(s.lump_ms, s.gap_ms) between 0.97 * p.period_ms
              and 1.03 * p.period_ms + case when p.period_ms in (40, 200) then least(coalesce(s.inner_gap_ms, 0), 100) else 0 end
    group  by s.hop
)
select f.*, f.lump_bytes / nullif(f.lump_ms, 0) as kb_per_s,
       f.buffer_bytes is null and t.period_ms is not null as steady
from   fitted f
left   join ticking t on t.hop = f.hop;

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
