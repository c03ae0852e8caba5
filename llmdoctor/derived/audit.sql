-- Fills `task_audit`: what the events of each task say, and contradict each other in.
insert into task_audit by name
with task_steps as (   -- the words of different systems brought to few; `again`: given back to be tried once more
    select e.task_id as task, e."at" as happened_at, e.state, unix_micros(e."at") as at_us, e.worker, e.result_id,
           case when coalesce(e.heartbeat, false) or lower(e.state) in ('heartbeat', 'alive', 'progress') then 'alive'
                when lower(e.state) in ('queued', 'pending', 'received', 'waiting', 'scheduled', 'created', 'submitted', 'accepted',
                                        'enqueued', 'delayed', 'ready', 'new', 'validating') then 'waiting'
                when lower(e.state) in ('running', 'started', 'start', 'in_progress', 'processing', 'active', 'executing', 'working')
                     then 'running'
                when lower(e.state) in ('finalizing', 'finalising', 'saving', 'storing', 'delivering', 'uploading') then 'finalizing'
                when lower(e.state) in ('retry', 'retrying', 'requeued', 'rescheduled', 'stalled', 'released', 'rejected') then 'again'
                when lower(e.state) in ('succeeded', 'success', 'completed', 'complete', 'done', 'finished', 'ok') then 'succeeded'
                when lower(e.state) in ('failed', 'failure', 'error', 'errored', 'timeout', 'timed_out', 'dead') then 'failed'
                when lower(e.state) in ('cancelled', 'canceled', 'revoked', 'aborted', 'expired') then 'cancelled'
                when lower(e.state) in ('cancelling', 'canceling', 'cancel_requested') then 'cancelling'
                else 'other' end as step
    from   task_events e
    where  e.task_id is not null and e."at" is not null
), holes as (      -- most who run are named, yet more than one in twenty is not: then a result that is not named says nothing
    select coalesce(count_if(worker is null) > 0.05 * count(*) and 2 * count(worker) > count(*), false) as patchy
    from   task_steps
    where  step = 'running'
), spaced as (
    select task, happened_at, at_us, state, worker, result_id, step,
           lag(step) over of_task as last_step, lag(worker) over of_task as last_worker, lag(at_us) over of_task as last_us
    from   task_steps
    where  step in ('waiting', 'running', 'again', 'succeeded', 'failed', 'cancelled')
    window of_task as (partition by task order by at_us, happened_at, state, worker)
), begun as (
    select task,
           count_if(step = 'running' and ((last_step = 'running' and worker <> last_worker) or (last_step = 'succeeded' and at_us > last_us + 1000000))) as executions,
           count_if(step = 'running' and last_step = 'running' and worker <> last_worker) as overlapping,
           min(case when step = 'running' and ((last_step = 'running' and worker <> last_worker) or (last_step = 'succeeded' and at_us > last_us + 1000000))
                    then at_us end) as again_us
    from   spaced
    group  by task
), latest as (
    select task, step, worker, at_us, row_number() over (partition by task order by at_us desc, happened_at desc,
                                                         state, worker) as place
    from   task_steps
    where  step <> 'alive'
), summed as (
    select task, min(happened_at) as first_at, max(happened_at) as last_at, min(at_us) as first_us, max(at_us) as alive_us,
           max(case when step <> 'alive' then at_us end)                              as last_us,
           count_if(step = 'alive')                                                   as heartbeats,
           max(case when step = 'alive' then at_us end)                               as heartbeat_us,
           min(case when step in ('waiting', 'running') then at_us end)               as begin_us,
           min(case when step = 'running' then at_us end)                             as run_us,
           min(case when step in ('succeeded', 'failed', 'cancelled') then at_us end) as end_us,
           min(case when step = 'succeeded' then at_us end)                           as success_us,
           min(case when step = 'succeeded' then worker end)                          as success_worker,
           min(case when result_id is not null then at_us end)                        as result_us,
           min(case when result_id is not null then worker end)                       as result_worker,
           count(distinct result_id)                                                  as results,
           count_if(step = 'cancelled')                                               as cancels
    from   task_steps
    group  by task
), judged as (
    select s.task, s.first_at, s.last_at, s.first_us, s.alive_us, s.last_us, s.heartbeats, s.heartbeat_us, s.begin_us, s.run_us,
           s.end_us, s.success_us, s.result_us, s.results, s.success_worker, s.result_worker,
           l.step, l.worker, l.at_us as step_us, coalesce(b.executions, 0) as executions, coalesce(b.overlapping, 0) as overlapping,
           b.again_us,
           coalesce(s.success_us < s.result_us - case when s.success_worker = s.result_worker then 0 else 1000000 end, false) as late_result,
           s.success_us is not null and s.results = 0 and not h.patchy
               and count_if(s.success_us is not null and s.results > 0) over () >= 0.8 * count_if(s.success_us is not null) over () as no_result,
           s.cancels > 0 and s.success_us is not null                  as torn,
           coalesce(s.end_us < s.begin_us - 1000000, false)            as early_end,
           s.results > 1 and count_if(s.results > 1) over () <= 0.5 * count(*) over () as two_results,
           false                                                       as conflict
    from   summed s
    join   latest l on l.task = s.task and l.place = 1
    left   join begun b on b.task = s.task
    cross  join holes h
), usual as (
    select count_if(run_us is not null) as waits, count_if(end_us is not null) as ends, max(alive_us) as log_us,
           percentile_disc(0.99) within group (order by run_us - first_us)                    as waited_us,
           percentile_disc(0.99) within group (order by end_us - coalesce(run_us, first_us)) as ran_us
    from   judged
), keyed as (
    select idempotency_key as task, vantage, min(started_at) as first_at, max(started_at) as last_at,
           min(prompt_hash) <> max(prompt_hash) as conflict
    from   attempts
    where  idempotency_key is not null and prompt_hash is not null
    group  by idempotency_key, vantage
), every as (
    select 1 as kind, j.task, '' as vantage, j.first_at, j.last_at, j.last_us, j.heartbeats, j.heartbeat_us,
           j.run_us, j.end_us, j.success_us, j.result_us, j.results, j.success_worker, j.result_worker, j.step,
           j.worker, j.step_us, j.executions, j.overlapping, j.again_us, j.late_result, j.no_result, j.torn, j.early_end,
           j.two_results, j.conflict,
           case when j.end_us is null then u.log_us - j.step_us end as open_us,
           case when j.step = 'waiting' and u.waits >= 5 then u.waited_us when j.step <> 'waiting' and u.ends >= 5 then u.ran_us end as usual_us
    from   judged j
    cross  join usual u
    union all by name
    select 2 as kind, task, vantage, first_at, last_at, 0 as heartbeats, 0 as results, 0 as executions, 0 as overlapping,
           false as late_result, false as no_result, false as torn, false as early_end, false as two_results, conflict
    from   keyed
)
select -row_number() over (order by kind, task, vantage) as task_key, kind = 2 as by_key, task, first_at, last_at, last_us, heartbeats,
       heartbeat_us, run_us, end_us, success_us, result_us, results, success_worker, result_worker, step, worker, step_us, executions,
       overlapping, again_us, late_result, no_result, torn, early_end, two_results, conflict, open_us, usual_us,
       executions > 0 or late_result or no_result or torn or early_end or two_results or conflict as inconsistent
from   every;
