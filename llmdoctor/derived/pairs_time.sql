-- Two vantages that share no id. `spans` holds what can be compared; edges are widened by the resolution of the record
-- and by {tolerance_us} us, half on each side. Weak evidence: see pairs.py.
create or replace temp table spans as
select attempt_id, vantage = {inner} as inside, epoch_us(started_at) as start_us, epoch_us(ended_at) as end_us,
       cast(1000 * coalesce(time_resolution_ms, 1) as bigint) + {tolerance_us} // 2 as slack_us,
       lower(split_part(model, '/', -1)) as model, stream, input_tokens, output_tokens
from   attempts
where  vantage in ({outer}, {inner}) and started_at is not null and ended_at >= started_at
and    time_basis is distinct from 'relative';
