-- One pass of joining two vantages by one kind of id; pairs.py fills in the names. Rows that are joined already take no
-- part. `keyed` holds each id that stands on both sides; one that stands on more rows than {most} of either side is a
-- constant or a session, and no request.
create or replace temp table keyed as
with outer_ids as (
    select {outer_id} as key, count(*) as n, min(attempt_id) as attempt_id
    from   attempts
    where  vantage = {outer} and {outer_id} <> ''
    and    attempt_id not in (select attempt_id from pairs where vantage = {outer} and partner_vantage = {inner})
    group  by key
), inner_ids as (
    select {inner_id} as key, count(*) as n, min(attempt_id) as attempt_id
    from   attempts
    where  vantage = {inner} and {inner_id} <> ''
    and    attempt_id not in (select partner_id from pairs where vantage = {outer} and partner_vantage = {inner})
    group  by key
)
select o.key, o.n as outer_rows, i.n as inner_rows, o.attempt_id, i.attempt_id as partner_id
from   outer_ids o
join   inner_ids i on o.key = i.key
where  o.n <= {most} and i.n <= {most};

insert into pairs
select attempt_id, partner_id, {outer}, {inner}, {joined_by}
from   keyed
where  outer_rows = 1 and inner_rows = 1;
