-- One round over `sides`: of each request the tries that are nearest to each other. Rounds go on until one side of every
-- request is used up; each joins at least one pair of every request that has both left. Neighbours are found by windows:
-- a join of all tries with all would grow with their product.
create or replace temp table nearest as
with beside as (
    select key, inside, attempt_id, at_us,
           last_value(case when not inside then at_us end ignore nulls) over before       as outer_before,
           last_value(case when not inside then attempt_id end ignore nulls) over before  as outer_before_id,
           first_value(case when not inside then at_us end ignore nulls) over after       as outer_after,
           first_value(case when not inside then attempt_id end ignore nulls) over after  as outer_after_id,
           last_value(case when inside then at_us end ignore nulls) over before           as inner_before,
           last_value(case when inside then attempt_id end ignore nulls) over before      as inner_before_id,
           first_value(case when inside then at_us end ignore nulls) over after           as inner_after,
           first_value(case when inside then attempt_id end ignore nulls) over after      as inner_after_id
    from   sides
    window before as (partition by key order by at_us, inside, attempt_id rows between unbounded preceding and 1 preceding),
           after  as (partition by key order by at_us, inside, attempt_id rows between 1 following and unbounded following)
), choice as (      -- equally near: a call begins before what it leads to
    select inside, attempt_id,
           case when inside and coalesce(at_us - outer_before <= outer_after - at_us, outer_after is null) then outer_before_id
                when inside then outer_after_id
                when coalesce(inner_after - at_us <= at_us - inner_before, inner_before is null) then inner_after_id
                else inner_before_id end as partner_id
    from   beside
)
select o.attempt_id, o.partner_id
from   choice o
join   choice i on o.partner_id = i.attempt_id and i.partner_id = o.attempt_id
where  not o.inside and i.inside;

insert into pairs select attempt_id, partner_id, {outer}, {inner}, {joined_by} from nearest;
delete from sides where attempt_id in (select attempt_id from nearest union all select partner_id from nearest);
