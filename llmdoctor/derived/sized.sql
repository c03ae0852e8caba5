-- Each attempt: how big it was, what was running beside it and what it took.
create temp view sized_rows as
select a.attempt_id,
       hash(a.vantage, a.model)                                        as whose,
       hash(hash(a.vantage, a.model), coalesce(a.stream, a.ttft_ms is not null)) as kind,
       case when a.input_tokens  is null then -1 else cast(floor(log2(1 + greatest(a.input_tokens, 0))) as integer)  end as input_band,
       case when a.output_tokens is null then -1 else cast(floor(log2(1 + greatest(a.output_tokens, 0))) as integer) end as output_band,
       greatest(a.input_tokens, 0) as input_tokens, greatest(a.output_tokens, 0) as output_tokens, a.ttft_ms, a.total_ms,
       a.outcome = 'completed' and coalesce(a.cache_hit, false) = false as answered,
       a.others, a.idle_ms, a.load
from   attempts_expected a;
