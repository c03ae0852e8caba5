-- The ids of `keyed` that several tries share: first whole requests at once. Both sides have as many tries, and either
-- number them alike, or the n-th of the one lies within the n-th of the other. The rest, for pairs_nearest.sql, stays in
-- `sides`; its inner starts are set right by what the inner clock (and the way to it) is behind in known pairs.
create or replace temp table sides as
with shift as (
    select coalesce(quantile_disc(epoch_us(i.started_at) - epoch_us(o.started_at), 0.5), 0) as us
    from   (select attempt_id, partner_id from pairs where vantage = {outer} and partner_vantage = {inner}
            order by attempt_id limit 1000) p
    join   attempts o on o.attempt_id = p.attempt_id
    join   attempts i on i.attempt_id = p.partner_id
), rows_of as (
    select k.key, false as inside, a.attempt_id, a.attempt, coalesce(epoch_us(a.started_at), 0) as at_us,
           epoch_us(a.ended_at) as end_us, k.outer_rows = k.inner_rows as as_many
    from   attempts a
    join   keyed k on k.key = a.{outer_id} and k.outer_rows + k.inner_rows > 2
    where  a.vantage = {outer}
    and    a.attempt_id not in (select attempt_id from pairs where vantage = {outer} and partner_vantage = {inner})
    union  all
    select k.key, true, a.attempt_id, a.attempt, coalesce(epoch_us(a.started_at), 0) - s.us,
           epoch_us(a.ended_at) - s.us, k.outer_rows = k.inner_rows
    from   attempts a
    join   keyed k on k.key = a.{inner_id} and k.outer_rows + k.inner_rows > 2
    cross  join shift s
    where  a.vantage = {inner}
    and    a.attempt_id not in (select partner_id from pairs where vantage = {outer} and partner_vantage = {inner})
)
select *, row_number() over (partition by key, inside order by at_us, attempt_id) as place,
       count(distinct attempt) over (partition by key, inside) as numbers,
       count(*) over (partition by key, inside) as n
from   rows_of;

create or replace temp table whole as
with numbered as (
    select o.attempt_id, i.attempt_id as partner_id, o.key, o.n
    from   sides o
    join   sides i on o.key = i.key and o.attempt = i.attempt
    where  not o.inside and i.inside and o.as_many and o.numbers = o.n and i.numbers = i.n
), in_turn as (
    select o.attempt_id, i.attempt_id as partner_id, o.key, o.n
    from   sides o
    join   sides i on o.key = i.key and o.place = i.place
    where  not o.inside and i.inside and o.as_many
    and    i.at_us + {tolerance_us} >= o.at_us and i.end_us <= o.end_us + {tolerance_us}
), by_number as (
    select * from numbered where key in (select key from numbered group by key having count(*) = max(n))
)
select attempt_id, partner_id from by_number
union  all
select attempt_id, partner_id from in_turn
where  key in (select key from in_turn group by key having count(*) = max(n))
and    key not in (select key from by_number);

insert into pairs select attempt_id, partner_id, {outer}, {inner}, {joined_by} from whole;
delete from sides where attempt_id in (select attempt_id from whole union all select partner_id from whole);
