-- Fills `tried`. Without a task id, the same prompt of the same caller within a minute of a try that failed counts as
-- the same task.
insert into tried
with keyed as (
    select attempt_id, vantage, started_at, ended_at, total_ms, outcome, attempt, http_status, retry_after_ms, prompt_hash,
           coalesce(task_id, trace_id, prompt_hash || ' ' || coalesce(caller, '')) as task,
           task_id is null and trace_id is null as inferred
    from   attempts
    where  coalesce(task_id, trace_id, prompt_hash) is not null
), again as (
    select vantage, task from keyed group by vantage, task having count(*) > 1
), ordered as (
    select k.*,
           lag(outcome)        over of_task as previous_outcome,
           lag(retry_after_ms) over of_task as previous_retry_after_ms,
           lag(total_ms)       over of_task as previous_total_ms,
           lag(prompt_hash)    over of_task as previous_prompt_hash,
           lag(attempt)        over of_task as previous_attempt,
           (epoch_us(started_at) - epoch_us(lag(ended_at) over of_task)) / 1e3 as gap_ms
    from   keyed k
    semi   join again using (vantage, task)
    window of_task as (partition by vantage, task order by started_at, attempt_id)
)
select attempt_id, vantage, task, inferred, started_at, ended_at, total_ms, outcome, attempt, http_status, prompt_hash,
       previous_outcome, previous_retry_after_ms, previous_total_ms, gap_ms,
       case when previous_outcome is null then false
            when inferred then previous_outcome <> 'completed' and gap_ms between -1000 and 60000
            when attempt is not null then attempt > 1
            else previous_outcome not in ('completed', 'unknown')
                 and coalesce(prompt_hash = previous_prompt_hash, true) end as retry
from   ordered;
