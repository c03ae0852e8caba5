"""Two faults at once: pairs that go together in the field. Each is felt by itself before both are put on."""

from __future__ import annotations

from tests.simulator import faults, faults_callers, faults_engine, faults_way, slices, twins
from tests.simulator.base import Shape
from tests.simulator.scenarios import Calm, Fault, Scenario
from tests.simulator.setups import A100_8B, AGENT, CARD_8B, CHAT, RAG, SHORT

_TALK = (CHAT, RAG, AGENT, SHORT)
_ROOMY = Shape(models=1, regions=1, tight=False, busy=(0.1, 0.3))
_TIGHT = Shape(models=1, regions=1, tight=True, busy=(0.35, 0.5), lengths=_TALK)
_PEERS = Shape(models=1, regions=1, replicas=(4, 6), lengths=_TALK, stream_share=1.0)

Named = tuple[str, Fault]


def _pair(shape: Shape, first: Named, second: Named, traffic: Calm | None = None, *true_too: str) -> Scenario:
    name = f"{first[0]}+{second[0]}"
    return Scenario(name, shape, (first[1], second[1]), true_too=true_too, traffic=traffic, pair=(first[0], second[0]))


PAIRS = (
    _pair(_TIGHT, ("queueing", faults.queueing), ("server_errors", faults.server_errors), None, "overload"),
    _pair(_ROOMY, ("rate_limiting", faults.rate_limiting), ("slow_retrieval", faults_way.slow_retrieval), twins.staged),
    _pair(_PEERS, ("proxy_buffering", faults.proxy_buffering), ("bad_instance", slices.bad_instance)),
    _pair(_PEERS, ("bad_version", slices.bad_version), ("rate_limiting", faults.rate_limiting)),
    _pair(_TIGHT, ("batch_crowds_out_online", faults_callers.batch_crowds_out_online),
          ("proxy_buffering", faults.proxy_buffering), None, "queueing", "overload", "kv_preemption"),
    _pair(_ROOMY, ("network", faults_way.network), ("keepalive_race", faults_way.keepalive_race), None, "bad_region"),
    _pair(Shape(models=1, regions=1, tight=False, busy=(0.1, 0.3), setups=(A100_8B, CARD_8B)),
          ("unbounded_max_tokens", faults.unbounded_max_tokens), ("gateway_timeout", faults_way.gateway_timeout)),
    _pair(_ROOMY, ("retry_of_unretryable", faults_callers.retry_of_unretryable),
          ("event_loop_stall", faults_way.event_loop_stall)),
    _pair(_ROOMY, ("context_overflow", faults_engine.context_overflow),
          ("slow_delivery", faults_way.slow_delivery), twins.in_one_piece),
    _pair(_PEERS, ("long_prefill", faults.long_prefill), ("server_errors", faults.server_errors)),
)  # fmt: skip
