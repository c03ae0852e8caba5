"""Named scenarios: which service, which fault, which ids are right."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from tests.simulator import (
    faults,
    faults_callers,
    faults_engine,
    faults_tasks,
    faults_way,
    healthy,
    slices,
    twins,
)
from tests.simulator.base import Shape
from tests.simulator.indicators import Seen
from tests.simulator.setups import (
    A100_8B,
    A100X8_L70B,
    AGENT,
    CHAT,
    CODE,
    H100_8B,
    LONG_ANSWERS,
    RAG,
    SHARED,
    SHORT,
    SMALL,
    TERSE,
)
from tests.simulator.world import World

Fault = Callable[[World, random.Random, float, list[float]], World]
Calm = Callable[[World, random.Random], World]
Shows = Callable[[Seen, Seen], bool]


def always(_seen: Seen, _twin: Seen) -> bool:
    return True


@dataclass(frozen=True)
class Scenario:
    """``faults`` (one, or a pair) or ``calm``. ``accepted``: equally right (CATALOGUE, last lines). ``true_too``: true
    by the way the fault is built, but not the one to name first. ``hidden``: profiles whose fields cannot tell it.
    ``traffic``: what the service needs before anything is wrong. ``shows``: the mechanism is really at work."""

    name: str
    shape: Shape
    faults: tuple[Fault, ...] = ()
    calm: Calm | None = None
    accepted: tuple[str, ...] = ()
    true_too: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    traffic: Calm | None = None
    shows: Shows = always
    pair: tuple[str, ...] = ()

    @property
    def causes(self) -> tuple[str, ...]:
        """The injected causes: none for a healthy case, two for a pair."""
        if self.calm:
            return ()
        return self.pair or (self.name,)


def _one(name: str, shape: Shape, fault: Fault, **more: object) -> Scenario:
    return Scenario(name, shape, (fault,), **more)  # type: ignore[arg-type]  # the fields of Scenario by name


_TALK = (CHAT, RAG, AGENT, SHORT)
_ROOMY = Shape(tight=False, busy=(0.1, 0.3))
_PEERS = Shape(models=1, regions=1, replicas=(4, 6))
_CLIENT = ("client",)

CALLER = (
    _one("client_timeout_short", Shape(tight=False, busy=(0.1, 0.3), lengths=_TALK), faults.client_timeout_short,
         true_too=("cancel_not_propagated", "timeout_resubmission")),
    _one("nested_retries", Shape(), faults.nested_retries, true_too=("server_errors",)),
    _one("retry_without_backoff", Shape(tight=True, busy=(0.4, 0.55), lengths=_TALK), faults.retry_without_backoff,
         accepted=("retry_amplification",), true_too=("server_errors", "overload", "queueing", "client_timeout_short")),
    _one("retry_after_ignored", Shape(), faults_callers.retry_after_ignored, true_too=("rate_limiting",)),
    _one("retry_amplification", Shape(tight=True, busy=(0.5, 0.6), lengths=_TALK), faults_callers.retry_amplification,
         accepted=("retry_without_backoff",), shows=lambda seen, _twin: seen.retries >= 0.3 and seen.timeouts >= 0.2,
         true_too=("overload", "queueing", "timeout_resubmission", "cancel_not_propagated", "client_timeout_short")),
    _one("retry_of_unretryable", Shape(), faults_callers.retry_of_unretryable, true_too=("bad_tenant",)),
    _one("retry_of_success", _ROOMY, faults_callers.retry_of_success, true_too=("missing_finish",)),
    _one("timeout_resubmission", _ROOMY, faults_callers.timeout_resubmission, traffic=twins.in_one_piece,
         true_too=("client_timeout_short", "cancel_not_propagated")),
    _one("connection_pool_limit", Shape(tight=False, busy=(0.1, 0.3)), faults_callers.connection_pool_limit,
         hidden=_CLIENT),
    _one("auxiliary_calls", Shape(tight=True, busy=(0.35, 0.5), lengths=_TALK), faults_callers.auxiliary_calls,
         true_too=("queueing", "overload")),
    _one("batch_crowds_out_online", Shape(models=1, regions=1, busy=(0.2, 0.4)),
         faults_callers.batch_crowds_out_online, true_too=("queueing", "overload", "compute_bound", "kv_preemption")),
    _one("batch_replay", Shape(tight=False, busy=(0.05, 0.15), lengths=_TALK), faults_callers.batch_replay,
         true_too=("server_errors",)),
    _one("cancel_not_propagated", _ROOMY, faults_callers.cancel_not_propagated, traffic=twins.impatient,
         hidden=_CLIENT),
    _one("usage_not_requested", _ROOMY, faults_callers.usage_not_requested, traffic=twins.half_streamed),
)  # fmt: skip

WAY = (
    _one("rate_limiting", Shape(), faults.rate_limiting),
    _one("server_errors", Shape(), faults.server_errors),
    _one("proxy_buffering", Shape(lengths=_TALK, stream_share=1.0), faults.proxy_buffering),
    _one("fake_streaming", Shape(lengths=_TALK, stream_share=1.0), faults.fake_streaming),
    _one("network", Shape(models=1, regions=1), faults_way.network, accepted=("bad_region",)),
    _one("keepalive_race", Shape(), faults_way.keepalive_race),
    _one("gateway_overhead", _ROOMY, faults_way.gateway_overhead, hidden=_CLIENT),
    _one("gateway_timeout", Shape(tight=False, busy=(0.1, 0.3), lengths=_TALK), faults_way.gateway_timeout),
    _one("proxy_retry", _ROOMY, faults_way.proxy_retry, hidden=_CLIENT, true_too=("server_errors",)),
    _one("event_loop_stall", Shape(models=1, regions=1, stream_share=1.0, lengths=_TALK), faults_way.event_loop_stall),
    _one("slow_retrieval", _ROOMY, faults_way.slow_retrieval, traffic=twins.staged, hidden=_CLIENT),
    _one("slow_tool", _ROOMY, faults_way.slow_tool, traffic=twins.staged, hidden=_CLIENT),
    _one("slow_delivery", _ROOMY, faults_way.slow_delivery, traffic=twins.in_one_piece, hidden=_CLIENT),
    _one("missing_finish", _ROOMY, faults_way.missing_finish),
    _one("provider_tail", _ROOMY, faults_way.provider_tail),
)  # fmt: skip

ENGINE = (
    _one("queueing", Shape(tight=True, busy=(0.35, 0.5)), faults.queueing, accepted=("overload",),
         shows=lambda seen, _twin: seen.queue_p99 >= 1.5),
    _one("overload", Shape(busy=(0.35, 0.5)), faults_engine.overload, accepted=("queueing",),
         true_too=("compute_bound", "retry_amplification", "kv_preemption")),
    _one("long_prefill", Shape(models=1, regions=1, replicas=(4, 6), tight=False, busy=(0.05, 0.2), rate=(0.8, 2.0)),
         faults.long_prefill),
    _one("unbounded_max_tokens", Shape(lengths=_TALK), faults.unbounded_max_tokens),
    _one("cold_start", Shape(models=1, regions=1, replicas=(1, 2), tight=False, busy=(0.1, 0.3), rate=(0.2, 0.8)),
         faults.cold_start, traffic=twins.silences),
    _one("single_slot", Shape(models=1, regions=1, replicas=(1, 2), tight=False, busy=(0.02, 0.1), rate=(0.1, 0.5),
                              setups=SMALL, lengths=_TALK), faults_engine.single_slot, true_too=("queueing",)),
    _one("hol_long_outputs", Shape(models=1, regions=1, tight=True, busy=(0.35, 0.5), setups=SMALL,
                                   lengths=(AGENT, SHORT, CODE)), faults_engine.hol_long_outputs,
         traffic=twins.may_be_long, true_too=("queueing",),
         shows=lambda seen, twin: seen.queue_p99 > twin.queue_p99 + 1),
    _one("hol_long_prompts", Shape(models=1, regions=1, replicas=(1, 3), tight=False, busy=(0.05, 0.2),
                                   rate=(0.8, 2.0), stream_share=1.0), faults_engine.hol_long_prompts,
         true_too=("long_prefill",)),
    _one("kv_preemption", Shape(models=1, regions=1, tight=False, busy=(0.15, 0.35), lengths=(CHAT, SHORT)),
         faults_engine.kv_preemption, shows=lambda seen, _twin: seen.preempted >= 0.03),
    _one("compute_bound", Shape(models=1, regions=1, tight=False, busy=(0.1, 0.3), lengths=_TALK),
         faults_engine.compute_bound, true_too=("overload",),
         shows=lambda seen, twin: seen.tpot_p95 >= 1.6 * twin.tpot_p95 and seen.queue_p99 < 2.5),
    _one("model_reload", Shape(models=1, regions=1, replicas=(1, 1), tight=False, busy=(0.02, 0.15), rate=(0.1, 0.5),
                               setups=SMALL), faults_engine.model_reload, traffic=twins.two_options),
    _one("grammar_compile", _ROOMY, faults_engine.grammar_compile, traffic=twins.guided),
    _one("cache_miss", Shape(tight=False, busy=(0.1, 0.3), setups=(A100_8B, A100X8_L70B), lengths=(SHARED,)),
         faults_engine.cache_miss, hidden=_CLIENT),
    _one("context_overflow", Shape(tight=False, busy=(0.1, 0.25), lengths=_TALK), faults_engine.context_overflow),
)  # fmt: skip

SLICES = (
    _one("bad_instance", _PEERS, slices.bad_instance),
    _one("bad_version", _PEERS, slices.bad_version),
    _one("bad_model", Shape(models=3, regions=1, setups=SMALL), slices.bad_model),
    _one("bad_region", Shape(models=1, regions=3), slices.bad_region, accepted=("network",)),
    _one("bad_tenant", Shape(), slices.bad_tenant),
)

TASKS = tuple(
    _one(name, _ROOMY, fault, traffic=twins.jobs)
    for name, fault in (
        ("lost_worker", faults_tasks.lost_worker),
        ("duplicate_execution", faults_tasks.duplicate_execution),
        ("premature_success", faults_tasks.premature_success),
        ("idempotency_conflict", faults_tasks.idempotency_conflict),
    )
)

HEALTHY = (
    Scenario("healthy_light", _ROOMY, calm=healthy.light),
    Scenario("healthy_ramp", Shape(busy=(0.15, 0.35)), calm=healthy.ramp),
    Scenario("healthy_long_answers", Shape(lengths=(LONG_ANSWERS,), rate=(0.5, 1.5), tight=False, busy=(0.05, 0.2),
                                           max_tokens=(4096,)), calm=healthy.long_answers),
    Scenario("healthy_parallel_sampling", Shape(tight=False, busy=(0.03, 0.12), lengths=_TALK, replicas=(4, 6),
                                                rate=(0.4, 1.2)), calm=healthy.parallel_sampling),
    Scenario("healthy_few", Shape(tight=False, busy=(0.05, 0.2), rate=(0.05, 0.6)), calm=healthy.few),
    Scenario("healthy_mixed_models", Shape(models=2, regions=1, tight=False, busy=(0.05, 0.2), setups=SMALL),
             calm=healthy.mixed_models),
    Scenario("healthy_nonstream", Shape(), calm=healthy.nonstream),
    Scenario("healthy_long_prompts_light", Shape(models=1, tight=False, busy=(0.05, 0.15), rate=(0.8, 2.0)),
             calm=healthy.long_prompts_light),
    Scenario("healthy_bursty_clients", Shape(tight=False, busy=(0.05, 0.2)), calm=healthy.bursty_clients),
    Scenario("healthy_many_tokens_an_event", _ROOMY, calm=healthy.many_tokens_an_event),
    Scenario("healthy_short_answers", Shape(tight=False, busy=(0.05, 0.2), lengths=(TERSE,)),
             calm=healthy.short_answers),
    Scenario("healthy_quick_model", Shape(tight=False, busy=(0.02, 0.1), setups=(H100_8B,), lengths=_TALK),
             calm=healthy.light),
    Scenario("healthy_one_slow", Shape(tight=False, busy=(0.05, 0.2), rate=(0.05, 0.6)), calm=healthy.one_slow),
    Scenario("healthy_users_who_leave", _ROOMY, calm=healthy.users_who_leave),
    Scenario("healthy_helper_calls", _ROOMY, calm=healthy.helper_calls),
    Scenario("healthy_job_tasks", _ROOMY, calm=healthy.job_tasks),
    Scenario("healthy_stages", _ROOMY, calm=healthy.stages),
    Scenario("healthy_guided", _ROOMY, calm=healthy.guided),
    Scenario("healthy_quiet_batch", _ROOMY, calm=healthy.quiet_batch),
)  # fmt: skip
