-- Fills `asked_again`.
insert into asked_again
with named as (
    select vantage, coalesce(prompt_hash, idempotency_key) as request from attempts where coalesce(prompt_hash, idempotency_key) is not null
)
select vantage, request from named group by vantage, request having count(*) > 1
