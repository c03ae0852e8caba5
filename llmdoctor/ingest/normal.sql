-- What all formats have in common, after a page has named the columns: times from each other, one vocabulary of errors
-- and outcomes. `given` has every column of attempts. Read by query.py; each `replace` may use what stands below it.
select * replace (
    case
        when outcome in ('completed', 'incomplete', 'empty', 'timeout', 'cancelled', 'rate_limited')      then outcome
        when http_status = 429 or error_type in ('rate_limit', 'quota')                     then 'rate_limited'
        when http_status = 408 or (error_type = 'timeout' and http_status is null)          then 'timeout'
        when http_status = 499 or error_type = 'cancelled'                                  then 'cancelled'
        when outcome = 'failed' or http_status >= 400 or error_type is not null             then 'failed'
        when outcome = 'unknown'                                                            then 'unknown'
        when terminal_seen = false and stream                                               then 'incomplete'
        when finish_reason is not null or terminal_seen or outcome = '+'                    then 'completed'
        else 'unknown'
    end as outcome
)
from (
    select * replace (
        -- A record of a failure often has an instant and no duration: that instant is then the best known start.
        coalesce(started_at, try(ended_at - to_microseconds(case when abs(total_ms) < 1e13 then cast(total_ms * 1000 as bigint) end)), ended_at)
            as started_at,
        coalesce(ended_at, try(started_at + to_microseconds(case when abs(total_ms) < 1e13 then cast(total_ms * 1000 as bigint) end)))
            as ended_at,
        coalesce(
            error_type,
            case
                when http_status is null or http_status < 400 then null
                when http_status = 429                        then 'rate_limit'
                when http_status in (401, 403)                then 'auth'
                when http_status in (408, 504)                then 'timeout'
                when http_status = 499                        then 'cancelled'
                when http_status in (503, 529)                then 'overloaded'
                when http_status = 502                        then 'upstream_error'
                when http_status >= 500                       then 'server_error'
                else 'invalid_request'
            end
        ) as error_type
    )
    from (
        select * replace (
            case when total_ms >= 0 and total_ms < 1e12 then total_ms
                 when total_ms is null and started_at <= ended_at
                 then (epoch_us(ended_at) - epoch_us(started_at)) / 1000.0
                 when total_ms is null and (vantage = 'engine' or ttft_ms is null)   -- to a caller who timed anything there is more
                 then queue_ms + prefill_ms + decode_ms
                 else total_ms
            end as total_ms,
            coalesce(
                time_basis,
                case when started_at is not null and ended_at is not null then 'both'
                     when started_at is not null                          then 'start'
                     when ended_at is not null                            then 'end'
                end
            ) as time_basis,
            -- Where queue, prefill and decode make up the whole call, the first token is there when prefill ends.
            case when stream is distinct from false
                 then coalesce(ttft_ms, case when abs(queue_ms + prefill_ms + decode_ms - coalesce(total_ms, queue_ms + prefill_ms + decode_ms))
                                                  <= 0.05 * (queue_ms + prefill_ms + decode_ms)
                                             then queue_ms + prefill_ms end)
            end as ttft_ms,
            case when stream is distinct from false then ttfo_ms end as ttfo_ms,
            case when http_status between 100 and 599 then http_status end as http_status,
            case
                when outcome is null
                  or outcome in ('completed', 'failed', 'timeout', 'rate_limited', 'cancelled', 'incomplete',
                                 'empty', 'unknown')                                              then outcome
                when lower(outcome) in ('ok', 'success', 'succeeded', 'successful', 'complete', 'done', 'finished',
                                        'completed', '200', 'true', '成功', '完成')               then '+'
                when regexp_matches(lower(outcome), 'time.?out|timed out|deadline|超时')          then 'timeout'
                when regexp_matches(lower(outcome), 'cancel|abort|取消|中断')                     then 'cancelled'
                when regexp_matches(lower(outcome), 'rate.?limit|429|限流')                       then 'rate_limited'
                when regexp_matches(lower(outcome), 'err|fail|exception|false|失败|错误|异常')    then 'failed'
                else 'unknown'
            end as outcome,
            case
                when error_type is null
                  or error_type in ('timeout', 'rate_limit', 'quota', 'overloaded', 'context_length',
                                    'content_filter', 'auth', 'invalid_request', 'connection_reset',
                                    'upstream_error', 'server_error', 'cancelled', 'other')       then error_type
                when regexp_matches(lower(error_type), 'quota|insufficient|billing|credit|余额|配额|欠费')
                                                                                                  then 'quota'
                when regexp_matches(lower(error_type), 'rate.?limit|too.?many.?req|\b429\b|throttl|限流|频率')
                                                                                                  then 'rate_limit'
                when regexp_matches(lower(error_type), 'time.?out|timed.?out|deadline|\b408\b|\b504\b|超时')
                                                                                                  then 'timeout'
                when regexp_matches(lower(error_type), 'overload|unavailable|capacity|\b529\b|\b503\b|过载|繁忙')
                                                                                                  then 'overloaded'
                when regexp_matches(lower(error_type), 'context.?(length|window)|too.?long|max.?tokens|上下文')
                                                                                                  then 'context_length'
                when regexp_matches(lower(error_type), 'content.?(filter|policy)|moderation|safety|敏感|审核')
                                                                                                  then 'content_filter'
                when regexp_matches(lower(error_type), 'auth|permission|forbidden|api.?key|\b40[13]\b|鉴权|认证')
                                                                                                  then 'auth'
                when regexp_matches(lower(error_type), 'cancel|abort|client.?(disconnect|closed|gone)|\b499\b|取消')
                                                                                                  then 'cancelled'
                when regexp_matches(lower(error_type), 'connect|reset|broken.?pipe|incomplete.?read|protocol.?error|socket|连接')
                                                                                                  then 'connection_reset'
                when regexp_matches(lower(error_type), 'upstream|bad.?gateway|\b502\b')           then 'upstream_error'
                when regexp_matches(lower(error_type), 'bad.?request|invalid|unprocess|not.?found|validat|\b4(00|04|13|22)\b|参数')
                                                                                                  then 'invalid_request'
                when regexp_matches(lower(error_type), 'server.?error|internal|\b500\b|内部')     then 'server_error'
                else 'other'
            end as error_type
        )
        from given
    )
)
