-- What there is to learn from: the rows of `sized_rows`, all vantages, that were answered, with what was running beside each
-- (stats/expected.py). Medians need no more than some 200,000 of the n rows: every k-th by start.
create temp table fit_rows as
select s.attempt_id, s.whose, s.kind, s.input_band, s.output_band,
       s.input_tokens, s.output_tokens, s.ttft_ms, s.total_ms, s.load, s.others,
       cast((s.attempt_id - 1) * 10 // greatest({n}, 1) as integer) as stretch   -- attempt_id is a rank
from   sized_rows s
where  s.answered and s.total_ms is not null and s.attempt_id % {every} = 0;
