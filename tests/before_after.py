"""Made logs of one service before and after a change, for tests of the comparison: every number is a function of the
seed, so that the truth is known."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from llmdoctor.compare import Side, side
from llmdoctor.diagnose import Options, diagnose
from llmdoctor.diagnose.values import as_dict
from llmdoctor.rulebook import load
from tests.filled import filled

# One cause, so that not all are asked.
RULES = ("errors", "high_ttft", "oversized_requests", "retry_storm", "tail_latency", "queueing")
_load = cache(load)


@dataclass(frozen=True)
class Service:
    """What a made log shows. `wait_share` of the requests wait `wait_ms` for their first token; `long_share` have
    prompts eight times as long."""

    n: int = 1500
    slower: float = 1.0
    wait_share: float = 0.0
    wait_ms: float = 6000.0
    error_share: float = 0.002
    long_share: float = 0.1
    model: str = "atlas-8b"
    app_version: str = "1"
    vantage: str = "client"


def rows(seed: int, service: Service) -> list[dict[str, Any]]:
    """Attempts of two a second, prompts and answers of lognormal length, first tokens that follow the prompt."""
    rng = random.Random(f"{seed}/{service}")
    return [_row(number, number / 2 + rng.random() / 4, rng, service) for number in range(service.n)]


def _row(number: int, at_s: float, rng: random.Random, service: Service) -> dict[str, Any]:
    long = 8 if rng.random() < service.long_share else 1
    prompt, answer = round(long * rng.lognormvariate(6, 0.5)), round(rng.lognormvariate(5, 0.6)) + 2
    wait = service.wait_ms * rng.uniform(0.8, 1.2) if rng.random() < service.wait_share else 0.0
    ttft = service.slower * (120 + 0.2 * prompt) * rng.uniform(0.9, 1.2) + wait
    total = ttft + service.slower * 20 * answer * rng.uniform(0.9, 1.1)
    failed = rng.random() < service.error_share
    return {
        "at_s": at_s,
        "request_id": f"r{number}",
        "task_id": f"t{number}",
        "vantage": service.vantage,
        "model": service.model,
        "app_version": service.app_version,
        "stream": True,
        "input_tokens": prompt,
        "output_tokens": None if failed else answer,
        "max_tokens": 2048,
        "ttft_ms": None if failed else round(ttft, 3),
        "total_ms": 40.0 if failed else round(total, 3),
        "outcome": "failed" if failed else "completed",
        "http_status": 503 if failed else 200,
        "error_type": "server_error" if failed else None,
    }


def told(made: Sequence[dict[str, Any]], name: str = "made") -> Side:
    """The side that these attempts make."""
    with filled(made) as store:
        found = diagnose(store, _load(), Options(f"llmdoctor analyze {name}", only=RULES))
    return side(name, "logs", as_dict(found))


def sides(before: Service, after: Service, seed: int = 1) -> tuple[Side, Side]:
    """Both sides, drawn apart."""
    return told(rows(seed, before), "before"), told(rows(seed + 1000, after), "after")
