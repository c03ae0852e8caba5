-- One pass of joining vantages: run once per kind of key ($kind), most certain first. A row that already has a partner
-- at that vantage, or that is somebody's partner there, takes no part again.
insert into pairs
with keyed_outer as (
    select a.attempt_id, a.vantage, v.depth, a.started_at, a.attempt,
           case $kind when 'response' then a.response_id
                      when 'request'  then a.request_id
                      when 'trace'    then coalesce(a.trace_id, a.task_id) end as key
    from   attempts a
    join   vantages v using (vantage)
), keyed_inner as (
    select a.attempt_id, a.vantage, v.depth, a.started_at, a.attempt,
           case $kind when 'response' then a.response_id
                      when 'request'  then coalesce(a.incoming_id, a.request_id)
                      when 'trace'    then coalesce(a.trace_id, a.incoming_id) end as key
    from   attempts a
    join   vantages v using (vantage)
), candidates as (
    select o.attempt_id, i.attempt_id as partner_id, o.vantage, i.vantage as partner_vantage,
           abs(epoch_us(i.started_at) - epoch_us(o.started_at))
               + case when o.attempt <> i.attempt then 1e12 else 0 end as apart
    from   keyed_outer o
    join   keyed_inner i on o.key = i.key and o.depth < i.depth
    where  not exists (select 1 from pairs p where p.partner_id = i.attempt_id and p.vantage = o.vantage)
    and    not exists (select 1 from pairs p where p.attempt_id = o.attempt_id and p.partner_vantage = i.vantage)
), nearest as (
    select *, row_number() over (partition by partner_id, vantage order by apart, attempt_id) as choice
    from   candidates
), one as (
    select *, row_number() over (partition by attempt_id, partner_vantage order by apart, partner_id) as turn
    from   nearest
    where  choice = 1
)
select attempt_id, partner_id, vantage, partner_vantage, case $kind when 'trace' then 'trace' else 'id' end
from   one
where  turn = 1;
