-- What an answer of each kind takes by its tokens: total = base + per_in * prompt + per_out * answer, first token =
-- first_base + first_per_in * prompt. `fit_rows` are the attempts to learn from.
-- Slopes are Theil-Sen's over the medians of bands (doublings of the tokens): the median of the slopes of all pairs, each
-- weighted by the tokens that lie between the two and by the rows behind them. That of the answer compares only bands of
-- equal prompts. Then each base is the median of what the slopes leave. A few slow ones or one bad band move nothing.
create or replace temp table fitted as
with cells as (
    select kind, input_band, output_band, count(*) as n,
           percentile_disc(0.5) within group (order by output_tokens) as output_tokens,
           percentile_disc(0.5) within group (order by total_ms)      as total_ms
    from   fit_rows
    group  by kind, input_band, output_band
), out_slopes as (
    select a.kind, (b.total_ms - a.total_ms) / (b.output_tokens - a.output_tokens)                        as slope,
           cast((b.output_tokens - a.output_tokens) * a.n * b.n / (a.n + b.n) as decimal(18, 3))          as weight
    from   cells a
    join   cells b on a.kind = b.kind and a.input_band = b.input_band and a.output_band >= 0 and a.output_band < b.output_band
), out_ranked as (
    select kind, slope, 2 * sum(weight) over (partition by kind order by slope) >= sum(weight) over (partition by kind) as above
    from   out_slopes
), answers as (
    select kind, greatest(0, min(slope)) as per_out from out_ranked where above group by kind
), rested as (
    select r.*, coalesce(a.per_out, 0) as per_out, r.total_ms - coalesce(a.per_out, 0) * r.output_tokens as rest_ms
    from   fit_rows r
    left   join answers a on r.kind = a.kind
), bands as (
    select kind, input_band, count(*) as n,
           percentile_disc(0.5) within group (order by input_tokens) as input_tokens,
           percentile_disc(0.5) within group (order by rest_ms)      as rest_ms,
           percentile_disc(0.5) within group (order by ttft_ms)      as ttft_ms
    from   rested
    group  by kind, input_band
), in_slopes as (
    select a.kind, (b.rest_ms - a.rest_ms) / (b.input_tokens - a.input_tokens)                            as slope,
           (b.ttft_ms - a.ttft_ms) / (b.input_tokens - a.input_tokens)                                    as first_slope,
           cast((b.input_tokens - a.input_tokens) * a.n * b.n / (a.n + b.n) as decimal(18, 3))            as weight
    from   bands a
    join   bands b on a.kind = b.kind and a.input_band >= 0 and a.input_band < b.input_band
), in_ranked as (
    select kind, slope, first_slope,
           2 * sum(weight) over (partition by kind order by slope) >= sum(weight) over (partition by kind) as above,
           2 * sum(weight) over (partition by kind order by first_slope nulls last)
               >= sum(case when first_slope is not null then weight end) over (partition by kind)          as first_above
    from   in_slopes
), prompts as (
    select kind, greatest(0, min(case when above then slope end)) as per_in,
           greatest(0, min(case when first_above then first_slope end)) as first_per_in
    from   in_ranked
    group  by kind
), sloped as (
    select r.*, coalesce(p.per_in, 0) as per_in, coalesce(p.first_per_in, 0) as first_per_in
    from   rested r
    left   join prompts p on r.kind = p.kind
)
select kind, any_value(per_out) as per_out, any_value(per_in) as per_in, any_value(first_per_in) as first_per_in,
       percentile_disc(0.5) within group (order by rest_ms - per_in * input_tokens)       as base,
       percentile_disc(0.5) within group (order by ttft_ms - first_per_in * input_tokens) as first_base,
       percentile_disc(0.05) within group (order by total_ms) as least_ms,       -- no line goes below these
       percentile_disc(0.05) within group (order by ttft_ms)  as first_least_ms,
       percentile_disc(0.5) within group (order by total_ms)  as total_ms,
       percentile_disc(0.5) within group (order by ttft_ms)   as ttft_ms
from   sloped
group  by kind;
