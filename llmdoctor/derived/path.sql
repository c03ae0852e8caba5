-- Fills `path`: the critical path of each task, or lone call, that has timed stages. At every instant one span holds it up:
-- of those that run then, never one that contains another (a chain, the call around its own queue), and of parallel ones
-- the one that ends last, for what comes next waits for that. So parallel stages and parents are never added twice.
-- Of a unit with more than 100 spans the longest 100 count.
insert into path
with named as (
    select coalesce(s.task_id, a.task_id, a.trace_id, '#' || s.attempt_id) as unit, s.attempt_id is not null as within, s.name, s.parent,
           case when regexp_matches(lower(s.name), '^(queue|queued|wait|waiting)$') then 'queue'
                when regexp_matches(lower(s.name), 'retriev|rerank|embed|vector|search') then 'retrieval'
                when regexp_matches(lower(s.name), 'tool') then 'tool'
                when regexp_matches(lower(s.name), '^deliver|^finali[sz]|^upload|^post.?process') then 'delivery'
                when regexp_matches(lower(s.name), '^prepar') then 'prepare'
                when regexp_matches(lower(s.name), '^(generat|llm|chat|completion|inference|prefill|decode)') then 'generate'
                else s.name end                                        as part,
           epoch_us(s.started_at)                                      as start_us,
           epoch_us(s.started_at) + cast(s.duration_ms * 1000 as bigint) as end_us
    from   stages s
    left   join attempts a on a.attempt_id = s.attempt_id
    where  s.started_at is not null and s.duration_ms > 0 and s.name is not null
), units as (
    select distinct unit from named where unit is not null
), calls as (
    select unit, attempt_id, vantage, started_at, epoch_us(started_at) as start_us, epoch_us(ended_at) as end_us
    from   (select u.unit, a.attempt_id, a.vantage, a.started_at, a.ended_at from units u join attempts a on a.task_id = u.unit
            union
            select u.unit, a.attempt_id, a.vantage, a.started_at, a.ended_at from units u join attempts a on a.trace_id = u.unit
            union
            select u.unit, a.attempt_id, a.vantage, a.started_at, a.ended_at
            from   units u join attempts a on u.unit = '#' || a.attempt_id) found
    join   vantages v using (vantage)
    where  ended_at > started_at
    qualify v.depth = min(v.depth) over (partition by unit)
), around as (     -- spans around another: by the parent that it names, or around a call
    select n.unit, n.name, n.start_us, n.end_us
    from   named n
    join   named k on k.unit = n.unit and k.parent = n.name and k.start_us >= n.start_us and k.end_us <= n.end_us
                  and k.end_us - k.start_us < n.end_us - n.start_us
    union
    select n.unit, n.name, n.start_us, n.end_us
    from   named n
    join   calls c on c.unit = n.unit and c.start_us >= n.start_us and c.end_us <= n.end_us
    where  not n.within
), spans as (
    select n.unit, n.part, n.start_us, n.end_us, case when n.within then 3 when o.unit is not null then 1 else 2 end as depth
    from   named n
    left   join around o on o.unit = n.unit and o.name = n.name and o.start_us = n.start_us and o.end_us = n.end_us
    where  not n.within or n.part in ('queue', 'retrieval', 'tool', 'prepare', 'delivery')
    union  all
    select unit, 'generate', start_us, end_us, 2 from calls
), chosen as (
    select * from spans
    qualify row_number() over (partition by unit order by end_us - start_us desc, start_us, part, depth) <= 100
), edges as (
    select unit, at_us, lead(at_us) over (partition by unit order by at_us) as until_us
    from   (select unit, start_us as at_us from chosen union select unit, end_us from chosen) both_ends
), held as (
    select e.unit, e.until_us - e.at_us as us,
           case when c.depth >= 2 or c.part in ('queue', 'retrieval', 'tool', 'prepare', 'delivery', 'generate') then c.part
                else 'between' end                             as part
    from   edges e
    left   join chosen c on c.unit = e.unit and c.start_us <= e.at_us and c.end_us >= e.until_us
    where  e.until_us is not null
    qualify row_number() over (partition by e.unit, e.at_us
                               order by c.depth desc nulls last, case when c.depth = 1 then c.start_us else c.end_us end desc,
                                        c.start_us desc, c.part) = 1
), whole as (
    select unit, min(at_us) as start_us, max(at_us) - min(at_us) as us from edges group by unit
), last_call as (
    select unit, count(*) over (partition by unit) as calls, attempt_id, vantage,
           row_number() over (partition by unit order by start_us desc, attempt_id desc) as place
    from   calls
)
select h.unit, l.attempt_id, l.vantage, make_timestamptz(w.start_us) as started_at, h.part, sum(h.us) / 1e3 as ms,
       w.us / 1e3 as whole_ms, coalesce(l.calls, 0) as calls
from   held h
join   whole w on w.unit = h.unit
left   join last_call l on l.unit = h.unit and l.place = 1
group  by h.unit, l.attempt_id, l.vantage, w.start_us, h.part, w.us, l.calls;
