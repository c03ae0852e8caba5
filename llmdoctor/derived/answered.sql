-- What there is to learn from: the rows of `sized_rows`, all vantages, that were answered, with what was running beside each
-- (stats/expected.py). Medians need no more than some 200,000 rows: every k-th by start.
create temp table fit_rows as
with counted as (select count(*) as n from attempts)
select s.attempt_id, s.whose, s.kind, s.input_band, s.output_band,
       s.input_tokens, s.output_tokens, s.ttft_ms, s.total_ms, s.load, s.others,
       cast((s.attempt_id - 1) * 10 // c.n as integer) as stretch   -- attempt_id is a rank
from   sized_rows s
cross  join counted c
where  s.answered and s.total_ms is not null and s.attempt_id % greatest(1, c.n // 200000) = 0;
