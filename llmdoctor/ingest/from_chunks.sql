-- What an attempt does not say itself, told by the timed pieces of its stream. Pieces of a kind that carries generated
-- content count; a piece without a kind is taken as such.
create or replace temp table told as
with pieces as (
    select attempt_id, seq, at_ms, coalesce(kind, 'text') as kind from chunks
),
content as (
    select attempt_id, at_ms,
           at_ms - lag(at_ms) over (partition by attempt_id order by at_ms, seq) as gap_ms
    from   pieces
    where  kind in ('reasoning', 'text', 'tool')
),
of_content as (
    select attempt_id, count(*) as pieces, min(at_ms) as first_ms, max(gap_ms) as max_gap_ms
    from   content
    group  by attempt_id
),
of_all as (
    select attempt_id, bool_or(kind = 'terminal') as ended,
           min(at_ms) filter (where kind in ('text', 'tool')) as first_output_ms
    from   pieces
    group  by attempt_id
)
select of_all.attempt_id, pieces, first_ms, max_gap_ms, ended, first_output_ms
from   of_all left join of_content on of_content.attempt_id = of_all.attempt_id;

update attempts
set    chunks        = coalesce(attempts.chunks, told.pieces),
       ttft_ms       = case when attempts.stream is distinct from false
                            then coalesce(attempts.ttft_ms, told.first_ms) end,
       ttfo_ms       = case when attempts.stream is distinct from false
                            then coalesce(attempts.ttfo_ms, told.first_output_ms) end,
       max_gap_ms    = coalesce(attempts.max_gap_ms, told.max_gap_ms),
       terminal_seen = coalesce(attempts.terminal_seen, case when told.ended then true end)
from   told
where  told.attempt_id = attempts.attempt_id;

drop table told;
